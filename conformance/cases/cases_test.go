// Package cases holds behaviours of etcd that people asked about in public, and their neighbours:
// black-box tests that the real etcd passes too.
package cases

import (
	"context"
	"strings"
	"testing"
	"time"

	"quorate.test/conformance/process"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// member is a server of a test with its plain gRPC clients.
type member struct {
	*process.Server
	client *clientv3.Client
	kv     pb.KVClient
	lease  pb.LeaseClient
	watch  pb.WatchClient
	maint  pb.MaintenanceClient
}

func start(t *testing.T, flags ...string) *member {
	t.Helper()
	return of(process.Start(t, process.Tested, t.TempDir()+"/data", flags...))
}

func of(server *process.Server) *member {
	client := server.Client()
	connection := client.ActiveConnection()
	return &member{
		Server: server,
		client: client,
		kv:     pb.NewKVClient(connection),
		lease:  pb.NewLeaseClient(connection),
		watch:  pb.NewWatchClient(connection),
		maint:  pb.NewMaintenanceClient(connection),
	}
}

// restart kills the server and starts another on its directory.
func (m *member) restart(t *testing.T, flags ...string) *member {
	t.Helper()
	m.Kill()
	return of(process.Start(t, process.Tested, m.Dir, flags...))
}

func (m *member) put(t *testing.T, key, value string) int64 {
	t.Helper()
	response, err := m.kv.Put(process.Context(t), &pb.PutRequest{Key: []byte(key), Value: []byte(value)})
	if err != nil {
		t.Fatalf("put %s: %v", key, err)
	}
	return response.Header.Revision
}

func (m *member) remove(t *testing.T, key string) int64 {
	t.Helper()
	response, err := m.kv.DeleteRange(process.Context(t), &pb.DeleteRangeRequest{Key: []byte(key)})
	if err != nil || response.Deleted != 1 {
		t.Fatalf("delete %s: %v, %v", key, response, err)
	}
	return response.Header.Revision
}

func (m *member) compact(t *testing.T, revision int64) {
	t.Helper()
	request := &pb.CompactionRequest{Revision: revision, Physical: true}
	if _, err := m.kv.Compact(process.Context(t), request); err != nil {
		t.Fatalf("compact %d: %v", revision, err)
	}
}

func (m *member) get(t *testing.T, request *pb.RangeRequest) *pb.RangeResponse {
	t.Helper()
	response, err := m.kv.Range(process.Context(t), request)
	if err != nil {
		t.Fatalf("range %v: %v", request, err)
	}
	return response
}

// refused fails the test unless an error has this code and this text.
func refused(t *testing.T, err error, code codes.Code, text string) {
	t.Helper()
	if status.Code(err) != code || !strings.Contains(status.Convert(err).Message(), text) {
		t.Fatalf("got %v, want %v: %s", err, code, text)
	}
}

// equal fails the test unless two values are the same.
func equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Fatalf("%s: got %v, want %v", what, got, want)
	}
}

// stream is a watch stream.
type stream struct {
	t *testing.T
	pb.Watch_WatchClient
}

func (m *member) openWatch(t *testing.T) stream {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	s, err := m.watch.Watch(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return stream{t, s}
}

// next gives the next message of the stream.
func (s stream) next() *pb.WatchResponse {
	s.t.Helper()
	response, err := s.Recv()
	if err != nil {
		s.t.Fatalf("watch: %v", err)
	}
	return response
}

// create asks for a watch and gives the answer.
func (s stream) create(request *pb.WatchCreateRequest) *pb.WatchResponse {
	s.t.Helper()
	s.send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: request}})
	response := s.next()
	if !response.Created {
		s.t.Fatalf("got %v, want the answer to a create", response)
	}
	return response
}

func (s stream) cancel(id int64) {
	s.t.Helper()
	request := &pb.WatchCancelRequest{WatchId: id}
	s.send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CancelRequest{CancelRequest: request}})
}

func (s stream) progress() {
	s.t.Helper()
	request := &pb.WatchProgressRequest{}
	s.send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_ProgressRequest{ProgressRequest: request}})
}

// progressUntilAnswered asks for progress until there is an answer: etcd passes over a request
// while a watch of the stream is catching up.
func (s stream) progressUntilAnswered() *pb.WatchResponse {
	s.t.Helper()
	answered := make(chan struct{})
	defer close(answered)
	go func() {
		ticker := time.NewTicker(20 * time.Millisecond)
		defer ticker.Stop()
		request := &pb.WatchRequest_ProgressRequest{ProgressRequest: &pb.WatchProgressRequest{}}
		for {
			select {
			case <-answered:
				return
			case <-ticker.C:
				// A stream that is gone fails the test where it is read.
				_ = s.Send(&pb.WatchRequest{RequestUnion: request})
			}
		}
	}()
	return s.next()
}

func (s stream) send(request *pb.WatchRequest) {
	s.t.Helper()
	if err := s.Send(request); err != nil {
		s.t.Fatal(err)
	}
}

// events gives the next n events of a watch, as "PUT key value @revision".
func (s stream) events(id int64, n int) []*clientv3.Event {
	s.t.Helper()
	var events []*clientv3.Event
	for len(events) < n {
		response := s.next()
		if response.WatchId != id || response.Canceled || len(response.Events) == 0 {
			s.t.Fatalf("got %v, want events of watch %d", response, id)
		}
		for _, event := range response.Events {
			events = append(events, (*clientv3.Event)(event))
		}
	}
	if len(events) > n {
		s.t.Fatalf("%d events, want %d", len(events), n)
	}
	return events
}
