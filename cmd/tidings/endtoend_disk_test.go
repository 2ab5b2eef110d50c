package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tidings/internal/longtest"
	"tidings/proxy"
)

// TestFullDisk fills a node's disk. The node says so, refuses what it cannot store, continues to serve what it has,
// and recovers when there is room.
func TestFullDisk(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	small := smallDisk(t, 8<<20)
	o := newTestOrigin(t)
	o.Play("/feed", growingFeed("feed", 3, 1))
	n := startNodeIn(t, filepath.Join(small, "node"), "--allow-private-origins", "--poll-interval", "1s")
	address := n.subscribe(o.url + "/feed")
	has := func(items int) func() error {
		return func() error {
			f, _, err := readFeed(address)
			if err == nil {
				err = checkTitles("feed", items, titles(f))
			}
			return err
		}
	}
	eventually(t, timeout, "good times", has(3))

	ballast := filepath.Join(small, "ballast")
	if err := fill(ballast); err != nil {
		t.Fatal(err)
	}
	// The store has some preallocated room, which is soon used up.
	var refused error
	held := []string{o.url + "/feed"}
	for i := 0; refused == nil && i < 5000; i++ {
		url := fmt.Sprintf("http://127.0.0.1:1/%d", i)
		if _, refused = n.runCommand("subscribe", url); refused == nil {
			held = append(held, url)
		}
	}
	if refused == nil {
		t.Fatal("a full disk refuses nothing")
	}
	t.Logf("after %d more subscriptions: %v", len(held)-1, refused)
	if !strings.Contains(refused.Error(), "room") && !strings.Contains(refused.Error(), "full") {
		t.Errorf("what is refused for want of room: %v", refused)
	}
	var s proxy.Status
	eventually(t, timeout, "words about the disk", func() error {
		s = n.status()
		for _, w := range s.Warnings {
			if said := w.String(); strings.Contains(said, "full") || strings.Contains(said, "no space") {
				t.Logf("status: %s: %s", s.State, w)
				return nil
			}
		}
		return fmt.Errorf("state %s, warnings %q", s.State, s.Warnings)
	})
	if s.State == proxy.StateOK {
		t.Error("the node is said to be well")
	}
	eventually(t, timeout, "words about it at the feed", func() error {
		if c := n.list()[o.url+"/feed"]; c.State != proxy.StateUnsaved || c.Error == "" || !strings.Contains(c.Do, "free space") {
			return fmt.Errorf("%+v", c)
		}
		return nil
	})
	if out, err := n.runCommand("doctor"); err == nil || !strings.Contains(out, "free space") {
		t.Errorf("the doctor finds no problem, or has no advice: %v\n%s", err, out)
	}
	if err := has(3)(); err != nil {
		t.Errorf("while the disk is full: %v", err)
	}
	if !n.isRunning() {
		t.Fatal("the node ended")
	}

	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	o.step()
	eventually(t, timeout, "the item that came when the disk was full", has(4))
	after := "http://127.0.0.1:1/after"
	eventually(t, timeout, "a subscription", func() error {
		_, err := n.runCommand("subscribe", after)
		return err
	})
	held = append(held, after)
	eventually(t, timeout, "a node that is well", func() error {
		if s := n.status(); s.State != proxy.StateOK {
			return fmt.Errorf("state %s, warnings %q", s.State, s.Warnings)
		}
		return nil
	})
	n.kill()
	n.restart()
	l := n.list()
	for _, url := range held {
		if _, ok := l[url]; !ok {
			t.Errorf("lost: %s", url)
		}
	}
}

// smallDisk mounts a disk of a size, or skips the test.
func smallDisk(t *testing.T, size int) string {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", fmt.Sprintf("size=%d", size), "tidings-test", dir).CombinedOutput(); err != nil {
		t.Skipf("only a user who may mount can have a small disk: %v: %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", dir).CombinedOutput(); err != nil {
			t.Errorf("umount: %v: %s", err, out)
		}
	})
	return dir
}

// fill writes a file until the disk is full.
func fill(name string) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	zeros := make([]byte, 4096)
	for err == nil {
		_, err = f.Write(zeros)
	}
	if e := f.Close(); e != nil && !errors.Is(err, e) {
		return e
	}
	return nil
}

