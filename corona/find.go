package corona

import (
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"tidings/corona/coronapb"
	"tidings/difference"
	"tidings/internal/env"
	"tidings/internal/feed"
	"tidings/internal/wire"
	"tidings/overlay"
)

// The way of a finding, at the poller. It routes what it has read to the sequencer,
// items that are new to it included if they are few; it sends others when it is asked
// for them; and it asks again until it is told how the log stands.

const (
	// heldFor is how long a document is held for the sequencer to ask for its items, and
	// maxHeld how many are; of more, the oldest is dropped, and found again by the next poll.
	heldFor = 2 * time.Minute
	maxHeld = 64
	// findAgain is waited for the sequencer's word, then twice as long each time.
	findAgain = 10 * time.Second
	// maxInline bounds the items that travel with a finding, in bytes. With many prints there
	// may be no room for as many.
	maxInline = 24 << 10
	// partSize is that of one message of a larger one, partAhead how many are sent at once.
	partSize  = 48 << 10
	partAhead = 4
	// maxParts bounds, in bytes, what answers one question. Of more items than fit the first
	// are sent, up to maxWanted bytes before they are packed: what does not get smaller when it
	// is packed gets larger by less than the difference.
	maxParts  = 2 << 20
	maxWanted = maxParts - 64<<10
)

// aroundDelta is more than the bytes that stand around a delta in a change report: tags and
// lengths, the channel's key once more, and the signature with its key.
const aroundDelta = 256

// A found is a document that was found to have news.
type found struct {
	nonce uint64
	key   overlay.ID
	reading
	prints []imprint
	tries  int
	since  time.Time
	items  []uint32 // whose bytes are in packed
	headed bool     // so is the head
	packed []byte
}

// find tells the sequencer of a document with news.
func (c *Corona) find(d *duty, r reading, now time.Time) {
	c.hold(&found{nonce: c.rand.Uint64(), key: d.key(), reading: r, prints: prints(r.f), since: now})
}

// hold keeps a document for its sequencer to ask for its items, and tells of it.
func (c *Corona) hold(w *found) {
	for _, old := range c.held {
		if old.key == w.key {
			c.forget(old) // this one is newer
			break
		}
	}
	if len(c.held) == maxHeld {
		c.forget(c.held[0])
	}
	c.stats.Sightings++
	c.held = append(c.held, w)
	c.sendFound(w, c.duties.Get(w.key), w.since)
}

func (c *Corona) forget(w *found) {
	for i, other := range c.held {
		if other == w {
			c.held = append(c.held[:i:i], c.held[i+1:]...)
			return
		}
	}
}

// sendFound routes a finding, and plans to do so again.
func (c *Corona) sendFound(w *found, d *duty, now time.Time) {
	delta := difference.Delta{Head: &w.f.Head}
	if w.page != nil {
		delta.Head = nil
	} else if w.handed {
		for _, it := range w.f.Items {
			if len(it.Raw) > 0 {
				delta.Changes = append(delta.Changes, difference.Change{Item: it})
			}
		}
	} else if s := d.standing; s != nil && s.prints != nil {
		known := map[imprint]bool{}
		for _, p := range s.prints {
			known[p] = true
		}
		var before feed.ID
		size := len(w.f.Head.Raw)
		for i, it := range w.f.Items {
			if size += len(it.Raw); known[w.prints[i]] {
				size -= len(it.Raw)
			} else if size <= 4*maxInline {
				delta.Changes = append(delta.Changes, difference.Change{Item: it, After: before})
			}
			before = it.ID
		}
	}
	m, again := w.message(w.key, w.prints), w.tries > 0
	m.Nonce, m.Poller, m.AtMs = w.nonce, c.node.Self().Raw, uint64(now.UnixMilli())
	if d != nil && d.said != nil {
		m.Ticket = d.said.brief.ticket
	}
	var packed []byte
	c.worker.Do(func() { packed, _ = w.encode(delta) }, func() {
		if len(packed) <= min(maxInline, overlay.MaxPayload-proto.Size(m)-aroundDelta) {
			m.Delta = packed
		}
		signed := c.signer.Sign(wire.DomainReading, marshal(m))
		c.tell(w.key, &coronapb.Message{Body: &coronapb.Message_Change{Change: &coronapb.ChangeReport{Key: m.Key, Reading: signed.Raw}}}, again)
	})
	c.mail.Add(env.Sooner(now.Add(findAgain<<w.tries), w.since.Add(heldFor)), post{key: w.key, nonce: w.nonce})
	w.tries++
}

// again routes a finding again of which the sequencer has said nothing.
func (c *Corona) again(nonce uint64, now time.Time) {
	w := c.found(nonce)
	if w == nil {
		return
	}
	l, d := c.leads[w.key], c.duties.Get(w.key)
	switch {
	case l != nil: // by now it is the sequencer itself
		c.forget(w)
		c.accept(l, env.Peer{}, w.reading, w.nonce, now)
	case (d != nil || w.handed) && now.Sub(w.since) < heldFor:
		c.sendFound(w, d, now)
	default:
		c.forget(w)
	}
}

