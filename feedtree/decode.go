package feedtree

import (
	"slices"

	"tidings/difference"
	"tidings/internal/env"
	"tidings/internal/feed"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/owner"
)

// A decodedEntry is the content of an entry, as far as it could be read.
type decodedEntry struct {
	difference.Delta
	// unreadable is set if part of the body or all of it could not be read: the disk has lost it, or the sequencer
	// signed something other than a delta.
	unreadable bool
	bodyLost   bool                   // the disk does not have the body
	sightings  []*difference.Sighting // those of the delta that have been verified
}

// changeSize is what a change takes in memory beside its text, in bytes, and about what a former key of a pin takes.
const changeSize = 256

// size returns the bytes of memory that what was read takes, about.
func (d *decodedEntry) size() int {
	n := len(d.Page) + (len(d.Withdrawn)+len(d.Standing))*len(feed.ID{}) + len(d.Changes)*changeSize
	if d.Pin != nil {
		n += len(d.Pin.Former) * changeSize
		for _, w := range d.Pin.Witnesses {
			n += len(w)
		}
	}
	for _, s := range d.Sightings {
		n += len(s)
	}
	if d.Head != nil {
		n += len(d.Head.Raw)
	}
	for i := range d.Changes {
		n += len(d.Changes[i].Item.Raw)
		if p := d.Changes[i].Publication; p != nil {
			n += len(p.Raw)
		}
	}
	return n
}

// decodeStep bounds, in bytes, what is decoded of a log at a time: the entries up to the first one with which they have as
// much, which has at most difference.MaxDelta. An origin can serve items that shrink to a thousandth, so a log of 48 MiB may
// have gigabytes of them.
const decodeStep = 8 << 20

// decodingsAtOnce bounds the steps that are with the worker, because what they have decoded stays in memory until the loop takes it.
const decodingsAtOnce = 4

// A decoder decodes the body of an entry.
type decoder struct {
	decode   func(e *owner.Entry, body []byte) (difference.Delta, error)
	verifies bool // it verifies all signatures of items, and reads certificates
}

// decodeNew is for entries that this node has not read before.
var decodeNew = decoder{func(_ *owner.Entry, body []byte) (difference.Delta, error) { return difference.Decode(body) }, true}

// decode reads the bodies of entries as far as possible, and passes them to each in their order. Then it calls then. It counts
// and reports those that are unreadable.
func (es *entries) decode(of []*owner.Entry, each func(*owner.Entry, *decodedEntry), then func()) {
	es.walk(of, decodeNew, func(e *owner.Entry, d *decodedEntry) bool {
		each(e, d)
		return true
	}, then)
}

// walk is decode by a given decoder. It ends with the entry for which each returns false.
func (es *entries) walk(of []*owner.Entry, read decoder, each func(*owner.Entry, *decodedEntry) bool, then func()) {
	es.step(of, read, func(got []decodedEntry) {
		for i := range got {
			if !each(of[i], &got[i]) {
				then()
				return
			}
		}
		if len(got) == len(of) {
			then()
			return
		}
		es.walk(of[len(got):], read, each, then)
	})
}

// rereader returns the decoder for entries that a window has. It verifies the signatures only of those that were not readable
// completely. If it did not, what decode has left out of them would count here.
func (es *entries) rereader(c *channel) decoder {
	unreadable := slices.Clone(c.window.unreadable)
	return decoder{decode: func(e *owner.Entry, body []byte) (difference.Delta, error) {
		if slices.Contains(unreadable, e.At.Seq) {
			return difference.Decode(body)
		}
		d, err := difference.Reread(body)
		d.Sightings = nil // the window has their marks
		return d, err
	}}
}

// keep keeps the content of an entry, which has been verified and signed for its feed, for those who want it next.
func (es *entries) keep(key overlay.ID, body owner.Hash, d difference.Delta) {
	if c := es.feeds[key]; c != nil && c.subscribed {
		es.recent.add(key, body, d, es.clock.Now())
	}
}

