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

// readKey reads a key from its file.
func readKey(path string, ask Passphrase) (*Key, error) {
	k, _, err := read(path, ask)
	return k, err
}

func noPassphrase(string) (string, error) { return "", errors.New("nobody was to be asked") }

func item(t *testing.T, name string) *feed.Item {
	t.Helper()
	it, err := feed.NewItem(feed.RSS, feed.Meaning{GUID: name, Title: name}, time.Unix(1, 0))
	if err != nil {
		t.Fatal(err)
	}
	return &it
}

func TestKeyFileIsPrivate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "blog.key")
	made, err := Generate(path, "")
	if err != nil {
		t.Fatal(err)
	}
	read, err := readKey(path, noPassphrase)
	if err != nil || !bytes.Equal(read.Public(), made.Public()) || read.Next() != made.Next() {
		t.Errorf("%v, %v", read, err)
	}
	if _, err := Open(path+"s", noPassphrase); err == nil || !strings.Contains(err.Error(), "make it with \"tidings keygen ") {
		t.Error(err)
	}
	next, err := readKey(path+nextSuffix, noPassphrase)
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
	if _, err := readKey(path, noPassphrase); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("others may read it: %v", err)
	}
}

func TestEncryptedKeyNeedsItsPassphrase(t *testing.T) {
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
	if k, err := readKey(path, said("correct horse")); err != nil || !bytes.Equal(k.Public(), made.Public()) {
		t.Errorf("%v, %v", k, err)
	}
	if _, err := readKey(path, said("wrong horse")); err == nil || !strings.Contains(err.Error(), "wrong passphrase") {
		t.Error(err)
	}
}

func TestReadRefusesOtherFiles(t *testing.T) {
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
		if _, err := readKey(path, noPassphrase); !errors.Is(err, ErrKey) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestDirectoryIsNoKey(t *testing.T) {
	if _, err := readKey(t.TempDir(), noPassphrase); !errors.Is(err, ErrKey) || !strings.Contains(err.Error(), "is a directory") {
		t.Error(err)
	}
}

// The next key is kept in reserve. Signing with it by mistake would reveal it, and nobody would accept the
// items.
func TestNextKeySignsNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "blog.key")
	if _, err := Generate(path, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path+nextSuffix, noPassphrase); err == nil || !strings.HasSuffix(err.Error(), "give "+path) {
		t.Error(err)
	}
	moved := filepath.Join(t.TempDir(), "moved.key")
	if err := os.Rename(path+nextSuffix, moved); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(moved, noPassphrase); err == nil || !strings.Contains(err.Error(), "keygen --rotate") {
		t.Error(err)
	}
}

// A running program signs with the new key as soon as keygen --rotate has replaced the old one, also if the
// key is encrypted. The old key file is refused.
func TestRotationIsNoticed(t *testing.T) {
	asShipped := scryptWork
	t.Cleanup(func() { scryptWork = asShipped })
	scryptWork = 10
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
		raw, err := a.Sign(url, Head{}, item(t, "one"), time.Now())
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
		if _, err := a.Sign(url, Head{}, item(t, "two"), time.Now()); err == nil || !strings.Contains(err.Error(), "restart it") {
			t.Error(err)
		}
	}
}

func TestRotateReplacesTheKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "blog.key")
	first, err := Generate(path, "")
	if err != nil {
		t.Fatal(err)
	}
	second, err := Rotate(path, noPassphrase)
	if err != nil {
		t.Fatal(err)
	}
	if difference.KeyHash(second.Public()) != first.Next() {
		t.Error("it is not the one that was named")
	}
	third, err := readKey(path+nextSuffix, noPassphrase)
	if err != nil || difference.KeyHash(third.Public()) != second.Next() {
		t.Errorf("%v, %v", third, err)
	}
	if old, err := readKey(path+oldSuffix, noPassphrase); err != nil || !bytes.Equal(old.Public(), first.Public()) {
		t.Errorf("%v, %v", old, err)
	}
	if _, err := Rotate(path, noPassphrase); err == nil || !strings.Contains(err.Error(), "move it to another place") {
		t.Errorf("the old key was written over: %v", err)
	}
	for _, file := range []string{path + oldSuffix, path + nextSuffix} {
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Rotate(path, noPassphrase); err == nil || !strings.Contains(err.Error(), "copy it back") {
		t.Errorf("without the next key: %v", err)
	}
	if _, err := Generate(path, ""); err == nil || !strings.Contains(err.Error(), "keygen --rotate") {
		t.Errorf("over a key: %v", err)
	}
}

