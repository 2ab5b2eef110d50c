package publisher

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tidings/difference"
	"tidings/feedtree"
	"tidings/internal/feed"
)

const url = "https://example.org/feed.xml"

func none(string) (string, error) { return "", errors.New("nobody was to be asked") }

func item(t *testing.T, name string) *feed.Item {
	t.Helper()
	it, err := feed.NewItem(feed.RSS, feed.Meaning{GUID: name, Title: name}, time.Unix(1, 0))
	if err != nil {
		t.Fatal(err)
	}
	return &it
}

func TestAKeyIsReadByItsOwnerAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "blog.key")
	made, err := Generate(path, "")
	if err != nil {
		t.Fatal(err)
	}
	read, err := Read(path, none)
	if err != nil || !bytes.Equal(read.Public(), made.Public()) || read.Next() != made.Next() {
		t.Errorf("%v, %v", read, err)
	}
	if _, err := Open(path+"s", none); err == nil || !strings.Contains(err.Error(), "make it with \"tidings keygen ") {
		t.Error(err)
	}
	next, err := Read(path+nextSuffix, none)
	if err != nil || difference.KeyHash(next.Public()) != made.Next() {
		t.Errorf("%v, %v", next, err)
	}
	nowhere := filepath.Join(t.TempDir(), "keys", "blog.key")
	if _, err := Generate(nowhere, ""); err == nil || !strings.Contains(err.Error(), "the directory "+filepath.Dir(nowhere)+" does not exist") {
		t.Errorf("in a directory that is not there: %v", err)
	}
	if _, err := Generate(path, ""); err == nil {
		t.Error("a key was written over")
	}
	if runtime.GOOS == "windows" {
		return
	}
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(path, none); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("others may read it: %v", err)
	}
}

func TestALockedKeyNeedsItsPassphrase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "blog.key")
	made, err := Generate(path, "correct horse")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{path, path + nextSuffix} {
		if b, err := os.ReadFile(file); err != nil || bytes.Contains(b, []byte(pemType)) {
			t.Errorf("%s is not locked: %v", file, err)
		}
	}
	said := func(words string) Passphrase { return func(string) (string, error) { return words, nil } }
	if k, err := Read(path, said("correct horse")); err != nil || !bytes.Equal(k.Public(), made.Public()) {
		t.Errorf("%v, %v", k, err)
	}
	if _, err := Read(path, said("wrong horse")); err == nil || !strings.Contains(err.Error(), "wrong passphrase") {
		t.Error(err)
	}
}

func TestReadRefuses(t *testing.T) {
	for name, b := range map[string][]byte{
		"nothing":      nil,
		"another key":  []byte("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"),
		"a short key":  []byte("-----BEGIN " + pemType + "-----\nAAAA\n-----END " + pemType + "-----\n"),
		"a large file": make([]byte, maxKeyFile+1),
	} {
		path := filepath.Join(t.TempDir(), "k")
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(path, none); !errors.Is(err, ErrKey) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestADirectoryIsNoKey(t *testing.T) {
	if _, err := Read(t.TempDir(), none); !errors.Is(err, ErrKey) || !strings.Contains(err.Error(), "is a directory") {
		t.Error(err)
	}
}

// The key that is to follow is in reserve: who signs with it by mistake gives it away, and nobody takes what
// it signs.
func TestTheKeyThatFollowsSignsNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "blog.key")
	if _, err := Generate(path, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path+nextSuffix, none); err == nil || !strings.HasSuffix(err.Error(), "give "+path) {
		t.Error(err)
	}
	moved := filepath.Join(t.TempDir(), "moved.key")
	if err := os.Rename(path+nextSuffix, moved); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(moved, none); err == nil || !strings.Contains(err.Error(), "keygen --rotate") {
		t.Error(err)
	}
}

