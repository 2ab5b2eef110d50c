package feedtree

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"tidings/difference"
	"tidings/internal/env"
	"tidings/internal/feed"
	"tidings/internal/wire"
)

// A mark is what a certificate proves about an item. The zero mark says nothing.
type mark struct {
	hash     feed.Hash // the version that the owners saw, or, if they saw different ones, the one that the log had then
	seen, of uint8     // seen owners out of so many saw that version, or any
	varies   bool      // the owners saw different versions
	// contested says that so many owners looked for the version in vain, although the document should have had it.
	contested bool
}

// String is the provenance of the item.
func (m mark) String() string {
	switch {
	case m.seen == 0:
		return Single
	case m.varies:
		return Varies
	case m.contested:
		return Contested
	}
	return fmt.Sprintf("%s %d/%d", Witnessed, m.seen, m.of)
}

// vouches reports whether a mark says that owners have seen the item.
func (m mark) vouches() bool { return m.seen > 0 && !m.contested }

// marks are the marks of a feed's items.
type marks map[feed.ID]mark

// vouched returns how many items owners have seen.
func (m marks) vouched() (n int) {
	for _, of := range m {
		if of.vouches() {
			n++
		}
	}
	return n
}

// of returns the mark of a version of an item.
func (m marks) of(v difference.Version) mark {
	if of := m[v.ID]; of.hash == v.Hash {
		return of
	}
	return mark{}
}

// add adds what a certificate proves. A version counts as seen if enough owners saw it, and an item varies if enough
// owners saw it, but no version of it often enough, whatever the others will see. The version that the log has is
// contested if enough owners looked for it in vain, unless others have seen it before. Each of sets are the owners of the
// feed at some time, the newest last. Those of different times do not add up: otherwise a few liars would be enough,
// if they have been owners one after the other. version returns the version of an item that the log has. The result is
// the items that are marked now.
func (m *marks) add(certificate []*difference.Sighting, version func(feed.ID) feed.Hash, sets ...[]env.PeerID) (marked []feed.ID) {
	for _, owners := range slices.Backward(sets) {
		for id, proven := range provenBy(certificate, owners, version) {
			if slices.Contains(marked, id) {
				continue
			}
			if proven.varies {
				proven.hash = version(id)
			}
			if hash := version(id); hash == (feed.Hash{}) || proven.varies && !sees(certificate, difference.Version{ID: id, Hash: hash}) {
				continue // no such item, or nobody vouches for what the log has
			}
			if before := (*m)[id]; proven.contested && before.hash == proven.hash && before.vouches() {
				continue
			}
			if *m == nil {
				*m = marks{}
			}
			(*m)[id] = proven
			marked = append(marked, id)
		}
	}
	slices.SortFunc(marked, func(a, b feed.ID) int { return bytes.Compare(a[:], b[:]) })
	return marked
}

// sees reports whether one of the sightings names a version.
func sees(certificate []*difference.Sighting, v difference.Version) bool {
	return slices.ContainsFunc(certificate, func(s *difference.Sighting) bool { return slices.Contains(s.Seen, v) })
}

