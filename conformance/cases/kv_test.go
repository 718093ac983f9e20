package cases

import (
	"bytes"
	"fmt"
	"testing"

	"quorate.test/conformance/process"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
)

func opPut(key, value string) *pb.RequestOp {
	put := &pb.PutRequest{Key: []byte(key), Value: []byte(value)}
	return &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: put}}
}

func opDelete(key, end string) *pb.RequestOp {
	remove := &pb.DeleteRangeRequest{Key: []byte(key), RangeEnd: []byte(end)}
	return &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: remove}}
}

func opGet(key, end string) *pb.RequestOp {
	get := &pb.RangeRequest{Key: []byte(key), RangeEnd: []byte(end)}
	return &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: get}}
}

func opTxn(txn *pb.TxnRequest) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestTxn{RequestTxn: txn}}
}

func TestCompareOnAMissingKey(t *testing.T) {
	m := start(t)
	compare := func(t *testing.T, c *pb.Compare) bool {
		t.Helper()
		c.Key = []byte("missing")
		response, err := m.kv.Txn(process.Context(t), &pb.TxnRequest{Compare: []*pb.Compare{c}})
		if err != nil {
			t.Fatal(err)
		}
		return response.Succeeded
	}
	results := []pb.Compare_CompareResult{
		pb.Compare_EQUAL, pb.Compare_GREATER, pb.Compare_LESS, pb.Compare_NOT_EQUAL,
	}
	for _, result := range results {
		t.Run("Value"+result.String(), func(t *testing.T) {
			for _, value := range []string{"", "v"} {
				c := &pb.Compare{
					Target: pb.Compare_VALUE, Result: result,
					TargetUnion: &pb.Compare_Value{Value: []byte(value)},
				}
				equal(t, "result", compare(t, c), false)
			}
		})
		t.Run("Numbers"+result.String(), func(t *testing.T) {
			// Every number of a missing key is 0.
			for number := range int64(2) {
				want := map[pb.Compare_CompareResult]bool{
					pb.Compare_EQUAL: number == 0, pb.Compare_NOT_EQUAL: number != 0,
					pb.Compare_LESS: number > 0, pb.Compare_GREATER: false,
				}[result]
				for _, c := range []*pb.Compare{
					{Target: pb.Compare_VERSION, TargetUnion: &pb.Compare_Version{Version: number}},
					{Target: pb.Compare_CREATE, TargetUnion: &pb.Compare_CreateRevision{CreateRevision: number}},
					{Target: pb.Compare_MOD, TargetUnion: &pb.Compare_ModRevision{ModRevision: number}},
					{Target: pb.Compare_LEASE, TargetUnion: &pb.Compare_Lease{Lease: number}},
				} {
					c.Result = result
					equal(t, fmt.Sprint(c), compare(t, c), want)
				}
			}
		})
	}
	t.Run("AnEmptyRange", func(t *testing.T) {
		c := &pb.Compare{
			RangeEnd: []byte("missinh"), Target: pb.Compare_VALUE, Result: pb.Compare_EQUAL,
			TargetUnion: &pb.Compare_Value{Value: []byte("v")},
		}
		equal(t, "a value", compare(t, c), false)
		c = &pb.Compare{
			RangeEnd: []byte("missinh"), Target: pb.Compare_VERSION, Result: pb.Compare_EQUAL,
			TargetUnion: &pb.Compare_Version{Version: 0},
		}
		equal(t, "a version of 0", compare(t, c), true)
	})
	t.Run("ARangeWithKeys", func(t *testing.T) {
		m.put(t, "missing/1", "v")
		m.put(t, "missing/2", "w")
		c := &pb.Compare{
			RangeEnd: []byte("missinh"), Target: pb.Compare_VALUE, Result: pb.Compare_GREATER,
			TargetUnion: &pb.Compare_Value{Value: []byte("u")},
		}
		equal(t, "all greater", compare(t, c), true)
		c.TargetUnion = &pb.Compare_Value{Value: []byte("v")}
		equal(t, "not all greater", compare(t, c), false)
	})
}

