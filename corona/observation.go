package corona

import (
	"cmp"
	"encoding/binary"
	"strings"
	"time"

	"tidings/corona/websub"
	"tidings/internal/env"
	"tidings/internal/feed"
	"tidings/overlay"
)

// observation is the result of a successful poll: a document, or that it has not changed.
type observation struct {
	f          *feed.Feed   // nil: not modified
	page       *pageView    // of a channel that is a page; nil: only its fingerprint is known
	offer      Offer        // what the address offers in place of a feed
	verdict    *pageVerdict // of a page, by its sequencer; nil: not judged yet
	valid      validators
	maxAge     time.Duration // max-age of the response
	asked      string        // the address that this node has asked; "": another node did
	moved      string        // permanent redirect to this address
	private    bool          // the origin has a private address
	size       int           // of the document, in bytes
	partial    bool          // f is a partial document, completed by the items of the snapshot before it
	handedOver bool          // no document, but items that a node found while it was cut off, or
	pushed     bool          // that the channel's hub has sent
	topic      websub.Topic  // hub and topic that the document names, if this node has fetched it
}

// detail says what readers lack of a document.
func (r *observation) detail() string {
	if len(r.f.Items) == 0 {
		return cmp.Or(r.f.Omitted, noItems)
	}
	return r.f.Omitted
}

// direct says whether a request of this node for the address of a channel brought the document. A sequencer may say that the
// channel has moved, and name any address; what is there proves nothing about the channel.
func (r *observation) direct(url string) bool {
	own, _ := feed.DocumentURL(url)
	return r.asked == "" || r.asked == own
}

// tell hands over a document that this node has just fetched itself.
func (r *observation) tell(app Application, key overlay.ID, url string) {
	if _, isPage := feed.DocumentURL(url); !isPage {
		app.Saw(key, url, r.f, r.secure(url))
	} else if r.page != nil {
		app.SawPage(key, url, &r.page.core)
	}
}

// fingerprint identifies a version of an item by the first bytes of its identity and of its content
// hash, as long as those in difference.Known.
type fingerprint struct {
	id   [16]byte
	hash uint64
}

// fingerprintSize is the size of an encoded fingerprint, in bytes.
const fingerprintSize = 24

func fingerprintOf(it *feed.Item) fingerprint {
	return fingerprint{[16]byte(it.ID[:16]), binary.BigEndian.Uint64(it.Hash[:])}
}

// fingerprintsOf returns the fingerprints of a document's items, in document order.
func fingerprintsOf(f *feed.Feed) []fingerprint {
	of := make([]fingerprint, len(f.Items))
	for i := range f.Items {
		of[i] = fingerprintOf(&f.Items[i])
	}
	return of
}

// anyNumbers are the bits of a fingerprint that are zero in a snapshot if the item's numbers change by
// themselves. Pollers then do not report other numbers.
const anyNumbers = 1<<(64-8*feed.WordingSize) - 1

// covers says whether a fingerprint of a snapshot stands for an item's version.
func (p fingerprint) covers(q fingerprint) bool {
	return p == q || p == q.withoutNumbers()
}

func (p fingerprint) withoutNumbers() fingerprint { return fingerprint{p.id, p.hash &^ anyNumbers} }

// hideCounters removes numbers that change by themselves from fingerprints.
func (l *leaderState) hideCounters(of []fingerprint) {
	for i := range of {
		if it := of[i].bare(); l.known.IsCounter(it.ID) {
			of[i] = of[i].withoutNumbers()
		}
	}
}

// counters is the number of fingerprints without numbers.
func counters(of []fingerprint) (n int) {
	for _, p := range of {
		if p.hash&anyNumbers == 0 {
			n++
		}
	}
	return n
}

// digest hashes a set of item versions, in any order. It is not collision-resistant: an origin that
// crafts two documents with one digest only hides an item of its own.
func digest(of []fingerprint) uint64 {
	sum := uint64(len(of))
	for _, p := range of {
		x := binary.BigEndian.Uint64(p.id[:]) ^ env.Mix(p.hash^binary.BigEndian.Uint64(p.id[8:]))
		sum += env.Mix(x)
	}
	return sum
}

// appendFingerprints encodes fingerprints.
func appendFingerprints(b []byte, of []fingerprint) []byte {
	for _, p := range of {
		b = append(b, p.id[:]...)
		b = binary.BigEndian.AppendUint64(b, p.hash)
	}
	return b
}

// parseFingerprints decodes fingerprints; nil if the length is wrong.
func parseFingerprints(b []byte) []fingerprint {
	if len(b)%fingerprintSize != 0 || len(b)/fingerprintSize > feed.MaxItems {
		return nil
	}
	of := make([]fingerprint, len(b)/fingerprintSize)
	for i := range of {
		of[i].id = [16]byte(b[i*fingerprintSize:])
		of[i].hash = binary.BigEndian.Uint64(b[i*fingerprintSize+16:])
	}
	return of
}

// bare returns an item of which only the fingerprint is known.
func (p fingerprint) bare() feed.Item {
	var it feed.Item
	copy(it.ID[:], p.id[:])
	binary.BigEndian.PutUint64(it.Hash[:], p.hash)
	return it
}

// secure says whether nobody on the way could have changed a document fetched from url. Without
// HTTPS at the start, anybody on the way could redirect to a server of their own.
func (r *observation) secure(url string) bool {
	return r.private || strings.HasPrefix(url, "https://") && strings.HasPrefix(r.valid.url, "https://")
}
