package store

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"
	"pgregory.net/rapid"

	"tidings/internal/env"
)

// fileWith makes a store in several commits and returns its file. Every third record is deleted
// again, so that there are free pages.
func fileWith(t testing.TB, n, size int) (file []byte, want map[string]string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "node.db")
	var answers answers
	d, err := Open(path, answers.post, SecondCopy{})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.AcceptLoss(); err != nil {
		t.Fatal(err)
	}
	want = map[string]string{}
	for i := range n {
		k, v := fmt.Sprintf("k/%05d", i*7919%n), string(text(i, i%size))
		d.Commit([]env.Op{put(k, v)}, func(error) {})
		want[k] = v
	}
	for i := 0; i < n; i += 3 {
		k := fmt.Sprintf("k/%05d", i)
		d.Commit([]env.Op{{Key: []byte(k)}}, func(error) {})
		delete(want, k)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if file, err = os.ReadFile(path); err != nil {
		t.Fatal(err)
	}
	return file, want
}

// contentsOf returns the undamaged records of a file.
func contentsOf(file []byte) map[string]string {
	got := map[string]string{}
	readPages(bytes.NewReader(file), int64(len(file)), func(bucket string, k, encoded []byte) {
		if r, ok := parseRecord(k, encoded); ok && bucket == string(records) {
			got[string(k)] = string(r.value)
		}
	})
	return got
}

func inspectBytes(file []byte) inspection { return inspect(bytes.NewReader(file), int64(len(file))) }

// TestPagesAreReadAsByBbolt compares the two readers on files of many shapes: buckets within a
// page, deep trees, values over several pages, long keys and long free lists.
func TestPagesAreReadAsByBbolt(t *testing.T) {
	dir, n := t.TempDir(), 0
	rapid.Check(t, func(r *rapid.T) {
		n++
		path := filepath.Join(dir, fmt.Sprint(n))
		if err := create(path, head{}, nil); err != nil {
			r.Fatal(err)
		}
		db, err := bolt.Open(path, 0o600, &bolt.Options{NoSync: true, FreelistType: bolt.FreelistMapType})
		if err != nil {
			r.Fatal(err)
		}
		dice := rand.New(rand.NewPCG(rapid.Uint64().Draw(r, "seed"), 0))
		keySize := rapid.SampledFrom([]int{1, 10, 2000, maxKey}).Draw(r, "longest key")
		valueSize := rapid.SampledFrom([]int{1, 100, 3 * pageSize}).Draw(r, "longest value")
		keys := rapid.SampledFrom([]int{3, 50, 200}).Draw(r, "keys")
		h := head{version: headVersion, tx: 2} // bbolt's first transaction
		for range rapid.IntRange(0, 4).Draw(r, "transactions") {
			var changes []change
			for range dice.IntN(2 * keys) {
				key := text(dice.IntN(keys), keySize)
				key = key[:1+int(key[0])*int(key[0])%keySize]
				c := change{key: key}
				if dice.IntN(3) > 0 {
					c.encoded = encode(kindInline, key, text(dice.Int(), dice.IntN(valueSize)))
				}
				changes = append(changes, c)
			}
			if err := h.save(db, changes, 0); err != nil {
				r.Fatal(err)
			}
		}
		want := map[string]string{}
		_ = db.View(func(tx *bolt.Tx) error {
			return tx.Bucket(records).ForEach(func(k, encoded []byte) error {
				if v, ok := parseRecord(k, encoded); ok {
					want[string(k)] = string(v.value)
				}
				return nil
			})
		})
		if err := db.Close(); err != nil {
			r.Fatal(err)
		}
		file, err := os.ReadFile(path)
		if err != nil {
			r.Fatal(err)
		}
		if i := inspectBytes(file); !i.undamaged() || i.head != h {
			r.Errorf("head %+v, want %+v; found %v", i.head, h, &i.problems)
		}
		if got := contentsOf(file); fmt.Sprint(got) != fmt.Sprint(want) {
			r.Errorf("%d records, want %d, or others", len(got), len(want))
		}
		_ = os.Remove(path)
	})
}

// TestFlippedBitIsFound flips a bit of each byte at the start of pages, and of every fifth byte
// behind. Either nothing changes or the damage is reported, and no record has a value that it never
// had.
func TestFlippedBitIsFound(t *testing.T) {
	file, want := fileWith(t, 60, 100)
	if i := inspectBytes(file); !i.undamaged() {
		t.Fatal(&i.problems)
	}
	flipped, harmless, lost := 0, 0, 0
	for at := range file {
		if at%pageSize > 128 && at%5 > 0 {
			continue
		}
		bit := byte(1) << (at % 8)
		flipped++
		file[at] ^= bit
		i := inspectBytes(file)
		got := contentsOf(file)
		for k, v := range got {
			if old, ok := want[k]; (i.complete() || i.last) && (!ok || v != old) {
				t.Fatalf("byte %d: record %s is wrong", at, k)
			}
		}
		if i.complete() && len(got) != len(want) {
			t.Fatalf("byte %d: %d of %d records, and nothing said", at, len(got), len(want))
		}
		switch {
		case i.undamaged() && !i.complete():
			t.Fatalf("byte %d: whole, but not complete", at)
		case i.undamaged():
			harmless++
		case !i.complete():
			lost++
		}
		file[at] ^= bit
	}
	t.Logf("%d bits: %d harmless, %d cost nothing, %d cost records", flipped, harmless, flipped-harmless-lost, lost)
	if lost == 0 || harmless+lost == flipped {
		t.Error("nothing was found")
	}
}

