package feedtree

import (
	"time"

	"tidings/difference"
	"tidings/internal/env"
	"tidings/internal/feed"
	"tidings/overlay"
)

const (
	// nodeSilence is how long a node that is not a full member may receive no message from anybody before it counts
	// as cut off. Its hosts answer every 15 s, and a dead host is given up within another 15 s, so this is twice
	// what a live network needs.
	nodeSilence = time.Minute
	// missedDigests is the smallest number of digest intervals without news after which a feed counts as cut off.
	// It matters where polling intervals are so short that a few lost messages would suffice.
	missedDigests = 10
)

// feedSilence returns how long a feed may be silent before this node polls it itself: usually one polling interval.
func (c Config) feedSilence() time.Duration {
	return max(c.PollInterval, missedDigests*c.DigestInterval)
}

// A contactState holds what determines whether a node is cut off.
type contactState struct {
	now        time.Time
	maxSilence time.Duration // how long a feed may be silent
	nodeHeard  time.Time     // last message from any other node
	member     bool          // the node is a full member; a network of one node is not cut off
	feedsHeard []time.Time   // when each feed that the node follows and does not lead was last heard of
}

// cutOff reports whether the node is cut off, and since when it has heard nothing.
func (h contactState) cutOff() (since time.Time, ok bool) {
	if !h.member && h.now.Sub(h.nodeHeard) > nodeSilence {
		return h.nodeHeard, true
	}
	for _, at := range h.feedsHeard {
		if h.now.Sub(at) <= h.maxSilence {
			return time.Time{}, false
		}
		if at.After(since) {
			since = at
		}
	}
	return since, len(h.feedsHeard) > 0
}

// A CutOff describes the situation of a node that is cut off from its network.
type CutOff struct {
	Since time.Time     // when other nodes were last heard
	After time.Duration // how long a feed must be silent before the node polls it itself
	Feeds int           // number of feeds that the node polls itself by now
}

// CutOff describes how this node is cut off from its network; ok is false if it is not.
func (f *FeedTree) CutOff() (state CutOff, ok bool) {
	h := contactState{
		now: f.clock.Now(), maxSilence: f.cfg.feedSilence(), nodeHeard: f.node.LastHeard(),
		member: f.node.State() == overlay.Active || f.node.State() == overlay.Left,
	}
	for _, c := range f.feeds {
		if c.subscribed && c.leader == nil {
			h.feedsHeard = append(h.feedsHeard, c.heardAt)
			if c.alone {
				state.Feeds++
			}
		}
	}
	state.Since, ok = h.cutOff()
	state.After = h.maxSilence
	return state, ok
}

// markHeard records that another node has vouched for this node's copy of a feed's log, or is about to bring more
// of it. It ends the node's own polls of the feed.
func (f *FeedTree) markHeard(c *channel) {
	c.heardAt = f.clock.Now()
	f.endAlone(c)
}

// markParentHeard records that a parent has answered for all feeds whose logs it keeps.
func (f *FeedTree) markParentHeard(from env.PeerID) {
	l := f.links[from]
	if l == nil {
		return
	}
	for _, c := range f.sorted() {
		if _, unknown := l.keepsNoLog[c.key]; c.subscribed && !unknown && f.isParent(c.key, from) {
			f.markHeard(c)
		}
	}
}

// checkCutOff starts polls of feeds for which no other node has vouched for too long.
func (f *FeedTree) checkCutOff(now time.Time) {
	for _, c := range f.sorted() {
		if c.subscribed && c.leader == nil && !c.alone && now.Sub(c.heardAt) > f.cfg.feedSilence() {
			c.alone = true
			f.stats.Silences++
			f.app.PollAlone(c.key, c.url, true)
			f.app.StateChanged(c.key, c.state, now)
		}
	}
}

// endAlone ends this node's own polls of a feed, and schedules the hand-over of what they found.
func (f *FeedTree) endAlone(c *channel) {
	if !c.alone {
		return
	}
	c.alone = false
	c.handOversLeft, c.handOverAt = handOverTries, f.clock.Now()
	f.app.PollAlone(c.key, c.url, false)
	f.app.StateChanged(c.key, c.state, f.clock.Now())
}

const (
	// handOverTries bounds how often a node offers what it found alone to a feed's sequencer, and handOverPause is
	// the time between two attempts. A sequencer that never accepts is not asked for ever.
	handOverTries = 3
	handOverPause = 3 * time.Minute
	// handOversAtOnce bounds the feeds whose items are handed over in one digest interval. A node that was cut off
	// from thousands of feeds continues in the next.
	handOversAtOnce = 16
	// handOverSample is the number of items of the log that accompany a hand-over, so that the sequencer can
	// recognise the feed.
	handOverSample = 8
)

// handOverItems brings items that this node found while it was cut off into the logs. The origin usually still
// shows the items, and then the log has them from its pollers.
func (f *FeedTree) handOverItems(now time.Time) {
	remaining := handOversAtOnce
	for _, c := range f.sorted() {
		if c.handOversLeft == 0 || c.alone || now.Before(c.handOverAt) || c.leader != nil && !c.leader.ready {
			continue
		}
		if remaining--; remaining < 0 {
			return
		}
		c.handOversLeft, c.handOverAt = c.handOversLeft-1, now.Add(handOverPause)
		f.sync(c, func() { f.handOverFeed(c) })
	}
}

// handOverFeed hands over the items of one feed.
func (f *FeedTree) handOverFeed(c *channel) {
	var found []feed.Item
	w := &c.window
	for _, e := range w.extras {
		if o, ok := w.log.Entry(e.Item.ID); e.seq == 0 && (!ok || o.Hash != e.Item.Hash) {
			found = append(found, e.Item)
		}
	}
	// A page's changes depend on the version before them, so the page's sequencer finds them itself.
	if _, isPage := feed.DocumentURL(c.url); isPage || len(found) == 0 || f.feeds[c.key] != c {
		c.handOversLeft = 0
		return
	}
	f.stats.Handed += uint64(len(found))
	if c.leader == nil {
		known := w.log.Entries()
		f.app.HandOver(c.key, w.head, found, known[:min(len(known), handOverSample)])
		return
	}
	d := difference.Delta{}
	for _, it := range found {
		d.Changes = append(d.Changes, difference.Change{Item: it})
	}
	for _, part := range d.Split(maxPart) {
		if body, err := part.Encode(); err == nil {
			f.Absorb(c.key, body)
		}
	}
}

// Recall passes what this node knows of a feed to then: the items of its copy of the log and its extra items. A
// document is compared with that as a sequencer would compare it.
func (f *FeedTree) Recall(key overlay.ID, then func(*difference.Known)) {
	c := f.feeds[key]
	if c == nil || !c.subscribed {
		return
	}
	f.sync(c, func() {
		f.decodeEntries(f.owners.Visible(key), func(deltas []decodedEntry) {
			known := new(difference.Known)
			for _, d := range deltas {
				known.AddLogged(d.Delta)
			}
			for _, e := range c.window.extras {
				known.Add(difference.Delta{Changes: []difference.Change{{Item: e.Item}}})
			}
			then(known)
		})
	})
}

// ShowAlone shows what this node's own poll of a feed has found, if the node is still cut off from the feed.
func (f *FeedTree) ShowAlone(key overlay.ID, d difference.Delta) {
	if c := f.feeds[key]; c != nil && c.subscribed && c.alone {
		f.showFetched(c, d)
	}
}
