package difference

import (
	"iter"
	"slices"

	"tidings/internal/feed"
)

// Which heads of documents are told. The versions of a head are kept as those of an item are, by what readers show of
// it. So an earlier head, which a replica that lags shows, is not news at once.

// headID stands for the head among the items.
var headID shortID

// maxAlone is how many heads in a row are told without an item. Further ones wait for the next item: then the title counts
// something, or each fetch gets another one.
const maxAlone = 3

// HeadVersion identifies what readers show of a head; 0: there is none.
func HeadVersion(h *feed.Head) uint64 {
	if len(h.Raw) == 0 {
		return 0
	}
	return shortHash(h.Shown())
}

// HeadVersion returns the version of the latest head; 0 if there is none, or if the next one waits for an item.
func (k *Known) HeadVersion() uint64 {
	k.unpack()
	if k.alone >= maxAlone {
		return 0
	}
	return k.fingerprints[headID].hashes[0]
}

// versionsOf yields the items of a document in the versions that it shows, and its head.
func versionsOf(f *feed.Feed) iter.Seq2[shortID, uint64] {
	return func(yield func(shortID, uint64) bool) {
		for i := range f.Items {
			if !yield(shorten(f.Items[i].ID), shortHash(f.Items[i].Hash)) {
				return
			}
		}
		if version := HeadVersion(&f.Head); version != 0 {
			yield(headID, version)
		}
	}
}

func (p *fingerprint) has(hash uint64) bool { return slices.Contains(p.hashes[:p.n], hash) }

// tellsHead reports whether the head of a document is told. With items, any new head is; readers may not show what is new
// in it. A document without items is an error page at times, so its head does not replace that of a feed with items.
func (k *Known) tellsHead(f *feed.Feed, withItems bool, takenBack func(feed.ID, feed.Hash) bool) bool {
	version := HeadVersion(&f.Head)
	p, known := k.fingerprints[headID]
	switch {
	case version == 0 || k.head == f.Head.Hash():
		return false
	case !known:
		return true
	case version == p.hashes[0]:
		return withItems
	case p.has(version):
		return takenBack(feed.ID{}, f.Head.Shown())
	}
	return withItems || k.alone < maxAlone && (len(f.Items) > 0 || k.Len() == 0)
}

// addHead adds the head of a delta. It counts the new heads in a row that came without an item, until an item comes
// without a new head.
func (k *Known) addHead(d Delta) {
	p, known := k.fingerprints[headID]
	changed := d.Head != nil && (!known || HeadVersion(d.Head) != p.hashes[0])
	switch {
	case len(d.Changes) > 0 && !changed:
		k.alone = 0
	case len(d.Changes) == 0 && changed && known:
		k.alone++
	}
	if d.Head != nil {
		k.head, k.title, k.hosts = d.Head.Hash(), titleHash(d.Head.Title), hostsOf(d.Head)
		k.add(headID, HeadVersion(d.Head))
	}
}
