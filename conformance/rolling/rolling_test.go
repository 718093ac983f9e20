package rolling

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"quorate.test/conformance/process"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	members = 3
	// soon bounds every wait for a cluster that works; far more than it takes.
	soon = time.Minute
	// progress is the number of answers each client must have between two changes.
	progress = 15
)

// flags have snapshots come often, and be what a member gets that was away for a while.
var flags = []string{"--snapshot-count=300", "--snapshot-catchup-entries=100"}

// roll is a cluster whose members change hands.
type roll struct {
	t        *testing.T
	random   *rand.Rand
	cluster  *process.Cluster
	pinned   []*clientv3.Client
	anywhere *clientv3.Client
	load     *load
	watchers []*watcher
	// revision is one at which all members had the same hash.
	revision int64
}

// TestRolling makes members of etcd members of quorate, one by one, and then members of etcd again.
// Some are stopped and some killed, the leader among them; the new member leads at times. All the
// while clients write and read; what they saw must be the history of a single server, every watcher
// must have seen all of it in order, and after each change the members must have the same hash.
func TestRolling(t *testing.T) {
	rounds := process.Number(t, "ROUNDS", 2)
	seed := uint64(process.Number(t, "SEED", 1))
	t.Logf("seed %d", seed)
	r := start(t, seed)
	for round := range rounds {
		binary := process.Tested
		if round%2 == 1 {
			binary = process.Real
		}
		for step, i := range r.random.Perm(members) {
			t.Logf("round %d: member %d becomes %s", round, i, binary)
			r.change(step, i, binary)
		}
	}
	r.check()
}

func start(t *testing.T, seed uint64) *roll {
	r := &roll{
		t:       t,
		random:  rand.New(rand.NewPCG(seed, 0)),
		cluster: process.NewCluster(t, members, flags...),
	}
	r.cluster.Start(process.Real)
	connect := func(urls ...string) *clientv3.Client {
		client := process.Connect(t, urls...)
		t.Cleanup(func() { client.Close() })
		return client
	}
	urls := r.cluster.URLs()
	r.anywhere = connect(urls...)
	loaded := []*clientv3.Client{connect(urls...), connect(urls...), connect(urls...)}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	for _, url := range urls {
		r.pinned = append(r.pinned, connect(url))
		loaded = append(loaded, connect(url))
		r.watchers = append(r.watchers, startWatcher(ctx, connect(url)))
	}
	r.load = startLoad(seed, loaded)
	t.Cleanup(func() { r.load.stop() })
	r.proceed()
	return r
}

// change has a member run by another binary.
func (r *roll) change(step, i int, binary process.Binary) {
	if step == 1 {
		r.lead(i)
	}
	r.compact()
	old := r.cluster.Members[i]
	if r.random.IntN(3) == 0 {
		old.Kill()
	} else {
		old.Stop()
	}
	if r.random.IntN(2) == 0 {
		// Away for so long that the log it lacks is gone.
		r.others(i)
	}
	r.cluster.Spawn(i, binary).WaitReady()
	r.proceed()
	r.sameHash()
	if step == 2 {
		r.lead(i)
		r.proceed()
	}
}

