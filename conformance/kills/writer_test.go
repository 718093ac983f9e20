package kills

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// moment is what a key was at a revision.
type moment struct {
	key      string
	revision int64
	value    string
	there    bool
}

// writer writes its own keys, one change after the other.
type writer struct {
	number int
	random *rand.Rand
	state  state
	// pending is the change that was begun and not acknowledged, if any.
	pending change
	// acknowledged is the highest revision that an answer had.
	acknowledged int64
	// history has what keys were at revisions that may be read again.
	history   []moment
	nextLease int64
}

const keysOfWriter = 40

func newWriter(number int, seed uint64) *writer {
	return &writer{
		number:    number,
		random:    rand.New(rand.NewPCG(seed, uint64(number))),
		state:     newState(),
		nextLease: int64(number+1) << 32,
	}
}

func (w *writer) prefix() string { return fmt.Sprintf("w%d/", w.number) }

func (w *writer) key() string {
	return fmt.Sprintf("%s%02d", w.prefix(), w.random.IntN(keysOfWriter))
}

func (w *writer) value() string {
	size := 8 + w.random.IntN(500)
	if w.random.IntN(60) == 0 {
		size = 30_000 + w.random.IntN(400_000)
	}
	text := fmt.Sprintf("%d-%d.", w.number, w.random.Uint64())
	return strings.Repeat(text, size/len(text)+1)
}

func (w *writer) lease() (int64, bool) {
	if len(w.state.leases) == 0 {
		return 0, false
	}
	ids := make([]int64, 0, len(w.state.leases))
	for id := range w.state.leases {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids[w.random.IntN(len(ids))], true
}

// next chooses a change.
func (w *writer) next() change {
	lease, hasLease := w.lease()
	switch n := w.random.IntN(100); {
	case n < 45:
		return put{key: w.key(), value: w.value()}
	case n < 60:
		return remove{key: w.key()}
	case n < 80:
		// No key twice, as etcd wants it.
		first := w.random.IntN(keysOfWriter)
		key := func(i int) string {
			return fmt.Sprintf("%s%02d", w.prefix(), (first+i)%keysOfWriter)
		}
		return txn{put{key: key(0), value: w.value()}, remove{key: key(1)}, put{key: key(2), value: w.value()}}
	case n < 90 && hasLease:
		return put{key: w.key(), value: w.value(), lease: lease}
	case n < 94 && hasLease:
		return revoke{id: lease}
	default:
		w.nextLease++
		return grant{id: w.nextLease}
	}
}

// run writes until a change fails, and gives that failure.
func (w *writer) run(ctx context.Context, client *clientv3.Client, acknowledged *atomic.Int64) error {
	leases := pb.NewLeaseClient(client.ActiveConnection())
	for {
		c := w.next()
		w.pending = c
		revision, err := w.send(ctx, client, leases, c)
		if err != nil {
			return fmt.Errorf("%v: %w", c, err)
		}
		w.pending = nil
		if revision < w.acknowledged {
			return fmt.Errorf("%v: answered at revision %d, after one at %d", c, revision, w.acknowledged)
		}
		c.apply(w.state, revision)
		w.acknowledged = revision
		w.remember(c)
		for {
			seen := acknowledged.Load()
			if seen >= revision || acknowledged.CompareAndSwap(seen, revision) {
				break
			}
		}
	}
}

// remember keeps what the change's keys are at its revision.
func (w *writer) remember(c change) {
	switch c := c.(type) {
	case put:
		w.history = append(w.history, moment{c.key, w.acknowledged, c.value, true})
	case remove:
		w.history = append(w.history, moment{key: c.key, revision: w.acknowledged})
	case txn:
		for _, part := range c {
			w.remember(part)
		}
	}
	if excess := len(w.history) - 300; excess > 0 {
		w.history = w.history[excess:]
	}
}

func (w *writer) send(
	ctx context.Context, client *clientv3.Client, leases pb.LeaseClient, c change,
) (int64, error) {
	switch c := c.(type) {
	case put:
		response, err := client.Put(ctx, c.key, c.value, clientv3.WithLease(clientv3.LeaseID(c.lease)))
		if err != nil {
			return 0, err
		}
		return response.Header.Revision, nil
	case remove:
		response, err := client.Delete(ctx, c.key)
		if err != nil {
			return 0, err
		}
		if _, there := w.state.keys[c.key]; there != (response.Deleted == 1) {
			return 0, fmt.Errorf("%d deleted, and it was there: %v", response.Deleted, there)
		}
		return response.Header.Revision, nil
	case txn:
		var ops []clientv3.Op
		for _, part := range c {
			switch part := part.(type) {
			case put:
				ops = append(ops, clientv3.OpPut(part.key, part.value))
			case remove:
				ops = append(ops, clientv3.OpDelete(part.key))
			}
		}
		// This writer alone writes the key, so the comparison holds.
		guard := c[0].(put).key
		compare := clientv3.Compare(clientv3.ModRevision(guard), "=", w.state.keys[guard].mod)
		response, err := client.Txn(ctx).If(compare).Then(ops...).Commit()
		if err != nil {
			return 0, err
		}
		if !response.Succeeded {
			return 0, fmt.Errorf("the comparison with revision %d failed", w.state.keys[guard].mod)
		}
		return response.Header.Revision, nil
	case grant:
		response, err := leases.LeaseGrant(ctx, &pb.LeaseGrantRequest{ID: c.id, TTL: 3600})
		if err != nil {
			return 0, err
		}
		return response.Header.Revision, nil
	case revoke:
		response, err := leases.LeaseRevoke(ctx, &pb.LeaseRevokeRequest{ID: c.id})
		if err != nil {
			return 0, err
		}
		return response.Header.Revision, nil
	default:
		panic(fmt.Sprintf("a change of an unknown kind: %v", c))
	}
}
