package feedtree

import (
	"time"

	"tidings/internal/env"
	"tidings/overlay"
)

// cutOffs notices when other nodes no longer vouch for a feed's log. This node then polls the feed itself.
type cutOffs struct{ *common }

// vouching is what cutOffs keeps of a feed.
type vouching struct {
	heardAt       time.Time  // when another node last vouched for the log; at first, the time of the subscription
	alone         bool       // the node is cut off from the feed, and polls it itself
	handOversLeft int        // remaining attempts to hand over what the node found alone
	handOverAt    env.Moment // next of these attempts
}

const (
	// nodeSilence is how long a node that is not a full member may receive no message from anybody before it counts
	// as cut off. Its hosts answer every 15 s, and a dead host is given up within another 15 s, so this is twice
	// what a live network needs.
	nodeSilence = time.Minute
	// missedDigests is the smallest number of digest intervals without news after which a feed counts as cut off.
	// It matters where polling intervals are so short that a few lost messages would suffice.
	missedDigests = 10
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
func (o *cutOffs) CutOff() (state CutOff, ok bool) {
	h := contactState{
		now: o.clock.Now(), maxSilence: o.cfg.feedSilence(), nodeHeard: o.node.LastHeard(),
		member: o.node.State() == overlay.Active || o.node.State() == overlay.Left,
	}
	for _, c := range o.feeds {
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
func (o *cutOffs) markHeard(c *channel) {
	c.heardAt = o.clock.Now()
	o.endAlone(c)
}

// check starts polls of feeds for which no other node has vouched for too long.
func (o *cutOffs) check(all []*channel, now time.Time) {
	for _, c := range all {
		if c.subscribed && c.leader == nil && !c.alone && now.Sub(c.heardAt) > o.cfg.feedSilence() {
			c.alone = true
			o.stats.Silences++
			o.app.PollAlone(c.key, c.url, true)
			o.app.StateChanged(c.key, c.state, now)
		}
	}
}

// markCertain records, too, that this node has all entries.
func (o *cutOffs) markCertain(c *channel) {
	c.confirmed = env.MomentOf(o.clock.Now())
	o.markHeard(c)
}

// endAlone ends this node's own polls of a feed, and schedules the hand-over of what they found.
func (o *cutOffs) endAlone(c *channel) {
	if !c.alone {
		return
	}
	c.alone = false
	c.handOversLeft, c.handOverAt = handOverTries, env.MomentOf(o.clock.Now())
	o.app.PollAlone(c.key, c.url, false)
	o.app.StateChanged(c.key, c.state, o.clock.Now())
}