// step decodes the first ones of some entries, as many as decodeStep allows, and passes them to then.
func (es *entries) step(entries []*owner.Entry, read decoder, then func([]decodedEntry)) {
	if got := es.recent.first(entries, read.verifies); len(got) > 0 || len(entries) == 0 {
		es.worker.Do(func() {}, func() { then(got) })
		return
	}
	packed := 0
	for i, e := range entries {
		if packed += e.Size; packed >= decodeStep {
			entries = entries[:i+1]
			break
		}
	}
	es.owners.Bodies(entries, func(bodies [][]byte) {
		es.waiting = append(es.waiting, func() {
			var got []decodedEntry
			es.worker.Do(func() { got = es.decodeBodies(entries, bodies, read) }, func() {
				es.decoding--
				es.decodeWaiting()
				es.note(entries[:len(got)], got, read)
				then(got)
			})
		})
		es.decodeWaiting()
	})
}

// decodeWaiting lets the worker decode what waits, the oldest first.
func (es *entries) decodeWaiting() {
	for es.decoding < decodingsAtOnce && len(es.waiting) > 0 {
		begin := es.waiting[0]
		es.waiting[0], es.waiting = nil, es.waiting[1:]
		es.decoding++
		begin()
	}
}

// decodeBodies decodes as many entries as decodeStep allows, at least one. It changes nothing.
func (es *entries) decodeBodies(entries []*owner.Entry, bodies [][]byte, read decoder) (got []decodedEntry) {
	var certificates [][]byte // of all entries
	var sizes []int           // of the certificate of each
	for i, size := 0, 0; i < len(bodies) && size < decodeStep; i++ {
		delta, err := read.decode(entries[i], bodies[i])
		signed := es.signedForFeed(entries[i].Key, delta)
		e := decodedEntry{unreadable: err != nil || bodies[i] == nil || !signed, bodyLost: bodies[i] == nil}
		if signed {
			e.Delta = delta
		}
		got, certificates, sizes = append(got, e), append(certificates, delta.Sightings...), append(sizes, len(delta.Sightings))
		size += e.size()
	}
	opened := difference.OpenSightings(es.verify, certificates)
	for i, n := range sizes {
		got[i].sightings = es.forFeed(entries[i].Key, withBare(entries[i].Signer, certificates[:n], opened[:n]))
		opened, certificates = opened[n:], certificates[n:]
	}
	return got
}

// note keeps what was decoded for those who want it next, and counts and reports what is unreadable.
func (es *entries) note(entries []*owner.Entry, got []decodedEntry, read decoder) {
	for i := range got {
		e := entries[i]
		if read.verifies && !got[i].unreadable && es.clock.Now().Sub(e.Time).Abs() < recentTime {
			es.keep(e.Key, e.Body, got[i].Delta)
		}
		if got[i].unreadable {
			es.stats.Unread++
			if c := es.feeds[e.Key]; c != nil {
				es.refusals.add(Refusal{URL: c.url, Why: "an entry of the log cannot be read, or holds an item that the publisher has not signed for this feed"})
			}
		}
	}
}

// withBare returns the sightings of a certificate, given those that were signed alone. Others may be bare: those of the entry's
// signer.
func withBare(signer env.PeerID, certificate [][]byte, signed []*difference.Sighting) []*difference.Sighting {
	by, err := wire.PublicKeyOf(signer)
	all := slices.Clone(signed)
	for i, s := range all {
		if s == nil && err == nil {
			all[i], _ = difference.OpenBare(by, certificate[i]) // nil if it fails
		}
	}
	return all
}

// forFeed returns those sightings that are valid and were signed for a feed. The owners of another feed may be the same, and
// its items, too.
func (es *entries) forFeed(key overlay.ID, all []*difference.Sighting) []*difference.Sighting {
	return slices.DeleteFunc(all, func(s *difference.Sighting) bool {
		return s == nil || overlay.Key(es.node.Network(), s.URL) != key
	})
}

// signedForFeed reports whether all publications in a delta were signed for this feed. A publisher may use one key
// for several feeds, and its items must not be moved from one to another.
func (es *entries) signedForFeed(key overlay.ID, d difference.Delta) bool {
	return !slices.ContainsFunc(d.Changes, func(ch difference.Change) bool {
		return ch.Publication != nil && overlay.Key(es.node.Network(), ch.Publication.URL) != key
	})
}
