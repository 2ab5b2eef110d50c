package feedtree

import (
	"slices"
	"time"

	"tidings/difference"
	"tidings/feedtree/feedtreepb"
	"tidings/internal/env"
	"tidings/internal/feed"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/owner"
)

// A sequencer makes entries of change reports and of other branches, and publishes committed entries.
type sequencer struct {
	*common
	entries    *entries
	cutOffs    *cutOffs
	heartbeats *heartbeats
	deliveries *deliveries
	acceptor   *acceptor
	certifier  *certifier
}

// epochNews is how long a new epoch accompanies each entry, so that subscribers need not ask for it.
const epochNews = 10 * time.Minute

// Lead makes this node the sequencer of a feed, or ends that. When the log has been read, ready is called with the
// known items of the feed.
func (sq *sequencer) Lead(key overlay.ID, on bool, ready func(known *difference.Known)) {
	if c := sq.feeds[key]; c != nil && c.leader != nil {
		sq.acceptor.wait(c.leader, -c.leader.waiting) // the publishers' nodes send them to the next sequencer
	}
	if !on {
		if c := sq.feeds[key]; c != nil {
			c.leader, c.heardAt = nil, sq.clock.Now()
			if !c.subscribed {
				delete(sq.feeds, key)
			}
		}
		return
	}
	v, _ := sq.owners.View(key)
	c := sq.channel(key, v.URL)
	l := new(leaderState)
	c.leader, c.repair = l, nil // a sequencer repairs nothing from other nodes: its own log counts
	sq.cutOffs.endAlone(c)
	sq.heartbeats.lead(c)
	log := sq.owners.Log(key)
	known := new(difference.Known)
	sq.entries.walk(log, decodeNew, func(e *owner.Entry, d *decodedEntry) bool {
		if c.leader != l {
			return false
		}
		l.window.Apply(d.Delta, e.Time, e.At.Seq)
		known.AddLogged(d.Delta)
		if d.unreadable {
			known.MarkLossy() // the origin may still show the unreadable items
		}
		if v.Epoch != nil {
			sq.certifier.readLogged(c, d.sightings, e.Time, v.Epoch.Owners)
		}
		if d.Head != nil {
			l.setHead(d.Head)
		}
		for _, ch := range d.Changes {
			if p := ch.Publication; p != nil {
				l.addReceipt(p, true)
				if l.window.Pin().Valid(p.Key) {
					l.hearPublisher(p, e.Time, sq.clock.Now())
				}
			}
		}
		return true
	}, func() {
		if c.leader != l {
			return
		}
		if v.Epoch != nil {
			l.countedBy = v.Epoch.Owners
		}
		l.pin = l.window.Pin()
		c.pack() // a node that starts leads many feeds, most of which are quiet
		l.ready = true
		sq.certifier.plan(c, sq.after(env.Jitter(sq.rand, sq.cfg.PollInterval)))
		ready(known)
	})
}

// Append makes entries of a change report. doc, if not nil, is the document in which the changes were found. Append
// adds to the entries the document's head, from time to time, and items that the document still shows and the log
// is about to forget, so that every copy of the log has both. done is called with true when a quorum stores all
// entries, or with false when this node ceases to lead. Append returns false if it did not accept the change
// report.
func (sq *sequencer) Append(key overlay.ID, d difference.Delta, doc *feed.Feed, done func(ok bool)) bool {
	c := sq.feeds[key]
	if c == nil || c.leader == nil || !c.leader.ready {
		return false
	}
	sq.acceptor.appendAccepted(c)
	l := c.leader
	if doc != nil {
		if l.head == nil && len(doc.Head.Raw) > 0 {
			l.setHead(&doc.Head)
		}
		var all bool
		if d, all = sq.acceptor.backstopChanges(c, d); !all {
			sq.stats.Withheld++
			if len(d.Changes) > 0 {
				sq.Append(key, d, nil, func(bool) {}) // otherwise the next poll would report these again, too
			}
			return false
		}
		d = l.window.Renew(d, doc, sq.owners.FirstKept(key, len(d.Changes)+len(doc.Items)))
		if d.Head != nil && len(d.Changes) == 0 && l.window.HeadRef() != 0 && difference.HeadVersion(d.Head) == difference.HeadVersion(l.head) {
			l.setHead(d.Head) // readers show the same as before
			d.Head = nil
		}
		if d.Empty() && d.Page == nil { // the log has all items as they are
			done(true)
			return true
		}
	}
	return sq.entries.append(c, d, done)
}

