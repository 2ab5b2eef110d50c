//go:build linux

package store

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"tidings/internal/env"
)

// fill commits bodies until one fails, and returns how many succeeded.
func fill(t *testing.T, d *Disk, from, size int) (n int) {
	t.Helper()
	for n = from; n < from+1000; n++ {
		err := commit(d, body(fmt.Sprintf("b/%04d", n), n, size))
		if err == nil {
			continue
		}
		if !errors.Is(err, ErrFull) || !strings.Contains(err.Error(), "disk full") || !strings.Contains(err.Error(), d.path) {
			t.Errorf("body %d: %v", n, err)
		}
		if f := d.Stats().Failing; !strings.Contains(f, "disk full") {
			t.Errorf("failing %q", f)
		}
		return n
	}
	t.Fatal("the disk is never full")
	return n
}

func verifyBodies(t *testing.T, d *Disk, from, to, size int) {
	t.Helper()
	for i := from; i < to; i++ {
		if v, err := d.Get(fmt.Appendf(nil, "b/%04d", i)); !bytes.Equal(v, text(i, size)) || err != nil {
			t.Errorf("body %d: %d bytes, %v", i, len(v), err)
		}
	}
}

// throughFullDisk fills a disk, and continues when it has room again.
func throughFullDisk(t *testing.T, path string, makeRoom func()) {
	const size = 20_000
	d := small(t, path)
	if err := d.AcceptLoss(); err != nil {
		t.Fatal(err)
	}
	committed(t, d, put("lock", "0"))
	n := fill(t, d, 0, size)
	if n < 5 {
		t.Fatalf("full after %d bodies", n)
	}
	verifyBodies(t, d, 0, n, size)
	onDisk := int64(0)
	for i := range d.Stats().Segments {
		info, err := os.Stat(filepath.Join(path+".bodies", fmt.Sprintf(segmentName, i+1)))
		if err != nil {
			t.Fatal(err)
		}
		onDisk += info.Size()
	}
	if s := d.Stats(); onDisk != int64(n*size) || s.SegmentBytes != onDisk || s.FreeBytes != 0 {
		t.Errorf("%d bytes in segments, %d bodies of %d: %+v", onDisk, n, size, s)
	}
	if v, err := d.Get(fmt.Appendf(nil, "b/%04d", n)); v != nil || err != nil {
		t.Errorf("the body that failed: %d bytes, %v", len(v), err)
	}

	// Small records still fit, alone and beside bodies that do not.
	for i := range 200 {
		committed(t, d, put("lock", fmt.Sprint(i)))
	}
	answers := make(chan error, 40)
	for i := range 20 {
		d.Commit([]env.Op{body("too large", 1, size)}, func(err error) {
			if err != nil && !errors.Is(err, ErrFull) {
				answers <- err
			} else {
				answers <- nil
			}
		})
		d.Commit([]env.Op{put("lock", fmt.Sprint("beside ", i))}, func(err error) { answers <- err })
	}
	for range 40 {
		if err := <-answers; err != nil {
			t.Error(err)
		}
	}

	makeRoom()
	committed(t, d, body(fmt.Sprintf("b/%04d", n), n, size))
	if s := d.Stats(); s.Failing != "" {
		t.Errorf("%+v", s)
	}
	verifyBodies(t, d, 0, n+1, size)
	closed(t, d)
	s := d.Stats()
	d = small(t, path)
	if again := d.Stats(); again.Segments != s.Segments || again.SegmentBytes != s.SegmentBytes || again.FreeBytes != s.FreeBytes {
		t.Errorf("%+v, after opening %+v", s, again)
	}
	if d.Lost()+d.Repaired() != "" {
		t.Errorf("lost %q, repaired %q", d.Lost(), d.Repaired())
	}
	verifyBodies(t, d, 0, n+1, size)
	if v, err := d.Get([]byte("lock")); string(v) != "beside 19" || err != nil {
		t.Errorf("lock %q, %v", v, err)
	}
	closed(t, d)
}

func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=2m"); err != nil {
		t.Skipf("only a user who may mount can have a small disk: %v", err)
	}
	defer func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	}()
	filler := filepath.Join(dir, "filler")
	if err := os.WriteFile(filler, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "node.db")
	throughFullDisk(t, path, func() {
		if err := os.Remove(filler); err != nil {
			t.Fatal(err)
		}
	})

	// The disk is full again. Deleting makes room: first for segments that are dead.
	const size = 20_000
	d := small(t, path)
	defer closed(t, d)
	n := fill(t, d, 100, size)
	for i := 100; i < n; i++ {
		committed(t, d, env.Op{Key: fmt.Appendf(nil, "b/%04d", i)})
	}
	if again := fill(t, d, 100, size); again < 100+(n-100)/2 {
		t.Errorf("%d bodies deleted, room for %d", n-100, again-100)
	}
}

