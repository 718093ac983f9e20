package kills

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"quorate.test/conformance/process"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	writers = 6
	// checkEvery is the number of rounds after which bbolt looks at the database.
	checkEvery = 10
	// killWithinMs bounds the time from the first write to the kill, in milliseconds.
	killWithinMs = 250
)

// compactor compacts, and knows which compactions may have happened.
type compactor struct {
	acknowledged, tried int64
}

// TestKills kills the server at random moments under puts, deletes, transactions, leases,
// compactions and defragmentation. After each start every acknowledged write must be there, no
// deleted key back, no change half made, and the revision not below what was acknowledged.
func TestKills(t *testing.T) {
	rounds := process.Number(t, "ROUNDS", 20)
	seed := uint64(process.Number(t, "SEED", 1))
	t.Logf("seed %d, %d rounds", seed, rounds)
	random := rand.New(rand.NewPCG(seed, 1<<32))
	dir := filepath.Join(t.TempDir(), "data")
	all := make([]*writer, writers)
	for i := range all {
		all[i] = newWriter(i, seed)
	}
	var compacts compactor
	for round := range rounds {
		ok := t.Run(fmt.Sprintf("Round%03d", round), func(t *testing.T) {
			if random.IntN(8) == 0 {
				// Killed while it starts.
				server := process.Spawn(t, process.Tested, dir, flags...)
				time.Sleep(time.Duration(random.IntN(20_000)) * time.Microsecond)
				server.Kill()
			}
			server := process.Start(t, process.Tested, dir, flags...)
			check(t, server, all, &compacts, random)
			killUnderLoad(t, server, all, &compacts, random)
			if (round+1)%checkEvery == 0 || round+1 == rounds {
				copied := filepath.Join(t.TempDir(), "copy")
				process.CopyDir(t, dir, copied)
				process.CheckDatabase(t, copied)
			}
		})
		if !ok {
			t.Fatalf("seed %d, round %d", seed, round)
		}
	}
	server := process.Start(t, process.Tested, dir, flags...)
	check(t, server, all, &compacts, random)
	response, err := server.Client().Get(process.Context(t), "any")
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("revision %d, compacted at %d", response.Header.Revision, compacts.acknowledged)
	// So that it cannot pass without any load.
	if response.Header.Revision < 5*rounds {
		t.Fatalf("only %d revisions were written", response.Header.Revision)
	}
	server.Stop()
	process.CheckDatabase(t, dir)
}

// flags make snapshots and commits frequent.
var flags = []string{"--snapshot-count=200", "--backend-batch-interval=20ms"}

// killUnderLoad lets all writers write and kills the server while they do.
func killUnderLoad(t *testing.T, server *process.Server, all []*writer, compacts *compactor, random *rand.Rand) {
	ctx, cancel := context.WithCancel(process.Context(t))
	defer cancel()
	var acknowledged atomic.Int64
	var killed atomic.Bool
	var wait sync.WaitGroup
	failures := make(chan error, writers+2)
	run := func(name string, load func(*clientv3.Client) error) {
		client := server.Connect()
		wait.Go(func() {
			defer client.Close()
			if err := load(client); err != nil && !killed.Load() {
				failures <- fmt.Errorf("%s: %w", name, err)
			}
		})
	}
	for _, w := range all {
		run(fmt.Sprintf("writer %d", w.number), func(client *clientv3.Client) error {
			return w.run(ctx, client, &acknowledged)
		})
	}
	run("compactor", func(client *clientv3.Client) error {
		return compacts.run(ctx, client, &acknowledged)
	})
	if random.IntN(3) == 0 {
		run("defragmentation", func(client *clientv3.Client) error {
			for {
				if _, err := client.Defragment(ctx, server.URL); err != nil {
					return err
				}
			}
		})
	}
	time.Sleep(time.Duration(random.IntN(killWithinMs*1000)) * time.Microsecond)
	select {
	case err := <-failures:
		t.Fatalf("before the kill: %v", err)
	default:
	}
	killed.Store(true)
	server.Kill()
	// The client would try again for a while.
	cancel()
	wait.Wait()
	select {
	case err := <-failures:
		t.Fatalf("before the kill: %v", err)
	default:
	}
}

