package feedtree

import (
	"slices"
	"strings"
	"time"

	"tidings/difference"
	"tidings/feedtree/feedtreepb"
	"tidings/internal/feed"
	"tidings/overlay"
	"tidings/overlay/owner"
)

// A leaderState is what the sequencer of a feed keeps. It counts everything that was appended, committed or not.
type leaderState struct {
	window        difference.Window
	ready         bool
	toAbsorb      [][]byte  // bodies of another branch, until there is room for them and the log has been read
	sentAt        time.Time // when the last entry or heartbeat was published
	headScheduled bool      // publishHead is scheduled
	about         About     // title, link and language of the feed
	state         []byte
	head          *feed.Head // the latest one

	// State of a feed with a publisher:
	pin      *difference.Pin    // counts all accepted publications, committed or not
	receipts map[uint64]receipt // by number: the publications in the log and on their way into it
	// accepted holds the publications that wait for an entry. appending is set while an entry of earlier ones waits
	// for a quorum.
	accepted         []acceptedPublication
	appending        bool
	publisherHeardAt time.Time  // when the publisher last spoke; zero: unknown
	publisherTime    time.Time  // latest time that the publisher has signed
	keyFetchedAt     time.Time  // when the origin was last asked because a node claimed to be the publisher
	keyChange        *keyChange // a change of the key that owners are to witness; nil: none
}

const (
	// maxPart is the largest part of a change report that becomes one entry, in bytes before compression.
	maxPart = 256 << 10
	// epochNews is how long a new epoch accompanies each entry, so that subscribers need not ask for it.
	epochNews = 10 * time.Minute
)

