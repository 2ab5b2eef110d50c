package difference

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"tidings/difference/page"
	"tidings/internal/feed"
)

const (
	// MaxKnown is how many items have fingerprints: twice as many as a document can have. If Touch is called
	// with each document, no item that is still in it is forgotten. Above the limit, an eighth of the items is
	// forgotten, those seen longest ago.
	MaxKnown = 2 * feed.MaxItems

	// maxVersions is how many hashes of an item are remembered: enough for a few replicas that lag by one edit
	// each, and small compared with the identity.
	maxVersions = 4

	// minKnown is how many items must be known before a document without any of them is suspicious.
	minKnown = 5
)

// Known has the fingerprints of a feed: the identities of its items, and the hashes of their latest versions.
// The zero value is empty.
//
// Fingerprints are short. A publisher needs 2^64 attempts to make two identities collide, and 2^32 for two
// versions of an item, and only loses an item of its own.
type Known struct {
	fingerprints map[shortID]fingerprint
	seen         uint64    // number of items seen so far; the age of fingerprints
	head         feed.Hash // of the latest head
	alone        int       // see addHead
	title        feed.Hash
	hosts        [2]string            // see hostsOf
	page         *page.Tracker        // of the channel of a page; nil: nothing is known of a page, as for all feeds
	lossy        bool                 // see Lossy
	counting     bool                 // most items have numbers that change by themselves; see learnCounters
	behind       map[shortID]sighting // items whose documents show an earlier version than the log
	standing                          // which items the origin shows; see withdrawn.go
	packing                           // of fingerprints, behind and standing
}

type shortID [16]byte

type fingerprint struct {
	hashes [maxVersions]uint64 // the first n count, the latest first
	n      uint8
	turns  uint8 // how often an earlier version became the latest one again
	seen   uint64
}

func shorten(id feed.ID) shortID { return shortID(id[:16]) }

func shortHash(h feed.Hash) uint64 { return binary.BigEndian.Uint64(h[:]) }

// Len returns the number of known items.
func (k *Known) Len() int {
	if k.packed != nil {
		return int(k.count)
	}
	if _, ok := k.fingerprints[headID]; ok {
		return len(k.fingerprints) - 1
	}
	return len(k.fingerprints)
}

// Has reports whether an item is known, and whether it is known in this version. If the numbers of the item change
// by themselves, a version that differs only in numbers is known.
func (k *Known) Has(id feed.ID, hash feed.Hash) (item, version bool) {
	k.unpack()
	p, ok := k.fingerprints[shorten(id)]
	return ok, ok && slices.ContainsFunc(p.hashes[:p.n], func(h uint64) bool { return k.same(&p, h, shortHash(hash)) })
}

// Diff returns the unknown part of a document. It changes nothing.
func (k *Known) Diff(f *feed.Feed) Delta {
	return k.diff(f, func(feed.ID, feed.Hash) bool { return false })
}

// diff returns the unknown part of a document, and the known versions that an edit was taken back to.
func (k *Known) diff(f *feed.Feed, takenBack func(feed.ID, feed.Hash) bool) Delta {
	k.unpack()
	var d Delta
	var before feed.ID
	for _, it := range f.Items {
		if item, version := k.Has(it.ID, it.Hash); !version || len(it.Raw) > 0 && takenBack(it.ID, it.Hash) {
			d.Changes = append(d.Changes, Change{Item: it, After: before, Edited: item})
		}
		before = it.ID
	}
	if k.tellsHead(f, len(d.Changes) > 0, takenBack) {
		d.Head = &f.Head
	}
	return d
}

// Unknown returns the unknown part of a delta, since another node may have reported the same.
func (k *Known) Unknown(d Delta) Delta {
	k.unpack()
	var rest Delta
	for _, c := range d.Changes {
		var version bool
		if c.Edited, version = k.Has(c.Item.ID, c.Item.Hash); !version {
			rest.Changes = append(rest.Changes, c)
		}
	}
	if d.Head != nil && len(rest.Changes) > 0 { // a head alone may be older than the one here, and the next poll finds out
		if _, version := k.Has(feed.ID{}, d.Head.Shown()); !version {
			rest.Head = d.Head
		}
	}
	for _, id := range d.Withdrawn {
		if item, _ := k.Has(id, feed.Hash{}); item && !k.withdrawn[shorten(id)] {
			rest.Withdrawn = append(rest.Withdrawn, id)
		}
	}
	for _, id := range d.Standing {
		if k.withdrawn[shorten(id)] {
			rest.Standing = append(rest.Standing, id)
		}
	}
	return rest
}

// Empty reports whether nothing is known.
func (k *Known) Empty() bool { return k.Len() == 0 && (k.page == nil || k.page.Number() == 0) }

// MarkLossy records that the log has an unreadable entry.
func (k *Known) MarkLossy() { k.lossy = true }

// Lossy reports whether items may be missing here that are in the log. The origin's document must then be
// fetched whole, because "not modified" would prove nothing.
func (k *Known) Lossy() bool { return k.lossy }

// Page returns the tracker of a channel that is a page.
func (k *Known) Page() *page.Tracker {
	if k.page == nil {
		k.page = new(page.Tracker)
	}
	return k.page
}

// SetPage replaces the tracker.
func (k *Known) SetPage(m page.Tracker) { *k.Page() = m }

// AddLogged adds a delta from the log. It also applies the delta's version of a page, if the preceding version
// is known.
func (k *Known) AddLogged(d Delta) {
	k.Add(d)
	if d.Page != nil {
		_ = k.Page().Apply(d.Page) // after an error the tracker knows nothing
	}
}

