package cases

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"quorate.test/conformance/process"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

func TestRevisionAfterARestart(t *testing.T) {
	m := start(t)
	m.put(t, "k", "v")
	m.remove(t, "k")
	m.compact(t, 3)
	m = m.restart(t)
	response := m.get(t, &pb.RangeRequest{Key: []byte("k")})
	equal(t, "revision", response.Header.Revision, int64(3))
	equal(t, "count", response.Count, int64(0))
	equal(t, "the next revision", m.put(t, "k", "w"), int64(4))
	equal(t, "version", m.get(t, &pb.RangeRequest{Key: []byte("k")}).Kvs[0].Version, int64(1))

	t.Run("ACompactionOfEverything", func(t *testing.T) {
		at := m.remove(t, "k")
		m.put(t, "l", "v")
		last := m.remove(t, "l")
		m.compact(t, last)
		for range 3 {
			m = m.restart(t)
			equal(t, "revision", m.get(t, &pb.RangeRequest{Key: []byte("k")}).Header.Revision, last)
		}
		equal(t, "compacted", last > at, true)
	})
}

func TestDurability(t *testing.T) {
	m := start(t)
	for _, key := range []string{"first", "second", "third"} {
		at := m.put(t, key, "value of "+key)
		m = m.restart(t)
		kv := m.get(t, &pb.RangeRequest{Key: []byte(key)}).Kvs[0]
		equal(t, "value", string(kv.Value), "value of "+key)
		equal(t, "revision", kv.ModRevision, at)
	}
	m.remove(t, "first")
	m = m.restart(t)
	equal(t, "a deleted key", m.get(t, &pb.RangeRequest{Key: []byte("first")}).Count, int64(0))
	m.Stop()
	process.CheckDatabase(t, m.Dir)
}

// TestRefusals has what a server must not start on.
func TestRefusals(t *testing.T) {
	refuse := func(t *testing.T, dir string, flags ...string) string {
		t.Helper()
		code, log := process.Spawn(t, process.Tested, dir, flags...).WaitExit()
		if code == 0 {
			t.Fatalf("it ended well:\n%s", log)
		}
		return log
	}
	t.Run("AnUnknownFlag", func(t *testing.T) {
		log := refuse(t, t.TempDir(), "--frobnicate=1")
		equal(t, "named", strings.Contains(log, "-frobnicate"), true)
	})
	t.Run("ABadValue", func(t *testing.T) {
		refuse(t, t.TempDir(), "--snapshot-count=many")
		refuse(t, t.TempDir(), "--heartbeat-interval=1000", "--election-timeout=2000")
		refuse(t, t.TempDir(), "--initial-cluster-state=perhaps")
	})
	t.Run("ANameThatIsNotInTheCluster", func(t *testing.T) {
		refuse(t, t.TempDir(), "--name=other")
	})
	t.Run("APortInUse", func(t *testing.T) {
		m := start(t)
		log := refuse(t, t.TempDir(), "--listen-client-urls="+m.URL)
		equal(t, "said so", strings.Contains(strings.ToLower(log), "address already in use"), true)
	})
	t.Run("ADirectoryThatIsAFile", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		refuse(t, file)
	})
	t.Run("ALogThatIsCorruptInTheMiddle", func(t *testing.T) {
		m := start(t)
		for range 50 {
			m.put(t, "k", strings.Repeat("v", 1000))
		}
		m.Stop()
		segments, err := filepath.Glob(filepath.Join(m.Dir, "member", "wal", "*.wal"))
		if err != nil || len(segments) != 1 {
			t.Fatalf("segments: %v, %v", segments, err)
		}
		file, err := os.OpenFile(segments[0], os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.WriteAt([]byte("damage"), 20_000); err != nil {
			t.Fatal(err)
		}
		file.Close()
		log := refuse(t, m.Dir)
		equal(t, "said so", strings.Contains(log, "crc"), true)
	})
}

