package store

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"

	"tidings/internal/env"
)

// commit makes ops durable and returns the result.
func commit(d *Disk, ops ...env.Op) error {
	answer := make(chan error, 1)
	d.Commit(ops, func(err error) { answer <- err })
	return <-answer
}

func runNow(f func()) { f() }

// started opens a store that answers at once, and accepts that it is new.
func started(t *testing.T, path string) *Disk {
	t.Helper()
	d := open(t, path, runNow)
	if err := d.AcceptLoss(); err != nil {
		t.Fatal(err)
	}
	return d
}

func committed(t *testing.T, d *Disk, ops ...env.Op) {
	t.Helper()
	if err := commit(d, ops...); err != nil {
		t.Error(err)
	}
}

func body(key string, i, size int) env.Op {
	return env.Op{Key: []byte(key), Value: text(i, size), Body: true}
}

// asideOf returns the damaged files that were moved aside.
func asideOf(t *testing.T, path string) []string {
	t.Helper()
	names, err := filepath.Glob(path + damagedMark + "*")
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestStoreOfALaterVersionStaysAsItIs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "node.db")
	closed(t, started(t, path))
	db, err := bolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bolt.Tx) error {
		return tx.Bucket(heads).Put(headKey, encode(kindHead, headKey, []byte{headVersion + 1, 7}))
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path, runNow, SecondCopy{}); !errors.Is(err, ErrNewer) {
		t.Errorf("opened: %v", err)
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(after, before) || len(asideOf(t, path)) > 0 {
		t.Errorf("the store was changed: %v, and %v moved aside", err, asideOf(t, path))
	}
}

func TestANewStoreReportsLossUntilAccepted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "node.db")
	for range 2 { // a node that dies before it has reacted is told again
		d := open(t, path, runNow)
		if !strings.Contains(d.Lost(), "new") || d.Repaired() != "" {
			t.Errorf("lost %q, repaired %q", d.Lost(), d.Repaired())
		}
		committed(t, d, put("k", "v"))
		closed(t, d)
	}
	d := started(t, path)
	if d.Lost() != "" {
		t.Errorf("accepted, and still lost: %s", d.Lost())
	}
	closed(t, d)
	d = open(t, path, runNow)
	if d.Lost() != "" || contents(t, d, "") != "k=v" {
		t.Errorf("lost %q, contents %q", d.Lost(), contents(t, d, ""))
	}
	closed(t, d)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	d = open(t, path, runNow)
	defer closed(t, d)
	if d.Lost() == "" {
		t.Error("the file was deleted, and nothing is said")
	}
}

func TestDamagedFileIsMovedAside(t *testing.T) {
	path := filepath.Join(t.TempDir(), "node.db")
	spoilt := bytes.Repeat([]byte("no database "), 4096)
	for i := range maxDamaged + 2 {
		if err := os.WriteFile(path, spoilt, 0o600); err != nil {
			t.Fatal(err)
		}
		d := open(t, path, runNow)
		names := asideOf(t, path)
		if len(names) != min(i+1, maxDamaged) {
			t.Fatalf("moved aside: %v", names)
		}
		last := names[len(names)-1]
		if b, err := os.ReadFile(last); err != nil || !bytes.Equal(b, spoilt) {
			t.Errorf("moved aside with changes: %v", err)
		}
		if !strings.Contains(d.Repaired(), "meta page 0 is damaged") || !strings.Contains(d.Repaired(), last) || d.Lost() == "" {
			t.Errorf("repaired %q, lost %q", d.Repaired(), d.Lost())
		}
		committed(t, d, put("k", "v"))
		if got := contents(t, d, ""); got != "k=v" {
			t.Errorf("a new store has %q", got)
		}
		closed(t, d)
	}
}

