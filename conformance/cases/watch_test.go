package cases

import (
	"fmt"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/grpc/codes"
)

func TestWatchAcrossCompaction(t *testing.T) {
	m := start(t)
	for i := range 3 {
		m.put(t, "k", fmt.Sprint(i))
	}
	deleted := m.remove(t, "k")
	m.put(t, "k", "again")
	m.compact(t, deleted)

	t.Run("FromTheCompactedTombstone", func(t *testing.T) {
		s := m.openWatch(t)
		s.create(&pb.WatchCreateRequest{Key: []byte("k"), StartRevision: deleted})
		events := s.events(0, 2)
		equal(t, "first", events[0].Type, mvccpb.Event_DELETE)
		equal(t, "its revision", events[0].Kv.ModRevision, deleted)
		equal(t, "second", events[1].Type, mvccpb.Event_PUT)
		equal(t, "its revision", events[1].Kv.ModRevision, deleted+1)
		equal(t, "its version", events[1].Kv.Version, int64(1))
	})
	t.Run("Behind", func(t *testing.T) {
		s := m.openWatch(t)
		s.create(&pb.WatchCreateRequest{Key: []byte("k"), StartRevision: deleted + 1})
		equal(t, "revision", s.events(0, 1)[0].Kv.ModRevision, deleted+1)
	})
	t.Run("APutAtTheCompactedRevision", func(t *testing.T) {
		at := m.put(t, "p", "v")
		m.put(t, "p", "w")
		m.compact(t, at)
		s := m.openWatch(t)
		s.create(&pb.WatchCreateRequest{Key: []byte("p"), StartRevision: at})
		events := s.events(0, 2)
		equal(t, "first", string(events[0].Kv.Value), "v")
		equal(t, "second", string(events[1].Kv.Value), "w")
	})
	t.Run("AfterARestart", func(t *testing.T) {
		m := m.restart(t)
		s := m.openWatch(t)
		response := s.create(&pb.WatchCreateRequest{Key: []byte("p"), StartRevision: 2})
		equal(t, "canceled at once", response.Canceled, false)
		equal(t, "canceled", s.next().CompactRevision > 0, true)
	})
}

func TestWatchBelowCompaction(t *testing.T) {
	m := start(t)
	for i := range 5 {
		m.put(t, "k", fmt.Sprint(i))
	}
	m.compact(t, 5)
	for _, revision := range []int64{1, 2, 4} {
		t.Run(fmt.Sprint("From", revision), func(t *testing.T) {
			s := m.openWatch(t)
			created := s.create(&pb.WatchCreateRequest{Key: []byte("k"), StartRevision: revision})
			equal(t, "canceled at once", created.Canceled, false)
			canceled := s.next()
			equal(t, "canceled", canceled.Canceled, true)
			equal(t, "compact_revision", canceled.CompactRevision, int64(5))
			equal(t, "revision in the header", canceled.Header.Revision, int64(0))
			equal(t, "events", len(canceled.Events), 0)
		})
	}
	t.Run("FromTheCompactedRevision", func(t *testing.T) {
		s := m.openWatch(t)
		s.create(&pb.WatchCreateRequest{Key: []byte("k"), StartRevision: 5})
		equal(t, "first revision", s.events(0, 2)[0].Kv.ModRevision, int64(5))
	})
	t.Run("AnotherWatchOfTheStreamStays", func(t *testing.T) {
		s := m.openWatch(t)
		s.create(&pb.WatchCreateRequest{Key: []byte("other")})
		s.create(&pb.WatchCreateRequest{Key: []byte("k"), StartRevision: 2})
		equal(t, "canceled", s.next().WatchId, int64(1))
		m.put(t, "other", "v")
		equal(t, "value", string(s.events(0, 1)[0].Kv.Value), "v")
	})
}