// Committed publishes an entry, which a quorum stores.
func (sq *sequencer) Committed(key overlay.ID, e *owner.Entry, body []byte) {
	u := &feedtreepb.Update{Entry: e.Raw()}
	if len(body) <= maxInline {
		u.Body = body
	}
	v, ok := sq.owners.View(key)
	if ok && v.Epoch != nil && sq.clock.Now().Sub(v.Epoch.Time) < epochNews {
		u.Epoch = v.Epoch.Bytes()
	}
	if c := sq.feeds[key]; c != nil && c.leader != nil {
		sq.heartbeats.published(c)
		if e.Items > 0 {
			sq.certifier.committed(c)
			sq.app.Looking(key, e.Items*v.Weight/sq.cfg.AuditOneIn) // readers that will compare the log with the origin
		}
		if c.subscribed {
			sq.deliveries.startProbation(c, e.Hash, e.At.Seq)
		}
	}
	sq.AppendAbsorbed(key)
	sq.stats.Published++
	sq.scribe.PublishWithID(key, messageID(e.Hash), wire.Encode(&feedtreepb.News{News: &feedtreepb.News_Update{Update: u}}), func(bool) {
		// If the message reached nobody, heads and digests will show the gap.
	})
}

// Absorb takes a body of another branch of a feed that this node leads. What is new in it is appended.
func (sq *sequencer) Absorb(key overlay.ID, body []byte) {
	c := sq.feeds[key]
	if c == nil || c.leader == nil {
		return
	}
	c.leader.toAbsorb = append(c.leader.toAbsorb, body)
	if c.leader.ready {
		sq.AppendAbsorbed(key)
	}
}

// Absorbing reports whether something that Absorb took is still to be appended.
func (sq *sequencer) Absorbing(key overlay.ID) bool {
	c := sq.feeds[key]
	return c != nil && c.leader != nil && len(c.leader.toAbsorb) > 0
}

// maxAbsorbed is the largest number of entries that one body of another branch can become.
const maxAbsorbed = difference.MaxDelta/maxPart + 16

// AppendAbsorbed appends what is new in the bodies that Absorb took, as far as the log has room and has been read.
func (sq *sequencer) AppendAbsorbed(key overlay.ID) {
	c := sq.feeds[key]
	if c == nil || c.leader == nil || !c.leader.ready {
		return
	}
	bodies := c.leader.toAbsorb
	c.leader.toAbsorb = nil
	if len(bodies) > 0 {
		sq.acceptor.appendAccepted(c) // the accepted publications take room
	}
	for i, body := range bodies {
		if sq.owners.Room(key) < maxAbsorbed {
			c.leader.toAbsorb = append(c.leader.toAbsorb, bodies[i:]...) // Committed calls AppendAbsorbed again
			return
		}
		d, err := difference.Decode(body) // as far as it can be read
		if err != nil {
			sq.stats.Unread++
		}
		if !sq.entries.signedForFeed(key, d) {
			sq.stats.Unread++
			continue
		}
		sq.acceptor.appendAccepted(c)
		l, whole := c.leader, d
		d = sq.app.Filter(key, d)
		if pin := whole.Pin; pin != nil && (l.pin == nil || !l.pin.Follows(pin) && pin.Follows(l.pin)) {
			l.pin = pin.WithNumbersOf(l.pin)
			d.Pin = l.pin // the other branch knows later keys of the feed
		}
		for _, ch := range whole.Changes {
			// An item that was found here as well is not news, but the publisher's number for it is.
			if l.pin.Advance(ch.Publication) != l.pin && !slices.ContainsFunc(d.Changes, func(o difference.Change) bool { return o.Item.ID == ch.Item.ID }) {
				d.Changes = append(d.Changes, ch)
			}
		}
		for _, ch := range d.Changes {
			if p := ch.Publication; p != nil {
				l.addReceipt(p, true)
				l.pin = l.pin.Advance(p)
			}
		}
		if !d.Empty() {
			sq.Append(key, d, nil, func(bool) {})
		}
	}
}