// TestRepairKeepsWhatIsWhole damages the file of a store in many ways.
func TestRepairKeepsWhatIsWhole(t *testing.T) {
	metaOf := func(b []byte) []byte { return b[slot(b, true)+pageHeader:] }
	for _, c := range []struct {
		name  string
		spoil func(b []byte) []byte
		says  string
		lost  bool // records are lost, or may be
		gone  string
	}{
		{"free list", func(b []byte) []byte {
			order.PutUint16(b[order.Uint64(metaOf(b)[32:])*pageSize+8:], 0)
			return b
		}, "free list has flags 0x0", false, ""},
		{"last meta page", func(b []byte) []byte { metaOf(b)[50] ^= 1; return b }, "meta page", true, ""}, // it has only ended the log
		{"other meta page", func(b []byte) []byte { b[slot(b, false)+pageHeader+50] ^= 1; return b }, "meta page", true, ""},
		{"value", func(b []byte) []byte { return bytes.ReplaceAll(b, []byte("value of 7;"), []byte("value of 8;")) },
			`record "r/0007" is damaged`, true, "r/0007"},
		{"key", func(b []byte) []byte { return bytes.ReplaceAll(b, []byte("r/0007"), []byte("r/0_07")) },
			`record "r/0_07" is damaged`, true, "r/0007"},
		{"place of a body", func(b []byte) []byte {
			return bytes.ReplaceAll(b, []byte("b/1\x02"), []byte("b/1\x03"))
		}, "is damaged", true, "b/1"},
		{"head", func(b []byte) []byte {
			return bytes.ReplaceAll(b, []byte("head\x03"), []byte("head\x07"))
		}, "the head is damaged", true, ""},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "-"), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "node.db")
			d := started(t, path)
			want := map[string]string{}
			keep := func(op env.Op) env.Op { want[string(op.Key)] = string(op.Value); return op }
			for i := range 100 {
				committed(t, d, keep(put(fmt.Sprintf("r/%04d", i), fmt.Sprintf("value of %d;", i))))
			}
			committed(t, d, keep(body("b/1", 1, 3*minBody)), keep(body("b/2", 2, minBody)))
			committed(t, d, keep(put("last", "1")))
			closed(t, d)

			file, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, c.spoil(file), 0o600); err != nil {
				t.Fatal(err)
			}
			d = open(t, path, runNow)
			if !strings.Contains(d.Repaired(), c.says) || (d.Lost() != "") != c.lost {
				t.Errorf("repaired %q, lost %q", d.Repaired(), d.Lost())
			}
			delete(want, c.gone)
			got := map[string]string{}
			if err := d.Range(nil, func(k, v []byte) bool { got[string(k)] = string(v); return true }); err != nil {
				t.Error(err)
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%d records, want %d, or others", len(got), len(want))
			}
			committed(t, d, put("new", "1"))
			closed(t, d)

			d = open(t, path, runNow) // the loss is reported again, the repair is not
			defer closed(t, d)
			if d.Repaired() != "" || (d.Lost() != "") != c.lost || c.lost && !strings.Contains(d.Lost(), c.says) {
				t.Errorf("again: repaired %q, lost %q", d.Repaired(), d.Lost())
			}
		})
	}
}

// A node that dies after it was told of a loss is told of both losses the next time.
func TestLossesAddUp(t *testing.T) {
	path := filepath.Join(t.TempDir(), "node.db")
	d := open(t, path, runNow)
	committed(t, d, put("k", "v"))
	closed(t, d)
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, bytes.ReplaceAll(file, []byte("k\x01"), []byte("k\x11")), 0o600); err != nil {
		t.Fatal(err)
	}
	d = open(t, path, runNow)
	defer closed(t, d)
	if l := d.Lost(); !strings.Contains(l, "the store is new; damaged: record \"k\"") {
		t.Errorf("lost %q", l)
	}
	if err := d.AcceptLoss(); err != nil || d.Lost() != "" {
		t.Errorf("accept: %v; lost %q", err, d.Lost())
	}
}