// A program that runs while keygen --rotate replaces the key signs with the new one from then on, also if the key is locked,
// and the old file is refused.
func TestARotationIsNoticed(t *testing.T) {
	asShipped := work
	t.Cleanup(func() { work = asShipped })
	work = 10
	for _, words := range []string{"", "correct horse"} {
		path := filepath.Join(t.TempDir(), "blog.key")
		asked := 0
		ask := func(string) (string, error) { asked++; return words, nil }
		if _, err := Generate(path, words); err != nil {
			t.Fatal(err)
		}
		a, err := Open(path, ask)
		if err != nil {
			t.Fatal(err)
		}
		once := asked
		next, err := Rotate(path, func(string) (string, error) { return words, nil })
		if err != nil {
			t.Fatal(err)
		}
		raw, err := a.Sign(url, Last{}, item(t, "one"), time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if p, err := difference.OpenPublication(raw); err != nil || !p.SignedBy(next.Public()) || !bytes.Equal(a.Public(), next.Public()) || asked != once {
			t.Errorf("%q: %v, %v, asked %d times", words, p, err, asked)
		}
		if _, err := Open(path+oldSuffix, ask); err == nil || !strings.HasSuffix(err.Error(), ": give "+path) {
			t.Error(err)
		}
		if err := os.WriteFile(path, []byte("no key"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := a.Sign(url, Last{}, item(t, "two"), time.Now()); err == nil || !strings.Contains(err.Error(), "restart it") {
			t.Error(err)
		}
	}
}

func TestTheKeyThatFollowsTakesItsPlace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "blog.key")
	first, err := Generate(path, "")
	if err != nil {
		t.Fatal(err)
	}
	second, err := Rotate(path, none)
	if err != nil {
		t.Fatal(err)
	}
	if difference.KeyHash(second.Public()) != first.Next() {
		t.Error("it is not the one that was named")
	}
	third, err := Read(path+nextSuffix, none)
	if err != nil || difference.KeyHash(third.Public()) != second.Next() {
		t.Errorf("%v, %v", third, err)
	}
	if old, err := Read(path+oldSuffix, none); err != nil || !bytes.Equal(old.Public(), first.Public()) {
		t.Errorf("%v, %v", old, err)
	}
	if _, err := Rotate(path, none); err == nil || !strings.Contains(err.Error(), "move it to another place") {
		t.Errorf("the old key was written over: %v", err)
	}
	for _, file := range []string{path + oldSuffix, path + nextSuffix} {
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Rotate(path, none); err == nil || !strings.Contains(err.Error(), "copy it back") {
		t.Errorf("without the next key: %v", err)
	}
	if _, err := Generate(path, ""); err == nil || !strings.Contains(err.Error(), "keygen --rotate") {
		t.Errorf("over a key: %v", err)
	}
}

func opened(t *testing.T, path string) *Author {
	t.Helper()
	a, err := Open(path, none)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func signed(t *testing.T, a *Author, last Last, name string) *difference.Publication {
	t.Helper()
	raw, err := a.Sign(url, last, item(t, name), time.Unix(2, 0))
	if err != nil {
		t.Fatal(err)
	}
	p, err := difference.OpenPublication(raw)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// What was signed and got lost on its way is sent again as it is, also by the next process.
func TestNumbersAreGivenOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "blog.key")
	if _, err := Generate(path, ""); err != nil {
		t.Fatal(err)
	}
	a := opened(t, path)
	one := signed(t, a, Last{}, "one")
	if one.Seq != 1 || one.Prev != (feed.Hash{}) {
		t.Errorf("%+v", one)
	}
	a = opened(t, path)
	if unsent, err := a.Unsent(url, Last{}, time.Unix(3, 0)); err != nil || !bytes.Equal(unsent, one.Raw) {
		t.Errorf("what was signed is not in the record: %v", err)
	}
	had := Last{one.Seq, one.Hash}
	if unsent, err := a.Unsent(url, had, time.Unix(3, 0)); unsent != nil || err != nil {
		t.Errorf("the network has it: %v", err)
	}
	two := signed(t, a, had, "two")
	if two.Seq != 2 || two.Prev != one.Hash {
		t.Errorf("%+v", two)
	}
	if three := signed(t, a, had, "three"); three.Seq != 3 || three.Prev != two.Hash {
		t.Errorf("%+v", three)
	}
}

// As long as the network does not take what was signed, nothing is signed after it.
func TestWhatCouldNotBePushedGoesFirst(t *testing.T) {
	path := filepath.Join(t.TempDir(), "blog.key")
	if _, err := Generate(path, ""); err != nil {
		t.Fatal(err)
	}
	a := opened(t, path)
	var had Last // by the network
	var names []string
	lost := errors.New("lost on its way")
	write := func(name string, takes bool) error {
		_, err := a.Write(url, had.Seq, had.Head, item(t, name), time.Unix(2, 0), func(envelope []byte) error {
			p, err := difference.OpenPublication(envelope)
			switch {
			case err != nil:
				t.Fatal(err)
			case !takes:
				return lost
			case p.Seq != had.Seq+1 || p.Prev != had.Head:
				t.Errorf("number %d follows on %d", p.Seq, had.Seq)
			}
			m, _ := p.Item.Meaning("")
			names, had = append(names, m.GUID), Last{p.Seq, p.Hash}
			return nil
		})
		return err
	}
	for _, step := range []struct {
		name  string
		takes bool
	}{{"one", true}, {"two", false}, {"three", false}, {"four", true}} {
		if err := write(step.name, step.takes); step.takes != (err == nil) || err != nil && !errors.Is(err, lost) {
			t.Errorf("%s: %v", step.name, err)
		}
	}
	if !slices.Equal(names, []string{"one", "two", "four"}) { // "three" was never signed
		t.Errorf("the network has %q", names)
	}
}

// Who could not push is told what is in the record, and what to publish again.
func TestWhatCouldNotBePushedIsSaid(t *testing.T) {
	path := filepath.Join(t.TempDir(), "blog.key")
	if _, err := Generate(path, ""); err != nil {
		t.Fatal(err)
	}
	a := opened(t, path)
	refused := fmt.Errorf("%w: it is said of another key", feedtree.ErrRefused)
	var had Last
	for _, step := range []struct {
		name   string
		fails  error
		signed uint64 // its number; 0: it is not, or not kept
		says   string
		feeds  map[string]bool // afterwards
	}{
		{"wrong address", refused, 0, "number 1 of " + url + " is not kept", map[string]bool{}},
		{"early", feedtree.ErrNotAccepted, 1, "do not publish it again", map[string]bool{url: false}},
		{"behind it", feedtree.ErrNotAccepted, 0, "number 1 of " + url + ", which was signed before, is signed, but nobody is known to have it", map[string]bool{url: false}},
		{"one", refused, 0, "which was signed before, is not kept", map[string]bool{}},
		{"one", nil, 1, "", map[string]bool{url: true}},
		{"two", refused, 2, "what is published there next has to wait for it", map[string]bool{url: true}},
		{"three", refused, 0, "is not signed: publish it again", map[string]bool{url: true}},
		{"three", io.ErrUnexpectedEOF, 0, "is not signed: publish it again", map[string]bool{url: true}},
		{"three", nil, 3, "", map[string]bool{url: true}},
		{"four", io.ErrUnexpectedEOF, 4, "kept in " + path + recordSuffix, map[string]bool{url: true}},
		{"four", io.ErrUnexpectedEOF, 4, "do not publish it again", map[string]bool{url: true}}, // it is tried again
		{"four", nil, 4, "", map[string]bool{url: true}},
		{"five", nil, 5, "", map[string]bool{url: true}},
	} {
		seq, err := a.Write(url, had.Seq, had.Head, item(t, step.name), time.Unix(2, 0), func(envelope []byte) error {
			p, err := difference.OpenPublication(envelope)
			if err == nil && step.fails == nil {
				had = Last{p.Seq, p.Hash}
			}
			return errors.Join(err, step.fails)
		})
		switch {
		case seq != step.signed || step.fails == nil != (err == nil) || !errors.Is(err, step.fails):
			t.Errorf("%s: number %d, %v", step.name, seq, err)
		case err != nil && !strings.Contains(err.Error(), step.says):
			t.Errorf("%s: %v, want %q", step.name, err, step.says)
		}
		for who, feeds := range map[string]map[string]bool{"it": a.Feeds(), "the next process": opened(t, path).Feeds()} {
			if !maps.Equal(feeds, step.feeds) {
				t.Errorf("%s: %s publishes in %v", step.name, who, feeds)
			}
		}
	}
}

// What nobody has ever taken a heartbeat brings, or forgets.
func TestAHeartbeatBringsWhatWasNotPushed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "blog.key")
	if _, err := Generate(path, ""); err != nil {
		t.Fatal(err)
	}
	a := opened(t, path)
	for _, c := range []struct {
		fails error
		feeds map[string]bool
	}{
		{feedtree.ErrNotAccepted, map[string]bool{url: false}},
		{feedtree.ErrRefused, map[string]bool{url: false}}, // it was said to be kept
		{nil, map[string]bool{url: true}},
	} {
		signed(t, a, Last{}, "one")
		if err := a.Alive(url, 0, feed.Hash{}, time.Unix(3, 0), func([]byte) error { return c.fails }); !errors.Is(err, c.fails) {
			t.Errorf("%v, want %v", err, c.fails)
		}
		if !maps.Equal(a.Feeds(), c.feeds) {
			t.Errorf("%v: publishes in %v", c.fails, a.Feeds())
		}
		if err := os.Remove(path + recordSuffix); c.fails != nil && err != nil {
			t.Error(err)
		}
	}
}