// A disk may be too full to create a new store or to repair a damaged one.
func TestFullDiskAtTheStart(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=256k"); err != nil {
		t.Skipf("only a user who may mount can have a small disk: %v", err)
	}
	defer func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	}()
	path, filler := filepath.Join(dir, "node.db"), filepath.Join(dir, "filler")
	fillUp := func() { _ = os.WriteFile(filler, make([]byte, 1<<20), 0o600) }
	fillUp()
	if _, err := Open(path, runNow, twice); !errors.Is(err, ErrFull) {
		t.Errorf("open: %v", err)
	}
	_ = os.Remove(filler)
	d := openTwice(t, path)
	if err := d.AcceptLoss(); err != nil {
		t.Fatal(err)
	}
	committed(t, d, put("k", "v"), put("s/1", "zero"))
	committed(t, d, put("s/1", "one")) // the second copy has both, and has to be rewritten
	closed(t, d)

	// There is no room for the second copy of an undamaged store, and the store opens.
	fillUp()
	d = openTwice(t, path)
	if got := contents(t, d, ""); got != "k=v s/1=one" || !strings.Contains(d.Stats().Failing, "second copy") {
		t.Errorf("contents %q, failing %q", got, d.Stats().Failing)
	}
	_ = os.Remove(filler)
	committed(t, d, put("s/1", "1"))
	if kept, whole, err := d.second.read(); len(kept) != 1 || !whole || err != nil || d.Stats().Failing != "" {
		t.Errorf("%d records, whole %v, %v, failing %q", len(kept), whole, err, d.Stats().Failing)
	}
	committed(t, d, env.Op{Key: []byte("s/1")})
	closed(t, d)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[slot(b, false)+pageHeader] ^= 1
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	fillUp()
	if _, err := Open(path, runNow, twice); !errors.Is(err, ErrFull) {
		t.Errorf("open: %v", err)
	}
	_ = os.Remove(filler)
	d = openTwice(t, path)
	defer closed(t, d)
	if got := contents(t, d, ""); got != "k=v" || d.Repaired() == "" {
		t.Errorf("contents %q, repaired %q", got, d.Repaired())
	}
}

// limited says that the size of files may be limited for this process.
const limited = "TIDINGS_TEST_STORE_LIMITED"

// A limit for the size of files needs no privilege, and stops bbolt's file from growing as well.
// The limit holds for the whole process, so that the test starts one.
func TestFilesThatMayNotGrow(t *testing.T) {
	if os.Getenv(limited) == "" {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), limited+"=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	signal.Ignore(syscall.SIGXFSZ)
	defer signal.Reset(syscall.SIGXFSZ)
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
		t.Fatalf("read how large a file may grow: %v", err)
	}
	limit := func(n uint64) {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: n, Max: old.Max}); err != nil {
			t.Fatalf("let a file grow to %d bytes: %v", n, err)
		}
	}
	defer limit(old.Cur)
	limit(128 << 10)
	throughFullDisk(t, filepath.Join(t.TempDir(), "node.db"), func() { limit(old.Cur) })

	// Small records are written until bbolt's own file is at its limit.
	path := filepath.Join(t.TempDir(), "node.db")
	d := started(t, path)
	limit(128 << 10)
	var err error
	n := 0
	for ; n < 1000 && err == nil; n++ {
		err = commit(d, put(fmt.Sprintf("r/%04d", n), string(text(n, 1000))))
	}
	if !errors.Is(err, ErrFull) {
		t.Errorf("after %d records: %v", n, err)
	}
	seen := 0
	if err := d.Range(nil, func(_, _ []byte) bool { seen++; return true }); err != nil || seen != n-1 {
		t.Errorf("%d of %d records: %v", seen, n-1, err)
	}
	limit(old.Cur)
	committed(t, d, put("more", "1"))
	closed(t, d)
	d = open(t, path, runNow)
	defer closed(t, d)
	if d.Lost()+d.Repaired() != "" {
		t.Errorf("lost %q, repaired %q", d.Lost(), d.Repaired())
	}
}

// The file is truncated under a running store. Its mapped pages are gone, and reading them is a
// fault.
func TestFileThatVanishesIsAnError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "node.db")
	d := started(t, path)
	var ops []env.Op
	for i := range 500 {
		ops = append(ops, put(fmt.Sprintf("r/%04d", i), string(text(i, 1000))))
	}
	committed(t, d, ops...)
	if err := os.Truncate(path, 3*pageSize); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Get([]byte("r/0400")); !errors.Is(err, env.ErrDamaged) {
		t.Errorf("get: %v", err)
	}
	if err := d.Range(nil, func(_, _ []byte) bool { return true }); !errors.Is(err, env.ErrDamaged) {
		t.Errorf("range: %v", err)
	}
	if err := commit(d, put("r/0400", "1")); err == nil {
		t.Error("commit succeeded")
	}
	if err := commit(d, put("r/0400", "1")); err == nil {
		t.Error("second commit succeeded")
	}
	_ = d.Close()

	// The next process finds the damage.
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "node.db")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	d = open(t, path, runNow)
	defer closed(t, d)
	if d.Lost() == "" || d.Repaired() == "" {
		t.Errorf("lost %q, repaired %q", d.Lost(), d.Repaired())
	}
	committed(t, d, put("r/0400", "1"))
}

// If the meta page of the last transaction is damaged in a running store, bbolt takes the
// transaction before for the last one. The store does not build on it.
func TestLastTransactionThatVanishesIsMissed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "node.db")
	d := started(t, path)
	committed(t, d, put("lock", "1"))
	committed(t, d, put("lock", "2"))
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = f.WriteAt([]byte("spoilt"), int64(slot(b, true)+pageHeader+20))
	_ = f.Close()
	if err := commit(d, put("other", strings.Repeat("1", logSize))); !errors.Is(err, env.ErrDamaged) {
		t.Errorf("commit of more than the log holds: %v", err)
	}
	closed(t, d)
	d = open(t, path, runNow)
	defer closed(t, d)
	if d.Lost() == "" || !strings.Contains(d.Repaired(), "meta page") {
		t.Errorf("lost %q, repaired %q", d.Lost(), d.Repaired())
	}
}
