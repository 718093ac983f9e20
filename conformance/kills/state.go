// Package kills kills the server at random moments and checks what is there afterwards.
package kills

import (
	"fmt"
	"maps"

	"go.etcd.io/etcd/api/v3/mvccpb"
)

// entry is a key's value as far as its one writer knows it.
type entry struct {
	value   string
	create  int64
	mod     int64
	version int64
	lease   int64
}

// unknown stands for the revision of a write that was not acknowledged.
const unknown = -1

// state is all that one writer has written: its keys, and its leases.
type state struct {
	keys   map[string]entry
	leases map[int64]bool
}

func newState() state {
	return state{keys: map[string]entry{}, leases: map[int64]bool{}}
}

func (s state) clone() state {
	return state{keys: maps.Clone(s.keys), leases: maps.Clone(s.leases)}
}

// change is a write: it is applied as a whole or not at all.
type change interface {
	// apply makes the change at a revision.
	apply(s state, revision int64)
	fmt.Stringer
}

type put struct {
	key, value string
	lease      int64
}

func (p put) String() string { return fmt.Sprintf("put %s (%d bytes)", p.key, len(p.value)) }

func (p put) apply(s state, revision int64) {
	old, there := s.keys[p.key]
	create := revision
	if there {
		create = old.create
	}
	s.keys[p.key] = entry{
		value: p.value, create: create, mod: revision, version: old.version + 1, lease: p.lease,
	}
}

type remove struct{ key string }

func (r remove) String() string { return "delete " + r.key }

func (r remove) apply(s state, _ int64) { delete(s.keys, r.key) }

type txn []change

func (t txn) String() string { return fmt.Sprintf("txn %v", []change(t)) }

func (t txn) apply(s state, revision int64) {
	for _, c := range t {
		c.apply(s, revision)
	}
}

type grant struct{ id int64 }

func (g grant) String() string { return fmt.Sprintf("grant %d", g.id) }

func (g grant) apply(s state, _ int64) { s.leases[g.id] = true }

type revoke struct{ id int64 }

func (r revoke) String() string { return fmt.Sprintf("revoke %d", r.id) }

func (r revoke) apply(s state, _ int64) {
	delete(s.leases, r.id)
	maps.DeleteFunc(s.keys, func(_ string, e entry) bool { return e.lease == r.id })
}

// differs tells in what the server's keys and leases differ from a state; "" where in nothing. A
// revision that is unknown must be above the last one that was acknowledged.
func (s state) differs(kvs []*mvccpb.KeyValue, leases map[int64]bool, acknowledged int64) string {
	revision := func(want, got int64) bool {
		if want == unknown {
			return got > acknowledged
		}
		return want == got
	}
	for _, kv := range kvs {
		want, there := s.keys[string(kv.Key)]
		switch {
		case !there:
			return fmt.Sprintf("%s is back, of revision %d", kv.Key, kv.ModRevision)
		case string(kv.Value) != want.value:
			return fmt.Sprintf("%s has another value (%d bytes, want %d), of revision %d, want %d",
				kv.Key, len(kv.Value), len(want.value), kv.ModRevision, want.mod)
		case !revision(want.mod, kv.ModRevision), !revision(want.create, kv.CreateRevision),
			kv.Version != want.version, kv.Lease != want.lease:
			return fmt.Sprintf("%s is %+v, want %+v", kv.Key, kv, want)
		}
	}
	if len(kvs) != len(s.keys) {
		there := map[string]bool{}
		for _, kv := range kvs {
			there[string(kv.Key)] = true
		}
		for key, want := range s.keys {
			if !there[key] {
				return fmt.Sprintf("%s is lost, of revision %d", key, want.mod)
			}
		}
		return "a key is there twice"
	}
	if !maps.Equal(leases, s.leases) {
		return fmt.Sprintf("the leases are %v, want %v", leases, s.leases)
	}
	return ""
}

// adopt takes the revisions of an unacknowledged write that turned out to be there.
func (s state) adopt(kvs []*mvccpb.KeyValue) {
	for _, kv := range kvs {
		e := s.keys[string(kv.Key)]
		e.create, e.mod = kv.CreateRevision, kv.ModRevision
		s.keys[string(kv.Key)] = e
	}
}