func TestKeysOnly(t *testing.T) {
	m := start(t)
	ctx := process.Context(t)
	if _, err := m.lease.LeaseGrant(ctx, &pb.LeaseGrantRequest{ID: 3, TTL: 1000}); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"k1", "k2"} {
		put := &pb.PutRequest{Key: []byte(key), Value: []byte("v" + key), Lease: 3}
		if _, err := m.kv.Put(ctx, put); err != nil {
			t.Fatal(err)
		}
	}
	get := func(target pb.RangeRequest_SortTarget, order pb.RangeRequest_SortOrder) *pb.RangeResponse {
		return m.get(t, &pb.RangeRequest{
			Key: []byte("k"), RangeEnd: []byte("l"), KeysOnly: true, SortTarget: target, SortOrder: order,
		})
	}
	plain := get(pb.RangeRequest_KEY, pb.RangeRequest_NONE)
	equal(t, "keys", len(plain.Kvs), 2)
	for _, kv := range plain.Kvs {
		equal(t, "value", len(kv.Value), 0)
		equal(t, "lease", kv.Lease, int64(0))
		equal(t, "version", kv.Version, int64(1))
		equal(t, "mod_revision", kv.ModRevision > 1, true)
	}
	for _, target := range []pb.RangeRequest_SortTarget{
		pb.RangeRequest_MOD, pb.RangeRequest_CREATE, pb.RangeRequest_VERSION, pb.RangeRequest_KEY,
	} {
		equal(t, target.String(), get(target, pb.RangeRequest_DESCEND).Kvs[0].Lease, int64(0))
	}
	byValue := get(pb.RangeRequest_VALUE, pb.RangeRequest_DESCEND)
	equal(t, "first by value", string(byValue.Kvs[0].Key), "k2")
	equal(t, "its value", len(byValue.Kvs[0].Value), 0)
	equal(t, "its lease", byValue.Kvs[0].Lease, int64(3))
}

func TestLargeRequests(t *testing.T) {
	m := start(t)
	ctx := process.Context(t)
	put := func(size int) error {
		_, err := m.kv.Put(ctx, &pb.PutRequest{Key: []byte("k"), Value: bytes.Repeat([]byte("x"), size)})
		return err
	}
	equal(t, "1.5 MB", put(1_500_000), nil)
	refused(t, put(1_600_000), codes.InvalidArgument, "etcdserver: request is too large")
	refused(t, put(3_000_000), codes.ResourceExhausted,
		"grpc: received message larger than max (3000008 vs. 2097152)")
	equal(t, "what was accepted", len(m.get(t, &pb.RangeRequest{Key: []byte("k")}).Kvs[0].Value), 1_500_000)
	var ops []*pb.RequestOp
	for i := range 3 {
		ops = append(ops, opPut(fmt.Sprint("t", i), string(make([]byte, 600_000))))
	}
	_, err := m.kv.Txn(ctx, &pb.TxnRequest{Success: ops})
	refused(t, err, codes.InvalidArgument, "etcdserver: request is too large")
	equal(t, "nothing of the txn", m.get(t, &pb.RangeRequest{Key: []byte("t0")}).Count, int64(0))
	// It is the request that is bounded, not an answer.
	for i := range 6 {
		m.put(t, fmt.Sprint("a", i), string(make([]byte, 1_000_000)))
	}
	large, err := m.client.Get(ctx, "a", clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "6 MB", len(large.Kvs), 6)
}

