package feedtree

import (
	"slices"
	"time"

	"tidings/internal/env"
	"tidings/internal/plant"
	"tidings/overlay/owner"
)

// A repair gets the entries that a subscriber lacks: from its parents, then from owners and siblings, and after
// some rounds from the origin.
type repair struct {
	want          owner.Hash // the entry that showed the gap; zero: unknown
	step          step
	candidates    []env.Peer // still to be asked in this step
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
	// repairPause is the pause after a round without success. It is doubled each time up to maxRepairPause.
	repairPause    = 2 * time.Second
	maxRepairPause = 2 * time.Minute
	// originRound is the round after which the origin is asked.
	originRound = 3
	// maxRepairRounds is the number of rounds, about 15 minutes, after which the repair gives up on an entry that
	// no node has, for instance one of a branch that has ended.
	maxRepairRounds = 12
)

// startRepair starts a repair, unless one is in progress. want is the entry that shows the gap, or zero.
func (f *FeedTree) startRepair(c *channel, want owner.Hash) {
	if !c.subscribed || c.leader != nil || plant.BlindToGaps {
		return
	}
	if r := c.repair; r != nil {
		if want != (owner.Hash{}) && want != r.want {
			r.want = want
			f.scheduleRepair(c, 0) // nodes that have the new entry have the earlier ones, too
		}
		return
	}
	f.stats.Gaps++
	c.repair = &repair{want: want}
	f.scheduleRepair(c, 0)
}

// scheduleRepair continues a repair by the calendar. Answers may arrive within the call, and a repair must not
// recurse.
func (f *FeedTree) scheduleRepair(c *channel, d time.Duration) {
	c.repair.resumeAt = f.clock.Now().Add(d)
	f.cal.Add(c.repair.resumeAt, task{kind: taskRepair, key: c.key})
}

// continueRepair asks the next candidate. The repair ends when the wanted entry is here. If it is unknown, the repair
// ends with any new entry or, when owners and siblings are asked, with any answer.
func (f *FeedTree) continueRepair(c *channel) {
	r := c.repair
	if r.awaitingReply {
		return
	}
	if len(r.candidates) == 0 {
		f.nextStep(c)
		return
	}
	to := r.candidates[0]
	r.candidates = r.candidates[1:]
	r.awaitingReply = true
	before := f.logHead(c.key)
	f.owners.Pull(to, c.key, func(ok bool) {
		if c.repair != r {
			return
		}
		r.awaitingReply = false
		v, _ := f.owners.View(c.key)
		if ok && v.Epoch != nil && slices.Contains(v.Epoch.Owners, to.ID) {
			r.ownerAnswered = true
			f.markHeard(c)
		}
		switch {
		case r.want != owner.Hash{} && f.owners.Has(c.key, r.want),
			r.want == owner.Hash{} && ok && v.Epoch != nil && (r.step == waitForRound || f.logHead(c.key) != before):
			c.repair, c.confirmed = nil, f.clock.Now()
			f.markHeard(c)
			f.stats.Filled++
			if r.want != (owner.Hash{}) {
				f.announceRepaired(c)
			}
		default:
			f.scheduleRepair(c, 0)
		}
	})
}

// nextStep finds the candidates of the next step.
func (f *FeedTree) nextStep(c *channel) {
	r := c.repair
	switch r.step {
	case askParents:
		r.step = askOwners
		for _, p := range f.scribe.Parents(c.key) {
			r.candidates = append(r.candidates, p.Peer)
		}
		f.scheduleRepair(c, 0)
	case askOwners:
		r.step, r.awaitingReply = waitForRound, true
		f.owners.FindOwners(c.key, func(found owner.Found) {
			if c.repair != r {
				return
			}
			r.awaitingReply = false
			for _, p := range found.Peers() {
				if p.Peer.ID != f.signer.PeerID() {
					r.candidates = append(r.candidates, p.Peer)
				}
			}
			f.requestOwners(c) // perhaps the feed has no owners any more; existing ones ignore this
			f.scheduleRepair(c, 0)
		})
	case waitForRound:
		r.step = askParents
		r.round++
		switch pause := f.spread(min(repairPause<<min(r.round, 8), maxRepairPause)); {
		case r.round >= maxRepairRounds && (r.ownerAnswered || r.fetched):
			c.repair, c.confirmed = nil, f.clock.Now()
		case r.round == originRound && !r.ownerAnswered:
			f.scheduleFetch(c)
			f.scheduleRepair(c, pause)
		default:
			f.scheduleRepair(c, pause)
		}
	}
}

// scheduleFetch asks the origin at a random time within a polling interval, because many nodes may lack the same
// items.
func (f *FeedTree) scheduleFetch(c *channel) {
	f.after(time.Duration(f.rand.Int64N(int64(f.cfg.PollInterval)+1)), task{kind: taskFetch, key: c.key})
}

// fetchOrigin requests the origin's document, if the gap is still there or the log itself lacks something.
func (f *FeedTree) fetchOrigin(c *channel) {
	gap := c.repair != nil && c.repair.round >= originRound && !c.repair.ownerAnswered
	if c.alone {
		return // the node polls the feed anyway
	}
	if gap || c.needsOrigin {
		if c.needsOrigin = false; gap {
			c.repair.fetched = true
		}
		f.stats.Fetches++
		f.app.Fetch(c.key, c.url)
	}
}
