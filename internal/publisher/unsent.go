package publisher

import (
	"errors"
	"fmt"

	"tidings/difference"
	"tidings/feedtree"
)

// An UnsentError says that a push failed. The signed item is in the record. It is sent before anything else
// the next time that somebody publishes, or when the next heartbeat is due.
type UnsentError struct {
	URL    string
	Seq    uint64
	Record string // path of the record
	// Earlier says that an earlier item failed, so the new one was not signed.
	Earlier bool
	// Dropped says that the item was removed from the record: it was the first of its feed, and the feed
	// refused it.
	Dropped bool
	Err     error // of the push
}

func (u *UnsentError) Unwrap() error { return u.Err }

func (u *UnsentError) Error() string {
	number := fmt.Sprintf("number %d of %s", u.Seq, u.URL)
	if u.Earlier {
		number += ", which was signed before,"
	}
	text := fmt.Sprintf("%s is signed, but nobody is known to have it (%v): it is kept in %s, and is sent with the next item published there, or by the node that runs with this key", number, u.Err, u.Record)
	refused := errors.Is(u.Err, feedtree.ErrRefused)
	switch {
	case u.Dropped:
		text = fmt.Sprintf("%s is not kept (%v): publish it again when the feed's document names the key", number, u.Err)
	case refused:
		text = fmt.Sprintf("%s is signed, and kept in %s, but not accepted (%v): the next item published there has to wait for it", number, u.Record, u.Err)
	case !u.Earlier:
		text += ": do not publish it again"
	}
	if u.Earlier {
		text += ": the new item is not signed: publish it again"
	}
	return text
}

// sent notes the result of sending an item of the record. If the first item of a feed is refused, the address is wrong or
// its document does not name the key yet. sent then drops the item from the record, but only if callerWaits: otherwise
// nobody would learn of it.
func (s *Signer) sent(p *difference.Publication, last Head, callerWaits, earlier bool, sendErr error) error {
	unsent := &UnsentError{URL: p.URL, Seq: p.Seq, Record: s.path + recordSuffix, Earlier: earlier, Err: sendErr}
	refused := errors.Is(sendErr, feedtree.ErrRefused)
	if p.Seq == 1 && (sendErr == nil || refused && callerWaits) {
		// Whether the first item was accepted is only a hint, so a failure to note it is ignored.
		drop := false
		err := s.locked(func() error {
			entry := s.record.feeds[p.URL]
			switch {
			case entry.everAccepted() || string(entry.Hash) != string(p.Hash[:]): // another process has signed since
				return nil
			case !refused:
				entry.Accepted = true
				s.record.change(p.URL, entry)
			case last.Seq > 0:
			default:
				drop = true
				s.record.change(p.URL, recordEntry{})
			}
			return nil
		})
		unsent.Dropped = drop && err == nil
	}
	if sendErr == nil {
		s.mu.Lock()
		s.record.accepted[p.URL] = max(s.record.accepted[p.URL], p.Seq)
		s.mu.Unlock()
		return nil
	}
	return unsent
}
