package feedtree

import (
	"slices"
	"time"

	"tidings/feedtree/feedtreepb"
	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay/owner"
)

// A repairer gets the entries that this node lacks, and bodies that its disk has lost.
type repairer struct {
	*common
	cutOffs    *cutOffs
	cal        plans            // feeds whose repair is to be continued
	recoveries plans            // feeds whose recovery of bodies is to be continued
	fetches    plans            // feeds whose origin is to be asked for missing items, if they are still missing
	rebuild    func(c *channel) // rebuilds the window of a feed
}

func newRepairer(m *common, cutOffs *cutOffs) *repairer {
	rp := &repairer{common: m, cutOffs: cutOffs}
	rp.cal, rp.recoveries, rp.fetches = m.feedPlans(rp.continueRepair), m.feedPlans(rp.continueRecovery), m.feedPlans(rp.fetchOrigin)
	return rp
}

// gap is what a repairer keeps of a feed.
type gap struct {
	repair      *repair       // nil: nothing is known to be missing
	needsOrigin bool          // the origin is to be asked for items that the log lacks
	recovery    *bodyRecovery // of bodies that the disk has lost; nil: none is known to be lost
}

// A repair gets the entries that a subscriber lacks: from its parents, then from owners and siblings, and after
// some rounds from the origin.
type repair struct {
	want          owner.Hash // the entry that showed the gap; zero: unknown
	step          step       // what follows when the candidates have been asked
	candidates    []env.Peer // still to be asked
	round         int
	fetched       bool      // the origin was asked
	awaitingReply bool      // for the answer to a pull
	ownerAnswered bool      // an owner has answered: an entry that it lacks was not committed
	resumeAt      time.Time // next action, unless an answer is awaited
}

type step uint8

const (
	askParents   step = iota
	askOwners         // owners, and siblings that the root names
	waitForRound      // the pause between rounds; after originRound the origin is asked
)

const (
	// maxAnnounceAge is the largest age of a repaired entry that is announced to children.
	maxAnnounceAge = time.Hour
	// repairPause is the pause after a round without success. It is doubled each time up to maxRepairPause.
	repairPause    = 2 * time.Second
	maxRepairPause = 2 * time.Minute
	// originRound is the round after which the origin is asked.
	originRound = 3
	// maxRepairRounds is the number of rounds, about 15 minutes, after which the repair gives up on an entry that
	// no node has, for instance one of a branch that has ended.
	maxRepairRounds = 12
)

// start starts a repair, unless one is in progress. want is the entry that shows the gap, or zero.
func (rp *repairer) start(c *channel, want owner.Hash) {
	if !c.subscribed || c.leader != nil {
		return
	}
	if r := c.repair; r != nil {
		if want != (owner.Hash{}) && want != r.want {
			r.want = want
			rp.schedule(c, 0) // nodes that have the new entry have the earlier ones, too
		}
		return
	}
	rp.stats.Gaps++
	c.repair = &repair{want: want}
	rp.schedule(c, 0)
}

// schedule continues a repair by the calendar. Answers may arrive within the call, and a repair must not
// recurse.
func (rp *repairer) schedule(c *channel, d time.Duration) {
	c.repair.resumeAt = rp.clock.Now().Add(d)
	rp.cal.add(c.repair.resumeAt, c.key)
}

// continueRepair asks the next candidate. The repair ends when the wanted entry is here. If it is unknown, the repair
// ends with any new entry or, when owners and siblings are asked, with any answer.
func (rp *repairer) continueRepair(c *channel) {
	r := c.repair
	if r == nil || r.awaitingReply || r.resumeAt.After(rp.clock.Now()) {
		return
	}
	if len(r.candidates) == 0 {
		rp.nextStep(c)
		return
	}
	to := r.candidates[0]
	r.candidates = r.candidates[1:]
	r.awaitingReply = true
	before := rp.logHead(c.key)
	rp.owners.Pull(to, c.key, func(ok bool) {
		if c.repair != r {
			return
		}
		r.awaitingReply = false
		v, _ := rp.owners.View(c.key)
		if ok && v.Epoch != nil && slices.Contains(v.Epoch.Owners, to.ID) {
			r.ownerAnswered = true
			rp.cutOffs.markHeard(c)
		}
		switch {
		case r.want != owner.Hash{} && rp.owners.Has(c.key, r.want),
			r.want == owner.Hash{} && ok && v.Epoch != nil && (r.step == waitForRound || rp.logHead(c.key) != before):
			c.repair = nil
			rp.cutOffs.markCertain(c)
			rp.stats.Filled++
			if r.want != (owner.Hash{}) {
				rp.announce(c)
			}
		default:
			rp.schedule(c, 0)
		}
	})
}