// After a rotation nothing that was taken is signed anew before it is known what the network has.
func TestWhatWasTakenIsNotSignedAnew(t *testing.T) {
	path := filepath.Join(t.TempDir(), "blog.key")
	if _, err := Generate(path, ""); err != nil {
		t.Fatal(err)
	}
	a := opened(t, path)
	var had Last
	takes := func(envelope []byte) error {
		p, err := difference.OpenPublication(envelope)
		if err == nil {
			had = Last{p.Seq, p.Hash}
		}
		return err
	}
	for _, s := range []string{"one", "two", "three"} {
		if _, err := a.Write(url, had.Seq, had.Head, item(t, s), time.Unix(2, 0), takes); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Rotate(path, none); err != nil {
		t.Fatal(err)
	}
	a = opened(t, path)
	if _, err := a.Write(url, 0, feed.Hash{}, item(t, "four"), time.Unix(9, 0), takes); !errors.Is(err, feedtree.ErrNotAccepted) {
		t.Errorf("not known yet: %v", err)
	}
	if seq, err := a.Write(url, had.Seq, had.Head, item(t, "four"), time.Unix(10, 0), takes); err != nil || seq != 4 {
		t.Errorf("known: %d, %v", seq, err)
	}
}

// Who is told that an item was not taken publishes it again.
func TestWhatWasTakenIsSaidToBeTaken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "blog.key")
	if _, err := Generate(path, ""); err != nil {
		t.Fatal(err)
	}
	a := opened(t, path)
	seq, err := a.Write(url, 0, feed.Hash{}, item(t, "one"), time.Unix(2, 0), func([]byte) error {
		return errors.Join(os.Remove(path+recordSuffix), os.Mkdir(path+recordSuffix, 0o700)) // it cannot be noted
	})
	if err != nil || seq != 1 {
		t.Errorf("%d, %v", seq, err)
	}
}