// Lead makes this node the sequencer of a feed, or ends that. When the log has been read, ready is called with the
// known items of the feed.
func (f *FeedTree) Lead(key overlay.ID, on bool, ready func(known *difference.Known)) {
	if !on {
		if c := f.feeds[key]; c != nil {
			c.leader, c.heardAt = nil, f.clock.Now()
			if !c.subscribed {
				delete(f.feeds, key)
			}
		}
		return
	}
	v, _ := f.owners.View(key)
	c := f.channel(key, v.URL)
	l := &leaderState{sentAt: f.clock.Now()}
	c.leader, c.repair = l, nil // a sequencer repairs nothing from other nodes: its own log counts
	f.endAlone(c)
	f.after(f.cfg.BeatInterval, task{kind: taskBeat, key: key})
	log := f.owners.Log(key)
	f.decodeEntries(log, func(deltas []decodedEntry) {
		if c.leader != l {
			return
		}
		known, now := new(difference.Known), f.clock.Now()
		for i, e := range log {
			l.window.Apply(deltas[i].Delta, e.Time, e.At.Seq)
			known.AddLogged(deltas[i].Delta)
			if deltas[i].unreadable {
				known.MarkLossy() // the origin may still show the unreadable items
			}
			if deltas[i].Head != nil {
				l.head, l.about = deltas[i].Head, aboutOf(deltas[i].Head)
			}
			for _, ch := range deltas[i].Changes {
				if p := ch.Publication; p != nil {
					l.addReceipt(p, true)
					if l.window.Pin().Valid(p.Key) {
						l.hearPublisher(p, earlier(e.Time, now)) // some clocks are ahead
					}
				}
			}
		}
		l.pin = l.window.Pin()
		l.ready = true
		ready(known)
	})
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// Append makes entries of a change report. doc, if not nil, is the document in which the changes were found. Append
// adds to the entries the document's head, from time to time, and items that the document still shows and the log
// is about to forget, so that every copy of the log has both. done is called with true when a quorum stores all
// entries, or with false when this node ceases to lead. Append returns false if it did not accept the change
// report.
func (f *FeedTree) Append(key overlay.ID, d difference.Delta, doc *feed.Feed, done func(ok bool)) bool {
	c := f.feeds[key]
	if c == nil || c.leader == nil || !c.leader.ready {
		return false
	}
	f.appendAccepted(c)
	l := c.leader
	if doc != nil {
		l.head, l.about = &doc.Head, aboutOf(&doc.Head)
		var all bool
		if d, all = f.backstopChanges(c, d); !all {
			f.stats.Withheld++
			if len(d.Changes) > 0 {
				f.Append(key, d, nil, func(bool) {}) // otherwise the next poll would report these again, too
			}
			return false
		}
		d = l.window.Renew(d, doc, f.owners.FirstKept(key, len(d.Changes)+len(doc.Items)))
		// All items are in the log as their publisher signed them. The first head is appended even without items.
		if d.Empty() && d.Page == nil && (d.Head == nil || l.window.HeadRef() != 0) {
			done(true)
			return true
		}
	}
	return f.append(c, d, done)
}

// append makes entries of the changes in a feed that this node leads, as Append does.
func (f *FeedTree) append(c *channel, d difference.Delta, done func(ok bool)) bool {
	l, key := c.leader, c.key
	if d.Head == nil && f.headIsOld(key, l.window.HeadRef()) {
		d.Head = l.head
	}
	if d.Pin == nil && f.headIsOld(key, l.window.PinRef()) {
		d.Pin = l.pin
	}
	parts, bodies, err := f.encodeParts(c, d)
	if err != nil {
		f.log.Warn("change report could not be appended to the log", "url", c.url, "err", err)
		return false
	}
	if len(parts) == 0 { // followers could read none of it
		done(true)
		return true
	}
	if len(parts) > f.owners.Room(key) {
		return false
	}
	remaining, allCommitted := len(parts), true
	committed := func(ok bool) {
		allCommitted = allCommitted && ok
		if remaining--; remaining == 0 {
			done(allCommitted)
		}
	}
	for i, part := range parts {
		err := f.owners.Append(key, bodies[i], len(part.Changes), func(seq, first uint64) owner.Hash {
			l.window.Apply(part, f.clock.Now(), seq)
			l.window.Forget(first)
			return owner.Hash(l.window.Hash())
		}, committed)
		if err != nil {
			f.log.Warn("change report could not be appended to the log", "url", c.url, "err", err)
			committed(false)
		}
	}
	return true
}

// An About holds what a feed says about itself. A field is empty if it is unknown.
type About struct {
	Title, Link, Language string
}

// aboutOf copies what is kept of a head for longer than the head's document.
func aboutOf(h *feed.Head) About {
	return About{strings.Clone(h.Title), strings.Clone(h.Link), strings.Clone(h.Language)}
}

// About returns what a feed that this node leads says about itself.
func (f *FeedTree) About(key overlay.ID) About {
	if c := f.feeds[key]; c != nil && c.leader != nil {
		return c.leader.about
	}
	return About{}
}

// Fading returns the items that the log of a feed led by this node will lose when a given number of items is added,
// unless Append adds them again.
func (f *FeedTree) Fading(key overlay.ID, items int) []feed.ID {
	c := f.feeds[key]
	if c == nil || c.leader == nil || !c.leader.ready {
		return nil
	}
	return c.leader.window.OlderThan(f.owners.FirstKept(key, items))
}

// headIsOld reports whether the entry with number ref is in the older half of a feed's log, so that its head or pin
// should be repeated.
func (f *FeedTree) headIsOld(key overlay.ID, ref uint64) bool {
	log := f.owners.Log(key)
	return len(log) == 0 || ref < log[len(log)/2].At.Seq
}

// Committed publishes an entry, which a quorum stores.
func (f *FeedTree) Committed(key overlay.ID, e *owner.Entry, body []byte) {
	u := &feedtreepb.Update{Entry: e.Raw}
	if len(body) <= maxInline {
		u.Body = body
	}
	v, ok := f.owners.View(key)
	if ok && v.Epoch != nil && f.clock.Now().Sub(v.Epoch.Time) < epochNews {
		u.Epoch = v.Epoch.Bytes()
	}
	if c := f.feeds[key]; c != nil && c.leader != nil {
		c.leader.sentAt = f.clock.Now()
		f.scheduleHead(c)
		if c.subscribed {
			f.startProbation(c, e.Hash, e.At.Seq)
		}
	}
	f.AppendAbsorbed(key)
	f.stats.Published++
	f.scribe.PublishWithID(key, messageID(e.Hash), marshal(&feedtreepb.News{News: &feedtreepb.News_Update{Update: u}}), func(bool) {
		// If the message reached nobody, heads and digests will show the gap.
	})
}

// onUpdate handles an entry that came down a tree.
func (f *FeedTree) onUpdate(key overlay.ID, u *feedtreepb.Update) {
	c := f.feeds[key]
	if c == nil || !c.subscribed {
		return
	}
	f.stats.Received++
	e, result := f.owners.Offer(u.Entry, u.Body, u.Epoch, func(e *owner.Entry) {
		// Where the parents keep no log, nothing else would show the gap.
		if f.feeds[key] == c {
			f.startRepair(c, e.Hash)
		}
	})
	switch {
	case e == nil || e.Key != key || result == owner.Refused:
		f.stats.Garbage++
		f.addRefusal(Refusal{URL: c.url, Why: "a message in the feed's tree is not an entry signed by its sequencer"})
	case result == owner.Gap:
		f.startRepair(c, e.Hash)
	case result == owner.OtherBranch:
	default:
		if result == owner.Known {
			f.stats.Repeated++
		}
		c.confirmed = f.clock.Now()
		f.markHeard(c)
		f.startProbation(c, e.Hash, e.At.Seq)
	}
}

// Absorb takes a body of another branch of a feed that this node leads. What is new in it is appended.
func (f *FeedTree) Absorb(key overlay.ID, body []byte) {
	c := f.feeds[key]
	if c == nil || c.leader == nil {
		return
	}
	c.leader.toAbsorb = append(c.leader.toAbsorb, body)
	if c.leader.ready {
		f.AppendAbsorbed(key)
	}
}

// Absorbing reports whether something that Absorb took is still to be appended.
func (f *FeedTree) Absorbing(key overlay.ID) bool {
	c := f.feeds[key]
	return c != nil && c.leader != nil && len(c.leader.toAbsorb) > 0
}

// maxAbsorbed is the largest number of entries that one body of another branch can become.
const maxAbsorbed = owner.MaxBody/maxPart + 16

// AppendAbsorbed appends what is new in the bodies that Absorb took, as far as the log has room and has been read.
func (f *FeedTree) AppendAbsorbed(key overlay.ID) {
	c := f.feeds[key]
	if c == nil || c.leader == nil || !c.leader.ready {
		return
	}
	bodies := c.leader.toAbsorb
	c.leader.toAbsorb = nil
	if len(bodies) > 0 {
		f.appendAccepted(c) // the accepted publications take room
	}
	for i, body := range bodies {
		if f.owners.Room(key) < maxAbsorbed {
			c.leader.toAbsorb = append(c.leader.toAbsorb, bodies[i:]...) // Committed calls AppendAbsorbed again
			return
		}
		d, err := difference.Decode(body) // as far as it can be read
		if err != nil {
			f.stats.Unread++
		}
		if !f.signedForFeed(key, d) {
			f.stats.Unread++
			continue
		}
		f.appendAccepted(c)
		l, whole := c.leader, d
		d = f.app.Filter(key, d)
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
			f.Append(key, d, nil, func(bool) {})
		}
	}
}
