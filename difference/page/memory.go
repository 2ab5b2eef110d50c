package page

import (
	"slices"
	"time"
)

// flapping is how long replicas may disagree: a version that was there before is not told
// again while the one that followed it was seen less long ago. The price is that an edit
// which is taken back at once is told so much later.
const flapping = time.Hour

// farApart is how long looks may lie apart of which it is learned what changes by itself: what is
// another after weeks may well be news, each time.
const farApart = 2 * 24 * time.Hour

// maxVersions is how many versions are remembered.
const maxVersions = 8

// Memory is what is known of a page from one look to the next: the version that readers
// have, the hashes of some before it, and which lines and places change by themselves.
// The zero value knows nothing. It keeps two cores and a few kilobytes besides.
type Memory struct {
	told   Core      // the version that readers have
	number uint64    // of it, from 1; 0: nothing is known
	seen   time.Time // when it was, the last time; zero: not by this memory
	before []Hash    // of versions that readers had, the latest last
	last   Core      // of the last look
	out    []uint64  // what it left out, as keys of lines
	looked time.Time // when that was
	behind bool      // a look since then has brought what was there before
	still  bool      // marks were lost since then
	marks  marks
	odd    odd

	// Of its updates in the log:
	patch   []byte // how the version before became this one; nil: not known
	patches int    // patches since one that was whole,
	patched int    // and their bytes
}

// A Finding is what a look at a page has brought.
type Finding struct {
	Kind   Kind
	Number uint64 // of News: of the version
	Patch  Patch  // of News: from the version before
	Before Core   // of News: that version; the zero core if this is the first
	Core   Core   // of News: the new version
	Reason string // of Failed: why this is no version of the page
}

// A Kind of finding.
type Kind uint8

// Kinds of findings.
const (
	Same     Kind = iota // nothing that readers do not have
	News                 // something has changed
	Returned             // a replica shows what was there before
	Failed               // what came is not the page
)

// Core is the version that readers have.
func (m *Memory) Core() Core { return m.told }

// Number is that of the version that readers have, 0 if there is none.
func (m *Memory) Number() uint64 { return m.number }

// known says whether readers have a version.
func (m *Memory) known() bool { return m.number > 0 }

// Clone returns a memory that forgets nothing of what the other learns, and learns nothing
// of it.
func (m *Memory) Clone() Memory {
	of := *m
	of.before, of.marks.of = slices.Clone(m.before), slices.Clone(m.marks.of)
	return of
}

// Look takes what a fetch has brought. The first that is no failure is news.
func (m *Memory) Look(now Core, at time.Time) Finding {
	first := !m.known()
	now, out := settled(now, m.last.Lines, m.out)
	if reason := m.odd.judge(&now, &m.told, first, at); reason != "" {
		return Finding{Kind: Failed, Reason: reason}
	}
	if m.seen.IsZero() {
		m.seen = at // it was told to this memory, which has not seen it
	}
	next, patch, waits := m.marks.germane(&m.told, &now)
	if !first && len(patch.Hunks) > 0 && at.Sub(m.seen) < flapping && slices.Contains(m.before, patch.New) {
		m.behind = true
		return Finding{Kind: Returned} // of which nothing is learned: it does not change by itself
	}
	if !first && at.Sub(m.looked) <= farApart {
		m.marks.learn(&m.last, &now)
		next, patch, waits = m.marks.germane(&m.told, &now)
	}
	m.marks.waits = waits
	m.last, m.out, m.looked, m.behind, m.still = now, out, at, false, false
	if next.asks = now.asks; !first && len(patch.Hunks) == 0 {
		m.seen, m.told.asks = at, now.asks
		return Finding{Kind: Same}
	}
	was := m.told
	if m.patch = nil; !first {
		m.remember(patch.Old)
		m.patch, _ = patch.Encode(&was) // what cannot be packed is told whole
	}
	m.told, m.seen = next, at
	m.number++
	return Finding{Kind: News, Number: m.number, Patch: patch, Before: was, Core: next}
}

// Waits says whether another look may tell what the last one did not, though nothing has changed since: it has
// lines that are told if they stay, or what was noise has stood still for so long that it is none.
func (m *Memory) Waits() bool { return len(m.marks.waits) > 0 || m.still }

// Unchanged takes a look that has brought nothing other than the last one: what changes by itself
// would have changed.
func (m *Memory) Unchanged(at time.Time) {
	if m.marks.look(nil, nil) && !slices.Equal(m.told.Lines, m.last.Lines) {
		m.still = true
	}
	if m.looked = at; !m.behind {
		m.seen = at
	}
}

// remember notes that readers had a version.
func (m *Memory) remember(h Hash) {
	m.before = append(m.before, h)
	m.before = m.before[max(0, len(m.before)-maxVersions):]
}
