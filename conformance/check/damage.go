package check

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

const sectorBytes = 512

// file is one whose bytes are damaged.
type file struct {
	path  string
	bytes []byte
	// live gives what counts: a byte of the class dead is never drawn.
	live []class
	// units may be exchanged with each other.
	units    []int
	unitSize int
}

// files of a data directory, by their kind.
type files struct {
	database, log, snapshots []file
}

// read reads what a member's directory has.
func read(t *testing.T, dir string, compacted int64) files {
	t.Helper()
	content := func(path string) []byte {
		bytes, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return bytes
	}
	names := func(pattern string) []string {
		found, err := filepath.Glob(filepath.Join(dir, "member", pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("no %s in %s: %v", pattern, dir, err)
		}
		slices.Sort(found)
		return found
	}
	var all files
	path := filepath.Join(dir, "member", "snap", "db")
	db := readDatabase(t, content(path), compacted)
	all.database = []file{{path: path, bytes: db.bytes, live: db.classes, units: db.pages, unitSize: db.pageSize}}
	segments := names("wal/*.wal")
	for i, path := range segments {
		f := file{path: path, bytes: content(path), unitSize: sectorBytes}
		end := segmentEnd(t, f.bytes, i+1 == len(segments))
		f.live = make([]class, len(f.bytes))
		for j := range end {
			f.live[j] = structure
		}
		for start := 0; start+sectorBytes <= end; start += sectorBytes {
			f.units = append(f.units, start)
		}
		all.log = append(all.log, f)
	}
	for _, path := range names("snap/*.snap") {
		f := file{path: path, bytes: content(path)}
		f.live = make([]class, len(f.bytes))
		for j := range f.live {
			f.live[j] = structure
		}
		all.snapshots = append(all.snapshots, f)
	}
	return all
}

// place draws one of the live bytes.
func (f *file) place(random *rand.Rand) int {
	for {
		// Most bytes are live but for the reserved end of a segment and the free pages of a database.
		if at := random.IntN(len(f.live)); f.live[at] != dead {
			return at
		}
	}
}

// damage changes a copy of the bytes, and says what it did and the gravest class of what changed; dead
// where nothing did that counts.
func (f *file) damage(random *rand.Rand) (damaged []byte, what string, gravest class) {
	damaged = slices.Clone(f.bytes)
	at := f.place(random)
	switch kind := random.IntN(4); {
	case kind == 0 || kind == 3 && len(f.units) < 2:
		bit := random.IntN(8)
		damaged[at] ^= 1 << bit
		what = fmt.Sprintf("flip of bit %d at %d", bit, at)
	case kind == 1:
		start := at / sectorBytes * sectorBytes
		clear(damaged[start:min(start+sectorBytes, len(damaged))])
		what = fmt.Sprintf("sector zeroed at %d", start)
	case kind == 2:
		damaged = damaged[:at]
		what = fmt.Sprintf("cut at %d", at)
	default:
		one, other := f.units[random.IntN(len(f.units))], f.units[random.IntN(len(f.units))]
		copy(damaged[one:one+f.unitSize], f.bytes[other:])
		copy(damaged[other:other+f.unitSize], f.bytes[one:one+f.unitSize])
		what = fmt.Sprintf("%d and %d exchanged", one, other)
	}
	for i, live := range f.live {
		if i >= len(damaged) || damaged[i] != f.bytes[i] {
			switch {
			case i >= len(damaged) && live != dead:
				// The length of a file is part of its structure.
				return damaged, what, structure
			case live == structure:
				return damaged, what, structure
			case live == content:
				gravest = content
			}
		}
	}
	return damaged, what, gravest
}

// put writes bytes in the file's place.
func (f *file) put(t *testing.T, bytes []byte) {
	t.Helper()
	if err := os.WriteFile(f.path, bytes, 0o600); err != nil {
		t.Fatal(err)
	}
}
