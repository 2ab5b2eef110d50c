package corona

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"tidings/corona/coronapb"
	"tidings/difference"
	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay"
)

// A poller may report items that the origin never had. When most owners of a channel have looked for a reported item in
// vain, the sequencer takes no more reports of its poller for a day, and fetches the document itself instead. So a liar can
// forge no more, and an honest poller, whose item the origin withdrew at once, costs a request and loses nothing. The next
// sequencer, and the same one after a restart, knows it from the channel's note.

const (
	// distrustTime is how long the reports of a poller are not believed.
	distrustTime = 24 * time.Hour
	// maxDistrusted bounds the pollers of a channel that are not believed, because the note has all of them. At the bound the one is
	// dropped that would be believed first.
	maxDistrusted = 16
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
	distrusted distrusts
}

// distrusts are the pollers that are not believed, and until when; at most maxDistrusted.
type distrusts map[env.PeerID]time.Time

// sorted returns the pollers, those that are believed first in front.
func (d distrusts) sorted() []env.PeerID {
	return slices.SortedFunc(maps.Keys(d), func(a, b env.PeerID) int { return cmp.Or(d[a].Compare(d[b]), cmp.Compare(a, b)) })
}

// wire encodes the pollers for the note.
func (d distrusts) wire() (all []*coronapb.Distrust) {
	for _, poller := range d.sorted() {
		all = append(all, &coronapb.Distrust{Poller: []byte(poller), UntilMs: millis(d[poller])})
	}
	return all
}

func distrustsFrom(all []*coronapb.Distrust) distrusts {
	var d distrusts
	for _, m := range all {
		if _, err := wire.PublicKeyOf(env.PeerID(m.Poller)); err != nil || m.UntilMs > wire.MaxMillis {
			continue
		}
		if d == nil {
			d = distrusts{}
		}
		d[env.PeerID(m.Poller)] = timeOf(m.UntilMs)
	}
	return d
}

// at returns those pollers that are not believed at a time, for a day from then at most: the clock of the sequencer that caught them may
// have been ahead.
func (d distrusts) at(now time.Time) distrusts {
	maps.DeleteFunc(d, func(_ env.PeerID, until time.Time) bool { return !until.After(now) })
	for poller, until := range d {
		if most := now.Add(distrustTime); until.After(most) {
			d[poller] = most
		}
	}
	return d
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

// distrust stops believing a poller for a day.
func (b *blame) distrust(poller env.PeerID, now time.Time) {
	if b.distrusted = b.distrusted.at(now); b.distrusted == nil {
		b.distrusted = distrusts{}
	}
	if _, known := b.distrusted[poller]; !known && len(b.distrusted) == maxDistrusted {
		delete(b.distrusted, b.distrusted.sorted()[0])
	}
	b.distrusted[poller] = now.Add(distrustTime)
}

// Contested says that most owners of a channel that this node leads have looked for items of the log in vain.
func (c *Corona) Contested(key overlay.ID, items []difference.Version) {
	if l := c.leaders[key]; l != nil {
		c.intake.contested(l, items)
	}
}

// contested stops believing the pollers that have reported items.
func (in *intake) contested(l *leaderState, items []difference.Version) {
	now, caught := in.clock.Now(), in.stats.Distrusted
	for _, it := range l.reported {
		if slices.Contains(items, it.Version) && !l.distrusts(it.by, now) {
			l.distrust(it.by, now)
			in.stats.Distrusted++
		}
	}
	if in.stats.Distrusted > caught {
		in.note(l)
	}
}

// verify fetches a document of which a poller that is not believed has reported news, at most once in half a polling
// interval. The request counts as load.
func (sq *sequencer) verify(l *leaderState, now time.Time) {
	if l.fetching == 0 && now.Sub(l.fetchedAt.Time()) >= l.interval/2 {
		sq.stats.Verified++
		l.looks.add(1, now)
		sq.fetchNow(l, now)
	}
}
