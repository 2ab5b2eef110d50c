package feedtree

import (
	"slices"
	"time"

	"tidings/internal/env"
	"tidings/internal/plant"
	"tidings/overlay"
	"tidings/overlay/owner"
)

// A repair gets what a subscriber lacks: from its parents, then from owners and
// siblings, then, after some rounds, from the origin.
type repair struct {
	want          owner.Hash // the entry that shows the gap; zero: any sign of life
	step          step
	candidates    []env.Peer // whom to ask in this step
	round         int
	fetched       bool      // the origin was asked
	awaitingReply bool      // for an answer
	ownerAnswered bool      // an owner has answered: what it does not have, no owner held
	resumeAt      time.Time // when to go on, if not
}

type step uint8

const (
	askParents   step = iota
	askOwners         // and siblings: whom the root names
	waitForRound      // and, once, the origin
)

const (
	// repairPause is waited after a round that brought nothing, doubled each time
	// up to maxRepairPause.
	repairPause    = 2 * time.Second
	maxRepairPause = 2 * time.Minute
	// originRound is the round after which the origin is asked.
	originRound = 3
	// maxRounds is after how many rounds an entry is given up that nobody has:
	// one of a lineage that ended. About 15 minutes.
	maxRepairRounds = 12
)

// gap begins a repair, unless one is under way. want is the entry that shows that
// something is missing.
func (f *FeedTree) startRepair(c *channel, want owner.Hash) {
	if !c.subscribed || c.leader != nil || plant.BlindToGaps {
		return
	}
	if r := c.repair; r != nil {
		if want != (owner.Hash{}) && want != r.want {
			r.want = want
			f.scheduleRepair(c, 0) // news come again, and with them those who have the rest
		}
		return
	}
	f.stats.Gaps++
	c.repair = &repair{want: want}
	f.scheduleRepair(c, 0)
}

// soon goes on with a repair from the calendar: answers can come at once, and a
// repair must not climb its own stack.
func (f *FeedTree) scheduleRepair(c *channel, d time.Duration) {
	c.repair.resumeAt = f.clock.Now().Add(d)
	f.cal.Add(c.repair.resumeAt, task{kind: taskRepair, key: c.key})
}

// repairOn asks the next who may know.
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

// nextStep finds others to ask.
func (f *FeedTree) nextStep(c *channel) {
	r := c.repair
	switch r.step {
	case askParents:
		r.step = askOwners
		for _, p := range f.scribe.Above(c.key) {
			r.candidates = append(r.candidates, p.Peer)
		}
		f.scheduleRepair(c, 0)
	case askOwners:
		r.step, r.awaitingReply = waitForRound, true
		f.owners.FindOwners(c.key, func(found []*overlay.Contact) {
			if c.repair != r {
				return
			}
			r.awaitingReply = false
			for _, p := range found {
				if p.Peer.ID != f.signer.PeerID() {
					r.candidates = append(r.candidates, p.Peer)
				}
			}
			f.requestOwners(c) // perhaps nobody owns it any more; who does pays no attention
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

// fetchSoon has the origin asked within a polling interval: many who lack the same must not all ask at one time.
func (f *FeedTree) scheduleFetch(c *channel) {
	f.after(time.Duration(f.rand.Int64N(int64(f.cfg.PollInterval)+1)), task{kind: taskFetch, key: c.key})
}

// fetch asks for the origin's document, if the gap is still there, or if the log itself lacks something.
func (f *FeedTree) fetchOrigin(c *channel) {
	gap := c.repair != nil && c.repair.round >= originRound && !c.repair.ownerAnswered
	if c.alone {
		return // the node polls it anyway
	}
	if gap || c.needsOrigin {
		if c.needsOrigin = false; gap {
			c.repair.fetched = true
		}
		f.stats.Fetches++
		f.app.Fetch(c.key, c.url)
	}
}