func TestTxnChecks(t *testing.T) {
	m := start(t)
	ctx := process.Context(t)
	txn := func(ops ...*pb.RequestOp) error {
		_, err := m.kv.Txn(ctx, &pb.TxnRequest{Success: ops})
		return err
	}
	duplicate := func(t *testing.T, err error) {
		t.Helper()
		refused(t, err, codes.InvalidArgument, "etcdserver: duplicate key given in txn request")
	}
	t.Run("DuplicateKeys", func(t *testing.T) {
		duplicate(t, txn(opPut("k", "1"), opPut("k", "2")))
		duplicate(t, txn(opPut("k", "1"), opDelete("k", "")))
		duplicate(t, txn(opDelete("k", ""), opPut("k", "1")))
		duplicate(t, txn(opDelete("a", "z"), opPut("k", "1")))
		equal(t, "outside of the range", txn(opDelete("a", "k"), opPut("k", "1")), nil)
		equal(t, "two deletes", txn(opDelete("a", "z"), opDelete("k", "")), nil)
		equal(t, "a get and a put", txn(opGet("k", ""), opPut("k", "1")), nil)
	})
	t.Run("DuplicateKeysInBranches", func(t *testing.T) {
		branches := opTxn(&pb.TxnRequest{
			Success: []*pb.RequestOp{opPut("k", "1")}, Failure: []*pb.RequestOp{opPut("k", "2")},
		})
		equal(t, "the same key in both branches", txn(branches), nil)
		duplicate(t, txn(branches, opPut("k", "3")))
		duplicate(t, txn(opPut("k", "3"), branches))
		duplicate(t, txn(branches, branches))
		duplicate(t, txn(branches, opDelete("a", "z")))
		equal(t, "another key", txn(branches, opPut("l", "3")), nil)
	})
	t.Run("TooManyOperations", func(t *testing.T) {
		var ops []*pb.RequestOp
		for i := range 128 {
			ops = append(ops, opPut(fmt.Sprint("n", i), ""))
		}
		equal(t, "128", txn(ops...), nil)
		refused(t, txn(append(ops, opPut("one more", ""))...), codes.InvalidArgument,
			"etcdserver: too many operations in txn request")
		var compares []*pb.Compare
		for range 129 {
			compares = append(compares, &pb.Compare{Key: []byte("k")})
		}
		_, err := m.kv.Txn(ctx, &pb.TxnRequest{Compare: compares})
		refused(t, err, codes.InvalidArgument, "etcdserver: too many operations in txn request")
	})
	t.Run("EmptyKeys", func(t *testing.T) {
		for _, op := range []*pb.RequestOp{opPut("", "v"), opDelete("", ""), opGet("", "")} {
			refused(t, txn(op), codes.InvalidArgument, "etcdserver: key is not provided")
			refused(t, txn(opTxn(&pb.TxnRequest{Failure: []*pb.RequestOp{op}})), codes.InvalidArgument,
				"etcdserver: key is not provided")
		}
		_, err := m.kv.Txn(ctx, &pb.TxnRequest{Compare: []*pb.Compare{{}}})
		refused(t, err, codes.InvalidArgument, "etcdserver: key is not provided")
	})
	t.Run("ABadReadUndoesAll", func(t *testing.T) {
		get := &pb.RangeRequest{Key: []byte("k"), Revision: 1_000_000}
		err := txn(opPut("undone", "v"), &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: get}})
		refused(t, err, codes.OutOfRange, "etcdserver: mvcc: required revision is a future revision")
		equal(t, "the put", m.get(t, &pb.RangeRequest{Key: []byte("undone")}).Count, int64(0))
	})
	t.Run("AnUnknownLeaseUndoesAll", func(t *testing.T) {
		put := &pb.PutRequest{Key: []byte("leased"), Lease: 12345}
		err := txn(opPut("undone", "v"), &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: put}})
		refused(t, err, codes.NotFound, "etcdserver: requested lease not found")
		equal(t, "the put", m.get(t, &pb.RangeRequest{Key: []byte("undone")}).Count, int64(0))
	})
}

func TestTxnRevisions(t *testing.T) {
	m := start(t)
	ctx := process.Context(t)
	at := m.put(t, "k", "1")
	response, err := m.kv.Txn(ctx, &pb.TxnRequest{Success: []*pb.RequestOp{
		opGet("k", ""), opPut("k", "2"), opGet("k", ""), opDelete("other", ""),
		opTxn(&pb.TxnRequest{Success: []*pb.RequestOp{opPut("l", "3"), opGet("k", "m")}}),
	}})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "revision", response.Header.Revision, at+1)
	get := func(i int) *pb.RangeResponse { return response.Responses[i].GetResponseRange() }
	equal(t, "read before the put", string(get(0).Kvs[0].Value), "1")
	equal(t, "read after the put", string(get(2).Kvs[0].Value), "2")
	equal(t, "its mod_revision", get(2).Kvs[0].ModRevision, at+1)
	inner := response.Responses[4].GetResponseTxn()
	equal(t, "keys of the inner read", inner.Responses[1].GetResponseRange().Count, int64(2))
	for _, read := range []*pb.TxnRequest{
		{Success: []*pb.RequestOp{opGet("k", "")}},
		{},
		{Success: []*pb.RequestOp{opDelete("absent", "")}},
	} {
		response, err := m.kv.Txn(ctx, read)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "revision after a txn that writes nothing", response.Header.Revision, at+1)
	}
	kvs := m.get(t, &pb.RangeRequest{Key: []byte("k"), RangeEnd: []byte("m")}).Kvs
	equal(t, "version of k", kvs[0].Version, int64(2))
	equal(t, "revision of l", kvs[1].CreateRevision, at+1)
}

