package firehose

import (
	"maps"
	"time"

	"tidings/cobra/firehose/firehosepb"
	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/owner"
)

// filter is a node's part as a filter of one shard. It tells the owners that it listens, delivers each entry once, and
// knows from digests whether it misses any. At a node that is no filter it is idle.
type filter struct {
	*place
	app            Application
	keeper         *keeper
	progress       *progress
	*shardProgress // of this shard

	listenSentAt time.Time
	listenEpoch  owner.Hash // epoch whose owners were sent the last Listen
	beganAt      time.Time  // entries that owners received before do not count, because this node did not listen yet
	heardAt      time.Time  // when the last digest came
	unsureSince  time.Time  // owners of another branch may have received entries since then; zero: never
	catchUps     int        // number of times that owners were asked for the time between completeUntil and the latest digest
	// received has the entries that were delivered or need not be, by the time of that, for a little more than an hour.
	received map[owner.Hash]time.Time
}

const (
	// listenInterval is the time between two Listens to the owners of a shard.
	listenInterval = listenLease / 3
	// maxReceived bounds the entries of a shard that a filter remembers: thirty a second for an hour. Further entries may be
	// delivered twice, and the Application has to recognise them.
	maxReceived = 1 << 17
	// maxCatchUps is how often the owners are asked for the entries of a gap before the filter gives it up.
	maxCatchUps = 3
	// maxSilence is how long a filter waits for a digest before it looks for other owners.
	maxSilence = 3 * digestInterval
)

func newFilter(p *place, k *keeper, pr *progress, app Application) *filter {
	f := &filter{place: p, app: app, keeper: k, progress: pr, shardProgress: &pr.shards[p.number], received: map[owner.Hash]time.Time{}}
	f.beganAt = f.completeUntil
	return f
}

// run keeps the filter listening.
func (f *filter) run(now time.Time) {
	if f.node.State() != overlay.Active && f.node.State() != overlay.Attached {
		return
	}
	e := f.tracker.Latest()
	switch {
	case e == nil:
		f.tracker.Refresh()
	case now.Sub(f.listenSentAt) >= listenInterval || f.listenEpoch != e.Hash:
		f.sendListen(now)
		f.tracker.Refresh() // there may be another epoch
		maps.DeleteFunc(f.received, func(_ owner.Hash, at time.Time) bool { return now.Sub(at) > keepTime+maxEntryAge })
	case f.isSilent(now):
		f.tracker.Refresh()
	}
}

// isSilent reports whether no digest has come for some minutes.
func (f *filter) isSilent(now time.Time) bool { return now.Sub(f.heardAt) > maxSilence }

// switchBranch notes the branch of the owners that the filter listens to now. During a partition each side has owners of
// its own, and the owners of the branch that remains do not know what the others received. So the filter asks each new
// owner for all entries since completeUntil at the switch, for an hour.
func (f *filter) switchBranch(branch uint64, now time.Time) {
	if f.branch != 0 && branch != f.branch && !f.isUnsure(now) {
		f.unsureSince = f.completeUntil
	}
	f.branch = branch
}

// isUnsure reports whether owners of another branch may have entries of the last hour that the present owners lack.
func (f *filter) isUnsure(now time.Time) bool {
	return !f.unsureSince.IsZero() && now.Sub(f.unsureSince) < keepTime
}

// sendListen tells the owners of the shard that this node is a filter, and asks them for digests of the time of which it
// may have missed something.
func (f *filter) sendListen(now time.Time) {
	e := f.tracker.Latest()
	newOwners := f.listenEpoch != e.Hash
	f.listenSentAt, f.listenEpoch = now, e.Hash
	m := &firehosepb.Listen{Shard: uint32(f.number), Record: f.node.Self().Raw}
	since := time.Time{}
	if !f.completeUntil.IsZero() && now.Sub(f.completeUntil) > digestSpan-digestInterval {
		since = f.completeUntil
		if now.Sub(f.heardAt) < digestInterval {
			f.catchUps++
		}
	}
	if newOwners && f.isUnsure(now) {
		since = f.unsureSince
	}
	if !since.IsZero() {
		m.SinceMs = uint64(since.Add(-digestSpan).UnixMilli()) // an owner may have received an entry late
	}
	for _, p := range f.tracker.Owners() {
		if p.ID != f.self {
			f.send(p, env.Control, &firehosepb.Message{Body: &firehosepb.Message_Listen{Listen: m}})
		} else if f.keeper.owned {
			f.keeper.listen(f.node.Self(), now)
		}
	}
}

// onListenAck notes the time from which on a new filter misses nothing: the owner lists the entries that it receives from
// then on, even after a restart of the filter.
func (f *filter) onListenAck(from env.PeerID, m *firehosepb.ListenAck, now time.Time) {
	if at := time.UnixMilli(int64(m.TimeMs)); f.completeUntil.IsZero() && f.tracker.Owns(from) && m.TimeMs <= wire.MaxMillis && at.Sub(now).Abs() <= maxEntryAge {
		f.begin(at, now)
	}
}

// begin notes the time from which on a new filter misses nothing.
func (f *filter) begin(at, now time.Time) {
	f.beganAt, f.completeUntil = at, at
	f.progress.saveNow(now)
}

// has reports whether an entry was delivered, or need not be.
func (f *filter) has(hash owner.Hash) bool { _, ok := f.received[hash]; return ok }

// deliver delivers an entry, and returns false if this node has it already or is no filter.
func (f *filter) deliver(d Dispatch, now time.Time) bool {
	if f.has(d.Entry.Hash) || !f.cfg.Filter {
		return false
	}
	if !f.app.Dispatched(d) {
		f.stats.Refused++
		return true // other filters have room for it
	}
	if f.stats.Heard++; len(f.received) < maxReceived {
		f.received[d.Entry.Hash] = now
	}
	return true
}

// lacks reports whether this filter needs an entry that an owner names.
func (f *filter) lacks(ref *firehosepb.EntryRef, now time.Time) bool {
	hash := owner.Hash(ref.Entry)
	if !f.cfg.Filter || f.has(hash) {
		return false
	}
	if time.UnixMilli(int64(ref.AtMs)).Before(f.beganAt) {
		f.received[hash] = now // it was sent before this node listened
		return false
	}
	return true
}

// onDigest moves completeUntil on if the digest continues there. If it begins later, the filter asks for the entries
// between (sendListen), unless no owner has them any more.
func (f *filter) onDigest(by env.PeerID, m *firehosepb.Digest, now time.Time) {
	if !f.cfg.Filter {
		return
	}
	f.heardAt = now
	since, until := time.UnixMilli(int64(m.SinceMs)), time.UnixMilli(int64(m.UntilMs))
	switch {
	case !f.tracker.Owns(by): // the present owners may have received more since
	case f.completeUntil.IsZero():
		f.begin(until, now)
	case until.Before(f.completeUntil):
	case !since.After(f.completeUntil):
		f.completeUntil, f.catchUps = until, 0
	case f.isUnsure(now): // new owners will be asked again
		f.completeUntil, f.catchUps = until, 0
	case f.catchUps > maxCatchUps:
		f.stats.Gaps++
		f.log.Warn("filter was disconnected for too long and lost entries", "shard", f.number, "since", f.completeUntil, "until", since)
		f.completeUntil, f.catchUps = until, 0
	}
}
