package feedtree

import (
	"time"

	"tidings/difference"
	"tidings/internal/feed"
)

// handOvers brings items that this node found while it was cut off into the logs.
type handOvers struct {
	*common
	reader    *reader
	sequencer *sequencer
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

// run brings items that this node found while it was cut off into the logs. The origin usually still
// shows the items, and then the log has them from its pollers.
func (ho *handOvers) run(all []*channel, now time.Time) {
	remaining := handOversAtOnce
	for _, c := range all {
		if c.handOversLeft == 0 || c.alone || now.Before(c.handOverAt) || c.leader != nil && !c.leader.ready {
			continue
		}
		if remaining--; remaining < 0 {
			return
		}
		c.handOversLeft, c.handOverAt = c.handOversLeft-1, now.Add(handOverPause)
		ho.reader.sync(c, func() { ho.handOver(c) })
	}
}

// handOver hands over the items of one feed.
func (ho *handOvers) handOver(c *channel) {
	found := c.window.fetched()
	// A page's changes depend on the version before them, so the page's sequencer finds them itself.
	if _, isPage := feed.AtOrigin(c.url); isPage || len(found) == 0 || ho.feeds[c.key] != c {
		c.handOversLeft = 0
		return
	}
	ho.stats.Handed += uint64(len(found))
	if c.leader == nil {
		known := c.window.log.Entries()
		ho.app.HandOver(c.key, c.window.head, found, known[:min(len(known), handOverSample)])
		return
	}
	d := difference.Delta{}
	for _, it := range found {
		d.Changes = append(d.Changes, difference.Change{Item: it})
	}
	for _, part := range d.Split(maxPart) {
		if body, err := part.Encode(); err == nil {
			ho.sequencer.Absorb(c.key, body)
		}
	}
}