// TestDamagedStore kills a node and overwrites a part of its stores. The node says so and returns with another
// identity, because it may have forgotten what it signed. It has all of its subscriptions: feeds with their
// settings, a page, and keyword subscriptions at their addresses. Ended subscriptions stay ended.
func TestDamagedStore(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	feeds := longtest.Pick(60, 200)
	for _, c := range []struct {
		name   string
		damage func(f *os.File, size int64) error
	}{
		{"one record", func(f *os.File, size int64) error { return overwriteText(f, size, "http://127.0.0.1:1/43") }},
		{"its first pages", func(f *os.File, _ int64) error { return overwriteRange(f, 0, 16<<10) }},
		{"all but its beginning", func(f *os.File, _ int64) error { return f.Truncate(8 * 4096) }},
		{"all of it", func(f *os.File, size int64) error { return overwriteRange(f, 0, size) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := newTestOrigin(t)
			o.Play("/feed", growingFeed("feed", 3, 1))
			n := startNode(t, "--allow-private-origins", "--poll-interval", "1s")
			address := n.subscribe(o.url + "/feed")
			for i := range feeds {
				if err := post(n, "subscribe", fmt.Sprintf("http://127.0.0.1:1/%d", i)); err != nil {
					t.Fatal(err)
				}
			}
			eventually(t, timeout, "good times", func() error {
				_, _, err := readFeed(address)
				return err
			})
			id := n.status().ID
			if err := post(n, "subscribe", "page+http://127.0.0.1:1/page"); err != nil {
				t.Fatal(err)
			}
			for _, args := range [][]string{
				{"subscribe", "--least", "publisher", "http://127.0.0.1:1/7"}, {"unsubscribe", "http://127.0.0.1:1/8"}, {"watch", "solar battery"}, {"watch", "wind"}, {"unwatch", "wind"},
			} {
				if _, err := n.runCommand(args...); err != nil {
					t.Fatal(err)
				}
			}
			n.stop() // which empties the log, so that all records are in the file that is damaged
			n.restart()
			watches, err := n.runCommand("watches", "--json")
			if err != nil {
				t.Fatal(err)
			}
			before := n.list()
			n.kill()

			for _, name := range []string{"tidings.db", "keywords.db", "news.db"} {
				f, err := os.OpenFile(filepath.Join(n.dir, name), os.O_RDWR, 0)
				if err != nil {
					t.Fatal(err)
				}
				info, err := f.Stat()
				if err == nil {
					err = c.damage(f, info.Size())
				}
				if err = errors.Join(err, f.Close()); err != nil {
					t.Fatal(err)
				}
			}

			n.restart()
			var s proxy.Status
			eventually(t, timeout, "a member", func() error {
				if s = n.status(); s.ID == "" {
					return errors.New("it has no id yet")
				}
				return nil
			})
			if s.ID == id {
				t.Error("the node goes on under its old id, though it may have forgotten what it signed")
			}
			// The messages are for people: they say what was lost and what is left, and show no keys.
			const words = "no subscription is lost"
			after := n.list()
			for url, was := range before {
				if is, ok := after[url]; !ok || is.MinProvenance != was.MinProvenance || is.Kind != was.Kind {
					t.Errorf("%s was %+v and is %+v", url, was, is)
				}
			}
			if len(after) != len(before) || len(after) != feeds+1 {
				t.Errorf("%d subscriptions were %d", len(after), len(before))
			}
			if got, err := n.runCommand("watches", "--json"); err != nil || got != watches {
				t.Errorf("keyword subscriptions were %s and are %s, %v", watches, got, err)
			}
			logged := n.stderr.String()
			if !strings.Contains(logged, "store was damaged") || !strings.Contains(logged, words) {
				t.Errorf("the log does not say that %s:\n%s", words, logged)
			}
			warned := false
			for _, w := range s.Warnings {
				warned = warned || strings.Contains(w.String(), "store was damaged") && strings.Contains(w.String(), words)
			}
			if !warned {
				t.Errorf("status does not say that %s: %s %q", words, s.State, s.Warnings)
			}
			for _, key := range []string{"feedtree/", "owner/seat", `\x`} {
				if strings.Contains(logged+fmt.Sprint(s.Warnings), key) {
					t.Errorf("people are told of %s: %q\n%s", key, s.Warnings, logged)
				}
			}
			if out, err := n.runCommand("doctor"); err != nil || !strings.Contains(out, "came back from") {
				t.Errorf("doctor says %s, %v", out, err)
			}
			t.Logf("%d of %d subscriptions; %s: %q", len(after), len(before), s.State, s.Warnings)
			if aside, _ := filepath.Glob(filepath.Join(n.dir, "tidings.db.damaged-*")); len(aside) == 0 {
				t.Error("the damaged file is gone")
			}
			// The node works, and so does the address that a reader was given.
			if got := n.subscribe(o.url + "/feed"); got != address {
				t.Errorf("the reader's address was %s and is %s", address, got)
			}
			o.step()
			eventually(t, timeout, "the feed", func() error {
				f, _, err := readFeed(address)
				if err == nil && len(f.Items) < 4 {
					err = fmt.Errorf("%d items", len(f.Items))
				}
				return err
			})
			n.stop() // cleanly, as any node
		})
	}
}

// overwriteText overwrites all occurrences of a text in a file.
func overwriteText(f *os.File, size int64, text string) error {
	b := make([]byte, size)
	if _, err := f.ReadAt(b, 0); err != nil {
		return err
	}
	for at := 0; ; at++ {
		i := bytes.Index(b[at:], []byte(text))
		if i < 0 {
			return nil
		}
		at += i
		if err := overwriteRange(f, int64(at), int64(len(text))); err != nil {
			return err
		}
	}
}

// overwriteRange overwrites a part of a file.
func overwriteRange(f *os.File, at, n int64) error {
	_, err := io.Copy(io.NewOffsetWriter(f, at), io.LimitReader(randomData{}, n))
	return err
}

// randomData stands for what a broken disk reads.
type randomData struct{}

func (randomData) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(i*7 + 13)
	}
	return len(p), nil
}