func TestWatchProgress(t *testing.T) {
	m := start(t)
	m.put(t, "quiet", "v")
	var last int64
	for i := range 500 {
		last = m.put(t, "loud", fmt.Sprint(i))
	}
	t.Run("QuietKeyFromAnOldRevision", func(t *testing.T) {
		s := m.openWatch(t)
		s.create(&pb.WatchCreateRequest{Key: []byte("quiet"), StartRevision: 3})
		progress := s.progressUntilAnswered()
		equal(t, "watch id", progress.WatchId, int64(-1))
		equal(t, "revision", progress.Header.Revision, last)
		equal(t, "events", len(progress.Events), 0)
	})
	t.Run("OneAnswer", func(t *testing.T) {
		s := m.openWatch(t)
		s.create(&pb.WatchCreateRequest{Key: []byte("quiet")})
		s.create(&pb.WatchCreateRequest{Key: []byte("loud")})
		s.progress()
		equal(t, "watch id", s.next().WatchId, int64(-1))
		// What comes next is no second one.
		equal(t, "next id", s.create(&pb.WatchCreateRequest{Key: []byte("x")}).WatchId, int64(2))
	})
	t.Run("EventsComeBeforeIt", func(t *testing.T) {
		s := m.openWatch(t)
		s.create(&pb.WatchCreateRequest{Key: []byte("loud"), StartRevision: 3})
		for seen := 0; seen < 500; {
			s.progress()
			response := s.next()
			if response.WatchId == -1 {
				t.Fatalf("progress after %d events", seen)
			}
			seen += len(response.Events)
		}
		equal(t, "revision", s.progressUntilAnswered().Header.Revision, last)
	})
	t.Run("NoneWithoutAWatch", func(t *testing.T) {
		s := m.openWatch(t)
		s.progress()
		equal(t, "id", s.create(&pb.WatchCreateRequest{Key: []byte("x")}).WatchId, int64(0))
	})
	t.Run("NoneBeforeAFutureRevision", func(t *testing.T) {
		s := m.openWatch(t)
		s.create(&pb.WatchCreateRequest{Key: []byte("quiet"), StartRevision: last + 2})
		s.progress()
		equal(t, "id", s.create(&pb.WatchCreateRequest{Key: []byte("x")}).WatchId, int64(1))
		m.put(t, "another", "v")
		m.put(t, "another", "v")
		equal(t, "revision", s.progressUntilAnswered().Header.Revision, last+2)
	})
}

func TestWatchIDs(t *testing.T) {
	m := start(t)
	t.Run("ChosenByTheServer", func(t *testing.T) {
		s := m.openWatch(t)
		for i := range int64(3) {
			created := s.create(&pb.WatchCreateRequest{Key: []byte("a")})
			equal(t, "id", created.WatchId, i)
		}
		s.cancel(0)
		canceled := s.next()
		equal(t, "canceled", canceled.Canceled, true)
		equal(t, "id", canceled.WatchId, int64(0))
		m.put(t, "a", "v")
		ids := s.next().WatchId + s.next().WatchId
		equal(t, "ids of the watches that stay", ids, int64(3))
		duplicate := s.create(&pb.WatchCreateRequest{Key: []byte("a"), WatchId: 2})
		equal(t, "canceled", duplicate.Canceled, true)
		equal(t, "id", duplicate.WatchId, int64(-1))
		m.put(t, "a", "w")
		equal(t, "ids of the watches that stay", s.next().WatchId+s.next().WatchId, int64(3))
	})
	t.Run("ChosenByTheClient", func(t *testing.T) {
		s := m.openWatch(t)
		equal(t, "id", s.create(&pb.WatchCreateRequest{Key: []byte("b"), WatchId: 7}).WatchId, int64(7))
		equal(t, "id", s.create(&pb.WatchCreateRequest{Key: []byte("b")}).WatchId, int64(0))
		equal(t, "id", s.create(&pb.WatchCreateRequest{Key: []byte("b"), WatchId: 1}).WatchId, int64(1))
		// The next of its own choice is not one in use.
		equal(t, "id", s.create(&pb.WatchCreateRequest{Key: []byte("b")}).WatchId, int64(2))
		s.cancel(7)
		equal(t, "canceled", s.next().WatchId, int64(7))
		equal(t, "id", s.create(&pb.WatchCreateRequest{Key: []byte("b"), WatchId: 7}).WatchId, int64(7))
	})
	t.Run("CancelOfAnUnknownId", func(t *testing.T) {
		s := m.openWatch(t)
		s.cancel(99)
		equal(t, "id", s.create(&pb.WatchCreateRequest{Key: []byte("c")}).WatchId, int64(0))
		m.put(t, "c", "v")
		s.events(0, 1)
	})
	t.Run("OtherStreamsHaveTheirOwn", func(t *testing.T) {
		one, other := m.openWatch(t), m.openWatch(t)
		equal(t, "id", one.create(&pb.WatchCreateRequest{Key: []byte("d")}).WatchId, int64(0))
		equal(t, "id", other.create(&pb.WatchCreateRequest{Key: []byte("d")}).WatchId, int64(0))
	})
}