// nextStep finds the candidates of the next step.
func (rp *repairer) nextStep(c *channel) {
	r := c.repair
	switch r.step {
	case askParents:
		r.step = askOwners
		for _, p := range rp.scribe.Parents(c.key) {
			r.candidates = append(r.candidates, p.Peer)
		}
		rp.schedule(c, 0)
	case askOwners:
		r.step, r.awaitingReply = waitForRound, true
		rp.owners.FindOwners(c.key, func(found owner.Found) {
			if c.repair != r {
				return
			}
			r.awaitingReply = false
			r.candidates = append(r.candidates, rp.others(found)...)
			rp.requestOwners(c) // perhaps the feed has no owners any more; existing ones ignore this
			rp.schedule(c, 0)
		})
	case waitForRound:
		r.step = askParents
		r.round++
		switch pause := env.Jitter(rp.rand, min(repairPause<<min(r.round, 8), maxRepairPause)); {
		case r.round >= maxRepairRounds && (r.ownerAnswered || r.fetched):
			c.repair, c.confirmed = nil, env.MomentOf(rp.clock.Now())
		case r.round == originRound && !r.ownerAnswered:
			rp.scheduleFetch(c)
			rp.schedule(c, pause)
		default:
			rp.schedule(c, pause)
		}
	}
}

// scheduleFetch asks the origin at a random time within a polling interval, because many nodes may lack the same
// items.
func (rp *repairer) scheduleFetch(c *channel) {
	rp.fetches.add(rp.after(time.Duration(rp.rand.Int64N(int64(rp.cfg.PollInterval)+1))), c.key)
}

// fetchOrigin requests the origin's document, if the gap is still there or the log itself lacks something.
func (rp *repairer) fetchOrigin(c *channel) {
	gap := c.repair != nil && c.repair.round >= originRound && !c.repair.ownerAnswered
	if c.alone {
		return // the node polls the feed anyway
	}
	if gap || c.needsOrigin {
		if c.needsOrigin = false; gap {
			c.repair.fetched = true
		}
		rp.stats.Fetches++
		rp.app.Fetch(c.key, c.url)
	}
}

// announce announces the last entry of a feed, which a repair has brought, to the nodes below this node.
// Nodes that are below it in both trees hear of the entry in no other way. They pull its body.
func (rp *repairer) announce(c *channel) {
	log := rp.owners.Visible(c.key)
	if len(log) == 0 || !c.subscribed {
		return
	}
	if e := log[len(log)-1]; rp.clock.Now().Sub(e.Time) < maxAnnounceAge {
		update := &feedtreepb.Update{Entry: e.Raw()}
		rp.scribe.SendBelow(c.key, messageID(e.Hash), wire.Encode(&feedtreepb.News{News: &feedtreepb.News_Update{Update: update}}))
	}
}

// fetchMissing asks the origin, within a polling interval, for items that the log should have.
func (rp *repairer) fetchMissing(c *channel) {
	if !c.needsOrigin {
		c.needsOrigin = true
		rp.scheduleFetch(c)
	}
}

// A bodyRecovery gets bodies of entries that this node's disk has lost from the owners of the feed or from other
// followers, and then rebuilds the window. The origin is asked for the items of bodies that no node has.
type bodyRecovery struct {
	lost     []*owner.Entry // entries whose body is still missing, the oldest first
	anyFound bool           // at least one body was recovered
	peers    []env.Peer     // peers that were not asked yet in this round
	round    int
	done     bool // the window has been rebuilt; this node recovers nothing more of the feed until it restarts
}

// recoveryRounds is the number of lookups of nodes that may have a body. The pauses between them are those of a
// repair, two minutes in all. A node that has just started knows no other node for some seconds.
const recoveryRounds = 6

// recover starts a recovery. If one was started before, the origin is asked instead.
func (rp *repairer) recover(c *channel, lost []*owner.Entry) {
	switch {
	case len(lost) == 0:
	case c.recovery != nil:
		rp.fetchMissing(c)
	default:
		c.recovery = &bodyRecovery{lost: lost}
		rp.recoveries.add(rp.after(0), c.key)
	}
}

// continueRecovery asks the next node that may have the bodies.
func (rp *repairer) continueRecovery(c *channel) {
	m := c.recovery
	switch {
	case m == nil || m.done || !c.subscribed:
	case len(m.peers) > 0:
		to := m.peers[0]
		m.peers = m.peers[1:]
		rp.owners.RepairBodies(to, m.lost, func(missing []*owner.Entry) {
			if c.recovery != m {
				return
			}
			m.anyFound = m.anyFound || len(missing) < len(m.lost)
			if m.lost = missing; len(missing) == 0 {
				m.done = true
				rp.rebuild(c)
				return
			}
			rp.recoveries.add(rp.after(0), c.key)
		})
	case m.round == recoveryRounds && m.anyFound:
		m.done = true
		rp.rebuild(c) // which asks the origin for the others
	case m.round == recoveryRounds:
		c.recovery = nil
		rp.fetchMissing(c)
	default:
		rp.owners.FindOwners(c.key, func(found owner.Found) {
			if c.recovery != m {
				return
			}
			m.peers = append(m.peers, rp.others(found)...)
			pause := env.Jitter(rp.rand, repairPause<<m.round)
			if m.round++; len(m.peers) > 0 {
				pause = 0
			}
			rp.recoveries.add(rp.after(pause), c.key)
		})
	}
}
