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

// kept returns the place of the first entry that is still kept. It depends on
// nothing but the chain, so that all who keep a log keep the same of it.
func (c chain) kept() int {
	if len(c) == 0 {
		return 0
	}
	return c.keptAt(c.head().Time, 0)
}

// keptAt returns the place of the first entry that is kept when, at a time, entries
// with some items are added.
func (c chain) keptAt(t time.Time, items int) int {
	size := 0
	for i, e := range slices.Backward(c) {
		enough := items >= KeepItems && t.Sub(e.Time) > keepAge
		if enough || items >= maxKeptItems || size >= maxKeptBytes {
			return i + 1
		}
		items += e.Items
		size += e.Size
	}
	return 0
}
