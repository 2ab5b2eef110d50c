package page

import (
	"slices"
	"time"
)

// flapWindow is how long replicas may disagree. An earlier version is not reported again while the version
// after it was seen within this time. The price is that an edit which is reverted at once is reported that much
// later.
const flapWindow = time.Hour

// maxCheckGap is the maximum time between two checks from which volatile parts are learned. A text that differs
// after weeks may be news each time.
const maxCheckGap = 2 * 24 * time.Hour

// maxVersions is how many versions are remembered.
const maxVersions = 8

// Tracker follows a page from one check to the next. It has the visible version, the hashes of earlier ones,
// and the marks of volatile lines and places. The zero value is empty. A tracker takes two cores and a few
// kilobytes of memory.
type Tracker struct {
	visible     Core      // version that readers have
	number      uint64    // of the visible version, from 1; 0: there is none
	seen        time.Time // when the visible version was last found; zero: not by this tracker
	previous    []Hash    // hashes of earlier visible versions, the latest last
	last        Core      // core of the last check
	omitted     []uint64  // keys of the lines that the last check left out
	checked     time.Time // time of the last check
	stale       bool      // a later check found an earlier version
	marksLost   bool      // marks were lost since then
	marks       marks
	replacement replacement
	returns     returns // lines that come and go

	// For the updates in the log:
	patch      []byte // from the preceding version; nil: unknown
	patches    int    // patches since the last whole version
	patchBytes int    // size of these patches
}

// A Result is the result of a check.
type Result struct {
	Kind   Kind
	Number uint64 // for Changed: of the new version
	Patch  Patch  // for Changed: from the preceding version
	Before Core   // for Changed: the preceding version; the zero core if there is none
	Core   Core   // for Changed: the new version
	Reason string // for Failed: why the document is not a version of the page
}

// A Kind of result.
type Kind uint8

// Kinds of results.
const (
	Same    Kind = iota // readers have this version
	Changed             // the page has changed
	Stale               // a replica shows an earlier version
	Failed              // the document is not the page
)

// Core returns the visible version.
func (m *Tracker) Core() Core { return m.visible }

// Last returns the core of the last check that was Same or Changed, laid out like the visible version.
func (m *Tracker) Last() Core { return m.last }

// Number returns the number of the visible version, or 0.
func (m *Tracker) Number() uint64 { return m.number }

// known reports whether there is a visible version.
func (m *Tracker) known() bool { return m.number > 0 }

// Clone returns an independent copy.
func (m *Tracker) Clone() Tracker {
	clone := *m
	clone.previous, clone.marks.list = slices.Clone(m.previous), slices.Clone(m.marks.list)
	clone.returns = m.returns.clone()
	return clone
}

// Check compares the core of a fetch with the visible version. The first core that is no failure is a change.
func (m *Tracker) Check(now Core, at time.Time) Result {
	first := !m.known()
	now, omitted := keepSides(now, m.last.Lines, m.omitted)
	if reason := m.replacement.reject(&now, &m.visible, first, at); reason != "" && !now.Figure {
		return Result{Kind: Failed, Reason: reason}
	}
	if m.seen.IsZero() {
		m.seen = at // an update brought the visible version, and this is the first check
	}
	if now.Figure {
		m.marks, m.returns = marks{}, returns{}
	}
	if !first {
		now.align(m.visible.Lines)
	}
	now.rows, now.sheet = nil, sheet{}
	next, patch, stable := m.marks.relevant(&m.visible, &now, &m.returns)
	if !first && len(patch.Hunks) > 0 && at.Sub(m.seen) < flapWindow && slices.Contains(m.previous, patch.New) {
		m.stale = true
		return Result{Kind: Stale} // nothing is learned: a replica that lags is not volatile
	}
	if !first && !now.Figure && at.Sub(m.checked) <= maxCheckGap {
		all, edits := m.marks.learn(&m.last, &now)
		m.returns.learn(m.last.Lines, now.Lines, all, edits, at)
		next, patch, stable = m.marks.relevant(&m.visible, &now, &m.returns)
	}
	m.marks.stable = stable
	m.last, m.omitted, m.checked, m.stale, m.marksLost = now, omitted, at, false, false
	if next.hasPassword = now.hasPassword; !first && len(patch.Hunks) == 0 {
		m.seen, m.visible.hasPassword = at, now.hasPassword
		return Result{Kind: Same}
	}
	was := m.visible
	if m.patch = nil; !first {
		m.remember(patch.Old)
		m.patch, _ = patch.Encode(&was) // a patch that cannot be encoded is replaced by the whole version
	}
	m.visible, m.seen = next, at
	m.number++
	return Result{Kind: Changed, Number: m.number, Patch: patch, Before: was, Core: next}
}

// NeedsRecheck reports whether another check may find a change although the document stays the same: a line of
// a rotating place is reported if it stays, and former noise if it has not changed for long.
func (m *Tracker) NeedsRecheck() bool { return len(m.marks.stable) > 0 || m.marksLost }

// Unchanged records a check without any change. Volatile parts would have changed.
func (m *Tracker) Unchanged(at time.Time) {
	lost := m.returns.forget(at)
	if lost = m.marks.update(nil, nil) || lost; lost && !slices.Equal(m.visible.Lines, m.last.Lines) {
		m.marksLost = true
	}
	if m.checked = at; !m.stale {
		m.seen = at
	}
}

// remember stores the hash of an earlier visible version.
func (m *Tracker) remember(h Hash) {
	m.previous = append(m.previous, h)
	m.previous = m.previous[max(0, len(m.previous)-maxVersions):]
}
