package store

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"tidings/internal/env"
)

const smallSegment = 256 << 10

func small(t *testing.T, path string) *Disk {
	t.Helper()
	d, err := openSized(path, runNow, smallSegment, SecondCopy{})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestSweepUnderLoadKeepsEveryLiveBody writes, overwrites and deletes bodies while others read them
// all the time.
func TestSweepUnderLoadKeepsEveryLiveBody(t *testing.T) {
	path := filepath.Join(t.TempDir(), "node.db")
	d := small(t, path)
	const keys, rounds = 60, 1500
	key := func(k int) []byte { return fmt.Appendf(nil, "b/%02d", k) }
	bodyOf := func(version int) []byte { // the content names its version
		b := text(version, minBody+version%9000)
		copy(b, fmt.Sprintf("%08d", version))
		return b
	}
	check := func(k int, v []byte) {
		var version int
		if v == nil {
			return
		}
		if _, err := fmt.Sscanf(string(v[:8]), "%d", &version); err != nil || !bytes.Equal(v, bodyOf(version)) {
			t.Errorf("body %d: wrong bytes of version %d", k, version)
		}
	}
	over := make(chan struct{})
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
				}
				k := rand.IntN(keys)
				v, err := d.Get(key(k))
				if err != nil {
					t.Error(err)
				}
				check(k, v)
			}
		})
	}
	last := map[int]int{}
	dice := rand.New(rand.NewPCG(1, 2))
	var answered sync.WaitGroup
	for i := range rounds {
		k := dice.IntN(keys)
		op := env.Op{Key: key(k), Value: bodyOf(i), Body: true}
		if last[k] = i; dice.IntN(4) == 0 {
			op.Value = nil
			delete(last, k)
		}
		answered.Add(1)
		d.Commit([]env.Op{op}, func(err error) {
			if err != nil {
				t.Error(err)
			}
			answered.Done()
		})
		if i%8 == 0 {
			answered.Wait()
		}
	}
	answered.Wait()
	close(over)
	readers.Wait()
	verify := func() {
		seen := 0
		err := d.Range(nil, func(_, v []byte) bool { seen++; check(seen, v); return true })
		if err != nil || seen != len(last) {
			t.Errorf("%d bodies, want %d: %v", seen, len(last), err)
		}
		for k, version := range last {
			if v, err := d.Get(key(k)); !bytes.Equal(v, bodyOf(version)) || err != nil {
				t.Errorf("body %d is not its version %d: %v", k, version, err)
			}
		}
	}
	verify()
	closed(t, d)
	s := d.Stats()
	if s.MovedBytes == 0 || s.FreeBytes > s.SegmentBytes/2+smallSegment {
		t.Errorf("not swept: %+v", s)
	}
	if top := int(d.segments.highest); top < 2*s.Segments {
		t.Errorf("%d of %d segments are left", s.Segments, top)
	}
	d = small(t, path)
	defer closed(t, d)
	// A sweep that Close interrupted has written bodies that no record refers to. Open cuts them
	// off.
	again := d.Stats()
	cut := s.SegmentBytes - again.SegmentBytes
	if cut < 0 || s.FreeBytes-again.FreeBytes != cut || d.Repaired() != "" {
		t.Errorf("%+v, after opening %+v: %s", s, again, d.Repaired())
	}
	verify()
}

func TestDeadSegmentsAreRemoved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "node.db")
	d := small(t, path)
	var gone []env.Op
	for i := range 40 { // ten segments
		committed(t, d, body(fmt.Sprint("b/", i), i, smallSegment/4))
		gone = append(gone, env.Op{Key: fmt.Append(nil, "b/", i)})
	}
	if s := d.Stats(); s.Segments != 10 || s.SegmentBytes != 10*smallSegment || s.FreeBytes != 0 {
		t.Errorf("%+v", s)
	}
	committed(t, d, gone...)
	closed(t, d)
	d = small(t, path)
	committed(t, d, put("k", "v"))
	closed(t, d)
	if s := d.Stats(); s.Segments != 0 || s.SegmentBytes != 0 || s.MovedBytes != 0 {
		t.Errorf("%+v", s)
	}
	if names, _ := os.ReadDir(path + ".bodies"); len(names) != 0 {
		t.Errorf("left: %v", names)
	}
}

// A damaged body cannot be moved. Its segment stays, so that a reader gets the error, and sweeping
// continues with the others.
func TestSweepLeavesDamagedBodiesBehind(t *testing.T) {
	path := filepath.Join(t.TempDir(), "node.db")
	d := small(t, path)
	for i := range 8 {
		committed(t, d, body(fmt.Sprint("b/", i), i, smallSegment/4))
	}
	closed(t, d)
	f, err := os.OpenFile(segmentOf(path), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = f.WriteAt([]byte("spoilt"), 100) // lies in b/0
	_ = f.Close()
	d = small(t, path)
	committed(t, d, env.Op{Key: []byte("b/2")}, env.Op{Key: []byte("b/3")}, put("b/1", "short"))
	committed(t, d, put("k", "v")) // makes sure that the sweep has ended
	closed(t, d)
	d = small(t, path)
	defer closed(t, d)
	if _, err := d.Get([]byte("b/0")); err == nil {
		t.Error("a damaged body was read")
	}
	for i := 4; i < 8; i++ {
		if v, err := d.Get(fmt.Append(nil, "b/", i)); !bytes.Equal(v, text(i, smallSegment/4)) || err != nil {
			t.Errorf("body %d: %v", i, err)
		}
	}
}
