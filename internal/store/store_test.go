package store

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"tidings/internal/env"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(writerPath); path != "" {
		writeUntilKilled(path)
	}
	goleak.VerifyTestMain(m)
}

// answers collects answers and runs them one after another, as a loop would.
type answers struct {
	mu    sync.Mutex
	calls []func()
}

func (d *answers) post(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls = append(d.calls, f)
}

// run runs the posted functions and returns their number.
func (d *answers) run() int {
	d.mu.Lock()
	calls := d.calls
	d.calls = nil
	d.mu.Unlock()
	for _, f := range calls {
		f()
	}
	return len(calls)
}

func open(t *testing.T, path string, post func(func())) *Disk {
	t.Helper()
	d, err := Open(path, post, SecondCopy{})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func closed(t *testing.T, d *Disk) {
	t.Helper()
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

func put(key, value string) env.Op { return env.Op{Key: []byte(key), Value: []byte(value)} }

func contents(t *testing.T, d *Disk, prefix string) string {
	t.Helper()
	var b strings.Builder
	err := d.Range([]byte(prefix), func(k, v []byte) bool {
		fmt.Fprintf(&b, "%s=%s ", k, v)
		return true
	})
	if err != nil {
		t.Error(err)
	}
	return strings.TrimSpace(b.String())
}

func TestDoneComesWhenDurable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "node.db")
	answers := make(chan func(), 1)
	d := open(t, path, func(f func()) { answers <- f })
	defer closed(t, d)
	d.Commit([]env.Op{put("lock", "1")}, func(err error) {
		if err != nil {
			t.Error(err)
		}
		if v, err := d.Get([]byte("lock")); string(v) != "1" || err != nil {
			t.Errorf("in done: %q, %v", v, err)
		}
	})
	(<-answers)()
}

func TestRecordsOutliveTheStore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "node.db")
	var answers answers
	d := open(t, path, answers.post)
	fine := func(err error) {
		if err != nil {
			t.Error(err)
		}
	}
	d.Commit([]env.Op{put("a/1", "x"), put("a/2", "y"), put("b/1", "z"), put("a/", "")}, fine)
	d.Commit([]env.Op{{Key: []byte("a/1")}, put("a/2", "Y")}, fine)
	closed(t, d) // waits for both commits
	if n := answers.run(); n != 2 {
		t.Errorf("%d answers to 2 commits", n)
	}

	d = open(t, path, answers.post)
	defer closed(t, d)
	if got := contents(t, d, "a/"); got != "a/= a/2=Y" {
		t.Errorf("found %q", got)
	}
	if v, err := d.Get([]byte("a/1")); v != nil || err != nil {
		t.Errorf("deleted record: %q, %v", v, err)
	}
	if v, err := d.Get([]byte("a/")); v == nil || len(v) > 0 || err != nil {
		t.Errorf("empty record: %v, %v", v, err)
	}
}

func TestBatchesKeepTheirOrder(t *testing.T) {
	var answers answers
	d := open(t, filepath.Join(t.TempDir(), "node.db"), answers.post)
	var order []int
	for i := range 2000 {
		d.Commit([]env.Op{put("counter", fmt.Sprint(i))}, func(err error) {
			if err != nil {
				t.Error(err)
			}
			order = append(order, i)
		})
	}
	closed(t, d)
	answers.run()
	if len(order) != 2000 || !slices.IsSorted(order) {
		t.Errorf("%d answers, in order: %v", len(order), slices.IsSorted(order))
	}
	if s := d.Stats(); s.Commits != 2000 || s.Syncs >= 2000 || s.Waiting != 0 {
		t.Errorf("commits did not share syncs: %+v", s)
	}
}

func TestImpossibleBatchLeavesNothingBehind(t *testing.T) {
	var answers answers
	d := open(t, filepath.Join(t.TempDir(), "node.db"), answers.post)
	var errs []error
	note := func(err error) { errs = append(errs, err) }
	d.Commit([]env.Op{put("before", "1")}, note)
	d.Commit([]env.Op{put("half", "1"), put("", "no key")}, note)
	d.Commit([]env.Op{put("half", "2"), {Key: bytes.Repeat([]byte("k"), maxKey+1)}}, note)
	d.Commit([]env.Op{put("after", "1")}, note)
	for got := 0; got < 4; got += answers.run() {
	}
	refused := 0
	for _, err := range errs {
		if errors.Is(err, ErrRecord) {
			refused++
		} else if err != nil {
			t.Error(err)
		}
	}
	if refused != 2 {
		t.Errorf("errors %v, want two of records", errs)
	}
	if got := contents(t, d, ""); got != "after=1 before=1" {
		t.Errorf("found %q", got)
	}
	closed(t, d)
}

