package publisher

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"tidings/difference"
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
}

// An Author signs what a publisher writes. It may be used from several goroutines at once, but only
// one process should use a key.
type Author struct {
	key  *Key
	path string

	mu     sync.Mutex
	record map[string]line // by feed
}

// Open reads a key and its record.
func Open(path string, ask Passphrase) (*Author, error) {
	key, err := Read(path, ask)
	if err != nil {
		return nil, err
	}
	a := &Author{key: key, path: path, record: map[string]line{}}
	b, err := os.ReadFile(path + recordSuffix)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return a, nil
	case err != nil:
		return nil, fmt.Errorf("publisher's record: %w", err)
	}
	if err := json.Unmarshal(b, &a.record); err != nil {
		return nil, fmt.Errorf("%s%s is damaged (%w): bring back a copy, or remove it and publish with --resume", path, recordSuffix, err)
	}
	return a, nil
}

// Key is what the author signs with.
func (a *Author) Key() *Key { return a.key }

// Feeds are those that something was signed for.
func (a *Author) Feeds() (urls []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for url := range a.record {
		urls = append(urls, url)
	}
	return urls
}

// Unsent is the envelope that was signed last for a feed, if the network does not have it; nil if
// there is none. What the key before has signed is signed anew: nobody takes it from that any more.
func (a *Author) Unsent(url string, last Last, now time.Time) ([]byte, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	l, ok := a.record[url]
	if !ok || l.Seq != last.Seq+1 || len(l.Envelope) == 0 {
		return nil, nil
	}
	p, err := difference.OpenPublication(l.Envelope)
	if err != nil {
		return nil, fmt.Errorf("publisher's record: number %d of %s: %w", l.Seq, url, err)
	}
	if p.By(a.key.Public()) {
		return l.Envelope, nil
	}
	if p, err = difference.Publish(a.key.private, url, p.Seq, p.Prev, now, p.Item); err != nil {
		return nil, err
	}
	return p.Raw, a.note(url, line{p.Seq, p.Raw, p.Hash[:]})
}

// Sign signs the next item of a feed, of which the network has last. It returns when that is in
// the record.
func (a *Author) Sign(url string, last Last, it *feed.Item, now time.Time) ([]byte, error) {
	p, err := a.sign(url, last, it, now)
	if err != nil {
		return nil, err
	}
	return p.Raw, nil
}

func (a *Author) sign(url string, last Last, it *feed.Item, now time.Time) (*difference.Publication, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	seq, head, err := a.agree(url, last)
	if err != nil {
		return nil, err
	}
	p, err := difference.Publish(a.key.private, url, seq+1, head, now, it)
	if err != nil {
		return nil, err
	}
	return p, a.note(url, line{p.Seq, p.Raw, p.Hash[:]})
}

// Write signs the next item and pushes it, and says its number. An item before it that the network
// does not have is pushed first: when another one is signed, the record has it no longer.
func (a *Author) Write(url string, last uint64, head feed.Hash, it *feed.Item, now time.Time, push func(envelope []byte) error) (seq uint64, err error) {
	of := Last{last, head}
	unsent, err := a.Unsent(url, of, now)
	if err != nil {
		return 0, err
	}
	if unsent != nil {
		if err := push(unsent); err != nil {
			return 0, err
		}
	}
	p, err := a.sign(url, of, it, now)
	if err != nil {
		return 0, err
	}
	return p.Seq, push(p.Raw)
}

// Alive pushes that nothing came after what was signed last; or that itself, if the network does not
// have it.
func (a *Author) Alive(url string, last uint64, head feed.Hash, now time.Time, push func(envelope []byte) error) error {
	of := Last{last, head}
	envelope, err := a.Unsent(url, of, now)
	if err == nil && envelope == nil {
		envelope, err = a.Beat(url, of, now)
	}
	if err != nil {
		return err
	}
	return push(envelope)
}

// Beat signs that nothing came after what was signed last.
func (a *Author) Beat(url string, last Last, now time.Time) ([]byte, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	seq, head, err := a.agree(url, last)
	if err != nil {
		return nil, err
	}
	p, err := difference.Publish(a.key.private, url, seq, head, now, nil)
	if err != nil {
		return nil, err
	}
	return p.Raw, nil
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
	a.mu.Lock()
	defer a.mu.Unlock()
	if last.Seq < a.record[url].Seq {
		return nil
	}
	return a.note(url, line{Seq: last.Seq, Hash: last.Head[:]})
}

// note writes the record down.
func (a *Author) note(url string, l line) error {
	old, had := a.record[url]
	a.record[url] = l
	b, err := json.MarshalIndent(a.record, "", "  ")
	if err == nil {
		err = store.WriteFile(a.path+recordSuffix, append(b, '\n'))
	}
	if err != nil {
		delete(a.record, url)
		if had {
			a.record[url] = old
		}
		return fmt.Errorf("publisher's record: %w", err)
	}
	return nil
}
