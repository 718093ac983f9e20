package main

import (
	"go.etcd.io/etcd/tests/v3/robustness/model"
	"go.etcd.io/etcd/tests/v3/robustness/report"
)

// bound leaves the checker fewer orders to try, and takes none away that the history allows.
//
// A request without an answer may have taken effect at any time since it began, or never. Of a
// transaction whose puts nobody else asked for, watches tell which: all events are watched. What none
// has seen is left out, since it is as if it never was. What was seen has its revision by that, and
// begins, for the checker, where it can have taken effect first: an answer names the store's revision
// when it was given, and revisions only grow, so whatever brought revision R took effect after every
// request began that was answered below R. A write that waits while reads go on is thus no longer
// beside each of them.
func bound(reports []report.ClientReport) (moved, left int) {
	begun := startsByRevision(reports)
	seen := revisionsSeen(reports)
	for i := range reports {
		kept := reports[i].KeyValue[:0]
		for _, op := range reports[i].KeyValue {
			response := op.Output.(model.MaybeEtcdResponse)
			revision, unique := seen.of(op.Input.(model.EtcdRequest))
			if response.Error != "" && unique {
				if revision == 0 {
					left++
					continue
				}
				if earliest := begun.below(revision); earliest > op.Call {
					op.Call = earliest
					// Its failure is no end: it may have taken effect later.
					op.Return = max(op.Return, op.Call+1)
					moved++
				}
			}
			kept = append(kept, op)
		}
		reports[i].KeyValue = kept
	}
	return moved, left
}

// starts has, at each revision, when the last of the requests began that were answered with it or
// with one below.
type starts []int64

func startsByRevision(reports []report.ClientReport) starts {
	var all starts
	for _, client := range reports {
		for _, op := range client.KeyValue {
			response := op.Output.(model.MaybeEtcdResponse)
			if response.Error != "" || response.Revision <= 0 {
				continue
			}
			request := op.Input.(model.EtcdRequest)
			if request.Type == model.Defragment || (request.Type == model.Range && request.Range.Revision != 0) {
				continue
			}
			for int64(len(all)) <= response.Revision {
				all = append(all, 0)
			}
			all[response.Revision] = max(all[response.Revision], op.Call)
		}
	}
	for i := 1; i < len(all); i++ {
		all[i] = max(all[i], all[i-1])
	}
	return all
}

func (s starts) below(revision int64) int64 {
	if revision <= 0 || len(s) == 0 {
		return 0
	}
	return s[min(revision-1, int64(len(s))-1)]
}

// put is what tells one put from all others.
type put struct {
	key   string
	value model.ValueOrHash
}

// sightings has what watches saw of the puts that were asked for once.
type sightings struct {
	revisions map[put]int64
	asked     map[put]int
}

func revisionsSeen(reports []report.ClientReport) sightings {
	s := sightings{revisions: map[put]int64{}, asked: map[put]int{}}
	for _, client := range reports {
		for _, op := range client.KeyValue {
			request := op.Input.(model.EtcdRequest)
			if request.Type == model.Txn {
				for _, operation := range request.Txn.AllOperations() {
					if operation.Type == model.PutOperation {
						s.asked[put{operation.Put.Key, operation.Put.Value}]++
					}
				}
			}
		}
		for _, watch := range client.Watch {
			for _, response := range watch.Responses {
				for _, event := range response.Events {
					if event.Type == model.PutOperation {
						s.revisions[put{event.Key, event.Value}] = event.Revision
					}
				}
			}
		}
	}
	return s
}

// of gives the revision that a request brought, or 0 where no watch saw it, and whether the request
// can be told from all others.
func (s sightings) of(request model.EtcdRequest) (revision int64, unique bool) {
	if request.Type != model.Txn {
		return 0, false
	}
	for _, operation := range request.Txn.AllOperations() {
		switch operation.Type {
		case model.PutOperation:
			one := put{operation.Put.Key, operation.Put.Value}
			if s.asked[one] != 1 {
				return 0, false
			}
			unique = true
			revision = max(revision, s.revisions[one])
		case model.DeleteOperation:
			return 0, false
		}
	}
	return revision, unique
}
