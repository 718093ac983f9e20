package rolling

import (
	"context"
	"errors"
	"testing"

	"quorate.test/conformance/process"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// TestKin puts a key in a transaction that deletes all from that key on. An etcd loses such a put
// with the next compaction (its issue 22376), so it is refused while one is in the cluster, and taken
// once none is.
func TestKin(t *testing.T) {
	r := &roll{t: t, cluster: process.NewCluster(t, members)}
	for i := range members {
		binary := process.Tested
		if i == members-1 {
			binary = process.Real
		}
		r.cluster.Spawn(i, binary)
	}
	for _, member := range r.cluster.Members {
		member.WaitReady()
	}
	ours := r.cluster.Members[0].Client()
	txn := func(ctx context.Context) error {
		_, err := ours.Txn(ctx).Then(
			clientv3.OpDelete("k", clientv3.WithFromKey()), clientv3.OpPut("k", "v")).Commit()
		return err
	}
	if process.IsEtcd(t, process.Tested) {
		if err := txn(process.Context(t)); err != nil {
			t.Fatalf("etcd takes it: %v", err)
		}
		return
	}
	if err := txn(process.Context(t)); !errors.Is(err, rpctypes.ErrDuplicateKey) {
		t.Fatalf("beside an etcd: %v", err)
	}
	r.cluster.Members[members-1].Stop()
	if err := txn(process.Context(t)); !errors.Is(err, rpctypes.ErrDuplicateKey) {
		t.Fatalf("beside a member that is away and may be an etcd: %v", err)
	}
	r.cluster.Spawn(members-1, process.Tested).WaitReady()
	r.until("all members are quorate", txn)
	revision := func() int64 {
		response, err := ours.Get(process.Context(t), "k")
		if err != nil || len(response.Kvs) != 1 {
			t.Fatalf("the put is there: %v, %v", response, err)
		}
		return response.Header.Revision
	}
	if _, err := ours.Compact(process.Context(t), revision(), clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
	revision()
}
