package corona

import (
	"slices"
	"time"

	"tidings/difference"
	"tidings/internal/env"
	"tidings/overlay"
)

// A poller may report items that the origin never had. When most owners of a channel have looked for a reported item in
// vain, the sequencer takes no more reports of its poller for a day, and fetches the document itself instead. So a liar can
// forge no more, and an honest poller, whose item the origin withdrew at once, costs a request and loses nothing.

const (
	// distrustTime is how long the reports of a poller are not believed.
	distrustTime = 24 * time.Hour
	// maxReported bounds the items of a channel whose pollers are remembered. The oldest is dropped: its poller is not
	// blamed for it.
	maxReported = 256
)

// reportedItem is an item in the log that a poller has reported.
type reportedItem struct {
	difference.Version
	by env.PeerID
}

// blame is what the sequencer knows of the pollers that have reported items.
type blame struct {
	reported   []reportedItem
	distrusted map[env.PeerID]time.Time // pollers that are not believed, and until when; at most maxReporters
}

// note notes the poller of a version of an item. Another poller may have reported another version.
func (b *blame) note(v difference.Version, by env.PeerID) {
	b.reported = append(b.reported, reportedItem{v, by})
	b.reported = b.reported[max(0, len(b.reported)-maxReported):]
}

// distrusts reports whether a poller is not believed now.
func (b *blame) distrusts(poller env.PeerID, now time.Time) bool {
	return b.distrusted[poller].After(now)
}

// Contested says that most owners of a channel that this node leads have looked for items of the log in vain.
func (c *Corona) Contested(key overlay.ID, items []difference.Version) {
	if l := c.leaders[key]; l != nil {
		c.intake.contested(l, items)
	}
}

// contested stops believing the pollers that have reported items.
func (in *intake) contested(l *leaderState, items []difference.Version) {
	for _, it := range l.reported {
		if !slices.Contains(items, it.Version) || l.distrusts(it.by, in.clock.Now()) {
			continue
		}
		if l.distrusted == nil || len(l.distrusted) >= maxReporters {
			l.distrusted = map[env.PeerID]time.Time{}
		}
		l.distrusted[it.by] = in.clock.Now().Add(distrustTime)
		in.stats.Distrusted++
	}
}

// verify fetches a document of which a poller that is not believed has reported news, at most once in half a polling
// interval. The request counts as load.
func (sq *sequencer) verify(l *leaderState, now time.Time) {
	if l.fetching == 0 && now.Sub(l.fetchedAt) >= l.interval/2 {
		sq.stats.Verified++
		l.looks.add(1, now)
		sq.fetchNow(l, now)
	}
}
