package store

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tidings/internal/env"
)

var twice = SecondCopy{Prefix: []string{"s/", "t/"}, Lazy: []string{"n"}}

// entry returns a change of a record; "" deletes it.
func entry(key, value string) env.Op {
	if value == "" {
		return env.Op{Key: []byte(key)}
	}
	return put(key, value)
}

// recordsOf returns the records of a store.
func recordsOf(t *testing.T, d *Disk) map[string]string {
	t.Helper()
	of := map[string]string{}
	if err := d.Range(nil, func(key, value []byte) bool { of[string(key)] = string(value); return true }); err != nil {
		t.Fatal(err)
	}
	return of
}

func openTwice(t *testing.T, path string) *Disk {
	t.Helper()
	d, err := Open(path, runNow, twice)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestSecondCopyIsRestored damages the file of a store in several ways after its process
// was killed. Records in the second copy come back, deleted ones stay deleted, and the rest is
// lost.
func TestSecondCopyIsRestored(t *testing.T) {
	for name, spoil := range map[string]func(path string) error{
		"first pages": func(path string) error {
			f, err := os.OpenFile(path, os.O_RDWR, 0)
			if err == nil {
				_, err = f.WriteAt(bytes.Repeat([]byte{0xa5}, 16<<10), 0)
				err = errors.Join(err, f.Close())
			}
			return err
		},
		"empty": func(path string) error { return os.Truncate(path, 0) },
		"gone":  os.Remove,
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "node.db")
			d := openTwice(t, path)
			if err := d.AcceptLoss(); err != nil {
				t.Fatal(err)
			}
			committed(t, d, entry("s/1", "one"), entry("x", "other"), entry("n", "1"))
			committed(t, d, entry("s/2", "two"), entry("t/1", "settings"), entry("n", "2"))
			committed(t, d, entry("s/1", ""))
			committed(t, d, entry("t/1", "settings, changed"))
			// The files are copied while the store is open, as after kill -9.
			for _, suffix := range []string{"", secondMark} {
				b, err := os.ReadFile(path + suffix)
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path+"-killed"+suffix, b, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
			path += "-killed"
			if err := spoil(path); err != nil {
				t.Fatal(err)
			}
			want := map[string]string{"s/2": "two", "t/1": "settings, changed", "n": "2"}
			for round := range 2 { // restored records stay
				d = openTwice(t, path)
				if got := recordsOf(t, d); !maps.Equal(got, want) {
					t.Errorf("round %d: %q", round, got)
				}
				if n, whole := d.Restored(); round == 0 && (n != 2 || !whole) || d.Lost() == "" {
					t.Errorf("round %d: %d restored, whole %v, lost %q", round, n, whole, d.Lost())
				}
				if err := d.Close(); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// TestSecondCopyFollowsAWholeStore checks that an undamaged store takes precedence.
func TestSecondCopyFollowsAWholeStore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "node.db")
	d := openTwice(t, path)
	if err := d.AcceptLoss(); err != nil {
		t.Fatal(err)
	}
	committed(t, d, entry("s/1", "one"))
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	stale := appendFrame([]byte(secondVersion), change{[]byte("s/9"), encode(kindInline, []byte("s/9"), []byte("stale"))})
	if err := os.WriteFile(path+secondMark, stale, 0o600); err != nil {
		t.Fatal(err)
	}
	d = openTwice(t, path)
	defer d.Close()
	if got := recordsOf(t, d); !maps.Equal(got, map[string]string{"s/1": "one"}) {
		t.Errorf("%q", got)
	}
	b, err := os.ReadFile(path + secondMark)
	kept, whole := parseSecond(b)
	if err != nil || !whole || len(kept) != 1 || string(kept[0].key) != "s/1" {
		t.Errorf("the copy has %q, whole %v, %v", kept, whole, err)
	}
	if info, err := os.Stat(path + secondMark); err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Errorf("%v, %v", info, err)
	}
}

// TestSecondCopyDoesNotGrowForEver changes one record until the file is rewritten.
func TestSecondCopyDoesNotGrowForEver(t *testing.T) {
	path := filepath.Join(t.TempDir(), "node.db")
	d := openTwice(t, path)
	defer d.Close()
	value := string(bytes.Repeat([]byte("x"), 256<<10))
	most := int64(0)
	for i := range 12 {
		committed(t, d, entry("s/1", fmt.Sprint(i, value)))
		info, err := os.Stat(path + secondMark)
		if err != nil {
			t.Fatal(err)
		}
		most = max(most, info.Size())
	}
	if bound := int64(3*(256<<10) + secondSlack); most > bound || most < secondSlack/2 {
		t.Errorf("it grew to %d bytes, of %d", most, bound)
	}
	b, err := os.ReadFile(path + secondMark)
	if kept, whole := parseSecond(b); err != nil || !whole || len(kept) != 1 || !bytes.Contains(kept[0].encoded, []byte("11x")) {
		t.Errorf("%d records, whole %v, %v", len(kept), whole, err)
	}
	// A change of a lazy record alone is not written.
	before := len(b)
	committed(t, d, entry("n", "1"), entry("x", "other"))
	if b, err = os.ReadFile(path + secondMark); err != nil || len(b) != before {
		t.Errorf("%d bytes became %d, %v", before, len(b), err)
	}
}

// A start leaves a second copy alone that is complete and has nothing else.
func TestCompleteSecondCopyIsNotRewritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "node.db")
	modified := func() (os.FileInfo, []byte) {
		t.Helper()
		info, err := os.Stat(path + secondMark)
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(path + secondMark)
		if err != nil {
			t.Fatal(err)
		}
		return info, b
	}
	d := openTwice(t, path)
	committed(t, d, entry("s/1", "one"), entry("s/2", "two"))
	closed(t, d)
	before, content := modified()
	d = openTwice(t, path)
	if after, _ := modified(); !os.SameFile(before, after) {
		t.Error("a start writes the same file anew")
	}
	committed(t, d, env.Op{Key: []byte("s/1")})
	closed(t, d)
	if _, longer := modified(); len(longer) <= len(content) {
		t.Errorf("a change is not appended: %d bytes, before %d", len(longer), len(content))
	}
	closed(t, openTwice(t, path))
	if after, shorter := modified(); os.SameFile(before, after) || len(shorter) >= len(content) {
		t.Errorf("a start leaves %d bytes with a record that was deleted", len(shorter))
	}
}

