package difference

import (
	"time"

	"tidings/internal/feed"
)

// Which versions of a known item are news. Two kinds are not, or not at once: versions that differ only in numbers
// which change by themselves, and earlier versions, which a replica that lags shows for some minutes. Whatever is
// needed to judge them is in the versions that the log has, so that each sequencer of a channel judges alike.

const (
	// numbersMask has the bits of a short hash that depend on numbers; the others depend on the wording.
	numbersMask = 1<<(64-8*feed.WordingSize) - 1

	// minCounting is how many items of a document must have been reported with other numbers, and nothing else,
	// before the numbers of all items count as changing by themselves. They must also be most of the items. With
	// fewer, a price or a death toll that is corrected once would hide later corrections.
	minCounting = 2

	// maxNumbers is how many versions of an item that differ only in numbers are reported. Further ones are taken
	// for a counter.
	maxNumbers = 3

	// maxTurns bounds the time for which an earlier version must be shown. Each time that an edit of the item is taken
	// back, this time doubles, because servers that differ for good would otherwise cause a report each hour.
	maxTurns = 6
)

// A sighting is an earlier version that documents show in place of the latest one.
type sighting struct {
	hash        uint64
	since, last time.Time
}

// numbers returns the largest number of versions of an item that differ only in numbers.
func (p *fingerprint) numbers() (most int) {
	for _, a := range p.hashes[:p.n] {
		n := 0
		for _, b := range p.hashes[:p.n] {
			if (a^b)&^numbersMask == 0 {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

// same reports whether two versions of an item are the same for readers.
func (k *Known) same(p *fingerprint, a, b uint64) bool {
	return a == b || (a^b)&^numbersMask == 0 && (k.counting || p.numbers() >= maxNumbers)
}

// IsCounter reports whether the numbers of a known item change by themselves.
func (k *Known) IsCounter(id feed.ID) bool {
	k.unpack()
	p, ok := k.fingerprints[shorten(id)]
	return ok && (k.counting || p.numbers() >= maxNumbers)
}

// learnCounters notes when most items of a document have been reported with other numbers only: such numbers count
// comments, readers or minutes. Once that is known, no item of the feed is reported for its numbers.
func (k *Known) learnCounters(f *feed.Feed) {
	n := 0
	for i := range f.Items {
		if p, ok := k.fingerprints[shorten(f.Items[i].ID)]; ok && p.numbers() > 1 {
			n++
		}
	}
	k.counting = k.counting || n >= minCounting && 2*n > len(f.Items)
}

// Sight records which items of a document are shown in an earlier version than the latest one in the log, and whether
// its head is. An item that is shown in its latest version again was one of a replica that lags. An earlier version that
// has not been seen for longer than gap begins anew, because the origin may have shown the latest one meanwhile. Sight
// also records which items are missing.
func (k *Known) Sight(f *feed.Feed, gap time.Duration, now time.Time) {
	k.unpack()
	k.sight(f, gap, now)
	for id, hash := range versionsOf(f) {
		p, ok := k.fingerprints[id]
		switch s, seen := k.behind[id]; {
		case !ok:
			continue
		case k.same(&p, p.hashes[0], hash):
			delete(k.behind, id)
			continue
		case !seen || !k.same(&p, s.hash, hash) || now.Sub(s.last) > gap:
			if k.behind == nil {
				k.behind = map[shortID]sighting{}
			}
			k.behind[id] = sighting{hash, now, now}
		default:
			s.last = now
			k.behind[id] = s
		}
	}
}

// SightLatest records that the origin shows the document that was taken last.
func (k *Known) SightLatest() {
	clear(k.behind)
	clear(k.doubted)
}

// TakenBack reports whether an item has been sighted in this earlier version for a time, and never in its latest one:
// then the edit was taken back. The time is after, and twice as long for each edit that was taken back before.
func (k *Known) TakenBack(id feed.ID, hash feed.Hash, after time.Duration, now time.Time) bool {
	k.unpack()
	p := k.fingerprints[shorten(id)]
	s, ok := k.behind[shorten(id)]
	return ok && k.same(&p, s.hash, shortHash(hash)) && now.Sub(s.since) >= after<<p.turns
}

// IsBehind reports whether a document has an item or its head in an earlier version than the latest one, lacks an item that
// stands between others, or has one that was withdrawn.
func (k *Known) IsBehind(f *feed.Feed) bool {
	k.unpack()
	for id, hash := range versionsOf(f) {
		p, ok := k.fingerprints[id]
		if ok && !k.same(&p, p.hashes[0], hash) && (id != headID || p.has(hash)) { // an unknown head may wait for an item
			return true
		}
	}
	return len(k.unlike(f)) > 0
}

// DiffWithTakenBack returns the unknown part of a document, the versions to which edits were taken back, and the items
// that were withdrawn or stand again. The delta of an edit taken back is an edit like others, with the content of the
// earlier version.
func (k *Known) DiffWithTakenBack(f *feed.Feed, after time.Duration, now time.Time) Delta {
	d := k.diff(f, func(id feed.ID, hash feed.Hash) bool { return k.TakenBack(id, hash, after, now) })
	d.Withdrawn, d.Standing = k.settled(f, after, now)
	return d
}
