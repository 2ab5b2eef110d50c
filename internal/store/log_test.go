package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"

	"tidings/internal/env"
)

// killed returns the path of a copy of a running store: what a killed process leaves.
func killed(t *testing.T, path string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "node.db")
	for _, name := range []string{"", ".log"} {
		b, err := os.ReadFile(path + name)
		if err == nil {
			err = os.WriteFile(to+name, b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return to
}

// A killed process loses none of its commits: each is in the log or in bbolt's file. A store reports a loss if its log is
// missing or damaged. It reports none if only the last frame is torn, because nobody was told that it was written.
func TestLogOfAKilledProcess(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(log []byte) []byte // nil: the file is removed
		kept  int                     // of the ten commits
		lost  string
	}{
		{"whole", func(b []byte) []byte { return b }, 10, ""},
		{"last frame torn", func(b []byte) []byte { b[logBlock*9+40] ^= 1; return b }, 9, ""},
		{"frame in the middle damaged", func(b []byte) []byte { b[logBlock*4+40] ^= 1; return b }, 10, "damaged before number"},
		{"first frame damaged", func(b []byte) []byte { b[logBlock] ^= 1; return b }, 10, "damaged before number"},
		{"header damaged", func(b []byte) []byte { b[0] ^= 1; return b }, 1, "is damaged"},
		{"truncated", func(b []byte) []byte { return b[:logSize/2] }, 1, "is damaged"},
		{"missing", nil, 1, "is missing"},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "-"), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "node.db")
			d := started(t, path)
			for i := range 10 { // the first one makes the log
				committed(t, d, put(fmt.Sprintf("r/%d", i), "1"), put("latest", fmt.Sprint(i)))
			}
			path = killed(t, path)
			closed(t, d)
			b, err := os.ReadFile(path + ".log")
			switch {
			case err != nil:
			case c.spoil == nil:
				err = os.Remove(path + ".log")
			default:
				err = os.WriteFile(path+".log", c.spoil(b), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			for range 2 { // a loss is told until it is accepted
				d = open(t, path, runNow)
				if !strings.Contains(d.Lost(), c.lost) || (d.Lost() == "") != (c.lost == "") {
					t.Errorf("lost %q, want %q", d.Lost(), c.lost)
				}
				n := strings.Count(contents(t, d, "r/"), "r/")
				if c.name == "frame in the middle damaged" || c.name == "first frame damaged" {
					n++ // the damaged one
				}
				if n != c.kept {
					t.Errorf("%d of 10 commits, want %d", n, c.kept)
				}
				if got := contents(t, d, "latest"); !strings.Contains(got, fmt.Sprint(c.kept-1)) {
					t.Errorf("the last value is %s", got)
				}
				closed(t, d)
			}
		})
	}
}

// Records are found in the log and in bbolt's file alike, in the order of their keys, also in ranges of many chunks, and
// deleted ones in neither. A store that was closed needs no log.
func TestReadsSeeLogAndFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "node.db")
	d := started(t, path)
	const n = 3*chunkRecords + 10
	want := map[string]string{}
	write := func(step, size int) {
		var ops []env.Op
		for i := 0; i < n; i += step {
			key, value := fmt.Sprintf("r/%05d", i), strings.Repeat("v", size+step)
			if ops = append(ops, put(key, value)); i%5 == 0 {
				ops[len(ops)-1].Value, value = nil, ""
			}
			if want[key] = value; value == "" {
				delete(want, key)
			}
		}
		committed(t, d, ops...)
	}
	check := func(when string) {
		t.Helper()
		last, found := "", 0
		if err := d.Range([]byte("r/"), func(k, v []byte) bool {
			if found++; string(k) <= last || want[string(k)] != string(v) {
				t.Errorf("%s: %s has %d bytes, after %s", when, k, len(v), last)
			}
			last = string(k)
			return true
		}); err != nil || found != len(want) {
			t.Errorf("%s: %d of %d records, %v", when, found, len(want), err)
		}
		for i := range n {
			key := fmt.Sprintf("r/%05d", i)
			if v, err := d.Get([]byte(key)); string(v) != want[key] || err != nil {
				t.Errorf("%s: %s has %d bytes, %v", when, key, len(v), err)
			}
		}
	}
	write(1, 10)
	committed(t, d, put("other", strings.Repeat("x", logSize))) // more than the log holds
	write(7, 20)
	write(2, 30)
	check("running")
	closed(t, d)
	if err := os.Remove(path + ".log"); err != nil {
		t.Fatal(err)
	}
	d = open(t, path, runNow)
	defer closed(t, d)
	if d.Lost() != "" || d.Repaired() != "" {
		t.Errorf("lost %q, repaired %q", d.Lost(), d.Repaired())
	}
	check("without its log")
}

