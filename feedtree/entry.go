package feedtree

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"tidings/difference"
	"tidings/internal/env"
	"tidings/internal/feed"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/owner"
)

// entries makes entries of changes in feeds that this node leads, and reads the entries of all feeds.
//
// A sequencer signs only what its followers can read. It decodes each body before it becomes an entry, exactly as a
// follower will. An unreadable entry would hide its items for ever, because the sequencer would count them as known.
type entries struct {
	*common
	worker env.Worker
	recent recentEntries
}

// appended is what entries keeps of a feed. It counts everything that was appended, committed or not.
type appended struct {
	window difference.Window
	head   *feed.Head      // the latest one, as far as readers show it; from a document if the log has none
	pin    *difference.Pin // counts all accepted publications; nil: the feed has no publisher
}

// setHead records a head without its document's items.
func (a *appended) setHead(h *feed.Head) {
	head := *h
	a.head = &head
}

// maxPart is the largest part of a change report that becomes one entry, in bytes before compression.
const maxPart = 256 << 10

// errMismatch reports a body that decodes to something else than what was encoded.
var errMismatch = errors.New("the body decodes to another delta")

// encode encodes a part of a change report, and checks that followers can decode it. read is what they will read.
func encode(part difference.Delta) (body []byte, read difference.Delta, err error) {
	if body, err = part.Encode(); err != nil {
		return nil, read, err
	}
	if len(body) > owner.MaxBody {
		return nil, read, fmt.Errorf("%w: a body of %d bytes, more than %d", owner.ErrEntry, len(body), owner.MaxBody)
	}
	if read, err = difference.Decode(body); err == nil && !sameContent(part, read) {
		err = errMismatch
	}
	return body, read, err
}

// sameContent reports whether two deltas look the same to readers.
func sameContent(a, b difference.Delta) bool {
	if (a.Head == nil) != (b.Head == nil) || a.Head != nil && a.Head.Hash() != b.Head.Hash() ||
		(a.Pin == nil) != (b.Pin == nil) || !bytes.Equal(a.Page, b.Page) || !slices.Equal(a.Withdrawn, b.Withdrawn) || !slices.Equal(a.Standing, b.Standing) || !slices.EqualFunc(a.Sightings, b.Sightings, bytes.Equal) || len(a.Changes) != len(b.Changes) {
		return false
	}
	for i := range a.Changes {
		x, y := &a.Changes[i], &b.Changes[i]
		if x.Item.ID != y.Item.ID || x.Item.Hash != y.Item.Hash || (x.Publication == nil) != (y.Publication == nil) {
			return false
		}
	}
	return true
}

// encodeParts splits a change report into parts that become one entry each, and encodes them. Changes that
// followers could not read are left out and recorded as refusals. A publication is never left out: encodeParts
// returns an error instead.
func (es *entries) encodeParts(c *channel, d difference.Delta) (parts []difference.Delta, bodies [][]byte, err error) {
	for _, part := range d.Split(maxPart) {
		body, read, err := encode(part)
		if err != nil {
			if part, err = es.readablePart(c, part); err != nil {
				return nil, nil, err
			}
			if part.Empty() && part.Page == nil {
				continue
			}
			if body, read, err = encode(part); err != nil {
				return nil, nil, err
			}
		}
		if es.signedForFeed(c.key, read) {
			es.keep(c.key, owner.HashOf(body), read)
		}
		parts, bodies = append(parts, part), append(bodies, body)
	}
	return parts, bodies, nil
}

