// Package check holds `quorateutl check` against files that servers wrote: it finds what is damaged in
// them, and finds nothing in those that are whole, also after kills.
package check

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"quorate.test/conformance/process"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// flags make snapshots and commits frequent.
var flags = []string{"--snapshot-count=200", "--backend-batch-interval=20ms"}

// verdict is what the tool said of a directory.
type verdict struct {
	whole bool
	// unfinished says that the log is said to end in a write that was never finished.
	unfinished bool
	text       string
	// unverified is the number of pages without a checksum.
	unverified float64
	// unverifiedBytes is the number of bytes that nothing vouches for.
	unverifiedBytes float64
}

func check(t *testing.T, dir string) verdict {
	t.Helper()
	stdout, stderr, ok := process.Utl(t, "check", "-w", "json", dir)
	if stdout == "" {
		t.Fatalf("check %s says nothing but %q", dir, stderr)
	}
	report := process.JSON(t, stdout)
	v := verdict{whole: ok, text: stdout + stderr, unfinished: strings.Contains(stdout, "never finished")}
	if findings := report["findings"].([]any); ok != (len(findings) == 0) {
		t.Fatalf("check %s: success is %v, and %s", dir, ok, v.text)
	}
	if db, there := report["database"].(map[string]any); there {
		v.unverified = db["unverifiedPages"].(float64)
		v.unverifiedBytes = db["unverifiedBytes"].(float64)
	}
	return v
}

// fill writes what makes a database with a tree of several levels, inline and large buckets and
// overflow pages, a log of several segments and snapshot files.
// Gives the revision up to which history was compacted.
func fill(t *testing.T, server *process.Server, hasUsers bool) int64 {
	t.Helper()
	client := server.Client()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	// Fills the first segment; only its last one stays in the database.
	for range 70 {
		_, err := client.Put(ctx, "large", strings.Repeat("x", 1<<20))
		must(err)
	}
	_, err := client.Delete(ctx, "large")
	must(err)
	var wait sync.WaitGroup
	errors := make(chan error, 8)
	for writer := range 8 {
		wait.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(writer)))
			for i := range 500 {
				key := fmt.Sprintf("writer%d/%03d", writer, random.IntN(150))
				ops := []clientv3.Op{clientv3.OpPut(key, strings.Repeat("v", random.IntN(60)))}
				if i%5 == 0 {
					ops = []clientv3.Op{clientv3.OpDelete(key), clientv3.OpPut(key+"+", "")}
				}
				if i%100 == 99 {
					ops[0] = clientv3.OpPut(key, strings.Repeat("o", 9000))
				}
				if _, err := client.Txn(ctx).Then(ops...).Commit(); err != nil {
					errors <- err
					return
				}
			}
		})
	}
	wait.Wait()
	close(errors)
	must(<-errors)
	for range 3 {
		lease, err := client.Grant(ctx, 3600)
		must(err)
		_, err = client.Put(ctx, "leased", "v", clientv3.WithLease(lease.ID))
		must(err)
	}
	if hasUsers {
		_, err = client.RoleAdd(ctx, "reader")
		must(err)
		_, err = client.UserAdd(ctx, "somebody", "secret")
		must(err)
	}
	response, err := client.Get(ctx, "leased")
	must(err)
	compacted := response.Header.Revision - 1000
	_, err = client.Compact(ctx, compacted, clientv3.WithCompactPhysical())
	must(err)
	_, err = client.Defragment(ctx, server.URL)
	must(err)
	// So that the pages that a transaction left are there as well.
	for i := range 30 {
		_, err := client.Put(ctx, process.Key("after", i), "v")
		must(err)
	}
	return compacted
}

