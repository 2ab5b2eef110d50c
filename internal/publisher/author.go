package publisher

import (
	"cmp"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"tidings/difference"
	"tidings/feedtree"
	"tidings/internal/feed"
	"tidings/internal/store"
)

const recordSuffix = ".record"

// ErrBehind says that the network has more of a publisher than its record.
var ErrBehind = errors.New("the network has more of this publisher than its record")

// A Last is the last publication of a feed that the network has; the zero one: none is known.
type Last struct {
	Seq  uint64
	Head feed.Hash
}

// A line of a record: what was signed last for a feed.
type line struct {
	Seq      uint64 `json:"seq"`
	Envelope []byte `json:"envelope,omitempty"` // nil: it is not known here, but that the network has it
	Hash     []byte `json:"hash"`
	Taken    bool   `json:"taken,omitempty"`  // by the network; said of number 1 alone
	Before   []line `json:"before,omitempty"` // the oldest first
}

// maxBefore is how many envelopes before the last one are kept: that many the network may lose, or not have
// yet when another process signs.
const maxBefore = 15

// of returns the line of a number, if that is kept.
func (l line) of(seq uint64) (line, bool) {
	if i := slices.IndexFunc(l.Before, func(b line) bool { return b.Seq == seq }); i >= 0 {
		return l.Before[i], len(l.Before[i].Envelope) > 0
	}
	return l, l.Seq == seq && len(l.Envelope) > 0
}

// An Author signs what a publisher writes. It may be used from several goroutines at once, and several
// processes may use a key, as a node does and a command beside it: what one of them has signed the other
// reads before it signs.
type Author struct {
	path string

	mu         sync.Mutex
	key        *Key
	file       fs.FileInfo     // of the key, when it was read
	passphrase string          // of the key; "" if it has none
	record     map[string]line // by feed
}

// Open reads a key and its record.
func Open(path string, ask Passphrase) (*Author, error) {
	if of, ok := strings.CutSuffix(path, oldSuffix); ok && exists(path) && exists(of) {
		return nil, fmt.Errorf("%s is the key from before keygen --rotate, and was replaced by the one in %s: give %s", path, of, of)
	}
	a := &Author{path: path}
	if err := a.read(ask); err != nil {
		return nil, err
	}
	if err := a.load(); err != nil {
		return nil, err
	}
	return a, nil
}

// read reads the key.
func (a *Author) read(ask Passphrase) error {
	file, _ := os.Stat(a.path) // before it is read: a file that is replaced meanwhile is read again
	key, passphrase, err := read(a.path, ask)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the key file %s does not exist: name the right one, or make it with \"tidings keygen %[1]s\"", a.path)
	}
	if err != nil {
		return err
	}
	if key.next == (feed.Hash{}) { // as only a key that is to follow has it
		words := a.path + " is the key that is to follow another one, and signs nothing before tidings keygen --rotate has put it there"
		if of, ok := strings.CutSuffix(a.path, nextSuffix); ok {
			words += ": give " + of
		}
		return errors.New(words)
	}
	a.key, a.file, a.passphrase = key, file, passphrase
	return nil
}

// renew reads the key again if keygen --rotate has replaced it. A file that is gone was moved to a safe place, or is
// being replaced: the key stays the one that was read.
func (a *Author) renew() error {
	file, err := os.Stat(a.path)
	if err != nil || os.SameFile(file, a.file) && file.ModTime().Equal(a.file.ModTime()) {
		return nil
	}
	if err := a.read(func(string) (string, error) { return a.passphrase, nil }); err != nil {
		return fmt.Errorf("the key was changed, and this program still uses the one from before: %w; restart it", err)
	}
	return nil
}

// load reads the record, as it is now.
func (a *Author) load() error {
	b, err := os.ReadFile(a.path + recordSuffix)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		a.record = map[string]line{}
		return nil
	case err != nil:
		return fmt.Errorf("publisher's record: %w", err)
	}
	record := map[string]line{}
	if err := json.Unmarshal(b, &record); err != nil {
		return fmt.Errorf("%s%s is damaged (%w): bring back a copy, or remove it and publish with --resume", a.path, recordSuffix, err)
	}
	a.record = record
	return nil
}