// found returns a finding that is held.
func (c *Corona) found(nonce uint64) *found {
	for _, w := range c.held {
		if w.nonce == nonce {
			return w
		}
	}
	return nil
}

// onWant sends items of a finding, and its head if that is asked for.
func (c *Corona) onWant(from env.PeerID, m *coronapb.Want) {
	w := c.found(m.Nonce)
	if w == nil {
		c.send(env.Peer{ID: from}, env.Control, &coronapb.Message{Body: &coronapb.Message_Part{Part: &coronapb.Part{Key: m.Key, Nonce: m.Nonce}}})
		return
	}
	if w.packed != nil && slices.Equal(w.items, m.Items) && w.headed == m.Head {
		c.sendParts(from, w, int(m.Offset))
		return
	}
	var delta difference.Delta
	if m.Head && w.page == nil {
		delta.Head = &w.f.Head
	}
	last := -1
	for _, i := range m.Items {
		if int(i) >= len(w.f.Items) || int(i) <= last {
			c.stats.Garbage++
			return
		}
		last = int(i)
		if w.page != nil {
			break // its version is all there is
		}
		change := difference.Change{Item: w.f.Items[i]}
		if i > 0 {
			change.After = w.f.Items[i-1].ID
		}
		delta.Changes = append(delta.Changes, change)
	}
	delta = delta.Split(maxWanted)[0] // the others are asked for when these have come
	var packed []byte
	var err error
	c.worker.Do(func() { packed, err = w.encode(delta) }, func() {
		if err != nil || len(packed) > maxParts {
			c.log.Warn("change report could not be sent", "err", err, "bytes", len(packed))
			return
		}
		w.items, w.headed, w.packed = m.Items, m.Head, packed
		c.sendParts(from, w, int(m.Offset)) // it may be asked for again, after others
	})
}

// sendParts sends some of what was packed, from an offset on.
func (c *Corona) sendParts(to env.PeerID, w *found, offset int) {
	for range partAhead {
		if offset >= len(w.packed) {
			return
		}
		data := w.packed[offset:min(offset+partSize, len(w.packed))]
		c.send(env.Peer{ID: to}, env.Bulk, &coronapb.Message{Body: &coronapb.Message_Part{Part: &coronapb.Part{
			Key: w.key[:], Nonce: w.nonce, Size: uint32(len(w.packed)), Offset: uint32(offset), Data: data,
		}}})
		offset += len(data)
	}
}

// onStanding takes the word that the log holds all of a document.
func (c *Corona) onStanding(key overlay.ID, t told) {
	if w := c.found(t.nonce); w != nil && w.key == key && w.handed {
		c.forget(w)
		return
	}
	d := c.duties.Get(key)
	if d == nil || d.lead != nil { // the log of another lineage may hold more than this one
		return
	}
	s := t.standing
	if w := c.found(t.nonce); w != nil && w.key == key {
		// There was nothing new in it, or all of it is held by now.
		c.forget(w)
		switch of := digest(w.prints); {
		case w.page != nil:
			d.settled()
			s = &standing{valid: w.valid, prints: s.prints, digest: s.digest}
		case of != s.digest:
			x := d.rare()
			x.stale, x.staleAt = of, momentOf(c.clock.Now())
		default:
			s = &standing{valid: w.valid, prints: w.prints, digest: s.digest}
		}
	}
	// Of this channel alone: its sequencer has no word in those of others.
	var rest time.Time
	if t.rest > 0 {
		rest = c.clock.Now().Add(t.rest)
	}
	d.know(s, rest)
}

// report tells the sequencer of a poll that failed, or that polls go well again.
func (c *Corona) report(d *duty, s State, now time.Time) {
	i := d.extras().ailment
	if l := c.leads[d.key()]; l != nil {
		l.private = d.private
		if i != nil {
			l.fails = i.fails
		}
		c.heard(l, "", s, now)
		return
	}
	if i != nil {
		if i.said == s.Kind && now.Sub(i.told) < retell {
			return
		}
		i.told, i.said = now, s.Kind
	}
	c.tell(d.key(), c.reporting(d.key(), s), false)
}

// reporting signs what is said of polls: a few words of others' would make a feed that is well
// look ill to all who read it.
func (c *Corona) reporting(key overlay.ID, s State) *coronapb.Message {
	told := c.signer.Sign(wire.DomainReport, marshal(&coronapb.Told{Key: key[:], State: s.wire()}))
	return &coronapb.Message{Body: &coronapb.Message_Report{Report: &coronapb.Report{Key: key[:], Told: told.Raw}}}
}
