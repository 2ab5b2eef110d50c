package feed

import (
	"crypto/sha256"
	"encoding/binary"
	"strings"
)

// facts are the parts of an item that its identity and content hash depend on.
type facts struct {
	id, link, title, date string
	author                []byte
	summary, content      []byte // visible content, see appendVisible
	enclosures            []byte
	other                 bool // the item has something else, for example an extension
}

// Nodes compare identities and hashes. A change of a rule here, in normalise.go or in facts.go must change the
// version.
const (
	idVersion   = "tidings/item-id/2"
	hashVersion = "tidings/item-hash/2"
)

// empty reports whether an item says nothing. A date or an author alone is nothing.
func (f *facts) empty() bool {
	return f.id == "" && f.link == "" && f.title == "" && len(f.summary)+len(f.content)+len(f.enclosures) == 0 && !f.other
}

// hash returns the hash of the content that a reader sees. It ignores dates, which some feeds change with every
// build, and also categories, comment counts and extensions. It begins with the hash of the wording.
func (f *facts) hash() (h Hash) {
	title, link := appendVisible(nil, f.title), []byte(cleanLink(f.link))
	words := digest(hashVersion+"/words", title, link, f.author, withoutNumbers(f.summary), withoutNumbers(f.content), f.enclosures)
	all := digest(hashVersion, title, link, f.author, f.summary, f.content, f.enclosures)
	copy(h[copy(h[:WordingSize], words[:]):], all[:])
	return h
}

// identity returns the identity of an item with a number of qualifiers.
//
// The id of an item is its guid, atom:id, rdf:about or JSON id. An item without one is identified by its link,
// else by title and date, else by its content. The identity must not change when the item is edited, so nothing
// else is part of it. Some documents give one id to several items, though. There each of these items needs some
// qualifiers, in this order: link, title, date, content. h is the hash of the item.
func (f *facts) identity(h Hash, qualifiers uint8) ID {
	var own [][]byte
	switch {
	case f.id != "":
		own = f.ownID()
	case f.link != "":
		own = [][]byte{[]byte("link"), []byte(cleanLink(f.link))}
	case f.title != "" || f.date != "":
		own = [][]byte{[]byte("title"), appendNonSpace(nil, f.title), []byte(f.date)}
	default:
		own = [][]byte{[]byte("content"), h[:]}
	}
	further := [maxQualifiers][]byte{[]byte(cleanLink(f.link)), appendNonSpace(nil, f.title), []byte(f.date), h[:]}
	return ID(digest(idVersion, append(own, further[:qualifiers]...)...))
}

// ownID returns the parts of an identity that stand for the item's id. An id that is an address is compared as a
// link is, because such ids change between spellings of one address. Some publishers count the edits of an item in
// the fragment of its id, as in "#2". Such a number does not count if the link does not have it; the link and the
// title then take its place, so that numbers which tell items apart lose none of them.
func (f *facts) ownID() [][]byte {
	if !isAddress(f.id) {
		return [][]byte{[]byte("id"), []byte(f.id)}
	}
	before, fragment, _ := strings.Cut(cleanLink(f.id), "#")
	link := cleanLink(f.link)
	if fragment == "" || strings.Trim(fragment, "0123456789") != "" || strings.HasSuffix(link, "#"+fragment) {
		return [][]byte{[]byte("id"), []byte(cleanLink(f.id))}
	}
	return [][]byte{[]byte("numbered"), []byte(before), []byte(link), appendNonSpace(nil, f.title)}
}

// maxQualifiers is the number of possible qualifiers.
const maxQualifiers = 4

// Identities returns the identities that an item can have, by the number of qualifiers. The other items of a
// document decide which of them it has there.
func (it *Item) Identities() (ids [maxQualifiers + 1]ID) {
	f := it.facts()
	for qualifiers := range ids {
		ids[qualifiers] = f.identity(it.Hash, uint8(qualifiers))
	}
	return ids
}

// digest hashes parts so that different lists of parts have different hashes.
func digest(version string, parts ...[]byte) Hash {
	d := sha256.New()
	d.Write([]byte(version))
	for _, p := range parts {
		d.Write(binary.BigEndian.AppendUint64(nil, uint64(len(p))))
		d.Write(p)
	}
	return Hash(d.Sum(nil))
}

// identify sets the identities and hashes of a document's items. It leaves out empty items, and items that
// equal an earlier one, including the date.
func identify(items []Item, all []facts) ([]Item, repairs) {
	var (
		kept      = items[:0]
		keptFacts []*facts
		seen      = map[Hash]bool{}
		count     = map[ID]int{}
		bad       repairs
	)
	for i, it := range items {
		f := &all[i]
		if f.empty() {
			bad |= emptyItems
			continue
		}
		it.Hash = f.hash()
		it.ID = f.identity(it.Hash, 0)
		same := digest("", it.ID[:], it.Hash[:], []byte(f.date))
		if seen[same] {
			bad |= duplicateItems
			continue
		}
		seen[same] = true
		count[it.ID]++
		kept, keptFacts = append(kept, it), append(keptFacts, f)
	}
	for qualifiers := uint8(1); qualifiers <= maxQualifiers; qualifiers++ {
		next := map[ID]int{}
		for i := range kept {
			if it := &kept[i]; it.Qualifiers == qualifiers-1 && count[it.ID] > 1 {
				it.Qualifiers, it.ID = qualifiers, keptFacts[i].identity(it.Hash, qualifiers)
				next[it.ID]++
			}
		}
		count = next
	}
	return kept, bad
}