// alone does something with the record as it is now, while nobody else has it.
func (a *Author) alone(do func() error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	var failed error
	err := store.WithFileLock(a.path+recordSuffix, func() error { // whose own errors say what they are about
		if failed = cmp.Or(a.renew(), a.load()); failed == nil {
			failed = do()
		}
		return nil
	})
	if failed == nil && err != nil {
		return fmt.Errorf("publisher's record: %w", err)
	}
	return failed
}

// Key is what the author signs with.
func (a *Author) Key() *Key {
	a.mu.Lock()
	defer a.mu.Unlock()
	_ = a.renew() // signing says what is wrong
	return a.key
}

// Public is the key by which readers know the publisher.
func (a *Author) Public() ed25519.PublicKey { return a.Key().Public() }

// Feeds are those that something was signed for, and whether the network has ever taken anything of
// that.
func (a *Author) Feeds() map[string]bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	feeds := map[string]bool{}
	for url, l := range a.record {
		feeds[url] = l.taken()
	}
	return feeds
}

// taken says whether the network has ever taken anything of a feed: as long as it has not, nothing is
// signed after number 1.
func (l line) taken() bool { return l.Seq > 1 || l.Taken }

// Unsent is the envelope that follows on what the network has of a feed, if one was signed; nil if there is
// none. What the key before has signed is signed anew, with all that follows on it: nobody takes it from that
// any more.
func (a *Author) Unsent(url string, last Last, now time.Time) (envelope []byte, err error) {
	err = a.alone(func() error {
		envelope, err = a.unsent(url, last, now)
		return err
	})
	return envelope, err
}

func (a *Author) unsent(url string, last Last, now time.Time) ([]byte, error) {
	l, ok := a.record[url].of(last.Seq + 1)
	if !ok {
		return nil, nil
	}
	p, err := difference.OpenPublication(l.Envelope)
	if err != nil {
		return nil, fmt.Errorf("publisher's record: number %d of %s: %w", l.Seq, url, err)
	}
	if p.SignedBy(a.key.Public()) {
		return l.Envelope, nil
	}
	if last.Seq == 0 && a.record[url].taken() { // what was taken is not to be signed anew
		return nil, fmt.Errorf("%w: what the network has of %s is not known yet", feedtree.ErrNotAccepted, url)
	}
	prev := p.Prev
	if last.Seq > 0 {
		prev = last.Head
	}
	for seq := l.Seq; seq <= a.record[url].Seq; seq++ {
		old, ok := a.record[url].of(seq)
		if !ok {
			break
		}
		if p, err = difference.OpenPublication(old.Envelope); err == nil {
			p, err = difference.Publish(a.key.private, url, seq, prev, now, p.Item)
		}
		if err == nil {
			err = a.note(url, line{Seq: p.Seq, Envelope: p.Raw, Hash: p.Hash[:]})
		}
		if err != nil {
			return nil, fmt.Errorf("publisher's record: number %d of %s: %w", seq, url, err)
		}
		prev = p.Hash
	}
	l, _ = a.record[url].of(last.Seq + 1)
	return l.Envelope, nil
}

// Sign signs the next item of a feed, of which the network has last. It returns when that is in
// the record.
func (a *Author) Sign(url string, last Last, it *feed.Item, now time.Time) (envelope []byte, err error) {
	err = a.alone(func() error {
		p, err := a.next(url, last, it, now)
		if err == nil {
			envelope = p.Raw
		}
		return err
	})
	return envelope, err
}

// next signs and notes.
func (a *Author) next(url string, last Last, it *feed.Item, now time.Time) (*difference.Publication, error) {
	seq, head, err := a.agree(url, last)
	if err != nil {
		return nil, err
	}
	p, err := difference.Publish(a.key.private, url, seq+1, head, now, it)
	if err != nil {
		return nil, err
	}
	return p, a.note(url, line{Seq: p.Seq, Envelope: p.Raw, Hash: p.Hash[:]})
}

