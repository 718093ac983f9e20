package roundtrip

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"quorate.test/conformance/process"
)

// often has snapshots, segments of the log and commits come often.
var often = []string{"--snapshot-count=100", "--backend-batch-interval=20ms"}

func newLoad(t *testing.T) *load {
	seed := uint64(process.Number(t, "SEED", 1))
	t.Logf("seed %d", seed)
	return &load{random: rand.New(rand.NewPCG(seed, 0))}
}

// TestBackAndForth hands one data directory back and forth between the server under test and the
// real etcd. Each finds what the other one said, at the current and at older revisions, with the
// same hashes, and writes on. Some turns end by kill -9.
func TestBackAndForth(t *testing.T) {
	turns := process.Number(t, "ROUNDS", 20)
	l := newLoad(t)
	dir := filepath.Join(t.TempDir(), "data")
	var was content
	for turn := range turns {
		binary := process.Real
		if turn%2 == 1 {
			binary = process.Tested
		}
		ok := t.Run(fmt.Sprintf("Turn%02d_%s", turn, binary), func(t *testing.T) {
			server := process.Start(t, binary, dir, often...)
			if turn > 0 {
				older := make([]int64, 0, len(was.kvs))
				for revision := range was.kvs {
					if revision != was.revision {
						older = append(older, revision)
					}
				}
				mustEqual(t, was, readContent(t, server, older))
			}
			l.run(t, server.Client(), 150+l.random.IntN(150))
			was = readContent(t, server, l.older())
			if l.random.IntN(3) == 0 {
				server.Kill()
			} else {
				server.Stop()
			}
			process.CheckDatabase(t, dir)
			if turn%4 >= 2 {
				mustHashOffline(t, dir, was)
			}
		})
		if !ok {
			t.FailNow()
		}
	}
	if l.compacted == 0 || was.revision < 50*turns {
		t.Fatalf("too little happened: compacted at %d, revision %d", l.compacted, was.revision)
	}
}

// mustHashOffline has etcdutl hash the database of a server that is down. What was not committed
// to it is in the log, so only a database that has the last revision can be compared.
func mustHashOffline(t *testing.T, dir string, was content) {
	t.Helper()
	db := filepath.Join(dir, "member", "snap", "db")
	stdout, stderr, ok := process.Utl(t, "hashkv", db, "-w", "json")
	if !ok {
		t.Fatalf("etcdutl hashkv: %s", stderr)
	}
	var offline struct {
		Hash            uint32 `json:"hash"`
		HashRevision    int64  `json:"hashRevision"`
		CompactRevision int64  `json:"compactRevision"`
	}
	if err := json.Unmarshal([]byte(stdout), &offline); err != nil {
		t.Fatalf("%v in %q", err, stdout)
	}
	if offline.HashRevision != was.revision {
		return
	}
	online := was.hashes[was.revision]
	if offline.Hash != online.Hash || offline.CompactRevision != online.CompactRevision {
		t.Fatalf("etcdutl hashkv says %+v, the server said %v", offline, online)
	}
}

// TestFromLastRelease starts the server under test on a data directory of the release before,
// stopped or killed, and then the real etcd on what came of it.
func TestFromLastRelease(t *testing.T) {
	for _, end := range []string{"Stopped", "Killed"} {
		t.Run(end, func(t *testing.T) {
			l := newLoad(t)
			dir := filepath.Join(t.TempDir(), "data")
			last := process.Start(t, process.Last, dir, "--snapshot-count=100")
			l.run(t, last.Client(), 250)
			was := readContent(t, last, l.older())
			if end == "Killed" {
				last.Kill()
			} else {
				last.Stop()
			}
			older := make([]int64, 0, len(was.kvs))
			for revision := range was.kvs {
				if revision != was.revision {
					older = append(older, revision)
				}
			}
			for _, binary := range []process.Binary{process.Tested, process.Real, process.Tested} {
				server := process.Start(t, binary, dir, often...)
				mustEqual(t, was, readContent(t, server, older))
				l.run(t, server.Client(), 150)
				was = readContent(t, server, l.older())
				older = l.older()
				was = readContent(t, server, older)
				server.Stop()
				process.CheckDatabase(t, dir)
			}
		})
	}
}
