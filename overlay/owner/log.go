package owner

import (
	"cmp"
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
	// maxStep is how much later than the entry before it the date of an entry counts when old entries are dropped. Otherwise
	// one entry from the future would reduce a log to KeepItems items at once. In a log that was quiet for longer, old entries
	// are dropped one entry later.
	maxStep = 24 * time.Hour
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

// step returns the date by which old entries are dropped when an entry with the date t follows.
func (c chain) step(t time.Time) time.Time {
	if head := c.head(); head != nil && t.Sub(head.Time) > maxStep {
		return head.Time.Add(maxStep)
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

// A keyLog is what a node keeps of a key's log.
type keyLog struct {
	chain           // entries kept, oldest first; replaced only by set
	items     int   // items in the entries
	size      int   // total size of the bodies, in bytes
	committed Hash  // last entry known to be stored by a quorum
	visible   chain // prefix of the log that readers may see
	orphaned  chain // entries shown to readers and then lost to a switch of branch, until Release; at most maxOrphaned
	// unsettled is the number of heartbeats after which the replica's record says that the last entry is committed. It counts
	// from settleBeats down to 0 while that entry is, and has been read.
	unsettled uint8
	read      bool // the application has read the last entry
}

// settleBeats is the number of heartbeats for which the last entry is committed before a node notes that, so that the next start does
// not take it for news: by default two minutes at least, in which the layers above have passed it on. A log that grows
// more often costs no such records.
const settleBeats = 4

// settledHead returns the last entry's hash if the replica's record is to say that it is committed, otherwise nil.
func (l *keyLog) settledHead() []byte {
	if head := l.headHash(); l.unsettled == 0 && len(l.chain) > 0 && l.headCommitted() {
		return head[:]
	}
	return nil
}

// set replaces a replica's log and counts its items and bytes.
func (l *keyLog) set(log chain) {
	l.chain, l.items, l.size, l.unsettled, l.read = log, 0, 0, settleBeats, false
	for _, e := range log {
		l.items += e.Items
		l.size += e.Size
	}
}

// add appends an entry.
func (l *keyLog) add(e *Entry) {
	l.chain, l.unsettled, l.read = append(l.chain, e), settleBeats, false
	l.items += e.Items
	l.size += e.Size
}

// prune removes the entries that are kept no longer, and returns them.
func (l *keyLog) prune() chain {
	n := 0
	if last := len(l.chain) - 1; last >= 0 {
		n = l.firstKept(l.chain[:last].step(l.headTime()), 0, 0)
	}
	if n == 0 {
		return nil
	}
	old := l.chain[:n]
	for _, e := range old {
		l.items -= e.Items
		l.size -= e.Size
	}
	l.chain = slices.Clone(l.chain[n:])
	return old
}

// cut removes the entries that are not valid in an epoch, and returns them: after the entry that the epoch continues from,
// only entries of the epoch itself are. It removes nothing if the log lacks that entry.
func (l *keyLog) cut(e *Epoch) chain {
	at := l.find(e.AfterHash)
	if at < 0 && e.AfterHash != (Hash{}) {
		return nil
	}
	n := at + 1
	for n < len(l.chain) && e.has(l.chain[n]) {
		n++
	}
	old := l.chain[n:]
	if len(old) > 0 {
		l.set(slices.Clone(l.chain[:n]))
	}
	return old
}

// firstKept returns the index of the first entry that is still kept when entries with the given items and bytes
// are added at time t; the length of the log if none is kept. The result depends on the log alone, so all
// nodes keep the same entries. The walk looks at the entries to be dropped and one more. If a
// sequencer's times go back, more is kept, up to maxKeptItems and maxKeptBytes.
func (l *keyLog) firstKept(t time.Time, items, size int) int {
	items, size = items+l.items, size+l.size
	for i, e := range l.chain {
		items -= e.Items
		size -= e.Size
		enough := items >= KeepItems && t.Sub(e.Time) > keepAge
		if !enough && items < maxKeptItems && size < maxKeptBytes {
			return i
		}
	}
	return len(l.chain)
}

// headCommitted reports whether the last entry is known to be committed.
func (l *keyLog) headCommitted() bool { return l.committed == l.headHash() }

// visibleLen returns the number of entries that readers may see: those that are durable, except for a last entry that
// is not known to be committed.
func (l *keyLog) visibleLen(volatile map[Hash]bool) int {
	n := len(l.chain)
	for n > 0 && volatile[l.chain[n-1].Hash] {
		n--
	}
	if n > 0 && n == len(l.chain) && !l.headCommitted() {
		n--
	}
	return n
}

// assemble orders the entries that were found in the store into one chain and returns the others. Others
// exist when the disk could not delete an entry, or wrote one in spite of reporting an error.
// If an entry in the middle is missing, an owner keeps what came after it, because it has acknowledged those
// entries. A follower drops everything and pulls the log again.
func (l *keyLog) assemble(inForce *Epoch, owns bool) (left []*Entry) {
	if len(l.chain) == 0 {
		return nil
	}
	by, followed := map[Hash]*Entry{}, map[Hash]bool{}
	for _, e := range l.chain {
		by[e.Hash] = e
		followed[e.Prev] = true
	}
	var tip *Entry
	for _, e := range l.chain {
		if !followed[e.Hash] && (tip == nil || laterHead(inForce, e, tip)) {
			tip = e
		}
	}
	var log chain
	for e := tip; e != nil; e = by[e.Prev] {
		log = append(log, e)
		delete(by, e.Hash)
	}
	slices.Reverse(log)
	hole := false
	for _, e := range l.chain {
		if by[e.Hash] != nil {
			left = append(left, e)
			hole = hole || e.At.Seq < log[0].At.Seq
		}
	}
	if hole && !owns {
		left, log = l.chain, nil
	}
	l.set(log)
	return left
}

// laterHead reports whether the chain that ends in a continued longer than the one that ends in b.
func laterHead(inForce *Epoch, a, b *Entry) bool {
	if inForce != nil && a.At.Branch != b.At.Branch {
		return a.At.Branch == inForce.Branch
	}
	return cmp.Or(cmp.Compare(a.At.Epoch, b.At.Epoch), cmp.Compare(a.At.Seq, b.At.Seq)) > 0
}
