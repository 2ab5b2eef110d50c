package page

import (
	"slices"
	"time"
)

// flapping is how long replicas may disagree: a version that was there before is not told
// again while the one that followed it was seen less long ago. The price is that an edit
// which is taken back at once is told so much later.
const flapping = time.Hour

// maxVersions is how many versions are remembered.
const maxVersions = 8

// Memory is what a poller knows of a page from one look to the next: the version that
// readers have, the hashes of some before it, and which lines and places change by themselves.
// The zero value knows nothing. It keeps two cores and a few kilobytes besides.
type Memory struct {
	told   Core      // the version that readers have
	seen   time.Time // when it was, the last time; zero: nothing is known
	before []Hash    // of versions that readers had, the latest last
	last   Core      // of the last look
	marks  marks
	odd    odd
}

// A Finding is what a look at a page has brought.
type Finding struct {
	Kind   Kind
	Patch  Patch  // of News: from the version before
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

// Look takes what a fetch has brought. The first that is no failure is news.
func (m *Memory) Look(now Core, at time.Time) Finding {
	first := m.seen.IsZero()
	if reason := m.odd.judge(&now, &m.told, first, at); reason != "" {
		return Finding{Kind: Failed, Reason: reason}
	}
	next, patch := m.marks.germane(&m.told, &now)
	if !first && at.Sub(m.seen) < flapping && slices.Contains(m.before, patch.New) {
		return Finding{Kind: Returned} // of which nothing is learned: it does not change by itself
	}
	if !first {
		m.marks.learn(&m.last, &now)
		next, patch = m.marks.germane(&m.told, &now)
	}
	m.last = now
	switch {
	case first:
	case len(patch.Hunks) == 0:
		m.seen = at
		return Finding{Kind: Same}
	default:
		m.before = append(m.before, patch.Old)
		m.before = m.before[max(0, len(m.before)-maxVersions):]
	}
	m.told, m.seen = next, at
	return Finding{Kind: News, Patch: patch, Core: next}
}
