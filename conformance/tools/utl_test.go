package tools

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"quorate.test/conformance/process"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// offline gives the sides of a tool that reads files: folders with the same snapshot in them, and the
// data directory of a server that has stopped.
func offline(t *testing.T) [2]*side {
	t.Helper()
	origin := t.TempDir()
	server := process.Start(t, process.Real, filepath.Join(origin, "data"))
	client := server.Connect()
	for i := range 300 {
		if _, err := client.Put(process.Context(t), process.Key("k", i%100), strings.Repeat("v", i)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := client.Delete(process.Context(t), process.Key("k", 7)); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Compact(process.Context(t), 150, clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
	client.Close()
	if stdout, stderr, ok := process.Run(t, process.Tool(t, "REAL_ETCDCTL"), "--endpoints="+server.URL,
		"snapshot", "save", filepath.Join(origin, "s.db")); !ok {
		t.Fatal(stdout, stderr)
	}
	server.Stop()
	cut := func(name string, bytes int) {
		whole, err := os.ReadFile(filepath.Join(origin, "s.db"))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(origin, name), whole[:len(whole)-bytes], 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cut("unhashed.db", 32)
	cut("cut.db", 5000)
	if err := os.WriteFile(filepath.Join(origin, "garbage.db"), []byte(strings.Repeat("garbage!", 1024)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(origin, "empty.db"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var sides [2]*side
	for i, variable := range []string{"REAL_ETCDUTL", "ETCDUTL"} {
		folder := filepath.Join(t.TempDir(), "files")
		process.CopyDir(t, origin, folder)
		sides[i] = &side{
			name: variable, tool: process.Tool(t, variable), folder: folder,
			known:    [][2]string{{folder, "DIR"}},
			captured: map[string]string{},
		}
	}
	return sides
}

// layout is what follows from where pages lie in the file.
var layout = append([]string{
	`\b[0-9a-f]{7,8}\b`, `"hash":[0-9]+`, `"Hash" : [0-9]+`, `[0-9.]+ kB`, `"totalSize":[0-9]+`, `"Size" : [0-9]+`,
}, wide...)

// database has commands that read files, and those that change them.
var database = []command{
	{line: "snapshot status s.db"},
	{line: "snapshot status unhashed.db"},
	{line: "snapshot status data/member/snap/db"},
	{line: "snapshot status no/such.db"},
	{line: "snapshot status garbage.db", loose: "etcdutl panics at bytes that are no database"},
	{line: "snapshot status empty.db", loose: "etcdutl makes a database of an empty file"},
	{line: "snapshot status"},
	{line: "snapshot status s.db extra"},
	{line: "snapshot"},
	{line: "snapshot unheard"},
	// etcdutl opens it to write, and leaves it changed.
	{line: "hashkv data/member/snap/db"},
	{line: "hashkv unhashed.db --rev=200"},
	{line: "hashkv unhashed.db --rev=100"},
	{line: "hashkv unhashed.db --rev=100000"},
	{line: "hashkv"},
	{line: "hashkv no/such.db"},
	{line: "version"},
	{line: "unheard"},
	{line: "snapshot restore"},
	{line: "snapshot restore no/such.db --data-dir=r0"},
	{line: "snapshot restore s.db --data-dir=data"},
	{line: "snapshot restore unhashed.db --data-dir=r1"},
	{line: "snapshot restore cut.db --data-dir=r2"},
	{line: "snapshot restore s.db --data-dir=r3 --initial-cluster=nonsense"},
	{line: "snapshot restore s.db --data-dir=r3 --name=other"},
	{line: "snapshot restore s.db --data-dir=r3 --unheard"},
	{line: "snapshot restore s.db --data-dir=r3 --bump-revision=5"},
	{line: "snapshot restore s.db --data-dir=r3 --mark-compacted"},
	{line: "snapshot restore s.db --data-dir=plain"},
	{line: "snapshot restore unhashed.db --data-dir=skipped --skip-hash-check"},
	{line: "snapshot restore s.db --data-dir=bumped --bump-revision=1000 --mark-compacted"},
	{line: "snapshot restore s.db --data-dir=apart --wal-dir=apart-wal"},
	{line: "snapshot restore s.db --data-dir=three --name=b --initial-cluster=a=http://h:1,b=http://h:2,c=http://h:3 --initial-advertise-peer-urls=http://h:2 --initial-cluster-token=tok"},
	{line: "snapshot restore s.db --data-dir=plain"},
	{line: "hashkv plain/member/snap/db"},
	{line: "hashkv bumped/member/snap/db"},
	{line: "hashkv three/member/snap/db"},
	{line: "snapshot status plain/member/snap/db", drop: layout},
	{line: "snapshot status bumped/member/snap/db", drop: layout},
	{line: "defrag"},
	{line: "defrag --data-dir=no/such"},
	{line: "defrag --data-dir=data"},
	{line: "migrate"},
	{line: "migrate --data-dir=data"},
	{line: "migrate --data-dir=data --target-version=x"},
	{line: "migrate --data-dir=data --target-version=3.9"},
	{line: "migrate --data-dir=data --target-version=3.7"},
	{line: "migrate --data-dir=data --target-version=3.6"},
	{line: "migrate --data-dir=data --target-version=3.6 --force"},
	{line: "migrate --data-dir=no/such --target-version=3.6"},
	{line: "completion"},
}

// TestFiles runs every command of etcdutl in every form of output.
func TestFiles(t *testing.T) {
	for _, form := range []string{"", "simple", "fields", "json", "table", "protobuf", "unheard"} {
		t.Run("form "+form, func(t *testing.T) {
			t.Parallel()
			sides := offline(t)
			var flags []string
			if form != "" {
				flags = []string{"-w", form}
			}
			script(t, sides, flags, database)
			tree(t, sides, "plain", "skipped", "bumped", "apart", "apart-wal", "three", "data")
			// etcdutl leaves what it had begun when it found the snapshot to be wrong.
			for _, refused := range []string{"r0", "r1", "r2", "r3"} {
				if _, err := os.Stat(filepath.Join(sides[1].folder, refused)); !os.IsNotExist(err) {
					t.Errorf("%s is there after a refusal: %v", refused, err)
				}
			}
		})
	}
}

// tree compares which files there are, and whether they are private but for snapshots, which etcd lets
// all read.
func tree(t *testing.T, sides [2]*side, folders ...string) {
	t.Helper()
	for _, folder := range folders {
		var lists [2]string
		for i, s := range sides {
			// One that is not there has no files.
			_ = filepath.WalkDir(filepath.Join(s.folder, folder), func(path string, entry os.DirEntry, err error) error {
				if err == nil {
					info, err := entry.Info()
					if err != nil {
						return err
					}
					name, err := filepath.Rel(s.folder, path)
					if err != nil {
						return err
					}
					mode := info.Mode()
					if strings.HasSuffix(name, ".snap") {
						mode &^= 0o077
					}
					lists[i] += fmt.Sprintf("%s %v\n", name, mode)
				}
				return nil
			})
		}
		difference(t, "the files of "+folder, lists[0], lists[1])
	}
}

// TestRestored starts the real etcd on what each side has restored, from a snapshot that the other
// side's tool saved, and compares what it serves.
func TestRestored(t *testing.T) {
	origin := t.TempDir()
	server := process.Start(t, process.Real, filepath.Join(origin, "data"))
	client := server.Connect()
	for i := range 500 {
		if _, err := client.Put(process.Context(t), process.Key("k", i%50), fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	lease, err := client.Grant(process.Context(t), 5000)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Put(process.Context(t), "leased", "v", clientv3.WithLease(lease.ID)); err != nil {
		t.Fatal(err)
	}
	client.Close()
	for i, save := range []string{"REAL_ETCDCTL", "ETCDCTL"} {
		file := filepath.Join(origin, fmt.Sprintf("s%d.db", i))
		if stdout, stderr, ok := process.Run(t, process.Tool(t, save), "--endpoints="+server.URL, "snapshot", "save", file); !ok {
			t.Fatal(stdout, stderr)
		}
	}
	server.Stop()
	type state struct {
		revision, compacted int64
		hash                uint32
		keys, leases        int
	}
	restored := func(t *testing.T, tool string, snapshot int, flags ...string) state {
		dir := filepath.Join(t.TempDir(), "restored")
		arguments := append([]string{
			"snapshot", "restore", filepath.Join(origin, fmt.Sprintf("s%d.db", snapshot)), "--data-dir=" + dir,
			"--name=m", "--initial-cluster=m=http://127.0.0.1:2380",
			"--initial-advertise-peer-urls=http://127.0.0.1:2380",
		}, flags...)
		if stdout, stderr, ok := process.Run(t, process.Tool(t, tool), arguments...); !ok {
			t.Fatal(tool, arguments, stdout, stderr)
		}
		process.CheckDatabase(t, dir)
		server := process.Start(t, process.Real, dir)
		client := server.Client()
		defer server.Stop()
		hash, err := client.HashKV(process.Context(t), server.URL, 0)
		if err != nil {
			t.Fatal(err)
		}
		all, err := client.Get(process.Context(t), "", clientv3.WithPrefix())
		if err != nil {
			t.Fatal(err)
		}
		leases, err := client.Leases(process.Context(t))
		if err != nil {
			t.Fatal(err)
		}
		return state{hash.Header.Revision, hash.CompactRevision, hash.Hash, len(all.Kvs), len(leases.Leases)}
	}
	for name, flags := range map[string][]string{
		"Plain":  nil,
		"Bumped": {"--bump-revision=1000000", "--mark-compacted"},
	} {
		t.Run(name, func(t *testing.T) {
			want := restored(t, "REAL_ETCDUTL", 0, flags...)
			for snapshot := range 2 {
				if have := restored(t, "ETCDUTL", snapshot, flags...); have != want {
					t.Errorf("snapshot %d: %+v instead of %+v", snapshot, have, want)
				}
			}
			if have := restored(t, "REAL_ETCDUTL", 1, flags...); have != want {
				t.Errorf("what our tool saved: %+v instead of %+v", have, want)
			}
		})
	}
}
