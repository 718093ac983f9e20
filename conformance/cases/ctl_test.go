package cases

import (
	"regexp"
	"strings"
	"testing"
)

func (m *member) ctl(t *testing.T, arguments ...string) string {
	t.Helper()
	stdout, stderr, ok := m.Ctl(arguments...)
	if !ok {
		t.Fatalf("etcdctl %v: %s%s", arguments, stdout, stderr)
	}
	return stdout
}

func TestHexJSON(t *testing.T) {
	m := start(t)
	m.put(t, "k", "v")
	text := m.ctl(t, "member", "list", "-w", "json", "--hex")
	for _, want := range []string{
		`"cluster_id":"[0-9a-f]+"`, `"member_id":"[0-9a-f]+"`, `"ID":"[0-9a-f]+"`, `"raft_term":[0-9]+[,}]`,
	} {
		if !regexp.MustCompile(want).MatchString(text) {
			t.Errorf("no %s in %s", want, text)
		}
	}
	// Only the commands about members have ids in hex.
	for _, arguments := range [][]string{{"get", "k", "-w", "json", "--hex"}, {"member", "list", "-w", "json"}} {
		text := m.ctl(t, arguments...)
		if !regexp.MustCompile(`"cluster_id":[0-9]+,`).MatchString(text) {
			t.Errorf("no decimal cluster_id in %s", text)
		}
	}
}

func TestCtl(t *testing.T) {
	m := start(t)
	t.Run("PutGetDelete", func(t *testing.T) {
		equal(t, "put", m.ctl(t, "put", "a", "1"), "OK\n")
		m.ctl(t, "put", "b", "2")
		equal(t, "get", m.ctl(t, "get", "a"), "a\n1\n")
		equal(t, "prefix", m.ctl(t, "get", "--prefix", "", "--keys-only"), "a\n\nb\n\n")
		equal(t, "delete", m.ctl(t, "del", "a"), "1\n")
	})
	t.Run("Health", func(t *testing.T) {
		_, stderr, ok := m.Ctl("endpoint", "health")
		equal(t, "healthy", ok, true)
		_ = stderr
	})
	t.Run("Status", func(t *testing.T) {
		text := m.ctl(t, "endpoint", "status", "-w", "json")
		for _, want := range []string{`"version":"3.7.3"`, `"storageVersion":"3.7.0"`, `"dbSizeQuota":2147483648`} {
			equal(t, want, strings.Contains(text, want), true)
		}
	})
	t.Run("Lease", func(t *testing.T) {
		text := m.ctl(t, "lease", "grant", "100")
		id := regexp.MustCompile(`^lease ([0-9a-f]{16}) granted with TTL\(100s\)\n$`).FindStringSubmatch(text)
		if id == nil {
			t.Fatalf("got %q", text)
		}
		m.ctl(t, "put", "leased", "v", "--lease="+id[1])
		text = m.ctl(t, "lease", "timetolive", id[1], "--keys")
		equal(t, "its keys", strings.Contains(text, "attached keys([leased])"), true)
		equal(t, "listed", strings.Contains(m.ctl(t, "lease", "list"), id[1]), true)
		m.ctl(t, "lease", "keep-alive", "--once", id[1])
		m.ctl(t, "lease", "revoke", id[1])
		equal(t, "its key is gone", m.ctl(t, "get", "leased"), "")
	})
	t.Run("Members", func(t *testing.T) {
		text := m.ctl(t, "member", "list")
		equal(t, "the member", strings.Contains(text, ", started, m, http://127.0.0.1:2380, "+m.URL+", false"), true)
	})
	t.Run("CompactAndDefragment", func(t *testing.T) {
		for range 10 {
			m.put(t, "c", "v")
		}
		equal(t, "compact", strings.HasPrefix(m.ctl(t, "compact", "10"), "compacted revision 10"), true)
		_, stderr, ok := m.Ctl("get", "c", "--rev=5")
		equal(t, "read below", ok, false)
		equal(t, "why", strings.Contains(stderr, "required revision has been compacted"), true)
		equal(t, "defragment", strings.HasPrefix(m.ctl(t, "defrag"), "Finished defragmenting etcd member"), true)
	})
	t.Run("HashKV", func(t *testing.T) {
		m.ctl(t, "endpoint", "hashkv")
	})
}