// until tries until it succeeds.
func (r *roll) until(what string, try func(context.Context) error) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	for {
		limited, done := context.WithTimeout(ctx, 5*time.Second)
		err := try(limited)
		done()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			r.t.Fatalf("%s: %v", what, err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// lead makes a member the leader.
func (r *roll) lead(i int) {
	r.t.Helper()
	r.until("moving the leader", func(ctx context.Context) error {
		status, err := r.pinned[i].Status(ctx, r.cluster.URLs()[i])
		if err != nil {
			return err
		}
		if status.Leader == status.Header.MemberId {
			return nil
		}
		for j := range r.pinned {
			other, err := r.pinned[j].Status(ctx, r.cluster.URLs()[j])
			if err != nil {
				return err
			}
			if other.Leader == other.Header.MemberId {
				_, err = r.pinned[j].MoveLeader(ctx, status.Header.MemberId)
				if err != nil {
					return err
				}
			}
		}
		return fmt.Errorf("member %d does not lead yet", i)
	})
}

// compact compacts at a revision that every watcher has seen.
func (r *roll) compact() {
	if r.revision == 0 {
		return
	}
	r.until("compacting", func(ctx context.Context) error {
		for _, watcher := range r.watchers {
			if last, err := watcher.reached(); err != nil || last < r.revision {
				return fmt.Errorf("a watcher is at %d: %v", last, err)
			}
		}
		return nil
	})
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	if _, err := r.anywhere.Compact(ctx, r.revision); err != nil {
		r.t.Fatalf("compacting at %d: %v", r.revision, err)
	}
}

// proceed waits until every client has had some more answers.
func (r *roll) proceed() {
	r.t.Helper()
	before := r.load.answered()
	r.until("progress", func(context.Context) error {
		for id, now := range r.load.answered() {
			if now < before[id]+progress {
				return fmt.Errorf("client %d had %d answers and has %d", id, before[id], now)
			}
		}
		return nil
	})
}

// others waits until the cluster has written so much that a member that is away needs a snapshot.
func (r *roll) others(away int) {
	r.t.Helper()
	other := (away + 1) % members
	var first uint64
	r.until("progress without a member", func(ctx context.Context) error {
		status, err := r.pinned[other].Status(ctx, r.cluster.URLs()[other])
		if err != nil {
			return err
		}
		if first == 0 {
			first = status.RaftAppliedIndex
		}
		if status.RaftAppliedIndex < first+500 {
			return fmt.Errorf("%d entries since", status.RaftAppliedIndex-first)
		}
		return nil
	})
}

// sameHash waits until all members have applied what is there now, and compares their hashes.
func (r *roll) sameHash() {
	r.t.Helper()
	r.until("the same hash", func(ctx context.Context) error {
		response, err := r.anywhere.Get(ctx, "any")
		if err != nil {
			return err
		}
		revision := response.Header.Revision
		var hashes []*pb.HashKVResponse
		for i, client := range r.pinned {
			hash, err := client.HashKV(ctx, r.cluster.URLs()[i], revision)
			if err != nil {
				return err
			}
			hashes = append(hashes, (*pb.HashKVResponse)(hash))
		}
		for i, hash := range hashes {
			if hash.CompactRevision != hashes[0].CompactRevision {
				return fmt.Errorf("compacted at %d and %d", hash.CompactRevision, hashes[0].CompactRevision)
			}
			if hash.Hash != hashes[0].Hash {
				r.t.Fatalf("at %d member %d has hash %d, member 0 %d", revision, i, hash.Hash, hashes[0].Hash)
			}
		}
		r.revision = revision
		return nil
	})
}

// check ends the load and checks what was seen.
func (r *roll) check() {
	operations := r.load.end()
	response, err := r.anywhere.Get(process.Context(r.t), "any")
	if err != nil {
		r.t.Fatal(err)
	}
	last := response.Header.Revision
	failures := map[string]int{}
	for _, operation := range operations {
		if operation.failed {
			failures[operation.failure]++
		}
	}
	r.t.Logf("%d requests, %d revisions; failures: %v", len(operations), last, failures)
	r.until("the watchers' end", func(context.Context) error {
		for _, watcher := range r.watchers {
			if reached, err := watcher.reached(); err != nil || reached < last {
				return fmt.Errorf("a watcher is at %d of %d: %v", reached, last, err)
			}
		}
		return nil
	})
	log := r.watchers[0].log
	if gap := log.gap(last); gap != 0 {
		r.t.Errorf("no watcher's event of revision %d", gap)
	}
	for i, watcher := range r.watchers {
		if !maps.EqualFunc(watcher.log, log, slices.Equal) {
			r.t.Errorf("watchers of members 0 and %d saw different events", i)
		}
	}
	history, err := settle(operations, log)
	if err != nil {
		r.t.Fatal(err)
	}
	if err := linearizable(history); err != nil {
		r.t.Fatal(err)
	}
	for i, member := range r.cluster.Members {
		member.Stop()
		process.CheckDatabase(r.t, r.cluster.Members[i].Dir)
	}
}
