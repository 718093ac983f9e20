// Package rolling has members of a cluster change hands, one by one, between etcd and quorate, under
// a load whose history is checked.
package rolling

import (
	"fmt"
	"math"
	"sort"

	"github.com/anishathalye/porcupine"
)

// keyCount is the number of keys that the load writes to, the mark's included.
const keyCount = 8

// mark is the key that a deletion writes a value to, by which it is known in the log.
const mark = keyCount - 1

type kind string

const (
	// put puts a value.
	put kind = "put"
	// remove deletes a key, and marks that in the same transaction.
	remove kind = "remove"
	// swap puts a value if the key's last change is the one expected, and reads it otherwise.
	swap kind = "swap"
	// get reads a key.
	get kind = "get"
	// list reads all keys.
	list kind = "list"
)

// request is what a client asked for.
type request struct {
	kind kind
	key  int
	// value is written by no other request.
	value string
	// expected is a swap's revision of the last change.
	expected int64
}

func (r request) writes() bool { return r.kind == put || r.kind == remove || r.kind == swap }

// cell is a key's content; no change at all where the key is not there.
type cell struct {
	value   string
	changed int64
	version int64
}

// response is what a client was answered.
type response struct {
	// revision is the header's.
	revision int64
	// cells has what was read; one cell for a get or for a swap that was refused.
	cells [keyCount]cell
	// swapped says that a swap took place.
	swapped bool
}

// operation is a request with its answer and the times of both, on one clock.
type operation struct {
	client        int
	request       request
	response      response
	failed        bool
	called, ended int64
	failure       string
}

// change is what a watcher saw of one key.
type change struct {
	key     int
	deleted bool
	value   string
}

// watched is all changes that a watcher saw, by revision.
type watched map[int64][]change

// settle turns what clients saw into a history with the outcome of every request known: a failed
// request took effect if its value is in the log, at that revision and at an unknown time; otherwise
// it did not. A value in the log that nobody wrote, or one that was acknowledged and is not there,
// is an error.
func settle(operations []operation, log watched) ([]porcupine.Operation, error) {
	revisions := map[string]int64{}
	for revision, changes := range log {
		for _, change := range changes {
			if !change.deleted {
				revisions[change.value] = revision
			}
		}
	}
	var history []porcupine.Operation
	for _, operation := range operations {
		revision, logged := revisions[operation.request.value]
		logged = logged && operation.request.writes()
		answer := operation.response
		if operation.failed {
			if !logged {
				continue
			}
			answer = response{revision: revision, swapped: true}
			operation.ended = math.MaxInt64
		} else if wrote := operation.request.kind == put || operation.request.kind == remove || answer.swapped; wrote {
			if !logged || revision != answer.revision {
				return nil, fmt.Errorf("%v was acknowledged at revision %d and is in the log at %d",
					operation.request, answer.revision, revision)
			}
		} else if logged {
			return nil, fmt.Errorf("%v was refused and is in the log at %d", operation.request, revision)
		}
		if logged {
			delete(revisions, operation.request.value)
		}
		history = append(history, porcupine.Operation{
			ClientId: operation.client,
			Input:    operation.request,
			Call:     operation.called,
			Output:   answer,
			Return:   operation.ended,
		})
	}
	if len(revisions) > 0 {
		return nil, fmt.Errorf("nobody wrote what the log has: %v", revisions)
	}
	sort.SliceStable(history, func(i, j int) bool { return history[i].Call < history[j].Call })
	return history, nil
}

// gap gives the first revision that is missing in the log, or 0.
func (w watched) gap(last int64) int64 {
	for revision := int64(2); revision <= last; revision++ {
		if len(w[revision]) == 0 {
			return revision
		}
	}
	return 0
}