// run compacts at a little below the newest revision, whenever that has grown enough.
func (c *compactor) run(ctx context.Context, client *clientv3.Client, acknowledged *atomic.Int64) error {
	for {
		at := acknowledged.Load() - 100
		if at < c.tried+150 {
			// A read paces this loop by the server's speed, and ends it with the server.
			if _, err := client.Get(ctx, "pace"); err != nil {
				return err
			}
			continue
		}
		c.tried = at
		if _, err := client.Compact(ctx, at, clientv3.WithCompactPhysical()); err != nil {
			return err
		}
		c.acknowledged = at
	}
}

// check compares the server with what each writer knows, and settles what was pending.
func check(t *testing.T, server *process.Server, all []*writer, compacts *compactor, random *rand.Rand) {
	ctx := process.Context(t)
	client := server.Client()
	listed, err := client.Leases(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range all {
		leases := map[int64]bool{}
		for _, lease := range listed.Leases {
			if int64(lease.ID)>>32 == int64(w.number+1) {
				leases[int64(lease.ID)] = true
			}
		}
		response, err := client.Get(ctx, w.prefix(), clientv3.WithPrefix())
		if err != nil {
			t.Fatal(err)
		}
		if response.Header.Revision < w.acknowledged {
			t.Fatalf("the revision is %d, and %d was acknowledged", response.Header.Revision, w.acknowledged)
		}
		without := w.state.differs(response.Kvs, leases, w.acknowledged)
		if w.pending != nil && without != "" {
			after := w.state.clone()
			w.pending.apply(after, unknown)
			if with := after.differs(response.Kvs, leases, w.acknowledged); with != "" {
				t.Fatalf("writer %d, pending %v: without it: %s; with it: %s", w.number, w.pending, without, with)
			}
			after.adopt(response.Kvs)
			w.state = after
		} else if without != "" {
			t.Fatalf("writer %d: %s", w.number, without)
		}
		w.pending = nil
		w.checkLeases(ctx, t, client)
		w.checkHistory(ctx, t, client, compacts.tried, random)
	}
	if compacts.acknowledged > 1 {
		_, err := client.Get(ctx, "any", clientv3.WithRev(compacts.acknowledged-1))
		if !errors.Is(err, rpctypes.ErrCompacted) {
			t.Fatalf("revision %d was compacted, and reading before it gives %v", compacts.acknowledged, err)
		}
	}
}

// checkLeases compares the keys of each lease.
func (w *writer) checkLeases(ctx context.Context, t *testing.T, client *clientv3.Client) {
	for id := range w.state.leases {
		want := map[string]bool{}
		for key, e := range w.state.keys {
			if e.lease == id {
				want[key] = true
			}
		}
		response, err := client.TimeToLive(ctx, clientv3.LeaseID(id), clientv3.WithAttachedKeys())
		if err != nil {
			t.Fatal(err)
		}
		if response.TTL <= 0 || response.TTL > 3600 || response.GrantedTTL != 3600 {
			t.Fatalf("lease %d: TTL %d of %d", id, response.TTL, response.GrantedTTL)
		}
		for _, key := range response.Keys {
			if !want[string(key)] {
				t.Fatalf("lease %d has %s", id, key)
			}
		}
		if len(response.Keys) != len(want) {
			t.Fatalf("lease %d has %d keys, want %v", id, len(response.Keys), want)
		}
	}
}

// checkHistory reads a few keys at revisions that were not compacted.
func (w *writer) checkHistory(
	ctx context.Context, t *testing.T, client *clientv3.Client, compacted int64, random *rand.Rand,
) {
	for range 8 {
		if len(w.history) == 0 {
			return
		}
		m := w.history[random.IntN(len(w.history))]
		if m.revision < compacted {
			continue
		}
		response, err := client.Get(ctx, m.key, clientv3.WithRev(m.revision))
		if err != nil {
			t.Fatalf("%s at %d: %v", m.key, m.revision, err)
		}
		there := len(response.Kvs) == 1
		if there != m.there || there && string(response.Kvs[0].Value) != m.value {
			t.Fatalf("%s at %d is there: %v (want %v), or has another value", m.key, m.revision, there, m.there)
		}
	}
}
