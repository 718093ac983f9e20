package check

import (
	"encoding/binary"
	"fmt"
	"testing"
)

// class says what a byte of a database is to the file's structure.
type class byte

const (
	// dead bytes belong to free pages, to gaps, or to nothing.
	dead class = iota
	// structure is what the tree is made of: meta pages, page headers, element tables, keys, and heads
	// of buckets.
	structure
	// content is what values hold. bbolt has no checksum of it. So is the second half of a revision
	// that a compaction has left alone: nothing else says what it was.
	content
)

const (
	pageHeaderBytes = 16
	metaBytes       = 64
	elementBytes    = 16
	bucketBytes     = 16

	// Of a revision as a key: eight bytes, an underscore, eight bytes.
	subStart, subBytes = 9, 8

	branchPage, leafPage, metaPage = 1, 2, 4
	bucketFlag                     = 1
)

// database is what the bytes of a bbolt file are. Format: bbolt's page.go and meta.go.
type database struct {
	bytes    []byte
	pageSize int
	classes  []class
	// pages has the first byte of every tree page that is one page long.
	pages []int
	// compacted is the revision up to which history was compacted.
	compacted int64
}

// readDatabase walks the tree of a sound file.
func readDatabase(t *testing.T, bytes []byte, compacted int64) *database {
	t.Helper()
	d := &database{
		bytes:     bytes,
		pageSize:  int(binary.LittleEndian.Uint32(bytes[pageHeaderBytes+8:])),
		classes:   make([]class, len(bytes)),
		compacted: compacted,
	}
	newest, root := uint64(0), uint64(0)
	for i := range 2 {
		start := i * d.pageSize
		meta := bytes[start+pageHeaderBytes:]
		if flags := binary.LittleEndian.Uint16(bytes[start+8:]); flags != metaPage {
			t.Fatalf("page %d is no meta page", i)
		}
		d.mark(start, pageHeaderBytes+metaBytes, structure)
		if txid := binary.LittleEndian.Uint64(meta[48:]); txid >= newest {
			newest, root = txid, binary.LittleEndian.Uint64(meta[16:])
		}
	}
	if err := d.page(root, ""); err != nil {
		t.Fatal(err)
	}
	return d
}

func (d *database) mark(start, length int, as class) {
	for i := start; i < start+length; i++ {
		d.classes[i] = as
	}
}

// page marks a page of a bucket, and all below it.
func (d *database) page(number uint64, bucket string) error {
	start := int(number) * d.pageSize
	flags := binary.LittleEndian.Uint16(d.bytes[start+8:])
	count := int(binary.LittleEndian.Uint16(d.bytes[start+10:]))
	overflow := binary.LittleEndian.Uint32(d.bytes[start+12:])
	if overflow == 0 {
		d.pages = append(d.pages, start)
	}
	d.mark(start, pageHeaderBytes+count*elementBytes, structure)
	for i := range count {
		at := start + pageHeaderBytes + i*elementBytes
		word := func(i int) int { return int(binary.LittleEndian.Uint32(d.bytes[at+4*i:])) }
		switch flags {
		case branchPage:
			d.mark(at+word(0), word(1), structure)
			if err := d.page(binary.LittleEndian.Uint64(d.bytes[at+8:]), bucket); err != nil {
				return err
			}
		case leafPage:
			key, keyBytes, valueBytes := at+word(1), word(2), word(3)
			value := key + keyBytes
			d.mark(key, keyBytes, structure)
			if bucket == "key" && int64(binary.BigEndian.Uint64(d.bytes[key:])) <= d.compacted {
				d.mark(key+subStart, subBytes, content)
			}
			if word(0) != bucketFlag {
				d.mark(value, valueBytes, content)
				continue
			}
			root := binary.LittleEndian.Uint64(d.bytes[value:])
			if root != 0 {
				d.mark(value, bucketBytes, structure)
				if err := d.page(root, string(d.bytes[key:value])); err != nil {
					return err
				}
				continue
			}
			if err := d.inline(value, valueBytes); err != nil {
				return err
			}
		default:
			return fmt.Errorf("page %d has flags %d", number, flags)
		}
	}
	return nil
}

// inline marks a bucket that lies in its parent's leaf.
func (d *database) inline(start, length int) error {
	page := start + bucketBytes
	if flags := binary.LittleEndian.Uint16(d.bytes[page+8:]); flags != leafPage {
		return fmt.Errorf("an inline bucket has flags %d", flags)
	}
	count := int(binary.LittleEndian.Uint16(d.bytes[page+10:]))
	d.mark(start, bucketBytes+pageHeaderBytes+count*elementBytes, structure)
	for i := range count {
		at := page + pageHeaderBytes + i*elementBytes
		word := func(i int) int { return int(binary.LittleEndian.Uint32(d.bytes[at+4*i:])) }
		d.mark(at+word(1), word(2), structure)
		d.mark(at+word(1)+word(2), word(3), content)
	}
	return nil
}

const (
	frameHeadBytes = 8
	// entryRecord is the type of a record with an entry of the log.
	entryRecord = 2
	// crcRecord is the type of the record that a segment begins with.
	crcRecord = 4
)

// segmentEnd gives where the last record of a segment ends without which something is lost: behind the
// last entry there may be states, which a crash may lose. Format: etcd's wal/encoder.go.
func segmentEnd(t *testing.T, bytes []byte, isLast bool) int {
	t.Helper()
	end, at := 0, 0
	for at+frameHeadBytes <= len(bytes) {
		word := binary.LittleEndian.Uint64(bytes[at:])
		if word == 0 {
			break
		}
		length := int(word & (1<<56 - 1))
		if pad := word >> 56; pad != 0 {
			length += int(pad & 7)
		}
		kind := bytes[at+frameHeadBytes+1]
		at += frameHeadBytes + length
		if !isLast || kind == entryRecord || kind == crcRecord {
			end = at
		}
	}
	if end == 0 {
		t.Fatal("a segment without records")
	}
	return end
}
