package overlay

import (
	"math/rand/v2"
	"slices"
	"time"

	"tidings/internal/env"
	"tidings/overlay/overlaypb"
)

// maxTombstones bounds the dead peers remembered: all that a store remembers (maxRemembered),
// and some that died since.
const maxTombstones = 256

// tombstones remembers the peers that died. The node does not believe for a while that such a
// peer is alive because others say so. It probes those that had a place one by one, because
// after a partition the dead of one side are alive on the other.
type tombstones struct {
	list []tombstone // the oldest first
}

type tombstone struct {
	contact  *Contact
	died     time.Time
	hadPlace bool // was in leaf or table, or in use as host or client; is probed again
}

func (ts *tombstones) add(c *Contact, now time.Time, hadPlace bool) {
	hadPlace = ts.remove(c) || hadPlace
	if len(ts.list) == maxTombstones { // a peer that had no place is forgotten first
		first := max(slices.IndexFunc(ts.list, func(t tombstone) bool { return !t.hadPlace }), 0)
		ts.list = slices.Delete(ts.list, first, first+1)
	}
	ts.list = append(ts.list, tombstone{c, now, hadPlace})
}

// remove removes a peer's tombstone. wasAlive says that the peer had a place and has returned
// without a restart, so it was never dead.
func (ts *tombstones) remove(c *Contact) (wasAlive bool) {
	for i, t := range ts.list {
		if t.contact.ID == c.ID {
			ts.list = append(ts.list[:i], ts.list[i+1:]...)
			return t.hadPlace && c.Issued == t.contact.Issued
		}
	}
	return false
}

// reviveDelay is the time after a death in which the node ignores other members that name the
// dead peer. Afterwards they have noticed the death too, or the peer was not dead.
const reviveDelay = 15 * time.Second

// diedRecently reports whether c died within reviveDelay under this record or a later one, so that
// others naming it are ignored.
func (ts *tombstones) diedRecently(c *Contact, now time.Time) bool {
	for _, t := range ts.list {
		if t.contact.ID == c.ID {
			return c.Issued <= t.contact.Issued && now.Sub(t.died) < reviveDelay
		}
	}
	return false
}

// withPlace returns the peers that had a place.
func (ts *tombstones) withPlace() (contacts []*Contact) {
	for _, t := range ts.list {
		if t.hadPlace {
			contacts = append(contacts, t.contact)
		}
	}
	return contacts
}

func (ts *tombstones) pick(r *rand.Rand) *Contact {
	if contacts := ts.withPlace(); len(contacts) > 0 {
		return contacts[r.IntN(len(contacts))]
	}
	return nil
}

// probeDead probes a random dead peer, by which a network that was partitioned finds itself
// again.
func (lv *liveness) probeDead() {
	lv.after(env.Jitter(lv.rand, deadInterval), task{kind: taskDead})
	if lv.state != Active {
		return
	}
	c := lv.tombstones.pick(lv.rand)
	if c == nil {
		return
	}
	lv.probeOnce(c)
}

// probeOnce sends a probe without expecting a reply. A reply brings the peer's record, and
// restores the peer.
func (lv *liveness) probeOnce(c *Contact) {
	lv.stats.Probes++
	m := &overlaypb.Message{Record: lv.self.Raw, Body: &overlaypb.Message_Probe{Probe: &overlaypb.Probe{
		Nonce:      lv.rand.Uint64() | 1,
		WantRecord: true,
		Depth:      uint32(lv.leaf.Depth()),
		Digest:     lv.leaf.Digest(),
		Decided:    lv.leaf.decided,
	}}}
	lv.net.Send(c.Peer, env.Control, lv.encode(m))
}

// probeAllDead probes all dead peers that had a place, because one of them turned out never
// to have died.
func (lv *liveness) probeAllDead(now time.Time) {
	if !lv.deadProbedAt.IsZero() && now.Sub(lv.deadProbedAt) < deadInterval {
		return
	}
	lv.deadProbedAt = now
	for _, c := range lv.tombstones.withPlace() {
		lv.probeOnce(c)
	}
}
