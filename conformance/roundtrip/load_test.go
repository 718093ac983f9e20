package roundtrip

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"quorate.test/conformance/process"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// load writes to a server, with writes of every kind.
type load struct {
	random *rand.Rand
	leases []clientv3.LeaseID
	// compacted is the revision of the last compaction.
	compacted int64
	revision  int64
}

const keys = 200

func (l *load) key() string { return process.Key("key/", l.random.IntN(keys)) }

func (l *load) value() string {
	switch l.random.IntN(40) {
	case 0:
		return ""
	case 1:
		return strings.Repeat("large value. ", 20_000+l.random.IntN(10_000))
	default:
		return strings.Repeat(fmt.Sprint(l.random.Uint64()), 1+l.random.IntN(30))
	}
}

func (l *load) ops() []clientv3.Op {
	first := l.random.IntN(keys)
	key := func(i int) string { return process.Key("key/", (first+i)%keys) }
	return []clientv3.Op{
		clientv3.OpPut(key(0), l.value()),
		clientv3.OpDelete(key(1)),
		clientv3.OpGet("key/", clientv3.WithPrefix(), clientv3.WithLimit(3)),
		clientv3.OpTxn(
			[]clientv3.Cmp{clientv3.Compare(clientv3.Version(key(2)), ">", 0)},
			[]clientv3.Op{clientv3.OpPut(key(2), l.value()), clientv3.OpDelete(key(3))},
			[]clientv3.Op{clientv3.OpPut(key(4), l.value())},
		),
	}
}

// run makes a number of writes, and one compaction somewhere among them.
func (l *load) run(t *testing.T, client *clientv3.Client, writes int) {
	t.Helper()
	ctx := process.Context(t)
	compactAt := l.random.IntN(writes)
	for i := range writes {
		revision, what, err := l.write(ctx, client)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if revision < l.revision {
			t.Fatalf("%s: answered at revision %d, after one at %d", what, revision, l.revision)
		}
		l.revision = revision
		if i == compactAt && l.revision > l.compacted+20 {
			l.compacted += 1 + l.random.Int64N(l.revision-l.compacted-10)
			if _, err := client.Compact(ctx, l.compacted, clientv3.WithCompactPhysical()); err != nil {
				t.Fatalf("compact %d: %v", l.compacted, err)
			}
		}
	}
}

func (l *load) write(ctx context.Context, client *clientv3.Client) (int64, string, error) {
	switch n := l.random.IntN(100); {
	case n < 45:
		key := l.key()
		response, err := client.Put(ctx, key, l.value(), clientv3.WithPrevKV())
		if err != nil {
			return 0, "put " + key, err
		}
		return response.Header.Revision, "put", nil
	case n < 60:
		response, err := client.Delete(ctx, l.key())
		if err != nil {
			return 0, "delete", err
		}
		return response.Header.Revision, "delete", nil
	case n < 63:
		first := l.random.IntN(keys)
		response, err := client.Delete(ctx, process.Key("key/", first),
			clientv3.WithRange(process.Key("key/", first+10)))
		if err != nil {
			return 0, "delete range", err
		}
		return response.Header.Revision, "delete range", nil
	case n < 80:
		response, err := client.Txn(ctx).
			If(clientv3.Compare(clientv3.CreateRevision(l.key()), "=", 0)).
			Then(l.ops()...).
			Else(l.ops()...).
			Commit()
		if err != nil {
			return 0, "txn", err
		}
		return response.Header.Revision, "txn", nil
	case n < 86:
		response, err := client.Grant(ctx, 1000+l.random.Int64N(8000))
		if err != nil {
			return 0, "grant", err
		}
		l.leases = append(l.leases, response.ID)
		return response.Revision, "grant", nil
	case n < 94 && len(l.leases) > 0:
		lease := l.leases[l.random.IntN(len(l.leases))]
		response, err := client.Put(ctx, l.key(), l.value(), clientv3.WithLease(lease))
		if err != nil {
			return 0, "put with a lease", err
		}
		return response.Header.Revision, "put with a lease", nil
	case n < 97 && len(l.leases) > 0:
		at := l.random.IntN(len(l.leases))
		response, err := client.Revoke(ctx, l.leases[at])
		if err != nil {
			return 0, "revoke", err
		}
		l.leases = slices.Delete(l.leases, at, at+1)
		return response.Header.Revision, "revoke", nil
	default:
		// One that is there, with its value and lease kept as they are.
		response, err := client.Put(ctx, "kept", "value")
		if err != nil {
			return 0, "put", err
		}
		response, err = client.Put(ctx, "kept", "", clientv3.WithIgnoreValue(), clientv3.WithIgnoreLease())
		if err != nil {
			return 0, "put with ignore_value", err
		}
		return response.Header.Revision, "put with ignore_value", nil
	}
}

// older gives some revisions that are kept, above the last compaction's: there, a server that has
// made the compaction itself may answer with the hash that it computed on the way.
func (l *load) older() []int64 {
	var revisions []int64
	if span := l.revision - l.compacted; span > 2 {
		for range 4 {
			revisions = append(revisions, l.compacted+1+l.random.Int64N(span-1))
		}
		slices.Sort(revisions)
		revisions = slices.Compact(revisions)
	}
	return revisions
}
