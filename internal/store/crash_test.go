package store

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"tidings/internal/env"
)

// text returns n bytes that differ for each i.
func text(i, n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{byte(i), byte(i >> 8), byte(i >> 16)}).Read(b)
	return b
}

// writerPath names the store to which this program writes until it is killed, when it is started as
// a process of its own.
const writerPath = "TIDINGS_TEST_STORE_WRITER"

// A writing process commits batch after batch: a record, a body, and the deletion of an older body,
// so that segments of size writerSegment are swept all the time. It prints the number of each
// durable batch.
const (
	writerSegment = 256 << 10
	bodiesKept    = 10
)

func recordKey(i int) []byte { return fmt.Appendf(nil, "r/%08d", i) }
func bodyKey(i int) []byte   { return fmt.Appendf(nil, "b/%08d", i) }
func bodyOf(i int) []byte    { return text(i, minBody/2+i%7*minBody) }

func writeUntilKilled(path string) {
	d, err := openSized(path, func(f func()) { f() }, writerSegment, SecondCopy{})
	if err != nil {
		panic(err)
	}
	first := 0
	err = d.Range([]byte("r/"), func(_, _ []byte) bool { first++; return true })
	if err != nil {
		panic(err)
	}
	room := make(chan struct{}, 8) // unanswered batches
	for i := first; ; i++ {
		room <- struct{}{}
		d.Commit([]env.Op{
			{Key: recordKey(i), Value: fmt.Append(nil, i)},
			{Key: bodyKey(i), Value: bodyOf(i), Body: true},
			{Key: bodyKey(i - bodiesKept)},
		}, func(err error) {
			if err != nil {
				panic(err)
			}
			fmt.Println(i)
			<-room
		})
	}
}

func TestKilledProcessKeepsWhatItAcknowledged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "node.db")
	rounds, acked, made := 20, -1, uint32(0)
	for round := range rounds {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), writerPath+"="+path)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines, left := bufio.NewScanner(out), 1+rand.IntN(60)
		for lines.Scan() { // including lines in the pipe
			if acked, err = strconv.Atoi(lines.Text()); err != nil {
				t.Fatal(err)
			}
			if left--; left == 0 {
				_ = cmd.Process.Kill()
			}
		}
		_ = cmd.Wait() // it was killed
		if left > 0 {
			t.Fatalf("round %d: the writer ended by itself", round)
		}

		d := open(t, path, nil)
		if d.Repaired() != "" || round > 0 && d.Lost() != "" {
			t.Errorf("round %d: repaired %q, lost %q", round, d.Repaired(), d.Lost())
		}
		written := 0
		for v := []byte{}; v != nil; {
			if v, err = d.Get(recordKey(written)); err != nil {
				t.Error(err)
			} else if v != nil {
				written++
			}
		}
		if written <= acked {
			t.Errorf("round %d: %d batches found, %d was acknowledged", round, written, acked)
		}
		for i := range written {
			var want []byte
			if i >= written-bodiesKept {
				want = bodyOf(i)
			}
			if got, err := d.Get(bodyKey(i)); !bytes.Equal(got, want) || err != nil {
				t.Errorf("round %d: body %d of %d bytes has %d, %v", round, i, len(want), len(got), err)
			}
		}
		if err := d.AcceptLoss(); err != nil {
			t.Error(err)
		}
		closed(t, d)
		made = d.segments.highest
	}
	if made < 5 {
		t.Errorf("only %d segments were made, none to be swept", made)
	}
	t.Logf("%d rounds, %d batches, %d segments", rounds, acked+1, made)
}