// readablePart returns what followers can read of a part that they cannot read completely.
func (es *entries) readablePart(c *channel, part difference.Delta) (difference.Delta, error) {
	all := part
	part.Head, part.Changes = nil, nil
	if h := all.Head; h != nil {
		if _, _, err := encode(difference.Delta{Head: h}); err == nil {
			part.Head = h
		} else if made, remade := feed.NewHead(feed.Atom, h.Title, h.Link, h.Description, h.Language); h.Title != "" && remade == nil {
			part.Head = &made
		}
	}
	for _, ch := range all.Changes {
		_, _, err := encode(difference.Delta{Changes: []difference.Change{ch}})
		switch {
		case err == nil:
			part.Changes = append(part.Changes, ch)
		case ch.Publication != nil:
			return part, fmt.Errorf("item %s of a publisher: %w", ch.Item.ID, err)
		default:
			es.stats.Illegible++
			es.log.Warn("item left out of the log, because other nodes could not read it", "item", ch.Item.ID.String(), "err", err)
			es.refusals.add(Refusal{URL: c.url, Why: fmt.Sprintf("item %s was left out of the log, because followers could not read it (%v)", ch.Item.ID, err)})
		}
	}
	return part, nil
}

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
	if got := es.recent.first(entries, read.verifies); len(got) > 0 {
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
		got := make([]decodedEntry, len(entries))
		es.worker.Do(func() {
			var certificates [][]byte // of all entries
			sightings := make([]int, len(entries))
			size := 0
			for i, b := range bodies {
				d, err := read.decode(entries[i], b)
				signed := es.signedForFeed(entries[i].Key, d)
				if signed {
					got[i].Delta = d
				}
				got[i].unreadable, got[i].bodyLost = err != nil || b == nil || !signed, b == nil
				certificates = append(certificates, d.Sightings...)
				sightings[i] = len(d.Sightings)
				if size += got[i].size(); size >= decodeStep {
					got = got[:i+1]
					break
				}
			}
			opened := difference.OpenSightings(es.verify, certificates)
			for i := range got {
				n := sightings[i]
				got[i].sightings = es.forFeed(entries[i].Key, withBare(entries[i].Signer, certificates[:n], opened[:n]))
				opened, certificates = opened[n:], certificates[n:]
			}
		}, func() {
			for i, e := range entries[:len(got)] {
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
			then(got)
		})
	})
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

// append makes entries of changes, with the feed's head and pin from time to time. done is called as that of
// sequencer.Append.
func (es *entries) append(c *channel, d difference.Delta, done func(ok bool)) bool {
	l, key := c.leader, c.key
	if d.Head == nil && es.headIsOld(key, l.window.HeadRef()) {
		d.Head = l.head
	}
	if d.Pin == nil && es.headIsOld(key, l.window.PinRef()) {
		d.Pin = l.pin
	}
	parts, bodies, err := es.encodeParts(c, d)
	if err != nil {
		es.log.Warn("change report could not be appended to the log", "url", c.url, "err", err)
		return false
	}
	if len(parts) == 0 { // followers could read none of it
		done(true)
		return true
	}
	if len(parts) > es.owners.Room(key) {
		return false
	}
	if d.Head != nil {
		l.setHead(d.Head)
	}
	remaining, allCommitted := len(parts), true
	committed := func(ok bool) {
		allCommitted = allCommitted && ok
		if remaining--; remaining == 0 {
			done(allCommitted)
		}
	}
	l.unsigned = l.unsigned || slices.ContainsFunc(d.Changes, func(ch difference.Change) bool { return ch.Publication == nil })
	for i, part := range parts {
		err := es.owners.Append(key, bodies[i], len(part.Changes), func(seq, first uint64) owner.Hash {
			l.window.Apply(part, es.clock.Now(), seq)
			for _, e := range l.window.Forget(first) {
				delete(l.marks, e.ID)
				delete(l.former, e.ID)
			}
			return owner.Hash(l.window.Hash())
		}, committed)
		if err != nil {
			es.log.Warn("change report could not be appended to the log", "url", c.url, "err", err)
			committed(false)
		}
	}
	return true
}

// An About holds what a feed says about itself. A field is empty if it is unknown.
type About struct {
	Title, Link, Language string
}

// About returns what a feed that this node leads says about itself.
func (es *entries) About(key overlay.ID) About {
	if c := es.feeds[key]; c != nil && c.leader != nil && c.leader.head != nil {
		h := c.leader.head
		return About{h.Title, h.Link, h.Language}
	}
	return About{}
}

// Fading returns the items that the log of a feed led by this node will lose when a given number of items is added,
// unless Append adds them again.
func (es *entries) Fading(key overlay.ID, items int) []feed.ID {
	c := es.feeds[key]
	if c == nil || c.leader == nil || !c.leader.ready {
		return nil
	}
	return c.leader.window.OlderThan(es.owners.FirstKept(key, items))
}

// headIsOld reports whether the entry with number ref is in the older half of a feed's log, so that its head or pin
// should be repeated.
func (es *entries) headIsOld(key overlay.ID, ref uint64) bool {
	log := es.owners.Log(key)
	return len(log) == 0 || ref < log[len(log)/2].At.Seq
}