// Killed between its steps, a rotation goes on where it was.
func TestARotationThatWasInterruptedGoesOn(t *testing.T) {
	for name, interrupt := range map[string]func(path string) error{
		"before the key is there":       func(path string) error { return os.Remove(path) },
		"before there is one to follow": func(path string) error { return nil },
	} {
		path := filepath.Join(t.TempDir(), "blog.key")
		if _, err := Generate(path, ""); err != nil {
			t.Fatal(err)
		}
		following, err := os.ReadFile(path + nextSuffix)
		if err != nil {
			t.Fatal(err)
		}
		second, err := Rotate(path, none)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.WriteFile(path+nextSuffix, following, 0o600), interrupt(path)); err != nil {
			t.Fatal(err)
		}
		again, err := Rotate(path, none)
		if err != nil || !bytes.Equal(again.Public(), second.Public()) {
			t.Fatalf("%s: %v", name, err)
		}
		next, err := Read(path+nextSuffix, none)
		if read, other := Read(path, none); err != nil || other != nil || read.Next() != difference.KeyHash(next.Public()) || bytes.Equal(next.Public(), again.Public()) {
			t.Errorf("%s: the key does not name the one that follows: %v, %v", name, err, other)
		}
	}
}

// A node and a command beside it, or two of these, have one key: no number is given twice, none is left out, and
// nothing is lost of who signed and could not push.
func TestTwoProcessesWithOneKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "blog.key")
	if _, err := Generate(path, ""); err != nil {
		t.Fatal(err)
	}
	one, other := opened(t, path), opened(t, path)
	var mu sync.Mutex
	var had Last // by the network
	var names []string
	push := func(envelope []byte) error {
		mu.Lock()
		defer mu.Unlock()
		p, err := difference.OpenPublication(envelope)
		switch {
		case err != nil:
			return err
		case p.Seq <= had.Seq:
			return nil // it is there
		case p.Seq != had.Seq+1 || p.Prev != had.Head:
			return fmt.Errorf("number %d does not follow on %d", p.Seq, had.Seq)
		}
		m, _ := p.Item.Meaning("")
		names, had = append(names, m.GUID), Last{p.Seq, p.Hash}
		return nil
	}
	var all sync.WaitGroup
	for i, a := range []*Author{one, other} {
		all.Go(func() {
			for k := range 10 {
				mu.Lock()
				last := had
				mu.Unlock()
				if _, err := a.Write(url, last.Seq, last.Head, item(t, fmt.Sprint(i, k)), time.Unix(2, 0), push); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	slices.Sort(names)
	if had.Seq != 20 || len(slices.Compact(names)) != 20 {
		t.Errorf("the network has %d: %q", had.Seq, names)
	}
	killed := signed(t, one, had, "killed before it was pushed")
	if seq, err := other.Write(url, had.Seq, had.Head, item(t, "last"), time.Unix(3, 0), push); err != nil || seq != killed.Seq+1 || had.Seq != 22 {
		t.Errorf("number %d, %v; the network has %d", seq, err, had.Seq)
	}
}

// A network that has lost the end of a feed is given that again, before anything that follows.
func TestALostTailIsPushedAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "blog.key")
	if _, err := Generate(path, ""); err != nil {
		t.Fatal(err)
	}
	a := opened(t, path)
	var last Last
	var third *difference.Publication
	for i := range 2 * maxBefore {
		p := signed(t, a, last, fmt.Sprint(i))
		if last = (Last{p.Seq, p.Hash}); i == 2*maxBefore-4 {
			third = p
		}
	}
	var again []uint64
	a = opened(t, path)
	seq, err := a.Write(url, third.Seq, third.Hash, item(t, "next"), time.Unix(3, 0), func(envelope []byte) error {
		p, err := difference.OpenPublication(envelope)
		again = append(again, p.Seq)
		return err
	})
	if want := []uint64{last.Seq - 2, last.Seq - 1, last.Seq, last.Seq + 1}; err != nil || seq != last.Seq+1 || !slices.Equal(again, want) {
		t.Errorf("pushed %d, want %d: %v", again, want, err)
	}
	if l := a.record[url]; len(l.Before) != maxBefore || l.Before[maxBefore-1].Seq != last.Seq {
		t.Errorf("%d lines before number %d", len(l.Before), l.Seq)
	}
}

// Nobody takes anything from the key before: what it has signed in vain the next one signs.
func TestTheNextKeySignsWhatCouldNotBePushed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "blog.key")
	if _, err := Generate(path, ""); err != nil {
		t.Fatal(err)
	}
	a := opened(t, path)
	one := signed(t, a, Last{}, "one")
	had := Last{one.Seq, one.Hash}
	two := signed(t, a, had, "two")
	if _, err := Rotate(path, none); err != nil {
		t.Fatal(err)
	}
	a = opened(t, path)
	raw, err := a.Unsent(url, had, time.Unix(9, 0))
	if err != nil {
		t.Fatal(err)
	}
	p, err := difference.OpenPublication(raw)
	if err != nil || !p.SignedBy(a.Key().Public()) || p.Seq != 2 || p.Prev != one.Hash || p.Item.Hash != two.Item.Hash {
		t.Errorf("%+v, %v", p, err)
	}
	if again, err := opened(t, path).Unsent(url, had, time.Unix(10, 0)); err != nil || !bytes.Equal(again, raw) {
		t.Errorf("it is another the next time: %v", err)
	}
	if three := signed(t, a, Last{p.Seq, p.Hash}, "three"); three.Seq != 3 || three.Prev != p.Hash {
		t.Errorf("%+v", three)
	}
}