func TestRangeChecks(t *testing.T) {
	m := start(t)
	ctx := process.Context(t)
	for i := range 10 {
		m.put(t, fmt.Sprint("k", i), fmt.Sprint("v", 9-i))
	}
	m.compact(t, 5)
	fails := func(t *testing.T, request *pb.RangeRequest, code codes.Code, text string) {
		t.Helper()
		_, err := m.kv.Range(ctx, request)
		refused(t, err, code, text)
	}
	key := []byte("k0")
	t.Run("Bad", func(t *testing.T) {
		fails(t, &pb.RangeRequest{}, codes.InvalidArgument, "etcdserver: key is not provided")
		fails(t, &pb.RangeRequest{Key: key, Revision: 12}, codes.OutOfRange,
			"etcdserver: mvcc: required revision is a future revision")
		fails(t, &pb.RangeRequest{Key: key, Revision: 4}, codes.OutOfRange,
			"etcdserver: mvcc: required revision has been compacted")
		fails(t, &pb.RangeRequest{Key: key, SortOrder: 7}, codes.InvalidArgument,
			"etcdserver: invalid sort option")
		fails(t, &pb.RangeRequest{Key: key, SortTarget: 7}, codes.InvalidArgument,
			"etcdserver: invalid sort option")
	})
	t.Run("AtTheCompactedRevision", func(t *testing.T) {
		equal(t, "count", m.get(t, &pb.RangeRequest{Key: key, RangeEnd: []byte{0}, Revision: 5}).Count, int64(4))
	})
	t.Run("FromAKeyOn", func(t *testing.T) {
		equal(t, "count", m.get(t, &pb.RangeRequest{Key: []byte("k7"), RangeEnd: []byte{0}}).Count, int64(3))
		equal(t, "everything", m.get(t, &pb.RangeRequest{Key: []byte{0}, RangeEnd: []byte{0}}).Count, int64(10))
	})
	t.Run("AnEmptyRange", func(t *testing.T) {
		equal(t, "count", m.get(t, &pb.RangeRequest{Key: []byte("k5"), RangeEnd: []byte("k5")}).Count, int64(0))
		equal(t, "count", m.get(t, &pb.RangeRequest{Key: []byte("k5"), RangeEnd: []byte("k2")}).Count, int64(0))
	})
	t.Run("LimitAndCount", func(t *testing.T) {
		all := func() *pb.RangeRequest { return &pb.RangeRequest{Key: []byte("k"), RangeEnd: []byte("l")} }
		request := all()
		request.Limit = 3
		response := m.get(t, request)
		equal(t, "keys", len(response.Kvs), 3)
		equal(t, "count", response.Count, int64(10))
		equal(t, "more", response.More, true)
		request.Limit = 10
		equal(t, "more", m.get(t, request).More, false)
		request.Revision = 7
		request.Limit = 2
		response = m.get(t, request)
		equal(t, "count at 7", response.Count, int64(6))
		equal(t, "more at 7", response.More, true)
		request = all()
		request.CountOnly = true
		response = m.get(t, request)
		equal(t, "keys", len(response.Kvs), 0)
		equal(t, "count", response.Count, int64(10))
		request = all()
		request.MinModRevision = 6
		request.Limit = 2
		response = m.get(t, request)
		equal(t, "first", string(response.Kvs[0].Key), "k4")
		equal(t, "count ignores filters", response.Count, int64(10))
		equal(t, "more", response.More, true)
		request = all()
		request.SortTarget, request.SortOrder, request.Limit = pb.RangeRequest_VALUE, pb.RangeRequest_ASCEND, 2
		response = m.get(t, request)
		equal(t, "least value", string(response.Kvs[0].Key), "k9")
		equal(t, "keys", len(response.Kvs), 2)
		equal(t, "more", response.More, true)
	})
}