// provenBy returns what the sightings of a feed's owners of one time prove.
func provenBy(certificate []*difference.Sighting, owners []env.PeerID, version func(feed.ID) feed.Hash) marks {
	type tally struct {
		versions    map[feed.Hash]int
		owners      int
		first, last time.Time // of the sightings
		// missing are the owners that looked for the log's version in vain, by the version that they saw in its place;
		// zero: none.
		missing map[feed.Hash]int
	}
	needed, counted := SightingsNeeded(len(owners)), map[env.PeerID]bool{}
	if needed < minWitnesses {
		return nil
	}
	items := map[feed.ID]*tally{}
	of := func(id feed.ID) *tally {
		if items[id] == nil {
			items[id] = &tally{versions: map[feed.Hash]int{}, missing: map[feed.Hash]int{}}
		}
		return items[id]
	}
	for _, s := range certificate {
		by := wire.PeerIDOf(s.Owner)
		if counted[by] || !slices.Contains(owners, by) {
			continue
		}
		counted[by] = true
		for _, v := range s.Seen {
			t := of(v.ID)
			if t.owners == 0 || s.Time.Before(t.first) {
				t.first = s.Time
			}
			t.versions[v.Hash]++
			t.owners++
			t.last = later(t.last, s.Time)
		}
		for _, v := range s.Missing {
			if v.Hash == version(v.ID) {
				of(v.ID).missing[seenAs(s, v.ID)]++
			}
		}
	}
	proven := marks{}
	for id, t := range items {
		most, inPlace := mostOf(t.versions), mostOf(t.missing)
		absent := t.missing[feed.Hash{}]
		if inPlace != (feed.Hash{}) {
			absent += t.missing[inPlace]
		}
		switch n := t.versions[most]; {
		case absent >= needed:
			proven[id] = mark{hash: version(id), seen: uint8(absent), of: uint8(len(owners)), contested: true}
		case n >= needed:
			proven[id] = mark{hash: most, seen: uint8(n), of: uint8(len(owners))}
		case t.owners >= needed && n+len(owners)-t.owners < needed && t.last.Sub(t.first) <= maxVarying:
			proven[id] = mark{seen: uint8(t.owners), of: uint8(len(owners)), varies: true}
		}
	}
	return proven
}

// mostOf returns the version that most owners name, and the zero hash if there is none.
func mostOf(versions map[feed.Hash]int) (most feed.Hash) {
	for hash, n := range versions {
		if hash != (feed.Hash{}) && (n > versions[most] || most == (feed.Hash{})) {
			most = hash
		}
	}
	return most
}

// seenAs returns the version of an item that a sighting names; zero: none.
func seenAs(s *difference.Sighting, id feed.ID) (hash feed.Hash) {
	for _, v := range s.Seen {
		if v.ID == id {
			hash = v.Hash
		}
	}
	return hash
}

// maxVarying is the longest time between sightings that show that an item varies. Over a longer time it may just have been edited,
// so that a few liars could make it look so with the sightings of others.
const maxVarying = time.Hour

// SightingsNeeded returns how many of a feed's owners must have seen the same version of an item: most of them, so that
// no two versions can be proven.
func SightingsNeeded(owners int) int { return owners/2 + 1 }

// minWitnesses is how many owners must have seen an item: one alone is the node that reported it.
const minWitnesses = 2

// maxOwnerSets bounds the sets of owners that a subscription remembers. The oldest is dropped.
const maxOwnerSets = 16

// certified takes the sightings of an entry, and reports what they prove unless it was shown before. A log is read
// again after each restart, and its certificates may be those of former owners, so the owners that this node has known
// are remembered.
func (rd *reader) certified(c *channel, certificate []*difference.Sighting, shownBefore bool) {
	v, ok := rd.owners.View(c.key)
	if len(certificate) == 0 || !ok || v.Epoch == nil {
		return
	}
	if owners := v.Epoch.Owners; !slices.ContainsFunc(c.ownerSets, func(known []env.PeerID) bool { return slices.Equal(known, owners) }) {
		known := slices.Concat(c.ownerSets, [][]env.PeerID{owners})
		c.ownerSets = known[max(0, len(known)-maxOwnerSets):]
		rd.trusts.save(c)
	}
	proven := c.window.marks.add(certificate, c.window.log.Version, c.ownerSets...)
	proven = slices.DeleteFunc(proven, func(id feed.ID) bool { return !c.window.marks[id].vouches() })
	for _, id := range proven {
		delete(c.window.vouched, id)
	}
	if len(proven) > 0 && !shownBefore {
		rd.app.Witnessed(c.key, proven)
	}
}

// AtLeast reports whether a provenance is at least a required one: ByPublisher, Witnessed, or "" for any.
func AtLeast(given, required string) bool {
	switch required {
	case Witnessed:
		return given == ByPublisher || given == Varies || strings.HasPrefix(given, Witnessed)
	case "":
		return true
	}
	return given == required
}