// TestFlippedBitOfABodyIsFound reads all bodies after each flipped bit.
func TestFlippedBitOfABodyIsFound(t *testing.T) {
	path := filepath.Join(t.TempDir(), "node.db")
	d := started(t, path)
	defer closed(t, d)
	const n = 5
	for i := range n {
		committed(t, d, body(fmt.Sprint("b/", i), i, minBody+i))
	}
	f, err := os.OpenFile(segmentOf(path), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, _ := f.Stat()
	met := 0
	for at := int64(0); at < info.Size(); at += 97 {
		var b [1]byte
		_, _ = f.ReadAt(b[:], at)
		_, _ = f.WriteAt([]byte{b[0] ^ 1<<(at%8)}, at)
		var names []string
		for i := range n {
			switch v, err := d.Get(fmt.Append(nil, "b/", i)); {
			case errors.Is(err, env.ErrDamaged) && v == nil && strings.Contains(err.Error(), fmt.Sprintf("%q", fmt.Sprint("b/", i))):
				names = append(names, fmt.Sprint("b/", i))
			case err != nil || !bytes.Equal(v, text(i, minBody+i)):
				t.Fatalf("byte %d: body %d has %d bytes, %v", at, i, len(v), err)
			}
		}
		if len(names) != 1 {
			t.Errorf("byte %d: damaged are %v", at, names)
		}
		whole := 0
		err := d.Range([]byte("b/"), func(k, _ []byte) bool {
			whole++
			if slices.Contains(names, string(k)) {
				t.Errorf("byte %d: %s is damaged, and handed out", at, k)
			}
			return true
		})
		if !errors.Is(err, env.ErrDamaged) || !strings.Contains(err.Error(), names[0]) || whole != n-1 {
			t.Errorf("byte %d: range saw %d bodies, %v", at, whole, err)
		}
		_, _ = f.WriteAt(b[:], at)
		met += 2
	}
	if got := d.Stats().Damaged; got != uint64(met) {
		t.Errorf("met %d damaged bodies, counted %d", met, got)
	}
}

func TestMissingBodiesAreNamed(t *testing.T) {
	for name, spoil := range map[string]func(segment string) error{
		"segment 1 is missing":          os.Remove,
		"segment 1 has 5000 of 12000":   func(s string) error { return os.Truncate(s, 5000) },
		"segment 1 has 0 of 12000 byte": func(s string) error { return os.Truncate(s, 0) },
	} {
		path := filepath.Join(t.TempDir(), "node.db")
		d := started(t, path)
		committed(t, d, body("first", 1, 5000), body("second", 2, 7000))
		closed(t, d)
		if err := spoil(segmentOf(path)); err != nil {
			t.Fatal(err)
		}
		d = open(t, path, runNow)
		if !strings.Contains(d.Repaired(), name) || d.Lost() != "" {
			t.Errorf("repaired %q, lost %q", d.Repaired(), d.Lost())
		}
		if s := d.Stats(); strings.Contains(name, "missing") && (s.Segments != 0 || s.SegmentBytes != 0) {
			t.Errorf("%s: %+v", name, s)
		}
		if _, err := d.Get([]byte("second")); !errors.Is(err, env.ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
		// The node gets the body from the network and writes it again.
		committed(t, d, body("second", 2, 7000), env.Op{Key: []byte("first")})
		closed(t, d)
		d = open(t, path, runNow)
		if v, err := d.Get([]byte("second")); len(v) != 7000 || err != nil || d.Repaired() != "" {
			t.Errorf("%s: %d bytes, %v; repaired %q", name, len(v), err, d.Repaired())
		}
		closed(t, d)
	}
}

func TestLeftoversOfACrashAreRemoved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "node.db")
	d := started(t, path)
	committed(t, d, body("b", 1, 5000))
	closed(t, d)
	stranger := filepath.Join(path+".bodies", "README")
	for _, name := range []string{segmentOf(path), filepath.Join(path+".bodies", "000007.seg"), stranger, path + ".new"} {
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = f.Write(text(9, 3000))
		_ = f.Close()
	}
	d = open(t, path, runNow)
	if s := d.Stats(); d.Repaired() != "" || s.Segments != 1 || s.SegmentBytes != 5000 || s.FreeBytes != 0 {
		t.Errorf("repaired %q, %+v", d.Repaired(), s)
	}
	if info, err := os.Stat(segmentOf(path)); err != nil || info.Size() != 5000 {
		t.Errorf("the torn tail is still there: %v", err)
	}
	committed(t, d, body("c", 2, 6000))
	for key, want := range map[string][]byte{"b": text(1, 5000), "c": text(2, 6000)} {
		if v, err := d.Get([]byte(key)); !bytes.Equal(v, want) || err != nil {
			t.Errorf("%s: %d bytes, %v", key, len(v), err)
		}
	}
	closed(t, d)
	if _, err := os.Stat(stranger); err != nil {
		t.Error(err)
	}
	if names, _ := os.ReadDir(path + ".bodies"); len(names) != 2 {
		t.Errorf("in the folder: %v", names)
	}
}

// A disk that fails in another way than being full is not trusted until the store is checked.
func TestFailingDiskIsNotWrittenToAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "node.db")
	d := started(t, path)
	committed(t, d, body("b/1", 1, 5000), put("r", "1"))
	_ = d.segments.files[1].Close() // like a disk that is gone
	err := commit(d, body("b/2", 2, 5000))
	if err == nil || !strings.Contains(err.Error(), path) || errors.Is(err, ErrFull) {
		t.Errorf("commit: %v", err)
	}
	if err := commit(d, put("r", "2")); err == nil || d.Stats().Failing == "" {
		t.Errorf("a later commit: %v, %+v", err, d.Stats())
	}
	if v, err := d.Get([]byte("r")); string(v) != "1" || err != nil {
		t.Errorf("read %q, %v", v, err)
	}
	if err := d.Close(); err == nil {
		t.Error("closed twice, and nothing said")
	}
	d = open(t, path, runNow)
	defer closed(t, d)
	committed(t, d, body("b/2", 2, 5000))
	if v, err := d.Get([]byte("b/2")); len(v) != 5000 || err != nil || d.Lost()+d.Repaired() != "" {
		t.Errorf("read %d bytes, %v; lost %q, repaired %q", len(v), err, d.Lost(), d.Repaired())
	}
}
