package owner

import (
	"slices"
	"time"
)

// Nodes keep the last week of a log, and at least the entries of the last KeepItems items, but never more
// than about maxKeptItems items or maxKeptBytes of bodies. The upper bounds limit what a feed with endless
// new items costs a node.
const (
	keepAge      = 7 * 24 * time.Hour
	KeepItems    = 200
	maxKeptItems = 10_000
	maxKeptBytes = 48 << 20
)

// A chain is the part of a log that a node keeps, oldest entry first. Each entry names the hash of the one
// before.
type chain []*Entry

// head returns the last entry; nil if there is none.
func (c chain) head() *Entry {
	if len(c) == 0 {
		return nil
	}
	return c[len(c)-1]
}

// headHash returns the hash of the last entry; the zero Hash if there is none.
func (c chain) headHash() Hash {
	if e := c.head(); e != nil {
		return e.Hash
	}
	return Hash{}
}

// headTime returns the time of the last entry; the zero time if there is none.
func (c chain) headTime() (t time.Time) {
	if e := c.head(); e != nil {
		t = e.Time
	}
	return t
}

// find returns the index of an entry, or -1. It searches from the end, where most entries in question are.
func (c chain) find(h Hash) int {
	for i, e := range slices.Backward(c) {
		if e.Hash == h {
			return i
		}
	}
	return -1
}

// has reports whether an entry is in the chain. Numbers rise along a chain, so the search ends at the first
// smaller number, and takes one step for the next entry of a log. If a sequencer breaks the order of numbers, has
// may miss an entry, and followers pull that entry again.
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

// setLog replaces a replica's log and counts its items and bytes.
func (s *replica) setLog(log chain) {
	s.log, s.items, s.size = log, 0, 0
	for _, e := range log {
		s.items += e.Items
		s.size += e.Size
	}
}

// firstKept returns the index of the first entry that is still kept when entries with the given items and bytes
// are added at time t; the length of the log if none is kept. The result depends on the log alone, so all
// nodes keep the same entries. The walk looks at the entries to be dropped and one more. If a
// sequencer's times go back, more is kept, up to maxKeptItems and maxKeptBytes.
func (s *replica) firstKept(t time.Time, items, size int) int {
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
