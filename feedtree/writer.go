package feedtree

import (
	"strings"

	"tidings/difference"
	"tidings/internal/feed"
	"tidings/overlay"
	"tidings/overlay/owner"
)

// A logWriter makes entries of changes in feeds that this node leads.
type logWriter struct {
	*common
	bodies *bodies
}

// appended is what a logWriter keeps of a feed. It counts everything that was appended, committed or not.
type appended struct {
	window difference.Window
	head   *feed.Head      // the latest one
	about  About           // title, link and language of the feed
	pin    *difference.Pin // counts all accepted publications; nil: the feed has no publisher
}

// append makes entries of changes, with the feed's head and pin from time to time. done is called as that of
// sequencer.Append.
func (lw *logWriter) append(c *channel, d difference.Delta, done func(ok bool)) bool {
	l, key := c.leader, c.key
	if d.Head == nil && lw.headIsOld(key, l.window.Head()) {
		d.Head = l.head
	}
	if d.Pin == nil && lw.headIsOld(key, l.window.Pinned()) {
		d.Pin = l.pin
	}
	parts, bodies, err := lw.bodies.encodeParts(c, d)
	if err != nil {
		lw.log.Warn("change report could not be appended to the log", "url", c.url, "err", err)
		return false
	}
	if len(parts) == 0 { // followers could read none of it
		done(true)
		return true
	}
	if len(parts) > lw.owners.Room(key) {
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
		err := lw.owners.Append(key, bodies[i], len(part.Changes), func(seq, first uint64) owner.Hash {
			l.window.Apply(part, lw.clock.Now(), seq)
			l.window.Forget(first)
			return owner.Hash(l.window.Hash())
		}, committed)
		if err != nil {
			lw.log.Warn("change report could not be appended to the log", "url", c.url, "err", err)
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
func (lw *logWriter) About(key overlay.ID) About {
	if c := lw.feeds[key]; c != nil && c.leader != nil {
		return c.leader.about
	}
	return About{}
}

// Fading returns the items that the log of a feed led by this node will lose when a given number of items is added,
// unless Append adds them again.
func (lw *logWriter) Fading(key overlay.ID, items int) []feed.ID {
	c := lw.feeds[key]
	if c == nil || c.leader == nil || !c.leader.ready {
		return nil
	}
	return c.leader.window.Before(lw.owners.FirstKept(key, items))
}

// headIsOld reports whether the entry with number ref is in the older half of a feed's log, so that its head or pin
// should be repeated.
func (lw *logWriter) headIsOld(key overlay.ID, ref uint64) bool {
	log := lw.owners.Log(key)
	return len(log) == 0 || ref < log[len(log)/2].At.Seq
}
