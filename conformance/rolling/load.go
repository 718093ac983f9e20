package rolling

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	// prefix is that of all keys.
	prefix = "rolling/"
	// patience is how long a client waits for an answer.
	patience = 2 * time.Second
	// pace is the time from one request of a client to its next, so that the history stays of a
	// length that can be checked.
	pace = 20 * time.Millisecond
)

func name(key int) string { return fmt.Sprintf("%s%d", prefix, key) }

// loader is one client and what it saw.
type loader struct {
	id         int
	client     *clientv3.Client
	random     *rand.Rand
	begin      time.Time
	operations []operation
	// changed has what the client believes to be each key's last change.
	changed [keyCount]int64
	// answered counts the answers.
	answered atomic.Int64
}

// load is a number of clients at work.
type load struct {
	loaders []*loader
	stop    context.CancelFunc
	done    sync.WaitGroup
}

// startLoad starts a client for each connection.
func startLoad(seed uint64, clients []*clientv3.Client) *load {
	ctx, cancel := context.WithCancel(context.Background())
	l := &load{stop: cancel}
	begin := time.Now()
	for id, client := range clients {
		loader := &loader{
			id: id, client: client, begin: begin,
			random: rand.New(rand.NewPCG(seed, uint64(id))),
		}
		l.loaders = append(l.loaders, loader)
		l.done.Go(func() { loader.run(ctx) })
	}
	return l
}

// end stops the clients and gives what they saw.
func (l *load) end() []operation {
	l.stop()
	l.done.Wait()
	var all []operation
	for _, loader := range l.loaders {
		all = append(all, loader.operations...)
	}
	return all
}

// answered gives the number of answers that each client had.
func (l *load) answered() []int64 {
	var counts []int64
	for _, loader := range l.loaders {
		counts = append(counts, loader.answered.Load())
	}
	return counts
}

func (l *loader) run(ctx context.Context) {
	ticker := time.NewTicker(pace)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		request := l.draw()
		operation := operation{client: l.id, request: request, called: int64(time.Since(l.begin))}
		// A request under way is seen to its end: what is not known makes the check weaker.
		limited, cancel := context.WithTimeout(context.Background(), patience)
		response, err := l.ask(limited, request)
		cancel()
		operation.ended = int64(time.Since(l.begin))
		if err != nil {
			operation.failed, operation.failure = true, err.Error()
		} else {
			operation.response = response
			l.answered.Add(1)
		}
		l.operations = append(l.operations, operation)
	}
}

// draw draws the next request.
func (l *loader) draw() request {
	r := request{key: l.random.IntN(mark)}
	switch draw := l.random.IntN(10); {
	case draw < 3:
		r.kind = put
	case draw < 4:
		r.kind = remove
	case draw < 6:
		r.kind, r.expected = swap, l.changed[r.key]
	case draw < 9:
		r.kind = get
	default:
		r.kind = list
	}
	if r.writes() {
		r.value = fmt.Sprintf("%d-%d", l.id, len(l.operations))
		if l.random.IntN(50) == 0 {
			r.value += strings.Repeat(" large", 20_000)
		}
	}
	return r
}

// ask sends a request and gives its answer.
func (l *loader) ask(ctx context.Context, request request) (response, error) {
	key := name(request.key)
	switch request.kind {
	case put:
		answer, err := l.client.Put(ctx, key, request.value)
		if err != nil {
			return response{}, err
		}
		return response{revision: answer.Header.Revision}, nil
	case get, list:
		options := []clientv3.OpOption{}
		if request.kind == list {
			key, options = prefix, append(options, clientv3.WithPrefix())
		}
		answer, err := l.client.Get(ctx, key, options...)
		if err != nil {
			return response{}, err
		}
		r := response{revision: answer.Header.Revision}
		for _, kv := range answer.Kvs {
			l.read(&r, string(kv.Key), cell{string(kv.Value), kv.ModRevision, kv.Version})
		}
		return r, nil
	default:
		txn := l.client.Txn(ctx)
		if request.kind == remove {
			txn = txn.Then(clientv3.OpDelete(key), clientv3.OpPut(name(mark), request.value))
		} else {
			txn = txn.If(clientv3.Compare(clientv3.ModRevision(key), "=", request.expected)).
				Then(clientv3.OpPut(key, request.value)).Else(clientv3.OpGet(key))
		}
		answer, err := txn.Commit()
		if err != nil {
			return response{}, err
		}
		r := response{revision: answer.Header.Revision, swapped: request.kind == swap && answer.Succeeded}
		if !answer.Succeeded {
			l.changed[request.key] = 0
			for _, kv := range answer.Responses[0].GetResponseRange().Kvs {
				l.read(&r, string(kv.Key), cell{string(kv.Value), kv.ModRevision, kv.Version})
			}
		}
		return r, nil
	}
}

// read notes what was read of a key.
func (l *loader) read(r *response, key string, read cell) {
	for i := range keyCount {
		if name(i) == key {
			r.cells[i] = read
			l.changed[i] = read.changed
		}
	}
}
