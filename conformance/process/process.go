// Package process starts the servers and tools of a test as real processes.
//
// A server has its data directory given, gets fresh ports each time it starts (a Cluster's members
// keep theirs), and is stopped or killed by the test; one that is still there when its test ends is killed then, and its log is
// shown if the test failed. Binaries are told by environment variables, which cargo xtask
// conformance sets; one that is missing fails the test.
package process

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// readyWithin is how long a server may take until it answers; far more than it should.
const readyWithin = 30 * time.Second

// variable gives an environment variable, or fails the test.
func variable(t testing.TB, name string) string {
	t.Helper()
	value := os.Getenv("CONFORMANCE_" + name)
	if value == "" {
		t.Fatalf("CONFORMANCE_%s is not set: run this by cargo xtask conformance", name)
	}
	return value
}

// Number gives a number from the environment, or the default where it is not set.
func Number(t testing.TB, name string, otherwise int64) int64 {
	t.Helper()
	text := os.Getenv("CONFORMANCE_" + name)
	if text == "" {
		return otherwise
	}
	number, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatalf("CONFORMANCE_%s: %v", name, err)
	}
	return number
}

// Binary names one of the servers.
type Binary string

const (
	// Tested is the server under test.
	Tested Binary = "ETCD"
	// Real is the real etcd of the version that the server under test is compatible with.
	Real Binary = "REAL_ETCD"
	// Last is the real etcd of the release before.
	Last Binary = "LAST_ETCD"
)

// IsEtcd says whether a binary is the real etcd.
func IsEtcd(t testing.TB, binary Binary) bool {
	t.Helper()
	stdout, _, ok := Run(t, variable(t, string(binary)), "--version")
	if !ok {
		t.Fatalf("%s --version failed", binary)
	}
	return !strings.Contains(stdout, "Quorate Version")
}

// Server is a running server with one member.
type Server struct {
	// Dir is its data directory.
	Dir string
	// URL is where it serves clients.
	URL string

	t       testing.TB
	command *exec.Cmd
	log     *logBuffer
	exited  chan struct{}
}

// logBuffer keeps the end of a log.
type logBuffer struct {
	mutex sync.Mutex
	bytes []byte
}

func (b *logBuffer) Write(more []byte) (int, error) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.bytes = append(b.bytes, more...)
	if excess := len(b.bytes) - 6<<10; excess > 0 {
		b.bytes = b.bytes[excess:]
	}
	return len(more), nil
}

func (b *logBuffer) String() string {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return string(b.bytes)
}

// Ports are drawn from here: below those that the kernel gives to outgoing connections, of which one
// may be made between the drawing of a port and its use.
const portMin, portMax = 12000, 32000

// FreeURLs gives URLs on free ports of this network namespace.
func FreeURLs(t testing.TB, count int) []string {
	t.Helper()
	var urls []string
	for range 100 * count {
		address := fmt.Sprintf("127.0.0.1:%d", portMin+rand.IntN(portMax-portMin))
		listener, err := net.Listen("tcp", address)
		if err != nil {
			continue
		}
		// All are held until all are drawn, so that none is given twice.
		defer listener.Close()
		urls = append(urls, "http://"+address)
		if len(urls) == count {
			return urls
		}
	}
	t.Fatalf("no %d ports are free", count)
	return nil
}

// Tool gives the path of one of the tools: ETCDCTL, ETCDUTL, REAL_ETCDCTL, REAL_ETCDUTL.
func Tool(t testing.TB, name string) string {
	t.Helper()
	return variable(t, name)
}

// Start starts a server on a data directory and waits until it answers a linearizable read.
func Start(t testing.TB, binary Binary, dir string, flags ...string) *Server {
	t.Helper()
	server := Spawn(t, binary, dir, flags...)
	server.WaitReady()
	return server
}

// Spawn starts a server and does not wait for it.
func Spawn(t testing.TB, binary Binary, dir string, flags ...string) *Server {
	t.Helper()
	urls := FreeURLs(t, 2)
	client, peer := urls[0], urls[1]
	// The peer URL is part of the data; it must not change with the port that is listened to.
	return spawn(t, binary, dir, client, nil, append([]string{
		"--name=m", "--data-dir=" + dir,
		"--listen-client-urls=" + client, "--advertise-client-urls=" + client,
		"--listen-peer-urls=" + peer,
		"--initial-advertise-peer-urls=http://127.0.0.1:2380",
		"--initial-cluster=m=http://127.0.0.1:2380",
	}, flags...))
}

// spawn starts a server with all of its flags, and with variables besides this process's own.
func spawn(t testing.TB, binary Binary, dir, client string, environment, arguments []string) *Server {
	t.Helper()
	server := &Server{
		Dir: dir, URL: client, t: t,
		command: exec.Command(variable(t, string(binary)), arguments...),
		log:     &logBuffer{},
		exited:  make(chan struct{}),
	}
	server.command.Stdout, server.command.Stderr = server.log, server.log
	server.command.Env = append(os.Environ(), environment...)
	if err := server.command.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		// How it ended is in the process's state.
		_ = server.command.Wait()
		close(server.exited)
	}()
	t.Cleanup(func() {
		server.Kill()
		if t.Failed() {
			t.Logf("the end of the log of %s:\n%s", binary, server.log)
		}
	})
	return server
}