func opened(t *testing.T, path string) *Signer {
	t.Helper()
	a, err := Open(path, noPassphrase)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func signed(t *testing.T, a *Signer, last Head, name string) *difference.Publication {
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

// An item that was signed and got lost is sent again unchanged, also by the next process.
func TestNumbersAreUsedOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "blog.key")
	if _, err := Generate(path, ""); err != nil {
		t.Fatal(err)
	}
	a := opened(t, path)
	one := signed(t, a, Head{}, "one")
	if one.Seq != 1 || one.Prev != (feed.Hash{}) {
		t.Errorf("%+v", one)
	}
	a = opened(t, path)
	if unsent, err := a.NextUnsent(url, Head{}, time.Unix(3, 0)); err != nil || !bytes.Equal(unsent, one.Raw) {
		t.Errorf("what was signed is not in the record: %v", err)
	}
	had := Head{one.Seq, one.Hash}
	if unsent, err := a.NextUnsent(url, had, time.Unix(3, 0)); unsent != nil || err != nil {
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

// As long as the network does not accept an item, no item is signed after it.
func TestUnsentItemGoesFirst(t *testing.T) {
	path := filepath.Join(t.TempDir(), "blog.key")
	if _, err := Generate(path, ""); err != nil {
		t.Fatal(err)
	}
	a := opened(t, path)
	var had Head // of the network
	var names []string
	lost := errors.New("lost on its way")
	write := func(name string, takes bool) error {
		_, err := signAndPush(a, url, had.Seq, had.Hash, item(t, name), time.Unix(2, 0), func(envelope []byte) error {
			p, err := difference.OpenPublication(envelope)
			switch {
			case err != nil:
				t.Fatal(err)
			case !takes:
				return lost
			case p.Seq != had.Seq+1 || p.Prev != had.Hash:
				t.Errorf("number %d follows on %d", p.Seq, had.Seq)
			}
			m, _ := p.Item.Meaning("")
			names, had = append(names, m.GUID), Head{p.Seq, p.Hash}
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

// The error says what is in the record, and whether to publish again.
func TestUnsentErrorSaysWhatToDo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "blog.key")
	if _, err := Generate(path, ""); err != nil {
		t.Fatal(err)
	}
	a := opened(t, path)
	refused := fmt.Errorf("%w: it is said of another key", feedtree.ErrRefused)
	var had Head
	for _, step := range []struct {
		name   string
		fails  error
		signed uint64 // number of the item; 0: it was not signed or not kept
		says   string
		feeds  map[string]bool // after the call
	}{
		{"wrong address", refused, 0, "number 1 of " + url + " is not kept", map[string]bool{}},
		{"early", feedtree.ErrNotAccepted, 1, "do not publish it again", map[string]bool{url: false}},
		{"behind it", feedtree.ErrNotAccepted, 0, "number 1 of " + url + ", which was signed before, is signed, but nobody is known to have it", map[string]bool{url: false}},
		{"one", refused, 0, "which was signed before, is not kept", map[string]bool{}},
		{"one", nil, 1, "", map[string]bool{url: true}},
		{"two", refused, 2, "the next item published there has to wait for it", map[string]bool{url: true}},
		{"three", refused, 0, "is not signed: publish it again", map[string]bool{url: true}},
		{"three", io.ErrUnexpectedEOF, 0, "is not signed: publish it again", map[string]bool{url: true}},
		{"three", nil, 3, "", map[string]bool{url: true}},
		{"four", io.ErrUnexpectedEOF, 4, "kept in " + path + recordSuffix, map[string]bool{url: true}},
		{"four", io.ErrUnexpectedEOF, 4, "do not publish it again", map[string]bool{url: true}}, // the same item again
		{"four", nil, 4, "", map[string]bool{url: true}},
		{"five", nil, 5, "", map[string]bool{url: true}},
	} {
		seq, err := signAndPush(a, url, had.Seq, had.Hash, item(t, step.name), time.Unix(2, 0), func(envelope []byte) error {
			p, err := difference.OpenPublication(envelope)
			if err == nil && step.fails == nil {
				had = Head{p.Seq, p.Hash}
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

// A heartbeat sends an item that was never accepted. A refusal does not drop the item.
func TestHeartbeatSendsAnUnsentItem(t *testing.T) {
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
		{feedtree.ErrRefused, map[string]bool{url: false}}, // the record keeps it
		{nil, map[string]bool{url: true}},
	} {
		signed(t, a, Head{}, "one")
		if err := a.PushHeartbeat(url, 0, feed.Hash{}, time.Unix(3, 0), func(*difference.Publication) error { return c.fails }); !errors.Is(err, c.fails) {
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

// After a rotation, accepted items are not signed again before the network's last item is known.
func TestAcceptedItemsAreNotSignedAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "blog.key")
	if _, err := Generate(path, ""); err != nil {
		t.Fatal(err)
	}
	a := opened(t, path)
	var had Head
	takes := func(envelope []byte) error {
		p, err := difference.OpenPublication(envelope)
		if err == nil {
			had = Head{p.Seq, p.Hash}
		}
		return err
	}
	for _, s := range []string{"one", "two", "three"} {
		if _, err := signAndPush(a, url, had.Seq, had.Hash, item(t, s), time.Unix(2, 0), takes); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Rotate(path, noPassphrase); err != nil {
		t.Fatal(err)
	}
	a = opened(t, path)
	if _, err := signAndPush(a, url, 0, feed.Hash{}, item(t, "four"), time.Unix(9, 0), takes); !errors.Is(err, feedtree.ErrNotAccepted) {
		t.Errorf("not known yet: %v", err)
	}
	if seq, err := signAndPush(a, url, had.Seq, had.Hash, item(t, "four"), time.Unix(10, 0), takes); err != nil || seq != 4 {
		t.Errorf("known: %d, %v", seq, err)
	}
}

// An accepted item is a success even if the record cannot be written. With an error it would be published
// twice.
func TestAcceptedItemSucceedsWithoutARecord(t *testing.T) {
	path := filepath.Join(t.TempDir(), "blog.key")
	if _, err := Generate(path, ""); err != nil {
		t.Fatal(err)
	}
	a := opened(t, path)
	seq, err := signAndPush(a, url, 0, feed.Hash{}, item(t, "one"), time.Unix(2, 0), func([]byte) error {
		return errors.Join(os.Remove(path+recordSuffix), os.Mkdir(path+recordSuffix, 0o700)) // the record becomes unwritable
	})
	if err != nil || seq != 1 {
		t.Errorf("%d, %v", seq, err)
	}
}

// A rotation that was interrupted between its steps continues at the next call.
func TestInterruptedRotationContinues(t *testing.T) {
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
		second, err := Rotate(path, noPassphrase)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.WriteFile(path+nextSuffix, following, 0o600), interrupt(path)); err != nil {
			t.Fatal(err)
		}
		again, err := Rotate(path, noPassphrase)
		if err != nil || !bytes.Equal(again.Public(), second.Public()) {
			t.Fatalf("%s: %v", name, err)
		}
		next, err := readKey(path+nextSuffix, noPassphrase)
		if read, other := readKey(path, noPassphrase); err != nil || other != nil || read.Next() != difference.KeyHash(next.Public()) || bytes.Equal(next.Public(), again.Public()) {
			t.Errorf("%s: the key does not name the one that follows: %v, %v", name, err, other)
		}
	}
}

// Two processes share one key, such as a node and a command. No number is used twice or left out, and no
// signed item is lost.
func TestTwoProcessesWithOneKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "blog.key")
	if _, err := Generate(path, ""); err != nil {
		t.Fatal(err)
	}
	one, other := opened(t, path), opened(t, path)
	var mu sync.Mutex
	var had Head // of the network
	var names []string
	push := func(envelope []byte) error {
		mu.Lock()
		defer mu.Unlock()
		p, err := difference.OpenPublication(envelope)
		switch {
		case err != nil:
			return err
		case p.Seq <= had.Seq:
			return nil // a duplicate
		case p.Seq != had.Seq+1 || p.Prev != had.Hash:
			return fmt.Errorf("number %d does not follow on %d", p.Seq, had.Seq)
		}
		m, _ := p.Item.Meaning("")
		names, had = append(names, m.GUID), Head{p.Seq, p.Hash}
		return nil
	}
	var all sync.WaitGroup
	for i, a := range []*Signer{one, other} {
		all.Go(func() {
			for k := range 10 {
				mu.Lock()
				last := had
				mu.Unlock()
				if _, err := signAndPush(a, url, last.Seq, last.Hash, item(t, fmt.Sprint(i, k)), time.Unix(2, 0), push); err != nil {
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
	if seq, err := signAndPush(other, url, had.Seq, had.Hash, item(t, "last"), time.Unix(3, 0), push); err != nil || seq != killed.Seq+1 || had.Seq != 22 {
		t.Errorf("number %d, %v; the network has %d", seq, err, had.Seq)
	}
}

// A network that has lost the last items of a feed gets them again before the next item.
func TestLostTailIsSentAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "blog.key")
	if _, err := Generate(path, ""); err != nil {
		t.Fatal(err)
	}
	a := opened(t, path)
	var last Head
	var third *difference.Publication
	for i := range 2 * maxEarlier {
		p := signed(t, a, last, fmt.Sprint(i))
		if last = (Head{p.Seq, p.Hash}); i == 2*maxEarlier-4 {
			third = p
		}
	}
	var again []uint64
	a = opened(t, path)
	if l := a.record.feeds[url]; len(l.Earlier) != maxEarlier || l.Seq != last.Seq {
		t.Errorf("%d entries before number %d", len(l.Earlier), l.Seq)
	}
	seq, err := signAndPush(a, url, third.Seq, third.Hash, item(t, "next"), time.Unix(3, 0), func(envelope []byte) error {
		p, err := difference.OpenPublication(envelope)
		again = append(again, p.Seq)
		return err
	})
	if want := []uint64{last.Seq - 2, last.Seq - 1, last.Seq, last.Seq + 1}; err != nil || seq != last.Seq+1 || !slices.Equal(again, want) {
		t.Errorf("pushed %d, want %d: %v", again, want, err)
	}
}

// Nobody accepts items from the former key, so the next key signs its unsent item again.
func TestNextKeySignsAnUnsentItem(t *testing.T) {
	path := filepath.Join(t.TempDir(), "blog.key")
	if _, err := Generate(path, ""); err != nil {
		t.Fatal(err)
	}
	a := opened(t, path)
	one := signed(t, a, Head{}, "one")
	had := Head{one.Seq, one.Hash}
	two := signed(t, a, had, "two")
	if _, err := Rotate(path, noPassphrase); err != nil {
		t.Fatal(err)
	}
	a = opened(t, path)
	raw, err := a.NextUnsent(url, had, time.Unix(9, 0))
	if err != nil {
		t.Fatal(err)
	}
	p, err := difference.OpenPublication(raw)
	if err != nil || !p.SignedBy(a.Key().Public()) || p.Seq != 2 || p.Prev != one.Hash || p.Item.Hash != two.Item.Hash {
		t.Errorf("%+v, %v", p, err)
	}
	if again, err := opened(t, path).NextUnsent(url, had, time.Unix(10, 0)); err != nil || !bytes.Equal(again, raw) {
		t.Errorf("it is another the next time: %v", err)
	}
	if three := signed(t, a, Head{p.Seq, p.Hash}, "three"); three.Seq != 3 || three.Prev != p.Hash {
		t.Errorf("%+v", three)
	}
}

// The same holds for several unsent items, each of which follows the one before it.
func TestNextKeySignsAllUnsentItems(t *testing.T) {
	path := filepath.Join(t.TempDir(), "blog.key")
	if _, err := Generate(path, ""); err != nil {
		t.Fatal(err)
	}
	a := opened(t, path)
	had := Head{}
	for i := range 4 {
		p := signed(t, a, Head{}, fmt.Sprint(i))
		if i == 0 {
			had = Head{p.Seq, p.Hash}
		}
	}
	if _, err := Rotate(path, noPassphrase); err != nil {
		t.Fatal(err)
	}
	a = opened(t, path)
	var names []string
	seq, err := signAndPush(a, url, had.Seq, had.Hash, item(t, "next"), time.Unix(9, 0), func(envelope []byte) error {
		p, err := difference.OpenPublication(envelope)
		if err != nil || !p.SignedBy(a.Key().Public()) || p.Seq != had.Seq+1 || p.Prev != had.Hash {
			return fmt.Errorf("number %d follows on %d: %w", p.Seq, had.Seq, err)
		}
		m, _ := p.Item.Meaning("")
		names, had = append(names, m.GUID), Head{p.Seq, p.Hash}
		return nil
	})
	if err != nil || seq != 5 || !slices.Equal(names, []string{"1", "2", "3", "next"}) {
		t.Errorf("number %d, pushed %q: %v", seq, names, err)
	}
}

// A signer restored from an old backup signs nothing until the owner confirms that the record is right.
func TestOldBackupIsNoticed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "blog.key")
	if _, err := Generate(path, ""); err != nil {
		t.Fatal(err)
	}
	a := opened(t, path)
	one := signed(t, a, Head{}, "one")
	var backup [2][]byte
	for i, file := range []string{path + recordSuffix, path + recordSuffix + logSuffix} {
		var err error
		if backup[i], err = os.ReadFile(file); err != nil {
			t.Fatal(err)
		}
	}
	two := signed(t, a, Head{one.Seq, one.Hash}, "two")
	for i, file := range []string{path + recordSuffix, path + recordSuffix + logSuffix} {
		if err := os.WriteFile(file, backup[i], 0o600); err != nil {
			t.Fatal(err)
		}
	}
	a = opened(t, path)
	for what, last := range map[string]Head{
		"more":    {two.Seq, two.Hash},
		"another": {one.Seq, two.Hash},
	} {
		if _, err := a.Sign(url, last, item(t, "x"), time.Unix(3, 0)); !errors.Is(err, ErrBehind) {
			t.Errorf("the network has %s: %v", what, err)
		}
		if _, err := a.SignHeartbeat(url, last, time.Unix(3, 0)); !errors.Is(err, ErrBehind) {
			t.Errorf("the network has %s: a heartbeat: %v", what, err)
		}
	}
	had := Head{two.Seq, two.Hash}
	if err := a.Resume(url, had); err != nil {
		t.Fatal(err)
	}
	if three := signed(t, a, had, "three"); three.Seq != 3 || three.Prev != two.Hash {
		t.Errorf("%+v", three)
	}
}

// signAndPush is SignAndPush for one item.
func signAndPush(s *Signer, url string, last uint64, hash feed.Hash, it *feed.Item, now time.Time, send func(envelope []byte) error) (uint64, error) {
	seqs, errs := s.SignAndPush(url, last, hash, []*feed.Item{it}, now, func(all []*difference.Publication) (errs []error) {
		for _, p := range all {
			errs = append(errs, send(p.Raw))
		}
		return errs
	})
	return seqs[0], errs[0]
}
