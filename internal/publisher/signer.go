package publisher

import (
	"cmp"
	"crypto/ed25519"
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

// ErrBehind says that the network has more items of a publisher than the record, or others.
var ErrBehind = errors.New("the network has items of this publisher that the record lacks")

// A Head is the last publication of a feed that the network has. The zero value says that none is known.
type Head struct {
	Seq  uint64
	Hash feed.Hash
}

// A Signer signs items with a publisher's key. It is safe for concurrent use. Several processes may use one
// key, such as a node and a command: each reads the record before it signs, and so sees what the other has
// signed.
type Signer struct {
	path string

	mu         sync.Mutex
	key        *Key
	file       fs.FileInfo // of the key file, when it was read
	passphrase string      // of the key file; "" if it has none
	record     *record
}

// Open reads a key and its record.
func Open(path string, ask Passphrase) (*Signer, error) {
	if current, ok := strings.CutSuffix(path, oldSuffix); ok && exists(path) && exists(current) {
		return nil, fmt.Errorf("%s is the former key, which keygen --rotate has replaced by the one in %s: give %s", path, current, current)
	}
	s := &Signer{path: path, record: newRecord(path + recordSuffix)}
	if err := s.readKey(ask); err != nil {
		return nil, err
	}
	if s.record.load() != nil { // another process may be writing
		if err := s.locked(func() error { return nil }); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// readKey reads the key file.
func (s *Signer) readKey(ask Passphrase) error {
	file, _ := os.Stat(s.path) // before reading, so that a file replaced meanwhile is read again
	key, passphrase, err := read(s.path, ask)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the key file %s does not exist: name the right one, or make it with \"tidings keygen %[1]s\"", s.path)
	}
	if err != nil {
		return err
	}
	if key.next == (feed.Hash{}) { // only a next key has no next key of its own
		text := s.path + " is a next key, which signs nothing until tidings keygen --rotate puts it in place"
		if current, ok := strings.CutSuffix(s.path, nextSuffix); ok {
			text += ": give " + current
		}
		return errors.New(text)
	}
	s.key, s.file, s.passphrase = key, file, passphrase
	return nil
}

// reloadKey reads the key file again if keygen --rotate has replaced it. If the file is gone, it was moved to
// a safe place or is being replaced, and the key in memory stays in use.
func (s *Signer) reloadKey() error {
	file, err := os.Stat(s.path)
	if err != nil || os.SameFile(file, s.file) && file.ModTime().Equal(s.file.ModTime()) {
		return nil
	}
	if err := s.readKey(func(string) (string, error) { return s.passphrase, nil }); err != nil {
		return fmt.Errorf("the key was changed, but this program cannot read the new one and still uses the former one: %w; correct this, or restart it", err)
	}
	return nil
}

// locked calls update with the current key and record, while no other process uses the record, and then writes what
// update has changed. If that fails, the old record stays.
func (s *Signer) locked(update func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var failed error
	err := store.WithFileLock(s.path+recordSuffix, func() (err error) { // errors of update need no prefix
		if failed = cmp.Or(s.reloadKey(), s.record.load()); failed == nil {
			failed, err = s.record.update(update)
		}
		return err
	})
	if err != nil {
		return cmp.Or(failed, fmt.Errorf("publisher's record: %w", err))
	}
	return failed
}

// Key returns the key in use.
func (s *Signer) Key() *Key {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.reloadKey() // the next signature returns the error
	return s.key
}

// Public returns the key by which readers know the publisher.
func (s *Signer) Public() ed25519.PublicKey { return s.Key().Public() }

// Feeds returns the feeds for which something was signed, and whether the network ever accepted any of it.
func (s *Signer) Feeds() map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	feeds := map[string]bool{}
	for url, e := range s.record.feeds {
		feeds[url] = e.everAccepted()
	}
	return feeds
}

// Signed reports whether something was signed for a feed, and whether the network ever accepted any of it.
func (s *Signer) Signed(url string) (signed, accepted bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.record.feeds[url]
	return ok, e.everAccepted()
}