// Write signs the next item and pushes it, and says its number; 0: it is not signed, or not
// kept. An item before it that the network does not have, perhaps of another process,
// is pushed first: when another one is signed, the record has it no longer.
func (a *Author) Write(url string, last uint64, head feed.Hash, it *feed.Item, now time.Time, push func(envelope []byte) error) (seq uint64, err error) {
	of := Last{last, head}
	for {
		var p *difference.Publication
		unsent, same := false, false
		err := a.alone(func() error {
			raw, err := a.unsent(url, of, now)
			if err != nil {
				return err
			}
			if unsent = raw != nil; !unsent {
				p, err = a.next(url, of, it, now)
				return err
			}
			if p, err = difference.OpenPublication(raw); err == nil && p.Item != nil && p.Seq == a.record[url].Seq {
				same = p.Item.ID == it.ID && p.Item.Hash == it.Hash
			}
			return err
		})
		if err != nil {
			return 0, err
		}
		err = a.bring(p, of, true, unsent && !same, push)
		if lost, ok := errors.AsType[*Unsent](err); ok && (lost.Before || lost.Dropped) {
			return 0, err
		}
		if err != nil || !unsent || same {
			return p.Seq, err
		}
		of = Last{p.Seq, p.Hash}
	}
}

// Alive pushes that nothing came after what was signed last; or that itself, if the network does not
// have it.
func (a *Author) Alive(url string, last uint64, head feed.Hash, now time.Time, push func(envelope []byte) error) error {
	of := Last{last, head}
	envelope, err := a.Unsent(url, of, now)
	switch {
	case err != nil:
		return err
	case envelope == nil:
		if envelope, err = a.Beat(url, of, now); err != nil {
			return err
		}
		return push(envelope)
	}
	p, err := difference.OpenPublication(envelope)
	if err != nil {
		return err
	}
	return a.bring(p, of, false, false, push)
}

// Beat signs that nothing came after what was signed last.
func (a *Author) Beat(url string, last Last, now time.Time) (envelope []byte, err error) {
	err = a.alone(func() error {
		seq, head, err := a.agree(url, last)
		if err != nil {
			return err
		}
		p, err := difference.Publish(a.key.private, url, seq, head, now, nil)
		if err != nil {
			return err
		}
		envelope = p.Raw
		return nil
	})
	return envelope, err
}

// agree returns the last publication of a feed, on which record and network agree.
func (a *Author) agree(url string, last Last) (seq uint64, head feed.Hash, err error) {
	l := a.record[url]
	switch {
	case last.Seq > l.Seq:
		return 0, head, fmt.Errorf("%w: it has number %d of %s, and %s%s ends with %d: it is of an old backup, or somebody else has the key; if it is the first, publish with --resume", ErrBehind, last.Seq, url, a.path, recordSuffix, l.Seq)
	case last.Seq != 0 && last.Seq == l.Seq && string(l.Hash) != string(last.Head[:]):
		return 0, head, fmt.Errorf("%w: its number %d of %s is not the one that was signed here: the record is of an old backup, or somebody else has the key; if it is the first, publish with --resume", ErrBehind, last.Seq, url)
	}
	if l.Seq == 0 {
		return 0, head, nil
	}
	return l.Seq, feed.Hash(l.Hash), nil
}

// Resume goes on from what the network has, because the publisher's owner has said that it is right.
func (a *Author) Resume(url string, last Last) error {
	return a.alone(func() error {
		if last.Seq < a.record[url].Seq {
			return nil
		}
		return a.note(url, line{Seq: last.Seq, Hash: last.Head[:], Taken: last.Seq > 0})
	})
}

// note writes a line of the record down, in place of that with its number or behind the others.
func (a *Author) note(url string, l line) error {
	old, had := a.record[url]
	lines := slices.Clone(old.Before)
	if had {
		old.Before = nil
		lines = append(lines, old)
	}
	if i := slices.IndexFunc(lines, func(b line) bool { return b.Seq == l.Seq }); i >= 0 {
		lines[i] = l
	} else {
		lines = append(lines, l)
	}
	last := lines[len(lines)-1]
	last.Before = lines[max(0, len(lines)-1-maxBefore) : len(lines)-1]
	return a.set(url, last)
}

// set has the record say something of a feed; an empty line: nothing.
func (a *Author) set(url string, l line) error {
	was, had := a.record[url]
	a.record[url] = l
	if l.Seq == 0 {
		delete(a.record, url)
	}
	b, err := json.MarshalIndent(a.record, "", "  ")
	if err == nil {
		err = store.WriteFile(a.path+recordSuffix, append(b, '\n'))
	}
	if err != nil {
		delete(a.record, url)
		if had {
			a.record[url] = was
		}
		return fmt.Errorf("publisher's record: %w", err)
	}
	return nil
}
