package publisher

import (
	"errors"
	"fmt"

	"tidings/difference"
	"tidings/feedtree"
)

// An Unsent is the error of a push that failed: what was signed is in the record, and goes out before
// anything else when somebody next publishes, or says that nothing is new.
type Unsent struct {
	URL    string
	Seq    uint64
	Record string // its file
	// Before says that it is not what was to be signed now, but came before that, which was not signed.
	Before bool
	// Dropped says that it is in the record no longer: the feed refuses the first that was ever signed
	// for it.
	Dropped bool
	Err     error // of the push
}

func (u *Unsent) Unwrap() error { return u.Err }

func (u *Unsent) Error() string {
	number := fmt.Sprintf("number %d of %s", u.Seq, u.URL)
	if u.Before {
		number += ", which was signed before,"
	}
	words := fmt.Sprintf("%s is signed, but nobody is known to have it (%v): it is kept in %s, and goes out with the next publish there, or by the node that runs with this key", number, u.Err, u.Record)
	refused := errors.Is(u.Err, feedtree.ErrRefused)
	switch {
	case u.Dropped:
		words = fmt.Sprintf("%s is not kept (%v): publish it again when the feed's document names the key", number, u.Err)
	case refused:
		words = fmt.Sprintf("%s is signed, and kept in %s, but not taken (%v): what is published there next has to wait for it", number, u.Record, u.Err)
	case !u.Before:
		words += ": do not publish it again"
	}
	if u.Before {
		words += ": what was to follow is not signed: publish it again"
	}
	return words
}

// bring pushes what is in the record. The first of a feed is kept as long as it may be taken: an address
// that refuses it is a wrong one, or its document does not name the key yet. It is dropped only if somebody
// waits to be told.
func (a *Author) bring(p *difference.Publication, last Last, waits, before bool, push func(envelope []byte) error) error {
	failed := push(p.Raw)
	lost := &Unsent{URL: p.URL, Seq: p.Seq, Record: a.path + recordSuffix, Before: before, Err: failed}
	refused := errors.Is(failed, feedtree.ErrRefused)
	if p.Seq == 1 && (failed == nil || refused && waits) {
		// That something was taken is no more than a hint: who pushed it knows.
		_ = a.alone(func() error {
			l := a.record[p.URL]
			switch {
			case l.taken() || string(l.Hash) != string(p.Hash[:]): // others went on
				return nil
			case !refused:
				l.Taken = true
				return a.set(p.URL, l)
			case last.Seq > 0:
				return nil
			}
			err := a.set(p.URL, line{})
			lost.Dropped = err == nil
			return err
		})
	}
	if failed == nil {
		return nil
	}
	return lost
}