// NextUnsent returns the envelope of the item that follows last, the network's last one, or nil if none was
// signed. If the former key signed it, that item and all later ones are first signed again with the present
// key, because the network accepts nothing more from the former key.
func (s *Signer) NextUnsent(url string, last Head, now time.Time) (envelope []byte, err error) {
	err = s.locked(func() error {
		envelope, err = s.nextUnsent(url, last, now)
		return err
	})
	return envelope, err
}

func (s *Signer) nextUnsent(url string, last Head, now time.Time) ([]byte, error) {
	e, ok := s.record.feeds[url].find(last.Seq + 1)
	if !ok {
		return nil, nil
	}
	p, err := difference.OpenPublication(e.Envelope)
	if err != nil {
		return nil, fmt.Errorf("publisher's record: number %d of %s: %w", e.Seq, url, err)
	}
	if p.SignedBy(s.key.Public()) {
		return e.Envelope, nil
	}
	if last.Seq == 0 && s.record.feeds[url].everAccepted() { // accepted items must not be signed again
		return nil, fmt.Errorf("%w: what the network has of %s is not known yet", feedtree.ErrNotAccepted, url)
	}
	prev := p.Prev
	if last.Seq > 0 {
		prev = last.Hash
	}
	for seq := e.Seq; seq <= s.record.feeds[url].Seq; seq++ {
		old, ok := s.record.feeds[url].find(seq)
		if !ok {
			break
		}
		if p, err = difference.OpenPublication(old.Envelope); err == nil {
			p, err = difference.Publish(s.key.private, url, seq, prev, now, p.Item)
		}
		if err != nil {
			return nil, fmt.Errorf("publisher's record: number %d of %s: %w", seq, url, err)
		}
		s.record.change(url, recordEntry{Seq: p.Seq, Envelope: p.Raw, Hash: p.Hash[:]})
		prev = p.Hash
	}
	e, _ = s.record.feeds[url].find(last.Seq + 1)
	return e.Envelope, nil
}

// Sign signs the next item of a feed, and returns when the item is in the record. last is the network's last
// item.
func (s *Signer) Sign(url string, last Head, it *feed.Item, now time.Time) (envelope []byte, err error) {
	err = s.locked(func() error {
		p, err := s.signNext(url, last, it, now)
		if err == nil {
			envelope = p.Raw
		}
		return err
	})
	return envelope, err
}

// signNext signs an item and adds it to the record.
func (s *Signer) signNext(url string, last Head, it *feed.Item, now time.Time) (*difference.Publication, error) {
	seq, hash, err := s.checkRecord(url, last)
	if err != nil {
		return nil, err
	}
	p, err := difference.Publish(s.key.private, url, seq+1, hash, now, it)
	if err != nil {
		return nil, err
	}
	s.record.change(url, recordEntry{Seq: p.Seq, Envelope: p.Raw, Hash: p.Hash[:]})
	return p, nil
}

// SignAndPush signs items and sends them together. send returns an error for each of them. Earlier items that the network
// lacks, perhaps of another process, are sent first, one by one, while the record still has them. SignAndPush returns the
// number of each item, or 0 if it was not signed or not kept, and its error.
func (s *Signer) SignAndPush(url string, last uint64, hash feed.Hash, items []*feed.Item, now time.Time, send func([]*difference.Publication) []error) (seqs []uint64, errs []error) {
	seqs, errs = make([]uint64, len(items)), make([]error, len(items))
	head := Head{last, hash}
	for first := 0; first < len(items); {
		var earlier *difference.Publication
		isNext := false // the earlier item is items[first]
		signed := make([]*difference.Publication, len(items))
		err := s.locked(func() error {
			raw, err := s.nextUnsent(url, head, now)
			switch {
			case err != nil:
			case raw == nil:
				for i := first; i < len(items); i++ {
					signed[i], errs[i] = s.signNext(url, head, items[i], now)
				}
			default:
				if earlier, err = difference.OpenPublication(raw); err == nil && earlier.Item != nil && earlier.Seq == s.record.feeds[url].Seq {
					isNext = earlier.Item.ID == items[first].ID && earlier.Item.Hash == items[first].Hash
				}
			}
			return err
		})
		if err == nil && earlier == nil {
			s.sendAll(signed, head, seqs, errs, send)
			return seqs, errs
		}
		if err == nil {
			err = s.sent(earlier, head, true, !isNext, send([]*difference.Publication{earlier})[0])
			if head = (Head{earlier.Seq, earlier.Hash}); isNext {
				seqs[first], errs[first] = numberOf(earlier, err), err
				first++
			}
		}
		if err != nil {
			for ; first < len(items); first++ {
				errs[first] = err
			}
		}
	}
	return seqs, errs
}

