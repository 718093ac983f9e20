// Package failpoints has each failpoint that a server lists end it.
package failpoints

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"quorate.test/conformance/process"

	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	members = 3
	soon    = time.Minute
)

// flags have what is rare come often.
var flags = []string{
	"--snapshot-count=10", "--snapshot-catchup-entries=5", "--backend-batch-interval=10ms",
	fmt.Sprintf("--compaction-batch-limit=%d", batch),
}

// controlled is a cluster whose failpoints can be set.
type controlled struct {
	*process.Cluster
	t         *testing.T
	addresses []string
}

func newControlled(t *testing.T, size int) *controlled {
	c := &controlled{Cluster: process.NewCluster(t, size, flags...), t: t}
	for i, url := range process.FreeURLs(t, size) {
		c.addresses = append(c.addresses, strings.TrimPrefix(url, "http://"))
		c.arm(i, "")
	}
	return c
}

// arm sets what failpoints a member has when it starts the next time.
func (c *controlled) arm(i int, failpoints string) {
	c.SetEnvironment(i, "GOFAIL_HTTP="+c.addresses[i], "GOFAIL_FAILPOINTS="+failpoints)
}

// ask asks a member about its failpoints.
func (c *controlled) ask(i int, method, path, body string) string {
	c.t.Helper()
	request, err := http.NewRequest(method, "http://"+c.addresses[i]+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	client := http.Client{Timeout: 10 * time.Second}
	response, err := client.Do(request)
	if err != nil {
		c.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode >= 300 {
		c.t.Fatalf("%s %s: %s %s %v", method, path, response.Status, text, err)
	}
	return string(text)
}

// leader gives the member that leads.
func (c *controlled) leader() int {
	c.t.Helper()
	end := time.Now().Add(soon)
	for time.Now().Before(end) {
		for i, member := range c.Members {
			client := member.Connect()
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			status, err := client.Status(ctx, member.URL)
			cancel()
			client.Close()
			if err == nil && status.Leader == status.Header.MemberId {
				return i
			}
		}
	}
	c.t.Fatal("no leader")
	return 0
}

// listed gives the names that the server lists.
func listed(t *testing.T) []string {
	c := newControlled(t, 1)
	c.Start(process.Tested)
	var names []string
	for line := range strings.Lines(c.ask(0, "GET", "/", "")) {
		name, terms, ok := strings.Cut(strings.TrimSpace(line), "=")
		if !ok || terms != "" {
			t.Fatalf("it lists %q", line)
		}
		names = append(names, name)
	}
	return names
}

// TestPanic sets each listed failpoint to panic, does what reaches it, sees the member end, and has
// it start again with what was acknowledged.
func TestPanic(t *testing.T) {
	for _, name := range listed(t) {
		if survived[name] && process.IsEtcd(t, process.Tested) {
			continue
		}
		way, known := triggers[name]
		if !known {
			t.Errorf("%s is listed, and nothing is known to reach it", name)
			continue
		}
		t.Run(name, func(t *testing.T) { panics(t, name, way) })
	}
}

func panics(t *testing.T, name string, way way) {
	size := members
	if way.target == alone || way.target == starting {
		size = 1
	}
	c := newControlled(t, size)
	hit, other := 0, 0
	if way.target == starting {
		c.arm(0, name+"=panic")
		c.Spawn(0, process.Tested)
	} else {
		c.Start(process.Tested)
		if size > 1 {
			leads := c.leader()
			follows := (leads + 1) % members
			if way.target == leader {
				hit, other = leads, follows
			} else {
				hit, other = follows, leads
			}
		}
		remember(t, c.Members[other].Client())
	}
	switch way.target {
	case lagging:
		lag(t, c, hit, c.Members[other].Client())
		c.arm(hit, name+"=panic")
		c.Spawn(hit, process.Tested)
	case starting:
	default:
		c.ask(hit, "PUT", "/"+name, "panic")
		repeat(t, c.Members[hit], c.Members[other].Client(), way.trigger)
	}
	code, log := c.Members[hit].WaitExit()
	if code == 0 || !strings.Contains(log, "failpoint panic") {
		t.Fatalf("it ended with %d:\n%s", code, log)
	}
	c.arm(hit, "")
	c.Spawn(hit, process.Tested).WaitReady()
	if way.target == starting {
		return
	}
	response, err := c.Members[hit].Client().Get(process.Context(t), "remembered")
	if err != nil || len(response.Kvs) != 1 {
		t.Fatalf("what was acknowledged is %v, %v", response, err)
	}
}

func remember(t *testing.T, client *clientv3.Client) {
	t.Helper()
	if _, err := client.Put(process.Context(t), "remembered", "value"); err != nil {
		t.Fatal(err)
	}
}

// repeat does what reaches the failpoint until the member has ended.
func repeat(t *testing.T, server *process.Server, client *clientv3.Client, trigger trigger) {
	t.Helper()
	end := time.Now().Add(soon)
	var err error
	for turn := 0; !server.Ended(); turn++ {
		if time.Now().After(end) {
			t.Fatalf("it did not end; the last error is %v", err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		err = trigger(ctx, client, turn)
		cancel()
	}
}

// lag stops a member and writes more than the others keep for it.
func lag(t *testing.T, c *controlled, away int, client *clientv3.Client) {
	t.Helper()
	c.Members[away].Stop()
	for turn := range 300 {
		if err := write(process.Context(t), client, turn); err != nil {
			t.Fatal(err)
		}
	}
}

// TestSleepAndCount has a failpoint sleep once, and sees that it did and that it was counted.
func TestSleepAndCount(t *testing.T) {
	c := newControlled(t, 1)
	c.Start(process.Tested)
	client := c.Members[0].Client()
	remember(t, client)
	const pause = 300 * time.Millisecond
	c.ask(0, "PUT", "/walBeforeSync", fmt.Sprintf(`1*sleep("%v")->off`, pause))
	before := time.Now()
	remember(t, client)
	if took := time.Since(before); took < pause {
		t.Fatalf("a put took %v", took)
	}
	// A sync may go on without a put; the sleep itself is counted once, what follows each time.
	if count := c.ask(0, "GET", "/walBeforeSync/count", ""); count == "0" {
		t.Fatalf("it was counted %s times", count)
	}
	c.ask(0, "DELETE", "/walBeforeSync", "")
	if all := c.ask(0, "GET", "/", ""); !strings.Contains(all, "walBeforeSync=\n") {
		t.Fatalf("it is still set:\n%s", all)
	}
}