// TestStoreIsAMapAcrossPowerCuts stops the disk between any two syncs. Some bodies may be on the
// disk before the log knows them, pages of the index before its meta page, and a part of a frame of the log.
func TestStoreIsAMapAcrossPowerCuts(t *testing.T) {
	folder, n := t.TempDir(), 0
	rapid.Check(t, func(r *rapid.T) {
		n++
		path := filepath.Join(folder, fmt.Sprint(n), "node.db")
		if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
			r.Fatal(err)
		}
		model := map[string]string{}
		for range rapid.IntRange(1, 5).Draw(r, "lives") {
			d := open(t, path, runNow)
			if err := d.AcceptLoss(); err != nil {
				r.Fatal(err)
			}
			before, next := imageOf(t, path), model
			after := before
			for range rapid.IntRange(1, 4).Draw(r, "commits") {
				before, model, next = after, next, maps.Clone(next)
				var ops []env.Op
				for range rapid.IntRange(1, 5).Draw(r, "ops") {
					k := rapid.StringMatching(`[a-c]{1,2}`).Draw(r, "key")
					if delete(next, k); rapid.Bool().Draw(r, "delete") {
						ops = append(ops, env.Op{Key: []byte(k)})
						continue
					}
					size := rapid.SampledFrom([]int{0, 3, minBody - 1, minBody, 3 * minBody, logSize / 3}).Draw(r, "size")
					v := text(rapid.Int().Draw(r, "text"), size)
					ops = append(ops, env.Op{Key: []byte(k), Value: v, Body: rapid.Bool().Draw(r, "body")})
					next[k] = string(v)
				}
				if err := commit(d, ops...); err != nil {
					r.Fatal(err)
				}
				after = imageOf(t, path)
			}
			closed(t, d) // the next life begins from an image of the disk

			cut := after
			switch old, young := slot(after.db, false), slot(after.db, true); rapid.SampledFrom([]string{"durable", "before the index", "during the last sync"}).Draw(r, "cut") {
			case "durable":
				model = next
			case "before the index":
				cut = before
				cut.segment = after.segment
				tear(t, r, before, after)
			case "during the last sync":
				switch added := tx(after.db, young) - tx(before.db, slot(before.db, true)); {
				case added == 0: // in the log
					first, last := 0, logSize-1
					for before.log[first] == after.log[first] {
						first++
					}
					for before.log[last] == after.log[last] {
						last--
					}
					kept := rapid.IntRange(first, last).Draw(r, "kept of the frame")
					cut.log = append(bytes.Clone(after.log[:kept]), before.log[kept:]...)
					salt, at := cut.log[len(logVersion):][:saltSize], first&^(logBlock-1)
					written, _ := parseLogFrame(salt, after.log[at:])
					if found, whole := parseLogFrame(salt, cut.log[at:]); whole && found.number == written.number {
						model = next // only zeros behind the frame are missing
					}
				case added == 1:
					cut.db = bytes.Clone(after.db)
					copy(cut.db[young:young+pageSize], before.db[young:])
					cut.log = before.log
				default:
					r.Fatalf("%d transactions of a commit; the one before was at %d", added, old)
				}
			}
			restore(t, path, cut)
		}
		d := open(t, path, nil)
		defer closed(t, d)
		if d.Repaired() != "" {
			r.Errorf("repaired: %s", d.Repaired())
		}
		got := map[string]string{}
		if err := d.Range(nil, func(k, v []byte) bool { got[string(k)] = string(v); return true }); err != nil {
			r.Error(err)
		}
		if fmt.Sprint(got) != fmt.Sprint(model) {
			r.Errorf("found %d records, want %d, or others: %.300v\n%.300v", len(got), len(model), fmt.Sprintf("%.20q", got), fmt.Sprintf("%.20q", model))
		}
	})
}

// An image is the content of the disk for a store with one segment at most.
type image struct{ db, log, segment []byte }

func segmentOf(path string) string { return filepath.Join(path+".bodies", "000001.seg") }

func imageOf(t *testing.T, path string) (i image) {
	t.Helper()
	var err error
	if i.db, err = os.ReadFile(path); err != nil {
		t.Fatal(err)
	}
	i.log, _ = os.ReadFile(path + ".log") // there may be none
	i.segment, _ = os.ReadFile(segmentOf(path))
	return i
}

func restore(t *testing.T, path string, i image) {
	t.Helper()
	for name, content := range map[string][]byte{path: i.db, path + ".log": i.log, segmentOf(path): i.segment} {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		if content == nil {
			continue
		}
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// tear keeps only a part of the bytes added to the segment, and damages it.
func tear(t *testing.T, r *rapid.T, before, after image) {
	t.Helper()
	if added := len(after.segment) - len(before.segment); added > 0 {
		kept := len(before.segment) + rapid.IntRange(0, added).Draw(r, "kept")
		clear(after.segment[kept:])
	}
}

// slot returns the position of the meta page of the last transaction, or of the one before. tx
// returns the transaction of a meta page.
func slot(db []byte, last bool) int {
	if (tx(db, pageSize) > tx(db, 0)) == last {
		return pageSize
	}
	return 0
}

func tx(db []byte, slot int) uint64 {
	return binary.NativeEndian.Uint64(db[slot+pageHeader+48:])
}