// So it does with several, one after the other, each of which follows on the one that it signed before.
func TestTheNextKeySignsAllThatCouldNotBePushed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "blog.key")
	if _, err := Generate(path, ""); err != nil {
		t.Fatal(err)
	}
	a := opened(t, path)
	had := Last{}
	for i := range 4 {
		p := signed(t, a, Last{}, fmt.Sprint(i))
		if i == 0 {
			had = Last{p.Seq, p.Hash}
		}
	}
	if _, err := Rotate(path, none); err != nil {
		t.Fatal(err)
	}
	a = opened(t, path)
	var names []string
	seq, err := a.Write(url, had.Seq, had.Head, item(t, "next"), time.Unix(9, 0), func(envelope []byte) error {
		p, err := difference.OpenPublication(envelope)
		if err != nil || !p.SignedBy(a.Key().Public()) || p.Seq != had.Seq+1 || p.Prev != had.Head {
			return fmt.Errorf("number %d follows on %d: %w", p.Seq, had.Seq, err)
		}
		m, _ := p.Item.Meaning("")
		names, had = append(names, m.GUID), Last{p.Seq, p.Hash}
		return nil
	})
	if err != nil || seq != 5 || !slices.Equal(names, []string{"1", "2", "3", "next"}) {
		t.Errorf("number %d, pushed %q: %v", seq, names, err)
	}
}

