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

// A lead is what a feed's sequencer keeps: the window as it is with all that was
// appended, whether a quorum holds it already or not.
type lead struct {
	window  difference.Window
	ready   bool
	absorb  [][]byte  // bodies of another lineage that came before it was ready
	spoke   time.Time // when the last entry or heartbeat went out
	heading bool      // the head of the last entry is to be told soon
	about   About     // what the feed says of itself
	state   []byte
	head    *feed.Head // the last one

	// Of a feed with a publisher:
	pin   *difference.Pin    // with all that was taken, whether a quorum holds it already or not
	taken map[uint64]receipt // publications in the log and on their way there, by number
	// accepted are the publications of which no entry is made yet; appending says that one with others
	// is on its way.
	accepted  []accepted
	appending bool
	heard     time.Time // when the publisher has spoken; zero: not that it is known
	said      time.Time // by the publisher's clock
	looked    time.Time // when the origin was asked whose the feed is
	claim     *claim    // of another key; nil: there is none
}

const (
	// maxPart is how large the part of a finding is that becomes one entry, in
	// bytes before it is compressed.
	maxPart = 256 << 10
	// epochNews is how long an epoch travels with each entry, so that a
	// subscriber need not ask for it.
	epochNews = 10 * time.Minute
)

// Lead makes this node the publisher of a feed, or ends that. When the log has been
// read, ready is called with what is known of the feed.
func (f *FeedTree) Lead(key overlay.ID, on bool, ready func(known *difference.Known)) {
	if !on {
		if c := f.feeds[key]; c != nil {
			c.lead, c.heard = nil, f.clock.Now()
			if !c.subscribed {
				delete(f.feeds, key)
			}
		}
		return
	}
	v, _ := f.owners.View(key)
	c := f.channel(key, v.URL)
	l := &lead{spoke: f.clock.Now()}
	c.lead, c.repair = l, nil // its own log is the one
	f.endAlone(c)
	f.after(f.cfg.BeatInterval, task{kind: taskBeat, key: key})
	log := f.owners.Log(key)
	f.read(log, func(deltas []content) {
		if c.lead != l {
			return
		}
		known, now := new(difference.Known), f.clock.Now()
		for i, e := range log {
			l.window.Apply(deltas[i].Delta, e.Time, e.At.Seq)
			known.Recall(deltas[i].Delta)
			if deltas[i].unread {
				known.Lose() // the origin may still show what was in it
			}
			if deltas[i].Head != nil {
				l.head, l.about = deltas[i].Head, aboutOf(deltas[i].Head)
			}
			for _, ch := range deltas[i].Changes {
				if p := ch.Publication; p != nil {
					l.take(p, true)
					if l.window.Pin().Good(p.Key) {
						l.hears(p, earlier(e.Time, now)) // some clocks are ahead
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

// Append makes entries of a finding. doc, if not nil, is the document it was found
// in: its head goes along now and then, and so does what it still shows and the log
// is about to forget, so that whoever keeps the log has both. done is called when a
// quorum holds all of them, or with false when this node leads no longer. Append
// says whether it could take the finding.
func (f *FeedTree) Append(key overlay.ID, d difference.Delta, doc *feed.Feed, done func(ok bool)) bool {
	c := f.feeds[key]
	if c == nil || c.lead == nil || !c.lead.ready {
		return false
	}
	f.appendAccepted(c)
	l := c.lead
	if doc != nil {
		l.head, l.about = &doc.Head, aboutOf(&doc.Head)
		var all bool
		if d, all = f.backstop(c, d); !all {
			f.stats.Withheld++
			if len(d.Changes) > 0 {
				f.Append(key, d, nil, func(bool) {}) // else the next poll finds that, too
			}
			return false
		}
		d = l.window.Keep(d, doc, f.owners.FirstKept(key, len(d.Changes)+len(doc.Items)))
		// All of it is there as its publisher has signed it. The first head is told without items, too.
		if d.Empty() && d.Page == nil && (d.Head == nil || l.window.Head() != 0) {
			done(true)
			return true
		}
	}
	return f.append(c, d, done)
}

// append makes entries of what is new in a feed that is led here, as Append does.
func (f *FeedTree) append(c *channel, d difference.Delta, done func(ok bool)) bool {
	l, key := c.lead, c.key
	if d.Head == nil && f.headIsOld(key, l.window.Head()) {
		d.Head = l.head
	}
	if d.Pin == nil && f.headIsOld(key, l.window.Pinned()) {
		d.Pin = l.pin
	}
	parts, bodies, err := f.parts(c, d)
	if err != nil {
		f.log.Warn("change report could not be appended to the log", "url", c.url, "err", err)
		return false
	}
	if len(parts) == 0 { // nothing of it could be read
		done(true)
		return true
	}
	if len(parts) > f.owners.Room(key) {
		return false
	}
	left, all := len(parts), true
	held := func(ok bool) {
		all = all && ok
		if left--; left == 0 {
			done(all)
		}
	}
	for i, part := range parts {
		err := f.owners.Append(key, bodies[i], len(part.Changes), func(seq, first uint64) owner.Hash {
			l.window.Apply(part, f.clock.Now(), seq)
			l.window.Forget(first)
			return owner.Hash(l.window.Hash())
		}, held)
		if err != nil {
			f.log.Warn("change report could not be appended to the log", "url", c.url, "err", err)
			held(false)
		}
	}
	return true
}

// About is what a feed says of itself; empty as far as that is not known.
type About struct {
	Title, Link, Language string
}

// aboutOf copies of a head what is kept longer than the document it is in.
func aboutOf(h *feed.Head) About {
	return About{strings.Clone(h.Title), strings.Clone(h.Link), strings.Clone(h.Language)}
}

// About returns what a feed that is led here says of itself.
func (f *FeedTree) About(key overlay.ID) About {
	if c := f.feeds[key]; c != nil && c.lead != nil {
		return c.lead.about
	}
	return About{}
}

// Fading returns the items of a feed led here that its log will hold no longer when so
// many are added, but for their being said again (Append).
func (f *FeedTree) Fading(key overlay.ID, items int) []feed.ID {
	c := f.feeds[key]
	if c == nil || c.lead == nil || !c.lead.ready {
		return nil
	}
	return c.lead.window.Before(f.owners.FirstKept(key, items))
}

// headIsOld says whether the entry that brought a feed's head will soon be kept no
// longer.
func (f *FeedTree) headIsOld(key overlay.ID, ref uint64) bool {
	log := f.owners.Log(key)
	return len(log) == 0 || ref < log[len(log)/2].At.Seq
}

// Held publishes an entry that a quorum holds.
func (f *FeedTree) Held(key overlay.ID, e *owner.Entry, body []byte) {
	u := &feedtreepb.Update{Entry: e.Raw}
	if len(body) <= maxInline {
		u.Body = body
	}
	v, ok := f.owners.View(key)
	if ok && v.Epoch != nil && f.clock.Now().Sub(v.Epoch.Time) < epochNews {
		u.Epoch = v.Epoch.Bytes()
	}
	if c := f.feeds[key]; c != nil && c.lead != nil {
		c.lead.spoke = f.clock.Now()
		f.headSoon(c)
		if c.subscribed {
			f.try(c, e.Hash, e.At.Seq)
		}
	}
	f.Absorbed(key)
	f.stats.Published++
	f.scribe.PublishWithID(key, idOf(e.Hash), marshal(&feedtreepb.News{News: &feedtreepb.News_Update{Update: u}}), func(bool) {
		// If nobody could be reached, heads and digests will show it.
	})
}

// onUpdate takes an entry that came down a tree.
func (f *FeedTree) onUpdate(key overlay.ID, u *feedtreepb.Update) {
	c := f.feeds[key]
	if c == nil || !c.subscribed {
		return
	}
	f.stats.Received++
	e, what := f.owners.Offer(u.Entry, u.Body, u.Epoch, func(e *owner.Entry) {
		// Nobody else will show the gap where the parents keep no log.
		if f.feeds[key] == c {
			f.gap(c, e.Hash)
		}
	})
	switch {
	case e == nil || e.Key != key || what == owner.Refused:
		f.stats.Garbage++
		f.note(Refusal{URL: c.url, Why: "what came down its tree is no entry that its sequencer has signed"})
	case what == owner.Gap:
		f.gap(c, e.Hash)
	case what == owner.OtherBranch:
	default:
		if what == owner.Known {
			f.stats.Repeated++
		}
		c.confirmed = f.clock.Now()
		f.heardOf(c)
		f.try(c, e.Hash, e.At.Seq)
	}
}

// Absorb takes a body of another lineage of a feed this node leads: what is new in
// it becomes an entry.
func (f *FeedTree) Absorb(key overlay.ID, body []byte) {
	c := f.feeds[key]
	if c == nil || c.lead == nil {
		return
	}
	c.lead.absorb = append(c.lead.absorb, body)
	if c.lead.ready {
		f.Absorbed(key)
	}
}

// Absorbing says whether something of what Absorb took is still to be appended.
func (f *FeedTree) Absorbing(key overlay.ID) bool {
	c := f.feeds[key]
	return c != nil && c.lead != nil && len(c.lead.absorb) > 0
}

// maxAbsorbed is how many entries one body of another lineage can become.
const maxAbsorbed = owner.MaxBody/maxPart + 16

// Absorbed makes entries of what Absorb took, as soon as it is known what is new.
func (f *FeedTree) Absorbed(key overlay.ID) {
	c := f.feeds[key]
	if c == nil || c.lead == nil || !c.lead.ready {
		return
	}
	bodies := c.lead.absorb
	c.lead.absorb = nil
	if len(bodies) > 0 {
		f.appendAccepted(c) // before the room is counted
	}
	for i, body := range bodies {
		if f.owners.Room(key) < maxAbsorbed {
			c.lead.absorb = append(c.lead.absorb, bodies[i:]...) // Held comes back to it
			return
		}
		d, err := difference.Decode(body) // as far as it can be read
		if err != nil {
			f.stats.Unread++
		}
		if !f.owns(key, d) {
			f.stats.Unread++
			continue
		}
		f.appendAccepted(c)
		l, all := c.lead, d
		d = f.app.Filter(key, d)
		if pin := all.Pin; pin != nil && (l.pin == nil || !l.pin.Follows(pin) && pin.Follows(l.pin)) {
			l.pin = pin.Counted(l.pin)
			d.Pin = l.pin // the other lineage knows more of whose the feed is
		}
		for _, ch := range all.Changes {
			// What was found here as well is no news, but the publisher's number of it is.
			if l.pin.After(ch.Publication) != l.pin && !slices.ContainsFunc(d.Changes, func(o difference.Change) bool { return o.Item.ID == ch.Item.ID }) {
				d.Changes = append(d.Changes, ch)
			}
		}
		for _, ch := range d.Changes {
			if p := ch.Publication; p != nil {
				l.take(p, true)
				l.pin = l.pin.After(p)
			}
		}
		if !d.Empty() {
			f.Append(key, d, nil, func(bool) {})
		}
	}
}