func TestWatchOptions(t *testing.T) {
	m := start(t)
	t.Run("PreviousValues", func(t *testing.T) {
		s := m.openWatch(t)
		s.create(&pb.WatchCreateRequest{Key: []byte("p"), PrevKv: true})
		m.put(t, "p", "1")
		m.put(t, "p", "2")
		m.remove(t, "p")
		events := s.events(0, 3)
		equal(t, "before the first put", events[0].PrevKv == nil, true)
		equal(t, "before the second put", string(events[1].PrevKv.Value), "1")
		equal(t, "before the delete", string(events[2].PrevKv.Value), "2")
		equal(t, "value of the delete", len(events[2].Kv.Value), 0)
		equal(t, "create_revision of the delete", events[2].Kv.CreateRevision, int64(0))
	})
	t.Run("PreviousValuesOfHistory", func(t *testing.T) {
		first := m.put(t, "h", "1")
		m.put(t, "h", "2")
		m.compact(t, first+1)
		s := m.openWatch(t)
		s.create(&pb.WatchCreateRequest{Key: []byte("h"), PrevKv: true, StartRevision: first + 1})
		// The value before was compacted.
		equal(t, "previous value", s.events(0, 1)[0].PrevKv == nil, true)
	})
	t.Run("Filters", func(t *testing.T) {
		s := m.openWatch(t)
		s.create(&pb.WatchCreateRequest{
			Key: []byte("f"), Filters: []pb.WatchCreateRequest_FilterType{pb.WatchCreateRequest_NOPUT},
		})
		s.create(&pb.WatchCreateRequest{
			Key: []byte("f"), Filters: []pb.WatchCreateRequest_FilterType{pb.WatchCreateRequest_NODELETE},
		})
		m.put(t, "f", "v")
		put := s.next()
		equal(t, "watch of the put", put.WatchId, int64(1))
		m.remove(t, "f")
		removed := s.next()
		equal(t, "watch of the delete", removed.WatchId, int64(0))
	})
	t.Run("Ranges", func(t *testing.T) {
		s := m.openWatch(t)
		s.create(&pb.WatchCreateRequest{Key: []byte("r/b"), RangeEnd: []byte("r/d")})
		s.create(&pb.WatchCreateRequest{Key: []byte("r/c"), RangeEnd: []byte{0}})
		m.put(t, "r/a", "")
		m.put(t, "r/b", "")
		equal(t, "watch", s.next().WatchId, int64(0))
		m.put(t, "r/d", "")
		equal(t, "watch", s.next().WatchId, int64(1))
	})
	t.Run("AnEmptyRange", func(t *testing.T) {
		s := m.openWatch(t)
		created := s.create(&pb.WatchCreateRequest{Key: []byte("z"), RangeEnd: []byte("a")})
		equal(t, "canceled", created.Canceled, true)
		equal(t, "id", created.WatchId, int64(-1))
		equal(t, "reason", created.CancelReason, "mvcc: watcher range is empty")
	})
	t.Run("ATxnComesAsAWhole", func(t *testing.T) {
		s := m.openWatch(t)
		s.create(&pb.WatchCreateRequest{Key: []byte("t/"), RangeEnd: []byte("t0")})
		var ops []*pb.RequestOp
		for i := range 5 {
			put := &pb.PutRequest{Key: fmt.Appendf(nil, "t/%d", i)}
			ops = append(ops, &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: put}})
		}
		if _, err := m.kv.Txn(s.Context(), &pb.TxnRequest{Success: ops}); err != nil {
			t.Fatal(err)
		}
		equal(t, "events in one message", len(s.next().Events), 5)
	})
	t.Run("Fragments", func(t *testing.T) {
		value := make([]byte, 700_000)
		from := m.put(t, "g", string(value))
		for range 4 {
			m.put(t, "g", string(value))
		}
		s := m.openWatch(t)
		s.create(&pb.WatchCreateRequest{Key: []byte("g"), StartRevision: from, Fragment: true})
		seen, fragments := 0, 0
		for seen < 5 {
			response := s.next()
			seen += len(response.Events)
			if response.Fragment {
				fragments++
			}
		}
		equal(t, "cut into fragments", fragments > 0, true)
	})
	t.Run("AFutureRevision", func(t *testing.T) {
		at := m.put(t, "n", "1")
		s := m.openWatch(t)
		s.create(&pb.WatchCreateRequest{Key: []byte("n"), StartRevision: at + 2})
		m.put(t, "n", "2")
		m.put(t, "n", "3")
		equal(t, "value", string(s.events(0, 1)[0].Kv.Value), "3")
	})
	t.Run("WithoutARequest", func(t *testing.T) {
		s := m.openWatch(t)
		if err := s.CloseSend(); err != nil {
			t.Fatal(err)
		}
		_, err := s.Recv()
		if err == nil {
			t.Fatal("a message on a stream without a watch")
		}
	})
}