// TestSecondCopyThatFailsIsReported takes the file away from a store, and gives it back.
func TestSecondCopyThatFailsIsReported(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "node.db")
	d := openTwice(t, path)
	defer d.Close()
	_ = d.second.file.Close()
	committed(t, d, entry("s/1", "one"))
	if d.Stats().Failing == "" {
		t.Error("nothing is said of a copy that lacks a record")
	}
	committed(t, d, entry("s/2", "two"))
	b, err := os.ReadFile(path + secondMark)
	if kept, whole := parseSecond(b); err != nil || !whole || len(kept) != 2 || d.Stats().Failing != "" {
		t.Errorf("%d records, whole %v, %v, failing %q", len(kept), whole, err, d.Stats().Failing)
	}
}

// TestStoreOpensWithoutItsSecondCopy opens a store whose second copy cannot be written, as on a
// full disk. Stats reports the failure until a later change writes the copy.
func TestStoreOpensWithoutItsSecondCopy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "node.db")
	d := openTwice(t, path)
	committed(t, d, entry("s/1", "zero"))
	committed(t, d, entry("s/1", "one")) // the copy has both, and has to be rewritten
	closed(t, d)
	inTheWay := path + secondMark + ".new"
	if err := os.Mkdir(inTheWay, 0o700); err != nil {
		t.Fatal(err)
	}
	d = openTwice(t, path)
	defer closed(t, d)
	for i := 1; i < 3; i++ { // each open and each change tries to write the copy
		if got := recordsOf(t, d); len(got) != i || !strings.Contains(d.Stats().Failing, inTheWay) {
			t.Errorf("records %q, failing %q", got, d.Stats().Failing)
		}
		committed(t, d, entry("s/2", "two"))
	}
	if err := os.Remove(inTheWay); err != nil {
		t.Fatal(err)
	}
	committed(t, d, entry("s/3", "three"))
	if kept, whole, err := d.second.read(); err != nil || !whole || len(kept) != 3 || d.Stats().Failing != "" {
		t.Errorf("%d records, whole %v, %v, failing %q", len(kept), whole, err, d.Stats().Failing)
	}
}

