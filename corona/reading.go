package corona

import (
	"cmp"
	"encoding/binary"
	"time"

	"tidings/internal/feed"
)

// A reading is a document as a poller has read it, or that it has not changed.
type reading struct {
	f       *feed.Feed // nil: not modified
	page    *sight     // of a channel that is a page, as it was looked at; nil: only its print is here
	offer   Offer      // in place of a feed
	judged  *judgement // of a page, as its sequencer judges it; nil: it was not
	valid   validators
	fresh   time.Duration // max-age
	moved   string        // where it has moved for good
	private bool          // its origin is on a private address
	size    int           // in bytes
	handed  bool          // no document, but items that a node found while it was cut off
}

// words say what readers lack of a document.
func (r *reading) words() string {
	if len(r.f.Items) == 0 {
		return cmp.Or(r.f.Lacks, noItems)
	}
	return r.f.Lacks
}

// An imprint stands for a version of an item: the beginnings of its identity and of its hash,
// as long as difference.Known has them.
type imprint struct {
	id   [16]byte
	hash uint64
}

// printSize is that of a print in a message, in bytes.
const printSize = 24

func printOf(it *feed.Item) imprint {
	return imprint{[16]byte(it.ID[:16]), binary.BigEndian.Uint64(it.Hash[:])}
}

// prints are those of a document, in its order.
func prints(f *feed.Feed) []imprint {
	of := make([]imprint, len(f.Items))
	for i := range f.Items {
		of[i] = printOf(&f.Items[i])
	}
	return of
}

// digest stands for the versions that a document shows, whatever their order. It is no
// secret: who makes two documents of one digest hides an item of his own.
func digest(of []imprint) uint64 {
	sum := uint64(len(of))
	for _, p := range of {
		x := binary.BigEndian.Uint64(p.id[:]) ^ mix(p.hash^binary.BigEndian.Uint64(p.id[8:]))
		sum += mix(x)
	}
	return sum
}

// mix is the finalizer of MurmurHash3.
func mix(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

// appendPrints encodes prints.
func appendPrints(b []byte, of []imprint) []byte {
	for _, p := range of {
		b = append(b, p.id[:]...)
		b = binary.BigEndian.AppendUint64(b, p.hash)
	}
	return b
}

// parsePrints decodes prints; nil if they are none.
func parsePrints(b []byte) []imprint {
	if len(b)%printSize != 0 || len(b)/printSize > feed.MaxItems {
		return nil
	}
	of := make([]imprint, len(b)/printSize)
	for i := range of {
		of[i].id = [16]byte(b[i*printSize:])
		of[i].hash = binary.BigEndian.Uint64(b[i*printSize+16:])
	}
	return of
}

// bare is an item of which only the print is known.
func (p imprint) bare() feed.Item {
	var it feed.Item
	copy(it.ID[:], p.id[:])
	binary.BigEndian.PutUint64(it.Hash[:], p.hash)
	return it
}