// A value cannot look like a frame to a reader of the log, because its author does not know the salt.
func TestAForgedFrameIsNone(t *testing.T) {
	salt := bytes.Repeat([]byte{1}, saltSize)
	inner := encodeFrame(make([]byte, saltSize), 3, []change{{[]byte("owner"), []byte("somebody else")}})
	b := make([]byte, logBlock, logSize)
	b = append(b, encodeFrame(salt, 2, []change{{[]byte("item"), append(make([]byte, logBlock-frameHead-6-4), inner...)}})...)
	if string(b[2*logBlock:][:4]) != logMark {
		t.Fatal("the inner frame is not at a block")
	}
	b[logBlock] ^= 1 // torn
	var r replay
	if r.read(salt, b, 1); len(r.frames) > 0 || r.lost != "" {
		t.Errorf("%d frames, lost %q", len(r.frames), r.lost)
	}
}

func FuzzLogFrame(f *testing.F) {
	salt := make([]byte, saltSize)
	f.Add(encodeFrame(salt, 1, []change{{[]byte("key"), []byte("value")}, {[]byte("gone"), nil}})[frameHead:])
	f.Add([]byte{0, 1, 255, 255, 255, 255, 'k'})
	f.Fuzz(func(t *testing.T, changes []byte) {
		b := append(make([]byte, frameHead), changes...)
		copy(b, logMark)
		binary.BigEndian.PutUint32(b[4:], uint32(len(b)-8))
		binary.BigEndian.PutUint64(b[16:], frameSum(salt, b[8:16], changes))
		frame, ok := parseLogFrame(salt, b)
		if ok && !bytes.HasPrefix(encodeFrame(salt, 0, frame.changes), b) {
			t.Errorf("read %d changes, which are encoded otherwise", len(frame.changes))
		}
	})
}

// A store of the version before the log is read, and has a log from its first commit on.
func TestStoreOfTheVersionWithoutALog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "node.db")
	d := started(t, path)
	committed(t, d, put("k", "1"))
	h := d.head
	closed(t, d)
	db, err := bolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bolt.Tx) error {
		b := []byte{1}
		for _, n := range []uint64{h.number, h.records, h.sum} {
			b = binary.BigEndian.AppendUint64(b, n)
		}
		return tx.Bucket(heads).Put(headKey, encode(kindHead, headKey, b))
	})
	if err := errors.Join(err, db.Close(), os.Remove(path+".log")); err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		d = open(t, path, runNow)
		if d.Lost() != "" || d.Repaired() != "" {
			t.Errorf("lost %q, repaired %q", d.Lost(), d.Repaired())
		}
		committed(t, d, put("k", fmt.Sprint(i+2)))
		committed(t, d, put("l", fmt.Sprint(i+2)))
		path = killed(t, path)
		closed(t, d)
	}
	d = open(t, path, runNow)
	defer closed(t, d)
	if got := contents(t, d, ""); got != "k=3 l=3" || d.Lost() != "" {
		t.Errorf("records %s, lost %q", got, d.Lost())
	}
}
