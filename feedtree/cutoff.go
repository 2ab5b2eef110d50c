package feedtree

import (
	"time"

	"tidings/difference"
	"tidings/internal/env"
	"tidings/internal/feed"
	"tidings/overlay"
)

const (
	// nodeSilence is how long a node that is no full member receives no message from anybody before it
	// counts as cut off. Its hosts answer each 15 s, and a host that died is given up within another 15 s,
	// so this is twice what a live network needs.
	nodeSilence = time.Minute
	// missedDigests is how many comparisons in a row bring nothing before a feed counts as cut off, where
	// polling intervals are so short that a few lost messages would do.
	missedDigests = 10
)

// feedSilence is how long a feed is not heard of before this node polls it itself: one polling interval.
func (c Config) feedSilence() time.Duration {
	return max(c.PollInterval, missedDigests*c.DigestInterval)
}

// A hearing is what the decision depends on whether a node is cut off.
type contactState struct {
	now        time.Time
	maxSilence time.Duration // how long a feed may be silent
	nodeHeard  time.Time     // when any other node was heard last
	member     bool          // the node is a full member: a network of one is a network
	feedsHeard []time.Time   // for each feed that the node follows and does not lead: when it was heard of last
}

// cutOff says whether the node is cut off, and since when it has heard nothing.
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

// A CutOff says how a node that hears of nobody fares.
type CutOff struct {
	Since time.Time     // when others were last heard
	After time.Duration // how long a feed has to be silent before the node polls it itself
	Feeds int           // feeds that the node polls itself by now
}

// CutOff says whether this node is cut off from its network; ok is false if it is not.
func (f *FeedTree) CutOff() (c CutOff, ok bool) {
	h := contactState{
		now: f.clock.Now(), maxSilence: f.cfg.feedSilence(), nodeHeard: f.node.LastHeard(),
		member: f.node.State() == overlay.Active || f.node.State() == overlay.Left,
	}
	for _, of := range f.feeds {
		if of.subscribed && of.leader == nil {
			h.feedsHeard = append(h.feedsHeard, of.heardAt)
			if of.alone {
				c.Feeds++
			}
		}
	}
	c.Since, ok = h.cutOff()
	c.After = h.maxSilence
	return c, ok
}

// heardOf notes that another node has vouched for what is known here of a feed's log, or is about to
// bring more of it. Polls of the node's own end.
func (f *FeedTree) markHeard(c *channel) {
	c.heardAt = f.clock.Now()
	f.endAlone(c)
}

// heardFrom notes that a parent has answered for the feeds whose logs it keeps.
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

// lookCutOff begins to poll the feeds that nobody has spoken of for too long.
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

// endAlone ends the polls of a feed that this node made for itself.
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
	// handTries is how often a node offers what it found alone to a feed's sequencer, handPause the time
	// between two attempts. A sequencer that does not take it from this node is not asked for ever.
	handOverTries = 3
	handOverPause = 3 * time.Minute
	// handAtOnce bounds the feeds whose items are handed over in one digest interval. A node that was cut off
	// from thousands has more: the others follow in the next.
	handOversAtOnce = 16
	// handKnown is how many items of the log go along, so that the sequencer sees that this is the feed.
	handOverSample = 8
)

// handOver brings to the logs what this node found while it was cut off from them. Mostly the origin still
// shows the items, and the log has them from its pollers.
func (f *FeedTree) handOverItems(now time.Time) {
	left := handOversAtOnce
	for _, c := range f.sorted() {
		if c.handOversLeft == 0 || c.alone || now.Before(c.handOverAt) || c.leader != nil && !c.leader.ready {
			continue
		}
		if left--; left < 0 {
			return
		}
		c.handOversLeft, c.handOverAt = c.handOversLeft-1, now.Add(handOverPause)
		f.sync(c, func() { f.handOverFeed(c) })
	}
}

// handOverOf does so for one feed.
func (f *FeedTree) handOverFeed(c *channel) {
	var found []feed.Item
	w := &c.window
	for _, e := range w.extras {
		if o, ok := w.log.Entry(e.Item.ID); e.seq == 0 && (!ok || o.Hash != e.Item.Hash) {
			found = append(found, e.Item)
		}
	}
	// A page's changes depend on the version before them: its sequencer finds its own.
	if _, isPage := feed.AtOrigin(c.url); isPage || len(found) == 0 || f.feeds[c.key] != c {
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

// Recall hands to then what this node knows of a feed: the items of its copy of the log, and those that
// are shown beside it. A document is compared with that as a sequencer would compare it.
func (f *FeedTree) Recall(key overlay.ID, then func(*difference.Known)) {
	c := f.feeds[key]
	if c == nil || !c.subscribed {
		return
	}
	f.sync(c, func() {
		f.decodeEntries(f.owners.Visible(key), func(deltas []decodedEntry) {
			known := new(difference.Known)
			for _, d := range deltas {
				known.Recall(d.Delta)
			}
			for _, e := range c.window.extras {
				known.Add(difference.Delta{Changes: []difference.Change{{Item: e.Item}}})
			}
			then(known)
		})
	})
}

// ShowAlone shows what this node has found at a feed's origin itself, if it is still cut off from the feed.
func (f *FeedTree) ShowAlone(key overlay.ID, d difference.Delta) {
	if c := f.feeds[key]; c != nil && c.subscribed && c.alone {
		f.showFetched(c, d)
	}
}