func TestPutAndDeleteOptions(t *testing.T) {
	m := start(t)
	ctx := process.Context(t)
	m.put(t, "k", "v")
	put := func(request *pb.PutRequest) error {
		_, err := m.kv.Put(ctx, request)
		return err
	}
	refused(t, put(&pb.PutRequest{}), codes.InvalidArgument, "etcdserver: key is not provided")
	refused(t, put(&pb.PutRequest{Key: []byte("absent"), IgnoreValue: true}), codes.InvalidArgument,
		"etcdserver: key not found")
	refused(t, put(&pb.PutRequest{Key: []byte("k"), Value: []byte("w"), IgnoreValue: true}),
		codes.InvalidArgument, "etcdserver: value is provided")
	equal(t, "ignore_value", put(&pb.PutRequest{Key: []byte("k"), IgnoreValue: true}), nil)
	kv := m.get(t, &pb.RangeRequest{Key: []byte("k")}).Kvs[0]
	equal(t, "value", string(kv.Value), "v")
	equal(t, "version", kv.Version, int64(2))
	response, err := m.kv.Put(ctx, &pb.PutRequest{Key: []byte("k"), Value: []byte("w"), PrevKv: true})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "previous version", response.PrevKv.Version, int64(2))
	removed, err := m.kv.DeleteRange(ctx, &pb.DeleteRangeRequest{
		Key: []byte("a"), RangeEnd: []byte{0}, PrevKv: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "deleted", removed.Deleted, int64(1))
	equal(t, "previous value", string(removed.PrevKvs[0].Value), "w")
	again, err := m.kv.DeleteRange(ctx, &pb.DeleteRangeRequest{Key: []byte("k")})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "deleted again", again.Deleted, int64(0))
	equal(t, "revision of nothing", again.Header.Revision, removed.Header.Revision)
	_, err = m.kv.DeleteRange(ctx, &pb.DeleteRangeRequest{})
	refused(t, err, codes.InvalidArgument, "etcdserver: key is not provided")
	m.put(t, "k", "v")
	equal(t, "version of a new life", m.get(t, &pb.RangeRequest{Key: []byte("k")}).Kvs[0].Version, int64(1))
}

func TestCompactChecks(t *testing.T) {
	m := start(t)
	ctx := process.Context(t)
	for range 5 {
		m.put(t, "k", "v")
	}
	compact := func(revision int64) error {
		_, err := m.kv.Compact(ctx, &pb.CompactionRequest{Revision: revision})
		return err
	}
	refused(t, compact(7), codes.OutOfRange, "etcdserver: mvcc: required revision is a future revision")
	equal(t, "compact", compact(4), nil)
	refused(t, compact(4), codes.OutOfRange, "etcdserver: mvcc: required revision has been compacted")
	refused(t, compact(2), codes.OutOfRange, "etcdserver: mvcc: required revision has been compacted")
	equal(t, "at the current revision", compact(6), nil)
	equal(t, "the newest value stays", m.get(t, &pb.RangeRequest{Key: []byte("k")}).Count, int64(1))
	removed := m.remove(t, "k")
	m.compact(t, removed)
	equal(t, "nothing is left", m.get(t, &pb.RangeRequest{Key: []byte("k")}).Count, int64(0))
	equal(t, "the revision stays", m.get(t, &pb.RangeRequest{Key: []byte("k")}).Header.Revision, removed)
}

func TestHashKVChecks(t *testing.T) {
	m := start(t)
	ctx := process.Context(t)
	for range 5 {
		m.put(t, "k", "v")
	}
	m.compact(t, 4)
	hash := func(revision int64) (*pb.HashKVResponse, error) {
		return m.maint.HashKV(ctx, &pb.HashKVRequest{Revision: revision})
	}
	_, err := hash(7)
	refused(t, err, codes.OutOfRange, "etcdserver: mvcc: required revision is a future revision")
	_, err = hash(3)
	refused(t, err, codes.OutOfRange, "etcdserver: mvcc: required revision has been compacted")
	current, err := hash(0)
	if err != nil {
		t.Fatal(err)
	}
	named, err := hash(6)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "hash of the current revision", current.Hash, named.Hash)
	equal(t, "compact_revision", current.CompactRevision, int64(4))
	equal(t, "hash_revision", current.HashRevision, int64(6))
}