// WaitReady waits until the server answers a linearizable read; its end is a failure.
func (s *Server) WaitReady() {
	s.t.Helper()
	deadline := time.Now().Add(readyWithin)
	for !s.answers() {
		select {
		case <-s.exited:
			s.t.Fatalf("the server ended (%v) instead of getting ready:\n%s",
				s.command.ProcessState, s.log)
		case <-time.After(5 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("the server is not ready after %v:\n%s", readyWithin, s.log)
		}
	}
}

func (s *Server) answers() bool {
	client := http.Client{Timeout: time.Second}
	response, err := client.Post(s.URL+"/v3/kv/range", "application/json", strings.NewReader(`{"key":"AA=="}`))
	if err != nil {
		return false
	}
	defer response.Body.Close()
	return response.StatusCode == http.StatusOK
}

// Kill kills the server, where it runs, and waits for its end.
func (s *Server) Kill() {
	// It fails where the process is gone already, which is what is wanted.
	_ = s.command.Process.Kill()
	<-s.exited
}

// Stop ends the server as an operator would; anything but a clean end is a failure.
func (s *Server) Stop() {
	s.t.Helper()
	if err := s.command.Process.Signal(syscall.SIGTERM); err != nil {
		s.t.Fatalf("cannot stop the server: %v\n%s", err, s.log)
	}
	select {
	case <-s.exited:
	case <-time.After(readyWithin):
		s.t.Fatalf("the server did not stop:\n%s", s.log)
	}
	// etcd ends by the signal that it was sent; both are clean.
	status, ok := s.command.ProcessState.Sys().(syscall.WaitStatus)
	if !ok || !(status.ExitStatus() == 0 || status.Signal() == syscall.SIGTERM) {
		s.t.Fatalf("the server did not stop cleanly: %v\n%s", s.command.ProcessState, s.log)
	}
}

// Ended says whether the server has ended.
func (s *Server) Ended() bool {
	select {
	case <-s.exited:
		return true
	default:
		return false
	}
}

// WaitExit waits for the server to end by itself, and gives its exit code and its log's end.
func (s *Server) WaitExit() (int, string) {
	s.t.Helper()
	select {
	case <-s.exited:
	case <-time.After(readyWithin):
		s.t.Fatalf("the server did not end:\n%s", s.log)
	}
	return s.command.ProcessState.ExitCode(), s.log.String()
}

// Client connects to the server; the connection ends with the test.
func (s *Server) Client() *clientv3.Client {
	s.t.Helper()
	client := s.Connect()
	s.t.Cleanup(func() { client.Close() })
	return client
}

// Connect connects to the server; the caller closes it.
func (s *Server) Connect() *clientv3.Client {
	s.t.Helper()
	return Connect(s.t, s.URL)
}

// Connect connects to servers; the caller closes the connection.
func Connect(t testing.TB, urls ...string) *clientv3.Client {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{
		Endpoints:   urls,
		DialTimeout: 5 * time.Second,
		Logger:      zap.NewNop(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// Ctl runs etcdctl against the server; gives what it printed and whether it succeeded.
func (s *Server) Ctl(arguments ...string) (stdout, stderr string, ok bool) {
	s.t.Helper()
	return Run(s.t, variable(s.t, "ETCDCTL"), append([]string{"--endpoints=" + s.URL}, arguments...)...)
}

// Utl runs etcdutl.
func Utl(t testing.TB, arguments ...string) (stdout, stderr string, ok bool) {
	t.Helper()
	return Run(t, variable(t, "ETCDUTL"), arguments...)
}

// Run runs a program to its end.
func Run(t testing.TB, program string, arguments ...string) (stdout, stderr string, ok bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, program, arguments...)
	var out, errors bytes.Buffer
	command.Stdout, command.Stderr = &out, &errors
	err := command.Run()
	if _, ended := err.(*exec.ExitError); err != nil && !ended {
		t.Fatalf("%s: %v", program, err)
	}
	return out.String(), errors.String(), err == nil
}

// Post posts JSON to a path of the server and gives the status and the body.
func (s *Server) Post(path, body string) (int, string) {
	s.t.Helper()
	client := http.Client{Timeout: 10 * time.Second}
	response, err := client.Post(s.URL+path, "application/json", strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	return read(s.t, response)
}

// Get gets a path of the server and gives the status and the body.
func (s *Server) Get(path string) (int, string) {
	s.t.Helper()
	client := http.Client{Timeout: 10 * time.Second}
	response, err := client.Get(s.URL + path)
	if err != nil {
		s.t.Fatal(err)
	}
	return read(s.t, response)
}

func read(t testing.TB, response *http.Response) (int, string) {
	t.Helper()
	defer response.Body.Close()
	var body bytes.Buffer
	if _, err := body.ReadFrom(response.Body); err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, body.String()
}

// JSON parses an object.
func JSON(t testing.TB, text string) map[string]any {
	t.Helper()
	var object map[string]any
	if err := json.Unmarshal([]byte(text), &object); err != nil {
		t.Fatalf("%v in %q", err, text)
	}
	return object
}

// CheckDatabase has bbolt check the database of a data directory whose server is down.
func CheckDatabase(t testing.TB, dir string) {
	t.Helper()
	db := filepath.Join(dir, "member", "snap", "db")
	stdout, stderr, ok := Run(t, variable(t, "BBOLT"), "check", db)
	if !ok || !strings.Contains(stdout, "OK") {
		t.Fatalf("bbolt check %s: %s%s", db, stdout, stderr)
	}
}

// CopyDir copies a data directory.
func CopyDir(t testing.TB, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}

// Context gives a context that ends long after the test should have.
func Context(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// Key gives a readable key.
func Key(prefix string, number int) string {
	return fmt.Sprintf("%s%04d", prefix, number)
}
