package page

import (
	"slices"
	"time"
)

// flapping is how long replicas may disagree: a version that was there before is not told
// again while the one that followed it was seen less long ago. The price is that an edit
// which is taken back at once is told so much later.
const flapWindow = time.Hour

// farApart is how long looks may lie apart of which it is learned what changes by itself: what is
// another after weeks may well be news, each time.
const maxCheckGap = 2 * 24 * time.Hour

// maxVersions is how many versions are remembered.
const maxVersions = 8

// Memory is what is known of a page from one look to the next: the version that readers
// have, the hashes of some before it, and which lines and places change by themselves.
// The zero value knows nothing. It keeps two cores and a few kilobytes besides.
type Tracker struct {
	visible     Core      // the version that readers have
	number      uint64    // of it, from 1; 0: nothing is known
	seen        time.Time // when it was, the last time; zero: not by this memory
	previous    []Hash    // of versions that readers had, the latest last
	last        Core      // of the last look
	omitted     []uint64  // what it left out, as keys of lines
	checked     time.Time // when that was
	stale       bool      // a look since then has brought what was there before
	marksLost   bool      // marks were lost since then
	marks       marks
	replacement replacement

	// Of its updates in the log:
	patch      []byte // how the version before became this one; nil: not known
	patches    int    // patches since one that was whole,
	patchBytes int    // and their bytes
}

// A Finding is what a look at a page has brought.
type Result struct {
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
	Same    Kind = iota // nothing that readers do not have
	Changed             // something has changed
	Stale               // a replica shows what was there before
	Failed              // what came is not the page
)

// Core is the version that readers have.
func (m *Tracker) Core() Core { return m.visible }

// Number is that of the version that readers have, 0 if there is none.
func (m *Tracker) Number() uint64 { return m.number }

// known says whether readers have a version.
func (m *Tracker) known() bool { return m.number > 0 }

// Clone returns a memory that forgets nothing of what the other learns, and learns nothing
// of it.
func (m *Tracker) Clone() Tracker {
	of := *m
	of.previous, of.marks.list = slices.Clone(m.previous), slices.Clone(m.marks.list)
	return of
}

// Look takes what a fetch has brought. The first that is no failure is news.
func (m *Tracker) Check(now Core, at time.Time) Result {
	first := !m.known()
	now, out := keepSides(now, m.last.Lines, m.omitted)
	if reason := m.replacement.reject(&now, &m.visible, first, at); reason != "" {
		return Result{Kind: Failed, Reason: reason}
	}
	if m.seen.IsZero() {
		m.seen = at // it was told to this memory, which has not seen it
	}
	next, patch, waits := m.marks.relevant(&m.visible, &now)
	if !first && len(patch.Hunks) > 0 && at.Sub(m.seen) < flapWindow && slices.Contains(m.previous, patch.New) {
		m.stale = true
		return Result{Kind: Stale} // of which nothing is learned: it does not change by itself
	}
	if !first && at.Sub(m.checked) <= maxCheckGap {
		m.marks.learn(&m.last, &now)
		next, patch, waits = m.marks.relevant(&m.visible, &now)
	}
	m.marks.stable = waits
	m.last, m.omitted, m.checked, m.stale, m.marksLost = now, out, at, false, false
	if next.hasPassword = now.hasPassword; !first && len(patch.Hunks) == 0 {
		m.seen, m.visible.hasPassword = at, now.hasPassword
		return Result{Kind: Same}
	}
	was := m.visible
	if m.patch = nil; !first {
		m.remember(patch.Old)
		m.patch, _ = patch.Encode(&was) // what cannot be packed is told whole
	}
	m.visible, m.seen = next, at
	m.number++
	return Result{Kind: Changed, Number: m.number, Patch: patch, Before: was, Core: next}
}

// Waits says whether another look may tell what the last one did not, though nothing has changed since: it has
// lines that are told if they stay, or what was noise has stood still for so long that it is none.
func (m *Tracker) NeedsRecheck() bool { return len(m.marks.stable) > 0 || m.marksLost }

// Unchanged takes a look that has brought nothing other than the last one: what changes by itself
// would have changed.
func (m *Tracker) Unchanged(at time.Time) {
	if m.marks.update(nil, nil) && !slices.Equal(m.visible.Lines, m.last.Lines) {
		m.marksLost = true
	}
	if m.checked = at; !m.stale {
		m.seen = at
	}
}

// remember notes that readers had a version.
func (m *Tracker) remember(h Hash) {
	m.previous = append(m.previous, h)
	m.previous = m.previous[max(0, len(m.previous)-maxVersions):]
}
