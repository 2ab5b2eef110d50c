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
	want    owner.Hash // the entry that shows the gap; zero: any sign of life
	step    step
	ask     []env.Peer // whom to ask in this step
	round   int
	fetched bool      // the origin was asked
	waiting bool      // for an answer
	heard   bool      // an owner has answered: what it does not have, no owner held
	at      time.Time // when to go on, if not
}

type step uint8

const (
	askParents step = iota
	askOwners       // and siblings: whom the root names
	rest            // and, once, the origin
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
	maxRounds = 12
)

// gap begins a repair, unless one is under way. want is the entry that shows that
// something is missing.
func (f *FeedTree) gap(c *channel, want owner.Hash) {
	if !c.subscribed || c.lead != nil || plant.BlindToGaps {
		return
	}
	if r := c.repair; r != nil {
		if want != (owner.Hash{}) && want != r.want {
			r.want = want
			f.soon(c, 0) // news come again, and with them those who have the rest
		}
		return
	}
	f.stats.Gaps++
	c.repair = &repair{want: want}
	f.soon(c, 0)
}

// soon goes on with a repair from the calendar: answers can come at once, and a
// repair must not climb its own stack.
func (f *FeedTree) soon(c *channel, d time.Duration) {
	c.repair.at = f.clock.Now().Add(d)
	f.cal.Add(c.repair.at, task{kind: taskRepair, key: c.key})
}

// repairOn asks the next who may know.
func (f *FeedTree) repairOn(c *channel) {
	r := c.repair
	if r.waiting {
		return
	}
	if len(r.ask) == 0 {
		f.nextStep(c)
		return
	}
	to := r.ask[0]
	r.ask = r.ask[1:]
	r.waiting = true
	before := f.head(c.key)
	f.owners.Pull(to, c.key, func(ok bool) {
		if c.repair != r {
			return
		}
		r.waiting = false
		v, _ := f.owners.View(c.key)
		if ok && v.Epoch != nil && slices.Contains(v.Epoch.Owners, to.ID) {
			r.heard = true
			f.heardOf(c)
		}
		switch {
		case r.want != owner.Hash{} && f.owners.Has(c.key, r.want),
			r.want == owner.Hash{} && ok && v.Epoch != nil && (r.step == rest || f.head(c.key) != before):
			c.repair, c.confirmed = nil, f.clock.Now()
			f.heardOf(c)
			f.stats.Filled++
			if r.want != (owner.Hash{}) {
				f.passOn(c)
			}
		default:
			f.soon(c, 0)
		}
	})
}

// nextStep finds others to ask.
func (f *FeedTree) nextStep(c *channel) {
	r := c.repair
	switch r.step {
	case askParents:
		r.step = askOwners
		for _, p := range f.scribe.Parents(c.key) {
			r.ask = append(r.ask, p.Peer)
		}
		f.soon(c, 0)
	case askOwners:
		r.step, r.waiting = rest, true
		f.owners.FindOwners(c.key, func(found []*overlay.Contact) {
			if c.repair != r {
				return
			}
			r.waiting = false
			for _, p := range found {
				if p.Peer.ID != f.signer.PeerID() {
					r.ask = append(r.ask, p.Peer)
				}
			}
			f.want(c) // perhaps nobody owns it any more; who does pays no attention
			f.soon(c, 0)
		})
	case rest:
		r.step = askParents
		r.round++
		switch pause := f.spread(min(repairPause<<min(r.round, 8), maxRepairPause)); {
		case r.round >= maxRounds && (r.heard || r.fetched):
			c.repair, c.confirmed = nil, f.clock.Now()
		case r.round == originRound && !r.heard:
			f.fetchSoon(c)
			f.soon(c, pause)
		default:
			f.soon(c, pause)
		}
	}
}

// fetchSoon has the origin asked within a polling interval: many who lack the same must not all ask at one time.
func (f *FeedTree) fetchSoon(c *channel) {
	f.after(time.Duration(f.rand.Int64N(int64(f.cfg.PollInterval)+1)), task{kind: taskFetch, key: c.key})
}

// fetch asks for the origin's document, if the gap is still there, or if the log itself lacks something.
func (f *FeedTree) fetch(c *channel) {
	gap := c.repair != nil && c.repair.round >= originRound && !c.repair.heard
	if c.alone {
		return // the node polls it anyway
	}
	if gap || c.lacking {
		if c.lacking = false; gap {
			c.repair.fetched = true
		}
		f.stats.Fetches++
		f.app.Fetch(c.key, c.url)
	}
}