// Add adds a delta.
func (k *Known) Add(d Delta) {
	k.unpack()
	k.addHead(d)
	at := -1
	for i := range d.Changes {
		c := &d.Changes[i]
		if _, ok := k.fingerprints[shorten(c.Item.ID)]; !ok {
			at = k.insert(c, at)
		}
		k.stand(shorten(c.Item.ID))
		k.add(shorten(c.Item.ID), shortHash(c.Item.Hash))
	}
	k.mark(d)
	k.forget()
}

func (k *Known) add(id shortID, hash uint64) {
	if k.fingerprints == nil {
		k.fingerprints = map[shortID]fingerprint{}
	}
	p := k.fingerprints[id]
	i := slices.Index(p.hashes[:p.n], hash)
	if i < 0 {
		p.n = min(p.n+1, maxVersions)
		i = int(p.n) - 1
	} else if i > 0 {
		p.turns = min(p.turns+1, maxTurns)
	}
	copy(p.hashes[1:i+1], p.hashes[:i])
	p.hashes[0] = hash
	delete(k.behind, id)
	k.seen++
	p.seen = k.seen
	k.fingerprints[id] = p
}

// Touch records that the items of a document are still in it, so that they are forgotten last. It adds no
// items.
func (k *Known) Touch(f *feed.Feed) {
	k.unpack()
	for i := len(f.Items) - 1; i >= 0; i-- {
		id := shorten(f.Items[i].ID)
		if p, ok := k.fingerprints[id]; ok {
			k.seen++
			p.seen = k.seen
			k.fingerprints[id] = p
		}
	}
}

// forget drops the items seen longest ago if too many are known.
func (k *Known) forget() {
	if k.Len() <= MaxKnown {
		return
	}
	ids := k.byAge()
	for _, id := range ids[:len(ids)-MaxKnown+MaxKnown/8] {
		delete(k.fingerprints, id)
		delete(k.behind, id)
		delete(k.withdrawn, id)
	}
	k.keepOrder(func(id feed.ID) bool { _, ok := k.fingerprints[shorten(id)]; return ok })
}

// byAge returns the known items, those seen longest ago first.
func (k *Known) byAge() []shortID {
	ids := make([]shortID, 0, len(k.fingerprints))
	for id := range k.fingerprints {
		if id != headID {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b shortID) int { return cmp.Compare(k.fingerprints[a].seen, k.fingerprints[b].seen) })
	return ids
}

// Recognise sets the identities of a document's items to those by which they are known. An id that several
// items have identifies none of them, so each needs qualifiers while the others are in the document. Without
// Recognise, an item would be reported again when another one with its id comes, and again when that goes. A
// version that is known under an identity which another item has now is removed: it has been reported. Recognise also
// learns whether the numbers of the feed's items change by themselves.
func (k *Known) Recognise(f *feed.Feed) {
	k.unpack()
	if k.Len() == 0 {
		return
	}
	k.learnCounters(f)
	taken := map[feed.ID]feed.Hash{}
	var unknown []int
	for i, it := range f.Items {
		if _, version := k.Has(it.ID, it.Hash); version {
			taken[it.ID] = it.Hash
		} else {
			unknown = append(unknown, i)
		}
	}
	// Of two items that differ only in their dates, the last one is taken for the known one, because most feeds
	// begin with the newest.
	reported := map[int]bool{}
	for _, i := range slices.Backward(unknown) {
		it := &f.Items[i]
		for qualifiers, id := range it.Identities() {
			if _, version := k.Has(id, it.Hash); !version {
				continue
			}
			by, ok := taken[id]
			if !ok {
				it.ID, it.Qualifiers = id, uint8(qualifiers)
				taken[id] = it.Hash
				break
			}
			if reported[i] = by != it.Hash; reported[i] {
				break
			}
		}
	}
	if len(reported) > 0 {
		rest := make([]feed.Item, 0, len(f.Items))
		for i, it := range f.Items {
			if !reported[i] {
				rest = append(rest, it)
			}
		}
		f.Items = rest
	}
}

// Suspicious returns why a document may not belong to this feed, or "". The host may have lost its database, or
// the domain may have been sold; or the document may be right. The caller can wait and see whether it stays. A
// feed that names the same site is the same feed, whatever its title, and a feed without items is only empty at
// present.
func (k *Known) Suspicious(f *feed.Feed) string {
	if k.Len() < minKnown || !k.isOtherFeed(f) {
		return ""
	}
	return fmt.Sprintf("another title, another site and none of the %d items that are known", k.Len())
}

// isOtherFeed reports whether a document has nothing in common with the known ones.
func (k *Known) isOtherFeed(f *feed.Feed) bool {
	if len(f.Items) == 0 || k.title == titleHash(f.Head.Title) {
		return false
	}
	for _, home := range hostsOf(&f.Head) {
		if home != "" && slices.Contains(k.hosts[:], home) {
			return false
		}
	}
	for _, it := range f.Items {
		if item, _ := k.Has(it.ID, it.Hash); item {
			return false
		}
	}
	return true
}

// Unrelated reports whether two documents have nothing in common: no title, site or item.
func Unrelated(f, g *feed.Feed) bool {
	var k Known
	k.Add(k.Diff(f))
	return k.isOtherFeed(g)
}

// hostsOf returns the hosts that a head names: of its site, and of its own address; "" if it names none.
func hostsOf(h *feed.Head) (homes [2]string) {
	for i, address := range []string{h.Link, h.Self()} {
		if u, err := url.Parse(strings.TrimSpace(address)); err == nil {
			homes[i] = strings.TrimPrefix(strings.ToLower(u.Hostname()), "www.")
		}
	}
	return homes
}
