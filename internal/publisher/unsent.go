package publisher

import (
	"errors"
	"fmt"

	"tidings/difference"
	"tidings/feedtree"
)

// An Unsent is the error of a push that failed: what was signed is in the record, and goes out before
// anything else when somebody next publishes, or says that nothing is new.
type UnsentError struct {
	URL    string
	Seq    uint64
	Record string // its file
	// Before says that it is not what was to be signed now, but came before that, which was not signed.
	Earlier bool
	// Dropped says that it is in the record no longer: the feed refuses the first that was ever signed
	// for it.
	Dropped bool
	Err     error // of the push
}

func (u *UnsentError) Unwrap() error { return u.Err }

func (u *UnsentError) Error() string {
	number := fmt.Sprintf("number %d of %s", u.Seq, u.URL)
	if u.Earlier {
		number += ", which was signed before,"
	}
	text := fmt.Sprintf("%s is signed, but nobody is known to have it (%v): it is kept in %s, and goes out with the next publish there, or by the node that runs with this key", number, u.Err, u.Record)
	refused := errors.Is(u.Err, feedtree.ErrRefused)
	switch {
	case u.Dropped:
		text = fmt.Sprintf("%s is not kept (%v): publish it again when the feed's document names the key", number, u.Err)
	case refused:
		text = fmt.Sprintf("%s is signed, and kept in %s, but not taken (%v): what is published there next has to wait for it", number, u.Record, u.Err)
	case !u.Earlier:
		text += ": do not publish it again"
	}
	if u.Earlier {
		text += ": what was to follow is not signed: publish it again"
	}
	return text
}

// bring pushes what is in the record. The first of a feed is kept as long as it may be taken: an address
// that refuses it is a wrong one, or its document does not name the key yet. It is dropped only if somebody
// waits to be told.
func (s *Signer) push(p *difference.Publication, last Head, callerWaits, earlier bool, send func(envelope []byte) error) error {
	sendErr := send(p.Raw)
	unsent := &UnsentError{URL: p.URL, Seq: p.Seq, Record: s.path + recordSuffix, Earlier: earlier, Err: sendErr}
	refused := errors.Is(sendErr, feedtree.ErrRefused)
	if p.Seq == 1 && (sendErr == nil || refused && callerWaits) {
		// That something was taken is no more than a hint: who pushed it knows.
		_ = s.locked(func() error {
			l := s.record[p.URL]
			switch {
			case l.everTaken() || string(l.Hash) != string(p.Hash[:]): // others went on
				return nil
			case !refused:
				l.Taken = true
				return s.saveEntry(p.URL, l)
			case last.Seq > 0:
				return nil
			}
			err := s.saveEntry(p.URL, recordEntry{})
			unsent.Dropped = err == nil
			return err
		})
	}
	if sendErr == nil {
		return nil
	}
	return unsent
}
