package corona

import (
	"time"

	"tidings/corona/coronapb"
	"tidings/overlay"
)

// A web server may turn one node away and answer all others: it blocks the node's address or its
// country, or asks it to prove that it is human. Or the trouble is the node's own, as with its DNS
// or its clock. Such a poller gives its ranks to another member instead of keeping slots that find
// nothing. If no node can read the channel, pollers keep their ranks: more nodes that ask would not
// help. If the last poller goes and all others have declined, the sequencer asks them again, and takes
// ranks itself if they still decline.

const (
	// enoughFailing is how many nodes have to fail, with no other that succeeds, before a channel
	// counts as unreadable for everybody. Each costs the origin a few requests.
	enoughFailing = 3
	// minExclusion is how long a node does not take ranks of a channel again at which it was turned
	// away. The time doubles each time, up to maxPublicInterval.
	minExclusion = time.Hour
	// maxExclusions bounds the channels of which a node remembers this. Above it, any of them is
	// forgotten: the node then takes ranks again, and gives them up again.
	maxExclusions = 4096
)

// An exclusion is until when a node takes no ranks of a channel.
type exclusion struct {
	until time.Time
	pause time.Duration
}

// exclusions are the channels whose web servers turn this node away.
type exclusions map[overlay.ID]exclusion

func (x exclusions) add(key overlay.ID, wait time.Duration, now time.Time) {
	pause := min(max(minExclusion, wait, 2*x[key].pause), maxPublicInterval)
	if len(x) >= maxExclusions {
		for any := range x {
			delete(x, any)
			break
		}
	}
	x[key] = exclusion{now.Add(pause), pause}
}

func (x exclusions) forget(key overlay.ID) { delete(x, key) }

// turnedAway says whether a poller whose poll has failed should give its ranks to another member.
func (po *poller) turnedAway(d *assignment) bool {
	patience := freeFails
	if d.snapshot == nil || d.snapshot.digest == 0 {
		patience = 1 // nobody has read the channel yet, so somebody is waiting
	}
	failing := d.extras().failing
	if d.led {
		failing = po.up.unreadable(d.key())
	}
	switch i := d.extra.failure; i.state.Kind {
	case coronapb.State_LIMITED, coronapb.State_GONE, coronapb.State_TOO_LARGE, coronapb.State_REFUSED:
		return false // the same for everybody, or for a while only
	default:
		return i.fails >= patience && failing < min(enoughFailing, po.members()) && int(d.schedule.Of) < po.members()
	}
}

// decline gives this node's ranks of a channel to another member. It ends the assignment.
func (po *poller) decline(key overlay.ID, wait time.Duration, now time.Time) {
	po.stats.Declined++
	po.exclusions.add(key, wait, now)
	po.wedges.Decline(key)
}

// Willing says whether this node takes ranks of a channel. A node that is alone takes all.
func (po *poller) Willing(key overlay.ID) bool {
	return !po.exclusions[key].until.After(po.clock.Now()) || po.members() <= 1
}

// mayLook reports whether this node may fetch a channel's document only to confirm what others have found: it was not
// turned away, and the domain asks for no pause. A poller of a domain with a budget waits for its turn.
func (po *poller) mayLook(key overlay.ID, url string, now time.Time) bool {
	if !po.Willing(key) {
		return false
	}
	name, private := Origin(url)
	domain := po.domains.refer(name, private)
	defer po.domains.release(domain)
	d := po.assignments.Get(key)
	switch {
	case domain.limitedUntil.After(now), d != nil && d.waiting != 0:
		return false
	case po.domains.exempt(domain):
		return true
	}
	return d == nil
}

// unreadable returns how many nodes cannot read a channel while no other node has read it; 0 if one
// has.
func (l *leaderState) unreadable() (n int) {
	if l.state.Kind == coronapb.State_OK {
		return 0
	}
	for _, i := range l.failing {
		if i.state.Kind != coronapb.State_LIMITED {
			n++
		}
	}
	return min(n, enoughFailing)
}
