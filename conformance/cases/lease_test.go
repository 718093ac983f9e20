package cases

import (
	"testing"

	"quorate.test/conformance/process"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
)

func (m *member) grant(t *testing.T, id, ttl int64) *pb.LeaseGrantResponse {
	t.Helper()
	response, err := m.lease.LeaseGrant(process.Context(t), &pb.LeaseGrantRequest{ID: id, TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	return response
}

func (m *member) ttl(t *testing.T, id int64) *pb.LeaseTimeToLiveResponse {
	t.Helper()
	response, err := m.lease.LeaseTimeToLive(process.Context(t), &pb.LeaseTimeToLiveRequest{ID: id, Keys: true})
	if err != nil {
		t.Fatal(err)
	}
	return response
}

// keepAlive sends one keep-alive and gives the answer.
func (m *member) keepAlive(t *testing.T, id int64) *pb.LeaseKeepAliveResponse {
	t.Helper()
	s, err := m.lease.LeaseKeepAlive(process.Context(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Send(&pb.LeaseKeepAliveRequest{ID: id}); err != nil {
		t.Fatal(err)
	}
	response, err := s.Recv()
	if err != nil {
		t.Fatal(err)
	}
	return response
}

func TestLeaseExtremes(t *testing.T) {
	m := start(t)
	ctx := process.Context(t)
	t.Run("TooLong", func(t *testing.T) {
		_, err := m.lease.LeaseGrant(ctx, &pb.LeaseGrantRequest{TTL: 9_000_000_001})
		refused(t, err, codes.OutOfRange, "etcdserver: too large lease TTL")
		equal(t, "the longest", m.grant(t, 0, 9_000_000_000).TTL, int64(9_000_000_000))
	})
	t.Run("TooShort", func(t *testing.T) {
		for _, ttl := range []int64{0, -5, 1} {
			granted := m.grant(t, 0, ttl)
			equal(t, "granted", granted.TTL, int64(2))
			equal(t, "an id was chosen", granted.ID != 0, true)
		}
	})
	t.Run("AnIdInUse", func(t *testing.T) {
		equal(t, "id", m.grant(t, 77, 100).ID, int64(77))
		_, err := m.lease.LeaseGrant(ctx, &pb.LeaseGrantRequest{ID: 77, TTL: 100})
		refused(t, err, codes.FailedPrecondition, "etcdserver: lease already exists")
		_, err = m.lease.LeaseRevoke(ctx, &pb.LeaseRevokeRequest{ID: 77})
		equal(t, "revoked", err, nil)
		equal(t, "granted again", m.grant(t, 77, 100).ID, int64(77))
	})
	t.Run("AnUnknownId", func(t *testing.T) {
		equal(t, "TTL of a keep-alive", m.keepAlive(t, 4711).TTL, int64(0))
		equal(t, "TTL", m.ttl(t, 4711).TTL, int64(-1))
		equal(t, "granted TTL", m.ttl(t, 4711).GrantedTTL, int64(0))
		_, err := m.lease.LeaseRevoke(ctx, &pb.LeaseRevokeRequest{ID: 4711})
		refused(t, err, codes.NotFound, "etcdserver: requested lease not found")
		_, err = m.kv.Put(ctx, &pb.PutRequest{Key: []byte("k"), Lease: 4711})
		refused(t, err, codes.NotFound, "etcdserver: requested lease not found")
	})
	t.Run("KeepAlive", func(t *testing.T) {
		m.grant(t, 88, 500)
		response := m.keepAlive(t, 88)
		equal(t, "TTL", response.TTL, int64(500))
		equal(t, "id", response.ID, int64(88))
	})
	t.Run("TheListIsTheUnexpired", func(t *testing.T) {
		response, err := m.lease.LeaseLeases(ctx, &pb.LeaseLeasesRequest{})
		if err != nil {
			t.Fatal(err)
		}
		ids := map[int64]bool{}
		for _, lease := range response.Leases {
			ids[lease.ID] = true
		}
		equal(t, "77", ids[77], true)
		equal(t, "88", ids[88], true)
		equal(t, "4711", ids[4711], false)
	})
}

func TestLeaseDetach(t *testing.T) {
	m := start(t)
	ctx := process.Context(t)
	m.grant(t, 5, 1000)
	put := func(request *pb.PutRequest) {
		t.Helper()
		if _, err := m.kv.Put(ctx, request); err != nil {
			t.Fatal(err)
		}
	}
	key := []byte("k")
	put(&pb.PutRequest{Key: key, Lease: 5})
	equal(t, "attached", len(m.ttl(t, 5).Keys), 1)
	put(&pb.PutRequest{Key: key, Value: []byte("v"), IgnoreLease: true})
	equal(t, "kept with ignore_lease", len(m.ttl(t, 5).Keys), 1)
	equal(t, "its lease", m.get(t, &pb.RangeRequest{Key: key}).Kvs[0].Lease, int64(5))
	put(&pb.PutRequest{Key: key})
	equal(t, "detached by a put without", len(m.ttl(t, 5).Keys), 0)
	equal(t, "its lease", m.get(t, &pb.RangeRequest{Key: key}).Kvs[0].Lease, int64(0))

	put(&pb.PutRequest{Key: key, Lease: 5})
	m.grant(t, 6, 1000)
	put(&pb.PutRequest{Key: key, Lease: 6})
	equal(t, "keys of the old lease", len(m.ttl(t, 5).Keys), 0)
	equal(t, "keys of the new lease", len(m.ttl(t, 6).Keys), 1)
	m.remove(t, "k")
	equal(t, "detached by a delete", len(m.ttl(t, 6).Keys), 0)

	put(&pb.PutRequest{Key: key, Lease: 6})
	put(&pb.PutRequest{Key: []byte("l"), Lease: 6})
	put(&pb.PutRequest{Key: []byte("l")})
	before := m.get(t, &pb.RangeRequest{Key: key}).Header.Revision
	revoked, err := m.lease.LeaseRevoke(ctx, &pb.LeaseRevokeRequest{ID: 6})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "revision of the revoke", revoked.Header.Revision, before+1)
	equal(t, "the key", m.get(t, &pb.RangeRequest{Key: key}).Count, int64(0))
	equal(t, "the detached key", m.get(t, &pb.RangeRequest{Key: []byte("l")}).Count, int64(1))

	again := m.get(t, &pb.RangeRequest{Key: key}).Header.Revision
	revoked, err = m.lease.LeaseRevoke(ctx, &pb.LeaseRevokeRequest{ID: 5})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "revision of a revoke without keys", revoked.Header.Revision, again)

	_, err = m.kv.Put(ctx, &pb.PutRequest{Key: []byte("absent"), IgnoreLease: true})
	refused(t, err, codes.InvalidArgument, "etcdserver: key not found")
	_, err = m.kv.Put(ctx, &pb.PutRequest{Key: []byte("l"), Lease: 5, IgnoreLease: true})
	refused(t, err, codes.InvalidArgument, "etcdserver: lease is provided")
}

func TestLeaseExpires(t *testing.T) {
	m := start(t)
	ctx := process.Context(t)
	m.grant(t, 9, 2)
	m.grant(t, 10, 1000)
	for key, lease := range map[string]int64{"short": 9, "long": 10} {
		if _, err := m.kv.Put(ctx, &pb.PutRequest{Key: []byte(key), Lease: lease}); err != nil {
			t.Fatal(err)
		}
	}
	s := m.openWatch(t)
	s.create(&pb.WatchCreateRequest{Key: []byte("a"), RangeEnd: []byte{0}})
	event := s.events(0, 1)[0]
	equal(t, "deleted", string(event.Kv.Key), "short")
	equal(t, "TTL of the expired lease", m.ttl(t, 9).TTL, int64(-1))
	equal(t, "TTL of the other", m.ttl(t, 10).TTL > 900, true)

	m = m.restart(t)
	equal(t, "granted TTL after a restart", m.ttl(t, 10).GrantedTTL, int64(1000))
	equal(t, "its keys after a restart", len(m.ttl(t, 10).Keys), 1)
}