func TestRangeStream(t *testing.T) {
	m := start(t)
	for i := range 60 {
		m.put(t, fmt.Sprintf("s/%02d", 59-i), fmt.Sprint(i))
	}
	read := func(t *testing.T, request *pb.RangeRequest) (*pb.RangeResponse, int, error) {
		t.Helper()
		s, err := m.kv.RangeStream(m.openWatch(t).Context(), request)
		if err != nil {
			return nil, 0, err
		}
		whole, chunks := &pb.RangeResponse{}, 0
		for {
			chunk, err := s.Recv()
			if err != nil {
				return whole, chunks, err
			}
			chunks++
			part := chunk.RangeResponse
			whole.Kvs = append(whole.Kvs, part.Kvs...)
			if part.Header != nil {
				whole.Header, whole.Count, whole.More = part.Header, part.Count, part.More
			}
		}
	}
	all := func() *pb.RangeRequest {
		return &pb.RangeRequest{Key: []byte("s/"), RangeEnd: []byte("s0")}
	}
	t.Run("Everything", func(t *testing.T) {
		got, chunks, err := read(t, all())
		equal(t, "end", err.Error(), "EOF")
		equal(t, "keys", len(got.Kvs), 60)
		equal(t, "count", got.Count, int64(60))
		equal(t, "more", got.More, false)
		equal(t, "more than one chunk", chunks > 1, true)
		equal(t, "in order", string(got.Kvs[59].Key), "s/59")
	})
	t.Run("Limit", func(t *testing.T) {
		request := all()
		request.Limit = 25
		got, _, _ := read(t, request)
		equal(t, "keys", len(got.Kvs), 25)
		equal(t, "count", got.Count, int64(60))
		equal(t, "more", got.More, true)
	})
	t.Run("CountAlone", func(t *testing.T) {
		request := all()
		request.CountOnly = true
		got, _, _ := read(t, request)
		equal(t, "keys", len(got.Kvs), 0)
		equal(t, "count", got.Count, int64(60))
	})
	t.Run("OrdersAndFilters", func(t *testing.T) {
		request := all()
		request.SortOrder = pb.RangeRequest_DESCEND
		_, _, err := read(t, request)
		refused(t, err, codes.Unimplemented, "RangeStream does not support custom sort orders")
		request = all()
		request.MinModRevision = 3
		_, _, err = read(t, request)
		refused(t, err, codes.Unimplemented, "RangeStream does not support revision filters")
	})
	t.Run("BadRevisions", func(t *testing.T) {
		request := all()
		request.Revision = 10_000
		_, _, err := read(t, request)
		refused(t, err, codes.OutOfRange, "etcdserver: mvcc: required revision is a future revision")
	})
}
