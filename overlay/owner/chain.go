package owner

import (
	"slices"
	"time"
)

// What owners and followers keep of a log: all of the last week, and at least the
// entries that brought the last KeepItems items; but never more than about
// maxKeptItems items or maxKeptBytes of bodies, so that a feed that makes up items
// costs those who keep it no more than that.
const (
	keepAge      = 7 * 24 * time.Hour
	KeepItems    = 200
	maxKeptItems = 10_000
	maxKeptBytes = 48 << 20
)

// A chain is what a node keeps of a log, the oldest entry first. Each names the
// hash of the one before.
type chain []*Entry

// head is the last entry, nil if there is none.
func (c chain) head() *Entry {
	if len(c) == 0 {
		return nil
	}
	return c[len(c)-1]
}

// headHash is the zero hash if there is no entry.
func (c chain) headHash() Hash {
	if e := c.head(); e != nil {
		return e.Hash
	}
	return Hash{}
}

// headTime is when the last entry was made, the zero time if there is none.
func (c chain) headTime() (t time.Time) {
	if e := c.head(); e != nil {
		t = e.Time
	}
	return t
}

// find returns the place of an entry, -1 if it is not there. Mostly it is one of
// the last.
func (c chain) find(h Hash) int {
	for i, e := range slices.Backward(c) {
		if e.Hash == h {
			return i
		}
	}
	return -1
}

// has says whether an entry is in a chain. Numbers rise along a chain, so entries that are older
// than e are not looked at: that of an entry which comes next takes one step. A sequencer that gives
// numbers in another order may hide an entry from has, and its followers then pull what they have.
func (c chain) has(e *Entry) bool {
	for _, in := range slices.Backward(c) {
		if in.Hash == e.Hash {
			return true
		}
		if in.At.Seq < e.At.Seq {
			return false
		}
	}
	return false
}

// setLog puts a log in the place of a seat's.
func (s *seat) setLog(log chain) {
	s.log, s.items, s.size = log, 0, 0
	for _, e := range log {
		s.items += e.Items
		s.size += e.Size
	}
}

// kept returns the place of the first entry of a log that is still kept when, at a time, entries with
// some items and bytes of bodies are added; the length of the log if none is. It depends on nothing but
// the log, so that all who keep it keep the same of it. It looks at the entries that leave and at one
// more: times do not go back along a log, and where a sequencer has them go back, more is kept until
// one of the two limits is reached.
func (s *seat) kept(t time.Time, items, size int) int {
	items, size = items+s.items, size+s.size
	for i, e := range s.log {
		items -= e.Items
		size -= e.Size
		enough := items >= KeepItems && t.Sub(e.Time) > keepAge
		if !enough && items < maxKeptItems && size < maxKeptBytes {
			return i
		}
	}
	return len(s.log)
}
