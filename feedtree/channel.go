package feedtree

import (
	"bytes"
	"maps"
	"slices"
	"time"

	"tidings/overlay"
)

// A channel is a feed that this node subscribes to, leads, or keeps heartbeats of for its children. Each component
// has its part of the record.
type channel struct {
	key       overlay.ID
	url       string
	confirmed time.Time    // last time at which this node was certain to have all entries
	leader    *leaderState // nil unless this node is the feed's sequencer

	subscription
	vouching
	gap
	announced
	auditing
	asking
	keyTrust
	reading
	probation *probation    // of the parents that should deliver its entries; nil: none has begun
	recovery  *bodyRecovery // of bodies that the disk has lost; nil: none is known to be lost
}

// A leaderState is what the sequencer of a feed keeps.
type leaderState struct {
	appended
	announcing
	accepting
	claims
	keyChange *keyChange // a change of the key that owners are to witness; nil: none
	ready     bool       // the log has been read
	toAbsorb  [][]byte   // bodies of another branch, until there is room for them and the log has been read
}

// channels holds the records of all feeds.
type channels map[overlay.ID]*channel

// sorted returns the channels in the order of their keys, so that messages do not depend on the order of a map.
func (cs channels) sorted() []*channel {
	return slices.SortedFunc(maps.Values(cs), func(a, b *channel) int { return bytes.Compare(a.key[:], b.key[:]) })
}

// subscribed returns the number of subscriptions.
func (cs channels) subscribed() (n int) {
	for _, c := range cs {
		if c.subscribed {
			n++
		}
	}
	return n
}
