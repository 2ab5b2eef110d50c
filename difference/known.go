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
	// MaxKnown is how many items' fingerprints are kept: twice as many as a
	// document may have, so that none that is still in it is forgotten, if See
	// is told of the documents. Beyond, those seen longest ago are forgotten,
	// an eighth at a time.
	MaxKnown = 2 * feed.MaxItems

	// versions is how many hashes of an item are remembered: enough for a few
	// replicas that lag by an edit each, and small beside the identity.
	maxVersions = 4

	// wellKnown is how many items of a feed have to be known before a document
	// without any of them is strange.
	minKnown = 5
)

// Known is the fingerprints of a feed: the identities of its items and the hashes
// of their last versions. The zero value knows nothing.
//
// Fingerprints are kept short. To make two that collide takes a publisher 2^64
// attempts for identities, 2^32 for the versions of an item, and loses an
// item of his own.
type Known struct {
	fingerprints map[shortID]fingerprint
	seen         uint64 // counts items seen; the age of prints
	head         feed.Hash
	title        feed.Hash
	hosts        [2]string    // as homesOf has them
	page         page.Tracker // of a channel that is a page
	lossy        bool         // as Lossy says
}

type shortID [16]byte

type fingerprint struct {
	hashes [maxVersions]uint64 // the last n count, the latest first
	n      uint8
	seen   uint64
}

func shorten(id feed.ID) shortID { return shortID(id[:16]) }

func shortHash(h feed.Hash) uint64 { return binary.BigEndian.Uint64(h[:]) }

// Len is the number of items known.
func (k *Known) Len() int { return len(k.fingerprints) }

// Has tells whether an item is known, and whether it is in this version.
func (k *Known) Has(id feed.ID, hash feed.Hash) (item, version bool) {
	p, ok := k.fingerprints[shorten(id)]
	return ok, ok && slices.Contains(p.hashes[:p.n], shortHash(hash))
}

// Diff returns what a document says that is not known. It changes nothing.
func (k *Known) Diff(f *feed.Feed) Delta {
	var d Delta
	if k.head != f.Head.Hash() {
		d.Head = &f.Head
	}
	var before feed.ID
	for _, it := range f.Items {
		if item, version := k.Has(it.ID, it.Hash); !version {
			d.Changes = append(d.Changes, Change{Item: it, After: before, Edited: item})
		}
		before = it.ID
	}
	return d
}

// Unknown returns what of a delta is not known: somebody else may have found the
// same.
func (k *Known) Unknown(d Delta) Delta {
	var rest Delta
	if d.Head != nil && k.head != d.Head.Hash() {
		rest.Head = d.Head
	}
	for _, c := range d.Changes {
		var version bool
		if c.Edited, version = k.Has(c.Item.ID, c.Item.Hash); !version {
			rest.Changes = append(rest.Changes, c)
		}
	}
	return rest
}

// Blank says whether nothing is known.
func (k *Known) Empty() bool { return len(k.fingerprints) == 0 && k.page.Number() == 0 }

// Lose notes that the log has an entry that cannot be read.
func (k *Known) MarkLossy() { k.lossy = true }

// Lossy says whether items may be missing here that the log was meant to have. The origin's
// document is then to be fetched whole, as "not modified" proves nothing.
func (k *Known) Lossy() bool { return k.lossy }

// Headed says whether the head of any document is known.
func (k *Known) HasHead() bool { return k.head != (feed.Hash{}) }

// Page is what is known of a channel that is a page.
func (k *Known) Page() *page.Tracker { return &k.page }

// SetPage makes known of it what it has become.
func (k *Known) SetPage(m page.Tracker) { k.page = m }

// Recall makes a delta known that a log has: also the version of a page in it, if what is
// known of the page is from the entry before.
func (k *Known) AddLogged(d Delta) {
	k.Add(d)
	if d.Page != nil {
		_ = k.page.Apply(d.Page) // of what cannot be taken nothing is known
	}
}

// Add makes a delta known.
func (k *Known) Add(d Delta) {
	if d.Head != nil {
		k.head, k.title, k.hosts = d.Head.Hash(), titleHash(d.Head.Title), hostsOf(d.Head)
	}
	for _, c := range d.Changes {
		k.add(shorten(c.Item.ID), shortHash(c.Item.Hash))
	}
	k.forget()
}

