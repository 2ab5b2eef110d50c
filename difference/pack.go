package difference

import (
	"bytes"
	"encoding/binary"
	"maps"
	"time"

	"tidings/internal/feed"
)

// Most feeds of a node are quiet most of the time, and a node may have a hundred thousand of them. Pack turns the items of a
// Window or a Known into one slice of bytes, which takes a fourth of the memory, and nothing that a collection of garbage
// looks at. The next use of the items unpacks them. The bytes never leave the node.

// A packing holds packed items.
type packing struct {
	packed []byte // nil: the items are not packed
	count  int32  // number of packed items
}

// An unpacker reads what Pack has written.
type unpacker []byte

func (p *unpacker) uint() uint64 {
	n, size := binary.Uvarint(*p)
	*p = (*p)[size:]
	return n
}

func (p *unpacker) int() int64 {
	n, size := binary.Varint(*p)
	*p = (*p)[size:]
	return n
}

func (p *unpacker) bytes(n int) (b []byte) {
	b, *p = (*p)[:n], (*p)[n:]
	return b
}

// Bits of a packed entry.
const (
	packedSigned = 1 << iota
	packedWithdrawn
	packedBits = iota
)

// Pack packs the items. If another window has the same items packed, both share the bytes. A caller packs large windows now
// and then, and not after each use, because packing and unpacking look at all items; see SmallFeed.
func (w *Window) Pack(like *Window) {
	if len(w.byID) > 0 {
		w.pack()
	}
	if like != nil && w.packed != nil && bytes.Equal(w.packed, like.packed) {
		w.packed = like.packed
	}
}

// pack writes the entries in the order of their references.
func (w *Window) pack() {
	place := make(map[*node]uint64, len(w.byID)) // in the document
	for p := w.first; p != nil; p = p.next {
		place[p] = uint64(len(place))
	}
	b := make([]byte, 0, 128*len(place))
	var before Entry
	for p := w.oldest; p != nil; p = p.newer {
		b = p.append(b, place[p], &before)
		before = p.Entry
	}
	w.packed, w.count = bytes.Clone(b), int32(len(place))
	w.first, w.oldest, w.newest, w.byID = nil, nil, nil, nil
}

// append encodes an entry after another one.
func (e *Entry) append(b []byte, place uint64, before *Entry) []byte {
	b = append(append(b, e.ID[:]...), e.Hash[:]...)
	flags := place << packedBits
	if e.Signed {
		flags |= packedSigned
	}
	if e.Withdrawn {
		flags |= packedWithdrawn
	}
	b = binary.AppendUvarint(b, flags)
	b = appendTime(b, e.Arrived, before.Arrived)
	b = appendTime(b, e.Changed, e.Arrived)
	b = binary.AppendUvarint(b, e.Ref-before.Ref)
	b = binary.AppendUvarint(b, uint64(e.Change))
	return binary.AppendUvarint(b, e.Number)
}

// entry decodes the entry after another one, and its place in the document.
func (p *unpacker) entry(before *Entry) (e Entry, place uint64) {
	e.ID, e.Hash = feed.ID(p.bytes(len(e.ID))), feed.Hash(p.bytes(len(e.Hash)))
	flags := p.uint()
	e.Signed, e.Withdrawn = flags&packedSigned != 0, flags&packedWithdrawn != 0
	e.Arrived = p.time(before.Arrived)
	e.Changed = p.time(e.Arrived)
	e.Ref = before.Ref + p.uint()
	e.Change = int(p.uint())
	e.Number = p.uint()
	return e, flags >> packedBits
}

func appendTime(b []byte, t, before time.Time) []byte {
	b = binary.AppendVarint(b, t.Unix()-before.Unix())
	return binary.AppendVarint(b, int64(t.Nanosecond()-before.Nanosecond()))
}

func (p *unpacker) time(before time.Time) time.Time {
	return time.Unix(before.Unix()+p.int(), int64(before.Nanosecond())+p.int()).UTC()
}

// packedEntries yields the entries while they are packed, in the order of their references.
func (w *Window) packedEntries(yield func(e Entry, place uint64) bool) {
	var before Entry
	for p := unpacker(w.packed); len(p) > 0; {
		e, place := p.entry(&before)
		if !yield(e, place) {
			return
		}
		before = e
	}
}

// unpack makes the items usable.
func (w *Window) unpack() {
	if w.packed == nil {
		return
	}
	w.byID = make(map[feed.ID]*node, w.count)
	document := make([]*node, w.count)
	for e, place := range w.packedEntries {
		n := &node{Entry: e}
		document[place], w.byID[e.ID] = n, n
		w.linkNewest(n)
	}
	w.first, w.packed = document[0], nil
	for i, n := range document[1:] {
		n.before, document[i].next = document[i], n
	}
}

// Pack packs the items, unless a document shows other versions than the log.
func (k *Known) Pack() {
	if len(k.fingerprints) > 0 && len(k.behind)+len(k.doubted) == 0 {
		k.pack()
	}
}

// SmallFeed is the number of items up to which a feed should be packed after each use. That takes microseconds, and many feeds may
// be used shortly after each other. Larger ones are packed when they have not been used for a while.
const SmallFeed = 16

// PackSmall is Pack for a small feed.
func (k *Known) PackSmall() {
	if k.Len() <= SmallFeed {
		k.Pack()
	}
}

// pack writes the items in document order, and then the others.
func (k *Known) pack() {
	b := binary.AppendUvarint(make([]byte, 0, 64*len(k.fingerprints)), uint64(len(k.order)))
	others := maps.Clone(k.fingerprints)
	for _, id := range k.order {
		b = k.fingerprints[shorten(id)].append(append(b, id[:]...))
		delete(others, shorten(id))
	}
	b = binary.AppendUvarint(b, uint64(len(others)))
	for id, p := range others {
		b = p.append(append(b, id[:]...))
	}
	for id := range k.withdrawn {
		b = append(b, id[:]...)
	}
	k.packed, k.count = bytes.Clone(b), int32(k.Len())
	k.fingerprints, k.behind, k.order, k.withdrawn, k.doubted = nil, nil, nil, nil, nil
}

func (p fingerprint) append(b []byte) []byte {
	b = append(b, p.n, p.turns)
	for _, h := range p.hashes[:p.n] {
		b = binary.BigEndian.AppendUint64(b, h)
	}
	return binary.AppendUvarint(b, p.seen)
}

func (p *unpacker) fingerprint() (f fingerprint) {
	b := p.bytes(2)
	f.n, f.turns = b[0], b[1]
	for i := range f.hashes[:f.n] {
		f.hashes[i] = binary.BigEndian.Uint64(p.bytes(8))
	}
	f.seen = p.uint()
	return f
}

// unpack makes the items usable.
func (k *Known) unpack() {
	if k.packed == nil {
		return
	}
	p := unpacker(k.packed)
	k.packed = nil
	k.fingerprints = make(map[shortID]fingerprint, k.count)
	k.order = make([]feed.ID, 0, k.count)
	for range p.uint() {
		id := feed.ID(p.bytes(len(feed.ID{})))
		k.order = append(k.order, id)
		if f := p.fingerprint(); f.n > 0 {
			k.fingerprints[shorten(id)] = f
		}
	}
	for range p.uint() {
		id := shortID(p.bytes(len(shortID{})))
		k.fingerprints[id] = p.fingerprint()
	}
	for len(p) > 0 {
		if k.withdrawn == nil {
			k.withdrawn = map[shortID]bool{}
		}
		k.withdrawn[shortID(p.bytes(len(shortID{})))] = true
	}
}