func TestSnapshotRestore(t *testing.T) {
	m := start(t)
	for range 13 {
		m.put(t, "k", "v")
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "snapshot.db")
	if _, stderr, ok := m.Ctl("snapshot", "save", file); !ok {
		t.Fatal(stderr)
	}
	restore := func(t *testing.T, from string, flags ...string) (string, string, bool) {
		t.Helper()
		to := filepath.Join(t.TempDir(), "restored")
		_, stderr, ok := process.Utl(t, append([]string{
			"snapshot", "restore", from, "--data-dir=" + to, "--name=m",
			"--initial-cluster=m=http://127.0.0.1:2380",
			"--initial-advertise-peer-urls=http://127.0.0.1:2380",
		}, flags...)...)
		return to, stderr, ok
	}
	t.Run("Status", func(t *testing.T) {
		stdout, stderr, ok := process.Utl(t, "snapshot", "status", file, "-w", "json")
		if !ok {
			t.Fatal(stderr)
		}
		status := process.JSON(t, stdout)
		equal(t, "revision", status["revision"], any(float64(14)))
		equal(t, "version", status["version"], any("3.7.0"))
	})
	t.Run("Plain", func(t *testing.T) {
		to, stderr, ok := restore(t, file)
		if !ok {
			t.Fatal(stderr)
		}
		restored := of(process.Start(t, process.Tested, to))
		response := restored.get(t, &pb.RangeRequest{Key: []byte("k")})
		equal(t, "revision", response.Header.Revision, int64(14))
		equal(t, "version", response.Kvs[0].Version, int64(13))
		equal(t, "an older one", restored.get(t, &pb.RangeRequest{Key: []byte("k"), Revision: 5}).Kvs[0].Version, int64(4))
		restored.put(t, "k", "w")
		restored = restored.restart(t)
		equal(t, "value", string(restored.get(t, &pb.RangeRequest{Key: []byte("k")}).Kvs[0].Value), "w")
	})
	t.Run("BumpedAndCompacted", func(t *testing.T) {
		to, stderr, ok := restore(t, file, "--bump-revision=1000", "--mark-compacted")
		if !ok {
			t.Fatal(stderr)
		}
		restored := of(process.Start(t, process.Tested, to))
		equal(t, "revision", restored.get(t, &pb.RangeRequest{Key: []byte("k")}).Header.Revision, int64(1014))
		_, err := restored.kv.Range(process.Context(t), &pb.RangeRequest{Key: []byte("k"), Revision: 14})
		if err == nil || !strings.Contains(err.Error(), "required revision has been compacted") {
			t.Fatalf("read at 14: %v", err)
		}
		s := restored.openWatch(t)
		s.create(&pb.WatchCreateRequest{Key: []byte("k"), StartRevision: 14})
		equal(t, "compact_revision of a watch", s.next().CompactRevision > 14, true)
		equal(t, "the next revision", restored.put(t, "k", "w"), int64(1015))
	})
	t.Run("OfABareDatabase", func(t *testing.T) {
		m.Stop()
		db := filepath.Join(m.Dir, "member", "snap", "db")
		_, stderr, ok := restore(t, db)
		equal(t, "restored", ok, false)
		equal(t, "said why", strings.Contains(stderr, "hash"), true)
		to, stderr, ok := restore(t, db, "--skip-hash-check")
		if !ok {
			t.Fatal(stderr)
		}
		restored := of(process.Start(t, process.Tested, to))
		equal(t, "count", restored.get(t, &pb.RangeRequest{Key: []byte("k")}).Count, int64(1))
	})
	t.Run("OfADamagedSnapshot", func(t *testing.T) {
		bytes, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		bytes[len(bytes)/2] ^= 1
		damaged := filepath.Join(t.TempDir(), "damaged.db")
		if err := os.WriteFile(damaged, bytes, 0o600); err != nil {
			t.Fatal(err)
		}
		_, stderr, ok := restore(t, damaged)
		equal(t, "restored", ok, false)
		equal(t, "said why", strings.Contains(stderr, "sha256"), true)
	})
}