// TestSecondCopyKeepsWhatIsDamagedInTheStore damages records of an open store and rewrites the
// second copy, which has the only good records of those keys. They come back when the store is
// opened.
func TestSecondCopyKeepsWhatIsDamagedInTheStore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "node.db")
	d := openTwice(t, path)
	if err := d.AcceptLoss(); err != nil {
		t.Fatal(err)
	}
	committed(t, d, entry("n", "number one"), entry("s/1", "subscription one"), entry("s/2", "subscription two"))
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	for at := range b {
		if bytes.HasPrefix(b[at:], []byte("subscription ")) || bytes.HasPrefix(b[at:], []byte("number one")) {
			if _, err := f.WriteAt([]byte("S"), int64(at)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Get([]byte("s/1")); !errors.Is(err, env.ErrDamaged) {
		t.Fatalf("read a record that was damaged: %v", err)
	}
	value := string(bytes.Repeat([]byte("x"), secondSlack*2/3))
	committed(t, d, entry("t/1", value))
	committed(t, d, entry("s/2", "")) // a deleted record is not kept because it was damaged
	committed(t, d, entry("t/1", value))
	if d.second.startSize < secondSlack/2 {
		t.Fatalf("the copy was not made anew: it began with %d bytes", d.second.startSize)
	}
	closed(t, d)
	d = openTwice(t, path)
	defer closed(t, d)
	want := map[string]string{"n": "number one", "s/1": "subscription one", "t/1": value}
	if got := recordsOf(t, d); !maps.Equal(got, want) {
		t.Errorf("%.200q", got)
	}
	if n, whole := d.Restored(); n != 1 || !whole {
		t.Errorf("%d restored, whole %v", n, whole)
	}
}

func TestSecondCopyThatIsDamaged(t *testing.T) {
	b := []byte(secondVersion)
	var ends []int
	for i := range 3 {
		key := []byte(fmt.Sprintf("s/%d", i))
		b = appendFrame(b, change{key, encode(kindInline, key, []byte("value"))})
		ends = append(ends, len(b))
	}
	for cut := ends[1]; cut < ends[2]; cut++ { // a crash while the last record was written
		if kept, whole := parseSecond(b[:cut]); len(kept) != 2 || !whole {
			t.Errorf("cut at %d: %d records, whole %v", cut, len(kept), whole)
		}
	}
	spoilt := bytes.Clone(b)
	spoilt[ends[1]-1] ^= 1
	if kept, whole := parseSecond(spoilt); len(kept) != 2 || whole {
		t.Errorf("a damaged one: %d records, whole %v", len(kept), whole)
	}
	for _, other := range []string{"", "tidings records 2\n" + string(b[len(secondVersion):])} {
		if kept, whole := parseSecond([]byte(other)); len(kept) != 0 || whole {
			t.Errorf("%.20q: %d records, whole %v", other, len(kept), whole)
		}
	}
}

func FuzzSecond(f *testing.F) {
	key := []byte("s/1")
	f.Add(appendFrame([]byte(secondVersion), change{key, encode(kindInline, key, []byte("value"))}))
	f.Add(appendFrame([]byte(secondVersion), change{key, nil}))
	f.Add([]byte(secondVersion + "\xff\xff\xff\xff\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		kept, _ := parseSecond(b)
		again := []byte(secondVersion)
		for _, c := range kept {
			if _, ok := parseRecord(c.key, c.encoded); !ok {
				t.Fatalf("%q is no record", c.key)
			}
			again = appendFrame(again, c)
		}
		if same, whole := parseSecond(again); !whole || len(same) != len(kept) {
			t.Errorf("%d records become %d, whole %v", len(kept), len(same), whole)
		}
	})
}