func (k *Known) add(id shortID, hash uint64) {
	if k.fingerprints == nil {
		k.fingerprints = map[shortID]fingerprint{}
	}
	p := k.fingerprints[id]
	if !slices.Contains(p.hashes[:p.n], hash) {
		copy(p.hashes[1:], p.hashes[:])
		p.hashes[0] = hash
		p.n = min(p.n+1, maxVersions)
	}
	k.seen++
	p.seen = k.seen
	k.fingerprints[id] = p
}

// See notes that the items of a document are still in it, so that they are not
// forgotten before those that are not. What is unknown stays so.
func (k *Known) Touch(f *feed.Feed) {
	for i := len(f.Items) - 1; i >= 0; i-- {
		id := shorten(f.Items[i].ID)
		if p, ok := k.fingerprints[id]; ok {
			k.seen++
			p.seen = k.seen
			k.fingerprints[id] = p
		}
	}
}

// forget drops what was seen longest ago if too much is known.
func (k *Known) forget() {
	if len(k.fingerprints) <= MaxKnown {
		return
	}
	ids := k.byAge()
	for _, id := range ids[:len(ids)-MaxKnown+MaxKnown/8] {
		delete(k.fingerprints, id)
	}
}

// byAge are the known items, those seen longest ago first.
func (k *Known) byAge() []shortID {
	ids := make([]shortID, 0, len(k.fingerprints))
	for id := range k.fingerprints {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b shortID) int { return cmp.Compare(k.fingerprints[a].seen, k.fingerprints[b].seen) })
	return ids
}

// Recognise gives the items of a document the identities they are known by. An id that
// several items claim tells none of them, so each goes by more than its id as long as
// the others are there: an item that had its id for itself would be told again when
// another takes it too, and again when it is left alone. A version that is known under
// an identity another item has by now is left out: it was told.
func (k *Known) Recognise(f *feed.Feed) {
	if k.Len() == 0 {
		return
	}
	taken := map[feed.ID]feed.Hash{}
	var strange []int
	for i, it := range f.Items {
		if _, version := k.Has(it.ID, it.Hash); version {
			taken[it.ID] = it.Hash
		} else {
			strange = append(strange, i)
		}
	}
	// Of two that are alike but for their dates, the last is taken for the one that is
	// known: most feeds have the newest first.
	told := map[int]bool{}
	for _, i := range slices.Backward(strange) {
		it := &f.Items[i]
		for apart, id := range it.Identities() {
			if _, version := k.Has(id, it.Hash); !version {
				continue
			}
			by, ok := taken[id]
			if !ok {
				it.ID, it.Qualifiers = id, uint8(apart)
				taken[id] = it.Hash
				break
			}
			if told[i] = by != it.Hash; told[i] {
				break
			}
		}
	}
	if len(told) > 0 {
		rest := make([]feed.Item, 0, len(f.Items))
		for i, it := range f.Items {
			if !told[i] {
				rest = append(rest, it)
			}
		}
		f.Items = rest
	}
}

// Suspicious says, in words, why a document looks as if it had taken the place of
// the feed that is known; "" if it does not. It may be a host without its
// database, or a domain that was sold; it may be right. Whoever polls can wait and
// see whether it stays. A feed that names the same site as ever is that feed, whatever
// its title, and one without items is a feed that has none at present.
func (k *Known) Suspicious(f *feed.Feed) string {
	if k.Len() < minKnown || !k.isOtherFeed(f) {
		return ""
	}
	return fmt.Sprintf("another title, another site and none of the %d items that are known", k.Len())
}

// another says whether a document has nothing in common with what is known.
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

// Unlike says whether two documents have nothing in common: neither title nor site nor
// item.
func Unrelated(f, g *feed.Feed) bool {
	var k Known
	k.Add(k.Diff(f))
	return k.isOtherFeed(g)
}

// homesOf are the hosts that a head names for itself: of the site it belongs to, and
// of its own address; "" where it names none.
func hostsOf(h *feed.Head) (homes [2]string) {
	for i, address := range []string{h.Link, h.Self()} {
		if u, err := url.Parse(strings.TrimSpace(address)); err == nil {
			homes[i] = strings.TrimPrefix(strings.ToLower(u.Hostname()), "www.")
		}
	}
	return homes
}
