package owner

import (
	"slices"
	"time"
)

// What owners and followers keep of a log: all of the last week, and at least the
// entries that brought the last 200 items.
const (
	keepAge   = 7 * 24 * time.Hour
	keepItems = 200
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
	head := c.head()
	if head == nil {
		return 0
	}
	items := 0
	for i, e := range slices.Backward(c) {
		if items >= keepItems && head.Time.Sub(e.Time) > keepAge {
			return i + 1
		}
		items += e.Items
	}
	return 0
}
