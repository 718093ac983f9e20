package rolling

import (
	"context"
	"fmt"
	"strings"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// watcher watches all keys from the first revision on, on one member, and resumes when that member
// is back.
type watcher struct {
	mutex sync.Mutex
	log   watched
	last  int64
	err   error
}

func startWatcher(ctx context.Context, client *clientv3.Client) *watcher {
	w := &watcher{log: watched{}}
	responses := client.Watch(ctx, prefix, clientv3.WithPrefix(), clientv3.WithRev(1))
	go func() {
		for response := range responses {
			w.take(response)
		}
	}()
	return w
}

func (w *watcher) take(response clientv3.WatchResponse) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if err := response.Err(); err != nil && w.err == nil {
		w.err = err
	}
	before := w.last
	for _, event := range response.Events {
		revision := event.Kv.ModRevision
		if revision <= before || revision < w.last {
			w.err = fmt.Errorf("an event of revision %d came after one of %d", revision, w.last)
		}
		w.last = revision
		change := change{deleted: event.Type == clientv3.EventTypeDelete, value: string(event.Kv.Value)}
		if _, err := fmt.Sscanf(strings.TrimPrefix(string(event.Kv.Key), prefix), "%d", &change.key); err != nil {
			w.err = fmt.Errorf("an event of the key %q", event.Kv.Key)
		}
		w.log[revision] = append(w.log[revision], change)
	}
}

// reached gives the last revision that was seen, or what went wrong.
func (w *watcher) reached() (int64, error) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.last, w.err
}
