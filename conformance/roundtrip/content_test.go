// Package roundtrip hands a data directory back and forth between servers.
package roundtrip

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	"quorate.test/conformance/process"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/proto"
)

// content is what a server says about its data, as far as the next server must say the same.
type content struct {
	revision int64
	// kvs has the whole key space at some revisions.
	kvs map[int64][]*mvccpb.KeyValue
	// hashes has HashKV at those revisions.
	hashes map[int64]*pb.HashKVResponse
	// leases has the keys of each lease.
	leases map[int64][]string
	// granted has the granted TTL of each lease.
	granted map[int64]int64
	members string
	alarms  string
	cluster uint64
	term    uint64
}

// readContent asks a server about everything, at the current and at the given older revisions.
func readContent(t *testing.T, server *process.Server, older []int64) content {
	t.Helper()
	ctx := process.Context(t)
	client := server.Client()
	response, err := client.Get(ctx, "any")
	if err != nil {
		t.Fatal(err)
	}
	c := content{
		revision: response.Header.Revision,
		cluster:  response.Header.ClusterId,
		term:     response.Header.RaftTerm,
		kvs:      map[int64][]*mvccpb.KeyValue{},
		hashes:   map[int64]*pb.HashKVResponse{},
		leases:   map[int64][]string{},
		granted:  map[int64]int64{},
	}
	for _, revision := range append(slices.Clone(older), c.revision) {
		all, err := client.Get(ctx, "\x00", clientv3.WithFromKey(), clientv3.WithRev(revision))
		if err != nil {
			t.Fatalf("everything at %d: %v", revision, err)
		}
		c.kvs[revision] = all.Kvs
		c.hashes[revision] = hashKV(ctx, t, client, revision)
	}
	leases, err := client.Leases(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, lease := range leases.Leases {
		left, err := client.TimeToLive(ctx, lease.ID, clientv3.WithAttachedKeys())
		if err != nil {
			t.Fatal(err)
		}
		keys := []string{}
		for _, key := range left.Keys {
			keys = append(keys, string(key))
		}
		slices.Sort(keys)
		c.leases[int64(lease.ID)] = keys
		c.granted[int64(lease.ID)] = left.GrantedTTL
	}
	members, err := client.MemberList(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, member := range members.Members {
		c.members += fmt.Sprintf("%x %s %v learner: %v;", member.ID, member.Name, member.PeerURLs, member.IsLearner)
	}
	alarms, err := client.AlarmList(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, alarm := range alarms.Alarms {
		c.alarms += fmt.Sprintf("%x %v;", alarm.MemberID, alarm.Alarm)
	}
	return c
}

func hashKV(ctx context.Context, t *testing.T, client *clientv3.Client, revision int64) *pb.HashKVResponse {
	t.Helper()
	maintenance := pb.NewMaintenanceClient(client.ActiveConnection())
	response, err := maintenance.HashKV(ctx, &pb.HashKVRequest{Revision: revision})
	if err != nil {
		t.Fatalf("HashKV at %d: %v", revision, err)
	}
	return response
}

// mustEqual fails the test where what one server said differs from what the next one says.
func mustEqual(t *testing.T, was, is content) {
	t.Helper()
	if was.revision != is.revision || was.cluster != is.cluster || is.term < was.term {
		t.Fatalf("revision %d, cluster %x, term %d became %d, %x, %d",
			was.revision, was.cluster, was.term, is.revision, is.cluster, is.term)
	}
	if was.members != is.members || was.alarms != is.alarms {
		t.Fatalf("members %q, alarms %q became %q, %q", was.members, was.alarms, is.members, is.alarms)
	}
	for revision, kvs := range was.kvs {
		if len(kvs) != len(is.kvs[revision]) {
			t.Fatalf("at %d: %d keys became %d", revision, len(kvs), len(is.kvs[revision]))
		}
		for i, kv := range kvs {
			if other := is.kvs[revision][i]; !proto.Equal(kv, other) {
				t.Fatalf("at %d: %.300s became %.300s", revision, kv.String(), other.String())
			}
		}
	}
	for revision, hash := range was.hashes {
		other := is.hashes[revision]
		if hash.Hash != other.Hash || hash.CompactRevision != other.CompactRevision ||
			hash.HashRevision != other.HashRevision {
			t.Fatalf("HashKV at %d: %v became %v", revision, hash, other)
		}
	}
	if !maps.EqualFunc(was.leases, is.leases, slices.Equal) || !maps.Equal(was.granted, is.granted) {
		t.Fatalf("leases %v of %v became %v of %v", was.leases, was.granted, is.leases, is.granted)
	}
}
