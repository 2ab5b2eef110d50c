package feed

import (
	"crypto/sha256"
	"encoding/binary"
)

// facts is what identity and content of an item are made of.
type facts struct {
	id, link, title, date string
	author                []byte
	summary, content      []byte // as read, see appendReading
	enclosures            []byte
	other                 bool // it says something that none of these is, in an extension perhaps
}

// Identities and hashes are compared between nodes: whoever changes a rule here,
// in words.go or in facts.go changes the version.
const (
	idVersion   = "tidings/item-id/1"
	hashVersion = "tidings/item-hash/1"
)

// silent tells an item that says nothing. When and by whom nothing is said does not
// make it something.
func (f *facts) empty() bool {
	return f.id == "" && f.link == "" && f.title == "" && len(f.summary)+len(f.content)+len(f.enclosures) == 0 && !f.other
}

// hash stands for what a reader sees. Dates do not count, since they move with
// every build of some feeds, and neither do categories, counts of comments, or
// extensions.
func (f *facts) hash() Hash {
	return digest(hashVersion,
		appendVisible(nil, f.title), []byte(cleanLink(f.link)), f.author, f.summary, f.content, f.enclosures)
}

// identity is that of an item which apart facts beyond its id tell from others.
//
// An item's id is its guid, atom:id, rdf:about or JSON id; an item without one
// goes by its link, then by title and date, then by all it says. It must stay the
// same when the item is edited, which is why nothing else counts. Some documents
// give one id to several items, though. There each of them goes by as many
// further facts as it takes, in this order: link, title, date, content. h is the
// hash of the item.
func (f *facts) identity(h Hash, apart uint8) ID {
	var own [][]byte
	switch {
	case f.id != "":
		own = [][]byte{[]byte("id"), []byte(f.id)}
	case f.link != "":
		own = [][]byte{[]byte("link"), []byte(cleanLink(f.link))}
	case f.title != "" || f.date != "":
		own = [][]byte{[]byte("title"), appendNonSpace(nil, f.title), []byte(f.date)}
	default:
		own = [][]byte{[]byte("content"), h[:]}
	}
	further := [maxQualifiers][]byte{[]byte(cleanLink(f.link)), appendNonSpace(nil, f.title), []byte(f.date), h[:]}
	return ID(digest(idVersion, append(own, further[:apart]...)...))
}

// maxApart is how many facts there are beyond an id.
const maxQualifiers = 4

// Identities are those an item has beside others that claim its id, by Apart: which
// of them it goes by depends on the document it stands in.
func (it *Item) Identities() (ids [maxQualifiers + 1]ID) {
	f := it.facts()
	for apart := range ids {
		ids[apart] = f.identity(it.Hash, uint8(apart))
	}
	return ids
}

// digest hashes parts so that no two lists of parts give the same.
func digest(version string, parts ...[]byte) Hash {
	d := sha256.New()
	d.Write([]byte(version))
	for _, p := range parts {
		d.Write(binary.BigEndian.AppendUint64(nil, uint64(len(p))))
		d.Write(p)
	}
	return Hash(d.Sum(nil))
}

// identify gives the items of a document their identities and hashes, and leaves
// out those that say nothing, or the same, dates included, as one before them.
func identify(items []Item, all []facts) ([]Item, repairs) {
	var (
		kept  = items[:0]
		of    []*facts
		seen  = map[Hash]bool{}
		count = map[ID]int{}
		bad   repairs
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
		kept, of = append(kept, it), append(of, f)
	}
	for apart := uint8(1); apart <= maxQualifiers; apart++ {
		next := map[ID]int{}
		for i := range kept {
			if it := &kept[i]; it.Qualifiers == apart-1 && count[it.ID] > 1 {
				it.Qualifiers, it.ID = apart, of[i].identity(it.Hash, apart)
				next[it.ID]++
			}
		}
		count = next
	}
	return kept, bad
}
