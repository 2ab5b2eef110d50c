package table2

import (
	"sync"
	"time"

	"tidings/corona"
	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/owner"
	"tidings/overlay/wedge"
)

// A lane is what the members of a lane have together, and nobody else: members of other lanes
// run at the same time.
type lane struct {
	tally   Tally
	origins *origins // as those of the other lanes
	polls   []poll   // that were not measured yet, in the order of their times

	// What members remember together.
	records *overlay.Records
	briefs  *corona.Briefs
	epochs  *owner.Epochs
	orders  *wedge.Orders
}

// A poll is that of a channel by a member.
type poll struct {
	at              int64
	channel, member int32
}

func newLane(load *Workload, network string, verify wire.Verifier) *lane {
	return &lane{
		tally:   Tally{},
		origins: newOrigins(load),
		records: overlay.NewRecords(network, verify, 2*load.Members),
		briefs:  corona.NewBriefs(2 * len(load.Channels)),
		epochs:  owner.NewEpochs(maxSigned),
		orders:  wedge.NewOrders(2 * len(load.Channels)),
	}
}

// ask answers a poll of a member, and remembers it.
func (l *lane) ask(r *env.Request, member int, now int64) env.Answer {
	channel := channelOf(r.URL)
	l.polls = append(l.polls, poll{now, int32(channel), int32(member)})
	return l.origins.ask(channel, r, now)
}

// measured is after what time polls are measured, at most: what waits stays in the cache.
const measured = time.Second

// Run lets d of virtual time pass.
func (w *World) Run(d time.Duration) {
	for ; d > 0; d -= measured {
		w.World.Run(min(d, measured))
		w.measure()
	}
}

// measure measures the polls of all lanes, in the order of their times.
func (w *World) measure() {
	at := make([]int, len(w.lanes))
	for {
		first := -1
		for i, l := range w.lanes {
			if at[i] < len(l.polls) && (first < 0 || l.polls[at[i]].at < w.lanes[first].polls[at[first]].at) {
				first = i
			}
		}
		if first < 0 {
			break
		}
		w.Polls.note(w.lanes[first].polls[at[first]])
		at[first]++
	}
	for _, l := range w.lanes {
		l.polls = l.polls[:0]
	}
}

// Tally is what all members have sent so far.
func (w *World) Tally() Tally {
	sum := Tally{}
	for _, l := range w.lanes {
		for k, c := range l.tally {
			s := sum[k]
			sum[k] = Count{s.Frames + c.Frames, s.Bytes + c.Bytes}
		}
	}
	return sum
}

// beside has functions called side by side. Each has its goroutine until the end, for many turns: a new one's
// stack would grow anew in each.
func beside(do []func()) (all, end func()) {
	var others, turn sync.WaitGroup
	turns := make([]chan struct{}, len(do)-1)
	for i, f := range do[1:] {
		turns[i] = make(chan struct{}, 1)
		others.Go(func() {
			for range turns[i] {
				f()
				turn.Done()
			}
		})
	}
	all = func() {
		turn.Add(len(turns))
		for _, t := range turns {
			t <- struct{}{}
		}
		do[0]()
		turn.Wait()
	}
	end = func() {
		for _, t := range turns {
			close(t)
		}
		others.Wait()
	}
	return all, end
}
