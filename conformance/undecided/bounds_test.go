package main

import (
	"testing"

	"github.com/anishathalye/porcupine"
	"go.etcd.io/etcd/tests/v3/robustness/model"
	"go.etcd.io/etcd/tests/v3/robustness/report"
	"go.etcd.io/etcd/tests/v3/robustness/validate"
	"go.uber.org/zap"
)

// history is made op by op; each has a stream of its own.
type history struct {
	reports   []report.ClientReport
	persisted []model.EtcdRequest
}

func (h *history) add(request model.EtcdRequest, response model.MaybeEtcdResponse, call, end int64) {
	stream := len(h.reports) + 1
	h.reports = append(h.reports, report.ClientReport{ClientID: stream, KeyValue: []porcupine.Operation{{
		ClientId: stream, Input: request, Output: response, Call: call, Return: end,
	}}})
}

func putOf(key, value string) model.EtcdRequest {
	return model.EtcdRequest{Type: model.Txn, Txn: &model.TxnRequest{OperationsOnSuccess: []model.EtcdOperation{{
		Type: model.PutOperation, Put: model.PutOptions{Key: key, Value: model.ToValueOrHash(value)},
	}}}}
}

func answered(revision int64) model.MaybeEtcdResponse {
	return model.MaybeEtcdResponse{EtcdResponse: model.EtcdResponse{
		Revision: revision, Txn: &model.TxnResponse{Results: []model.EtcdOperationResult{{}}},
	}}
}

var unanswered = model.MaybeEtcdResponse{Error: "context deadline exceeded"}

// read adds a read of k that found the value, if there is any, that this revision brought.
func (h *history) read(value string, put, revision, call, end int64) {
	request := model.EtcdRequest{Type: model.Range, Range: &model.RangeRequest{
		RangeOptions: model.RangeOptions{Start: "k", End: ""},
	}}
	found := &model.RangeResponse{KVs: []model.KeyValue{}}
	if value != "" {
		found.Count = 1
		found.KVs = []model.KeyValue{{Key: "k", ValueRevision: model.ValueRevision{
			Value: model.ToValueOrHash(value), ModRevision: put, Version: put - 1,
		}}}
	}
	h.add(request, model.MaybeEtcdResponse{EtcdResponse: model.EtcdResponse{Revision: revision, Range: found}}, call, end)
}

func (h *history) watch(key, value string, revision int64) {
	event := model.WatchEvent{PersistedEvent: model.PersistedEvent{Revision: revision, Event: model.Event{
		Type: model.PutOperation, Key: key, Value: model.ToValueOrHash(value),
	}, IsCreate: revision == 2}}
	h.reports = append(h.reports, report.ClientReport{ClientID: len(h.reports) + 1, Watch: []model.WatchOperation{{
		Request:   model.WatchRequest{Key: "", WithPrefix: true},
		Responses: []model.WatchResponse{{Events: []model.WatchEvent{event}, Revision: revision}},
	}}})
}

func (h *history) status() validate.ResultStatus {
	result := validate.ValidateAndReturnVisualize(zap.NewNop(), validate.Config{}, h.reports, h.persisted, patience)
	if result.Assumptions.Error() != nil {
		panic(result.Assumptions.Error())
	}
	return result.Linearization.Status
}

func TestWhatAWatchSawIsBounded(t *testing.T) {
	var h history
	h.read("", 0, 1, 1, 2)
	h.add(putOf("k", "a"), unanswered, 3, 10)
	h.add(putOf("k", "lost"), unanswered, 4, 11)
	h.read("", 0, 1, 20, 21)
	h.read("a", 2, 2, 30, 31)
	h.watch("k", "a", 2)
	h.persisted = []model.EtcdRequest{putOf("k", "a")}
	if moved, left := bound(h.reports); moved != 1 || left != 1 {
		t.Fatalf("%d bounded, %d left out", moved, left)
	}
	if op := h.reports[1].KeyValue[0]; op.Call != 20 || op.Return <= op.Call {
		t.Fatalf("it begins at %d and ends at %d", op.Call, op.Return)
	}
	if len(h.reports[2].KeyValue) != 0 {
		t.Fatal("what nobody saw is still there")
	}
	if status := h.status(); status != validate.Success {
		t.Fatal(status)
	}
}

func TestWhatIsAskedTwiceStaysAsItIs(t *testing.T) {
	var h history
	h.read("", 0, 1, 1, 2)
	h.add(putOf("k", "a"), unanswered, 3, 10)
	h.add(putOf("k", "a"), unanswered, 4, 11)
	h.read("", 0, 1, 20, 21)
	h.watch("k", "a", 2)
	if moved, left := bound(h.reports); moved != 0 || left != 0 {
		t.Fatalf("%d bounded, %d left out", moved, left)
	}
}

// Each history has one answer, the last, that is wrong, and one that would be right.
func TestWhatIsNotSoundStaysSo(t *testing.T) {
	for name, build := range map[string]func(h *history, wrong bool){
		"Stale": func(h *history, wrong bool) {
			h.add(putOf("k", "a"), answered(2), 3, 10)
			if wrong {
				h.read("", 0, 1, 20, 21)
			} else {
				h.read("a", 2, 2, 20, 21)
			}
		},
		"Lost": func(h *history, wrong bool) {
			h.add(putOf("k", "a"), unanswered, 3, 10)
			h.watch("k", "a", 2)
			h.read("a", 2, 2, 20, 21)
			if wrong {
				h.read("", 0, 2, 30, 31)
			} else {
				h.read("a", 2, 2, 30, 31)
			}
		},
		"Unseen": func(h *history, wrong bool) {
			h.add(putOf("k", "a"), unanswered, 3, 10)
			if wrong {
				h.read("a", 2, 2, 20, 21)
			} else {
				h.read("", 0, 1, 20, 21)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			for wrong, want := range map[bool]validate.ResultStatus{true: validate.Failure, false: validate.Success} {
				var h history
				h.read("", 0, 1, 1, 2)
				build(&h, wrong)
				bound(h.reports)
				if status := h.status(); status != want {
					t.Errorf("wrong: %v, judged: %s", wrong, status)
				}
			}
		})
	}
}