// sendAll sends items that were signed, all but the nil ones, and notes their numbers and errors.
func (s *Signer) sendAll(signed []*difference.Publication, last Head, seqs []uint64, errs []error, send func([]*difference.Publication) []error) {
	all := slices.DeleteFunc(slices.Clone(signed), func(p *difference.Publication) bool { return p == nil })
	if len(all) == 0 {
		return
	}
	results := send(all)
	for i, p := range signed {
		if p != nil {
			errs[i] = s.sent(p, last, true, false, results[0])
			seqs[i], results = numberOf(p, errs[i]), results[1:]
		}
	}
}

// numberOf returns the number of an item that was sent; 0 if it was not kept.
func numberOf(p *difference.Publication, err error) uint64 {
	if failed, ok := errors.AsType[*UnsentError](err); ok && failed.Dropped {
		return 0
	}
	return p.Seq
}

// PushHeartbeat sends the next item that the network lacks, or a signed statement that nothing follows the
// last item.
func (s *Signer) PushHeartbeat(url string, last uint64, hash feed.Hash, now time.Time, send func(*difference.Publication) error) error {
	head := Head{last, hash}
	envelope, err := s.NextUnsent(url, head, now)
	isItem := envelope != nil
	if err == nil && !isItem {
		envelope, err = s.SignHeartbeat(url, head, now)
	}
	if err != nil {
		return err
	}
	p, err := difference.OpenPublication(envelope)
	switch {
	case err != nil:
		return err
	case !isItem:
		return send(p)
	}
	return s.sent(p, head, false, false, send(p))
}

// SignHeartbeat signs the statement that nothing follows the last item.
func (s *Signer) SignHeartbeat(url string, last Head, now time.Time) (envelope []byte, err error) {
	err = s.locked(func() error {
		seq, hash, err := s.checkRecord(url, last)
		if err != nil {
			return err
		}
		p, err := difference.Publish(s.key.private, url, seq, hash, now, nil)
		if err != nil {
			return err
		}
		envelope = p.Raw
		return nil
	})
	return envelope, err
}

// checkRecord returns the last item in the record. It returns ErrBehind if the network's last item
// contradicts the record.
func (s *Signer) checkRecord(url string, last Head) (seq uint64, hash feed.Hash, err error) {
	e := s.record.feeds[url]
	switch {
	case last.Seq > e.Seq:
		return 0, hash, fmt.Errorf("%w: it has number %d of %s, and %s%s ends with %d: the record comes from an old backup, or somebody else has the key; if it comes from a backup, publish with --resume", ErrBehind, last.Seq, url, s.path, recordSuffix, e.Seq)
	case last.Seq != 0 && last.Seq == e.Seq && string(e.Hash) != string(last.Hash[:]):
		return 0, hash, fmt.Errorf("%w: number %d of %s is not the item that was signed here: the record comes from an old backup, or somebody else has the key; if it comes from a backup, publish with --resume", ErrBehind, last.Seq, url)
	}
	if e.Seq == 0 {
		return 0, hash, nil
	}
	return e.Seq, feed.Hash(e.Hash), nil
}

// Resume continues from the network's last item, because the owner of the key has confirmed that it is right.
func (s *Signer) Resume(url string, last Head) error {
	return s.locked(func() error {
		if last.Seq < s.record.feeds[url].Seq {
			return nil
		}
		s.record.change(url, recordEntry{Seq: last.Seq, Hash: last.Hash[:], Accepted: last.Seq > 0})
		return nil
	})
}