// A publisher restored from an old backup signs nothing until its owner has said that it is right.
func TestAnOldBackupIsNoticed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "blog.key")
	if _, err := Generate(path, ""); err != nil {
		t.Fatal(err)
	}
	a := opened(t, path)
	one := signed(t, a, Last{}, "one")
	backup, err := os.ReadFile(path + recordSuffix)
	if err != nil {
		t.Fatal(err)
	}
	two := signed(t, a, Last{one.Seq, one.Hash}, "two")
	if err := os.WriteFile(path+recordSuffix, backup, 0o600); err != nil {
		t.Fatal(err)
	}
	a = opened(t, path)
	for what, last := range map[string]Last{
		"more":    {two.Seq, two.Hash},
		"another": {one.Seq, two.Hash},
	} {
		if _, err := a.Sign(url, last, item(t, "x"), time.Unix(3, 0)); !errors.Is(err, ErrBehind) {
			t.Errorf("the network has %s: %v", what, err)
		}
		if _, err := a.Beat(url, last, time.Unix(3, 0)); !errors.Is(err, ErrBehind) {
			t.Errorf("the network has %s: a heartbeat: %v", what, err)
		}
	}
	had := Last{two.Seq, two.Hash}
	if err := a.Resume(url, had); err != nil {
		t.Fatal(err)
	}
	if three := signed(t, a, had, "three"); three.Seq != 3 || three.Prev != two.Hash {
		t.Errorf("%+v", three)
	}
}
