package rolling

import (
	"fmt"
	"time"

	"github.com/anishathalye/porcupine"
)

// state is what the cluster holds at one moment.
type state struct {
	revision int64
	cells    [keyCount]cell
}

// model is a single server that handles one request after another.
var model = porcupine.Model{
	Init: func() any { return state{revision: 1} },
	Step: func(before, input, output any) (bool, any) {
		return before.(state).step(input.(request), output.(response))
	},
	DescribeOperation: func(input, output any) string {
		return fmt.Sprintf("%+v: %+v", input, output)
	},
}

// step gives whether the answer is right in this state, and the state after it.
func (s state) step(request request, answer response) (bool, state) {
	after := s
	switch request.kind {
	case put:
		after.put(request.key, request.value)
	case remove:
		after.cells[request.key] = cell{}
		after.put(mark, request.value)
	case swap:
		if swapped := s.cells[request.key].changed == request.expected; swapped != answer.swapped {
			return false, s
		}
		if answer.swapped {
			after.put(request.key, request.value)
		} else if answer.cells[request.key] != s.cells[request.key] {
			return false, s
		}
	case get:
		if answer.cells[request.key] != s.cells[request.key] {
			return false, s
		}
	case list:
		if answer.cells != s.cells {
			return false, s
		}
	default:
		panic("no such kind")
	}
	return answer.revision == after.revision, after
}

func (s *state) put(key int, value string) {
	s.revision++
	s.cells[key] = cell{value: value, changed: s.revision, version: s.cells[key].version + 1}
}

// linearizable says whether a history is that of a single server.
func linearizable(history []porcupine.Operation) error {
	switch result := porcupine.CheckOperationsTimeout(model, history, 5*time.Minute); result {
	case porcupine.Ok:
		return nil
	case porcupine.Illegal:
		return fmt.Errorf("the history of %d requests is not linearizable", len(history))
	default:
		return fmt.Errorf("whether the history of %d requests is linearizable: %v", len(history), result)
	}
}