func TestClosedStoreSaysSo(t *testing.T) {
	var answers answers
	path := filepath.Join(t.TempDir(), "node.db")
	d := open(t, path, answers.post)
	closed(t, d)
	var got error
	d.Commit([]env.Op{put("k", "v")}, func(err error) { got = err })
	answers.run()
	if !errors.Is(got, ErrClosed) || !strings.Contains(got.Error(), path) {
		t.Errorf("commit: %v", got)
	}
	if _, err := d.Get([]byte("k")); err == nil {
		t.Error("read a closed store")
	}
	if err := d.Range(nil, func(_, _ []byte) bool { return true }); err == nil {
		t.Error("ranged over a closed store")
	}
}

func TestSlowDiskCostsWritesNotMemory(t *testing.T) {
	var answers answers
	d := open(t, filepath.Join(t.TempDir(), "node.db"), answers.post)
	value := make([]byte, MaxWaiting/2+1)
	var behind int
	for range 20 {
		d.Commit([]env.Op{{Key: []byte("k"), Value: value}}, func(err error) {
			if errors.Is(err, ErrBehind) {
				behind++
			}
		})
	}
	closed(t, d)
	if n := answers.run(); n != 20 || behind == 0 {
		t.Errorf("%d answers to 20 commits, %d were too much", n, behind)
	}
}

func TestSecondProcessIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "node.db")
	d := open(t, path, func(f func()) { f() })
	defer closed(t, d)
	start := time.Now()
	_, err := Open(path, func(f func()) { f() }, SecondCopy{})
	if err == nil || !strings.Contains(err.Error(), "in use by another process") {
		t.Errorf("second open: %v", err)
	}
	if err := os.Remove(path + ".lock"); err == nil { // people do that
		if _, err := Open(path, func(f func()) { f() }, SecondCopy{}); err == nil || !strings.Contains(err.Error(), "in use by another process") {
			t.Errorf("open without the lock file: %v", err)
		}
	}
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("second open took %v", took)
	}
}

func TestRangeIsReadInChunks(t *testing.T) {
	var answers answers
	d := open(t, filepath.Join(t.TempDir(), "node.db"), answers.post)
	defer closed(t, d)
	var ops []env.Op
	for i := range 3*chunkRecords + 1 {
		ops = append(ops, put(fmt.Sprintf("r/%06d", i), "v"))
	}
	ops = append(ops, put("q", "outside"), put("s", "outside"))
	d.Commit(ops, func(error) {})
	for answers.run() == 0 {
	}
	seen := 0
	err := d.Range([]byte("r/"), func(k, _ []byte) bool {
		if string(k) != fmt.Sprintf("r/%06d", seen) {
			t.Errorf("record %d is %s", seen, k)
		}
		seen++
		if v, err := d.Get(k); v == nil || err != nil { // each may read the store
			t.Errorf("get %s: %v", k, err)
		}
		return true
	})
	if err != nil || seen != 3*chunkRecords+1 {
		t.Errorf("saw %d records, %v", seen, err)
	}
	seen = 0
	if err := d.Range(nil, func(_, _ []byte) bool { seen++; return seen < 5 }); err != nil || seen != 5 {
		t.Errorf("stopped after %d records, %v", seen, err)
	}
}

// TestStoreIsAMap compares a store, reopened now and then, with a map.
func TestStoreIsAMap(t *testing.T) {
	dir := t.TempDir()
	n := 0
	rapid.Check(t, func(r *rapid.T) {
		n++
		path := filepath.Join(dir, fmt.Sprint(n))
		var answers answers
		d := open(t, path, answers.post)
		defer func() { closed(t, d) }()
		model := map[string]string{}
		for range rapid.IntRange(1, 8).Draw(r, "batches") {
			var ops []env.Op
			for range rapid.IntRange(0, 5).Draw(r, "ops") {
				k := rapid.StringMatching(`[a-c]{1,2}`).Draw(r, "key")
				if rapid.Bool().Draw(r, "delete") {
					ops = append(ops, env.Op{Key: []byte(k)})
					delete(model, k)
				} else {
					v := rapid.StringN(0, 3, 12).Draw(r, "value")
					ops = append(ops, put(k, v))
					model[k] = v
				}
			}
			d.Commit(ops, func(err error) {
				if err != nil {
					r.Error(err)
				}
			})
			if rapid.Bool().Draw(r, "reopen") {
				closed(t, d)
				d = open(t, path, answers.post)
			}
		}
		closed(t, d)
		answers.run()
		d = open(t, path, answers.post)
		got := map[string]string{}
		if err := d.Range(nil, func(k, v []byte) bool { got[string(k)] = string(v); return true }); err != nil {
			r.Error(err)
		}
		if fmt.Sprint(got) != fmt.Sprint(model) {
			r.Errorf("found %v, want %v", got, model)
		}
	})
}

func TestManyCommitters(t *testing.T) {
	var answers answers
	d := open(t, filepath.Join(t.TempDir(), "node.db"), answers.post)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for j := range 50 {
				d.Commit([]env.Op{put(fmt.Sprintf("%d/%d", i, j), "v")}, func(error) {})
				_, _ = d.Get([]byte("0/0"))
			}
		})
	}
	all.Wait()
	closed(t, d)
	if n := answers.run(); n != 400 {
		t.Errorf("%d answers to 400 commits", n)
	}
}