// TestDamage draws damage by a seed, uniformly over the live bytes of each kind of file. All of it is
// found in what quorate wrote. In what etcd wrote, which has no checksum of values, all is found that
// touches the structure, and all that bbolt finds.
func TestDamage(t *testing.T) {
	rounds := int(process.Number(t, "ROUNDS", 300))
	seed := uint64(process.Number(t, "SEED", 1))
	for _, binary := range []process.Binary{process.Real, process.Tested} {
		t.Run(string(binary), func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			server := process.Start(t, binary, dir, flags...)
			etcds := process.IsEtcd(t, binary)
			compacted := fill(t, server, etcds)
			server.Stop()
			before := check(t, dir)
			if !before.whole {
				t.Fatalf("nothing is damaged yet, and check says %s", before.text)
			}
			if etcds != (before.unverified > 0) || etcds != (before.unverifiedBytes > 0) {
				t.Fatalf("%v pages, %v bytes are said to be without a checksum",
					before.unverified, before.unverifiedBytes)
			}
			all := read(t, dir, compacted)
			if len(all.log) < 2 || len(all.database[0].units) < 50 {
				t.Fatalf("%d segments, %d pages", len(all.log), len(all.database[0].units))
			}
			kinds := [][]file{all.database, all.log, all.snapshots}
			random := rand.New(rand.NewPCG(seed, 0))
			found, missed := map[class]int{}, map[class]int{}
			for drawn := 0; drawn < rounds; {
				kind := kinds[random.IntN(len(kinds))]
				f := &kind[random.IntN(len(kind))]
				damaged, what, gravest := f.damage(random)
				if gravest == dead {
					continue
				}
				drawn++
				f.put(t, damaged)
				v := check(t, dir)
				if !v.whole || v.unfinished {
					found[gravest]++
				} else {
					missed[gravest]++
					if !etcds || gravest == structure {
						t.Errorf("not found: %s in %s\n%s", what, f.path, v.text)
					}
					if strings.HasSuffix(f.path, "db") {
						if stdout, stderr, sound := process.Run(t, process.Tool(t, "BBOLT"), "check", f.path); !sound {
							t.Errorf("bbolt alone finds: %s in %s: %s%s", what, f.path, stdout, stderr)
						}
					}
				}
				f.put(t, f.bytes)
			}
			t.Logf("of the structure: %d found, %d not; of values alone: %d found, %d not; %v bytes cannot be verified",
				found[structure], missed[structure], found[content], missed[content], before.unverifiedBytes)
			if after := check(t, dir); !after.whole {
				t.Fatalf("everything was put back, and check says %s", after.text)
			}
		})
	}
}

// TestHealthyAfterKills kills servers under load; whatever that leaves is no damage.
func TestHealthyAfterKills(t *testing.T) {
	rounds := int(process.Number(t, "ROUNDS", 300))/15 + 1
	seed := uint64(process.Number(t, "SEED", 1))
	for _, binary := range []process.Binary{process.Real, process.Tested} {
		t.Run(string(binary), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			dir := filepath.Join(t.TempDir(), "data")
			for round := range rounds {
				server := process.Start(t, binary, dir, flags...)
				written := killUnderLoad(t, server, time.Duration(random.IntN(300_000))*time.Microsecond)
				copied := filepath.Join(t.TempDir(), "copy")
				process.CopyDir(t, dir, copied)
				if v := check(t, copied); !v.whole {
					t.Fatalf("seed %d, round %d, killed after %d writes: %s", seed, round, written, v.text)
				}
				if err := os.RemoveAll(copied); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// TestHealthyAfterFirstStarts kills servers while they make a member.
func TestHealthyAfterFirstStarts(t *testing.T) {
	random := rand.New(rand.NewPCG(uint64(process.Number(t, "SEED", 1)), 2))
	for _, binary := range []process.Binary{process.Real, process.Tested} {
		t.Run(string(binary), func(t *testing.T) {
			begun := 0
			for round := range 20 {
				dir := filepath.Join(t.TempDir(), "data")
				server := process.Spawn(t, binary, dir, flags...)
				time.Sleep(time.Duration(random.IntN(120_000)) * time.Microsecond)
				server.Kill()
				if _, err := os.Stat(filepath.Join(dir, "member")); err != nil {
					continue
				}
				begun++
				if v := check(t, dir); !v.whole {
					t.Fatalf("round %d: %s", round, v.text)
				}
			}
			if begun == 0 {
				t.Fatal("no server began to make anything")
			}
		})
	}
}

// killUnderLoad writes with many at once, compacts, and kills the server meanwhile; gives how many
// writes were answered.
func killUnderLoad(t *testing.T, server *process.Server, after time.Duration) int {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	client := server.Connect()
	defer client.Close()
	var wait sync.WaitGroup
	var written [8]int
	for writer := range written {
		wait.Go(func() {
			random := rand.New(rand.NewPCG(uint64(writer), uint64(after)))
			for {
				key := fmt.Sprintf("%d", random.IntN(500))
				value := strings.Repeat("v", random.IntN(2000))
				response, err := client.Txn(ctx).Then(
					clientv3.OpPut(key, value), clientv3.OpDelete(key+"x"), clientv3.OpPut("x"+key, "")).Commit()
				if err != nil {
					return
				}
				written[writer]++
				if random.IntN(100) == 0 {
					// It fails where another one has compacted further, and after the kill.
					_, _ = client.Compact(ctx, max(response.Header.Revision-50, 1))
				}
			}
		})
	}
	time.Sleep(after)
	server.Kill()
	cancel()
	wait.Wait()
	total := 0
	for _, count := range written {
		total += count
	}
	return total
}