// TestLostWriteIsFound puts older pages into a file, like a disk that loses a write. Each page is
// valid by itself.
func TestLostWriteIsFound(t *testing.T) {
	path := filepath.Join(t.TempDir(), "node.db")
	var files [][]byte
	for i := range 12 {
		d := open(t, path, func(func()) {})
		var ops []env.Op
		for j := range 40 {
			ops = append(ops, put(fmt.Sprintf("k/%03d", j*i%97), fmt.Sprintf("%d of %0200d", i, j)))
		}
		d.Commit(ops, func(error) {})
		closed(t, d)
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, b)
	}
	last := files[len(files)-1]
	want := fmt.Sprint(contentsOf(last))
	differing, found := 0, 0
	for _, old := range files[:len(files)-1] {
		for at := 2 * pageSize; at+pageSize <= min(len(old), len(last)); at += pageSize {
			if bytes.Equal(old[at:at+pageSize], last[at:at+pageSize]) {
				continue
			}
			differing++
			b := bytes.Clone(last)
			copy(b[at:], old[at:at+pageSize])
			if i := inspectBytes(b); !i.undamaged() {
				found++
			} else if fmt.Sprint(contentsOf(b)) != want {
				t.Errorf("page %d: other records, and nothing said", at/pageSize)
			}
		}
	}
	if found == 0 {
		t.Errorf("none of %d pages mattered", differing)
	}
}

// bbolt would follow these damaged pages for ever, or out of the file.
func TestHostilePagesAreBounded(t *testing.T) {
	file, _ := fileWith(t, 2000, 100)
	root := func(b []byte) []byte { // the page with the buckets
		at := slot(b, true) + pageHeader + 16
		return b[order.Uint64(b[at:])*pageSize:]
	}
	for name, spoil := range map[string]func(b []byte){
		"a tree that is all its own children": func(b []byte) {
			for at := 2 * pageSize; at+pageSize <= len(b); at += pageSize {
				for i := range order.Uint16(b[at+10:]) {
					if p := b[at:]; order.Uint16(p[8:]) == branchPage {
						order.PutUint64(p[pageHeader+16*int(i)+8:], order.Uint64(p))
					}
				}
			}
		},
		"a used page in the free list": func(b []byte) {
			p := b[order.Uint64(b[slot(b, true)+pageHeader+32:])*pageSize:]
			order.PutUint16(p[10:], 1)
			order.PutUint64(p[pageHeader:], order.Uint64(root(b)))
		},
		"elements beyond the page": func(b []byte) { order.PutUint16(root(b)[10:], 0xFFFF) },
		"a key beyond the page":    func(b []byte) { order.PutUint32(root(b)[pageHeader+8:], 1<<32-1) },
		"a page of 16 TiB":         func(b []byte) { order.PutUint32(root(b)[12:], 1<<32-1) },
		"a free list without end": func(b []byte) {
			p := b[order.Uint64(b[slot(b, true)+pageHeader+32:])*pageSize:]
			order.PutUint16(p[10:], 0xFFFF)
			order.PutUint64(p[pageHeader:], 1<<40)
		},
	} {
		b := bytes.Clone(file)
		spoil(b)
		if i := inspectBytes(b); i.undamaged() {
			t.Errorf("%s: taken for whole", name)
		}
	}
	used := int(order.Uint64(file[slot(file, true)+pageHeader+40:])) * pageSize // the file may be longer
	for _, size := range []int{0, 1, pageSize, 2 * pageSize, used / 2} {
		if i := inspectBytes(file[:size]); i.undamaged() || i.complete() {
			t.Errorf("%d of %d bytes taken for whole", size, len(file))
		}
	}
}

// FuzzPages damages words of a file. A file that is still reported undamaged must not harm bbolt.
// The checksums of meta pages are corrected, since otherwise nothing would be read.
func FuzzPages(f *testing.F) {
	good, _ := fileWith(f, 60, 100)
	f.Add([]byte{})
	f.Add([]byte{0, 2, 2, 0, 0, 0, 0})
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, edits []byte) {
		file := bytes.Clone(good)
		for ; len(edits) >= 7; edits = edits[7:] { // position in words, and new value
			at := 4 * (int(edits[0])<<16 | int(edits[1])<<8 | int(edits[2]))
			copy(file[at%len(file):], edits[3:7])
		}
		for m := pageHeader; m < 2*pageSize; m += pageSize {
			order.PutUint64(file[m+metaSize-8:], fnvOf(file[m:m+metaSize-8]))
		}
		i := inspectBytes(file)
		if i.undamaged() != (i.problems.n == 0) || i.undamaged() && !i.complete() {
			t.Fatalf("whole and not complete: %v", &i.problems)
		}
		if !i.undamaged() {
			return
		}
		want := contentsOf(file)
		path := filepath.Join(dir, "node.db")
		if err := os.WriteFile(path, file, 0o600); err != nil {
			t.Fatal(err)
		}
		var d *Disk
		d, err := Open(path, func(f func()) { f() }, SecondCopy{})
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		err = d.Range(nil, func(k, v []byte) bool { got[string(k)] = string(v); return true })
		if err != nil && !errors.Is(err, env.ErrDamaged) || err == nil && fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%d records, want %d: %v", len(got), len(want), err)
		}
		d.Commit([]env.Op{put("new", "1"), put("more", strings.Repeat("x", 10_000))}, func(err error) {
			if err != nil {
				t.Error(err)
			}
		})
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
}

func BenchmarkInspect(b *testing.B) {
	file, _ := fileWith(b, 5000, 400)
	b.SetBytes(int64(len(file)))
	for b.Loop() {
		if i := inspectBytes(file); !i.undamaged() {
			b.Fatal(&i.problems)
		}
	}
}
