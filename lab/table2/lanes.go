package table2

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"tidings/corona"
	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/owner"
	"tidings/overlay/wedge"
)

// A lane is the state that the members of one lane share. Members of other lanes run at the same
// time and have their own.
type lane struct {
	tally   Tally
	origins *origins // identical to those of the other lanes
	polls   []poll   // not measured yet, sorted by time

	// Caches that the members share.
	records  *overlay.Records
	payloads *corona.PayloadCache
	epochs   *owner.EpochCache
	orders   *wedge.OrderCache
}

// A poll is a poll of a channel by a member.
type poll struct {
	at              int64
	channel, member int32
}

func newLane(load *Workload, network wire.Network, verify wire.Verifier) *lane {
	return &lane{
		tally:    Tally{},
		origins:  newOrigins(load),
		records:  overlay.NewRecords(network, verify, 2*load.Members),
		payloads: corona.NewPayloadCache(2 * len(load.Channels)),
		epochs:   owner.NewEpochCache(maxRemembered),
		orders:   wedge.NewOrderCache(2 * len(load.Channels)),
	}
}

// answer answers a poll of a member and records it.
func (l *lane) answer(r *env.Request, member int, now int64) env.Answer {
	channel := channelOf(r.URL)
	l.polls = append(l.polls, poll{now, int32(channel), int32(member)})
	return l.origins.ask(channel, r, now)
}

// measureInterval is the longest time until polls are measured; a short one keeps them in the
// processor's cache.
const measureInterval = time.Second

// Run lets d of virtual time pass.
func (w *World) Run(d time.Duration) {
	for ; d > 0; d -= measureInterval {
		w.World.Run(min(d, measureInterval))
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

// Tally returns what all members have sent so far.
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

// inParallel implements sim's Config.Parallel. Each function has a goroutine of its own for all
// rounds, because the stack of a new goroutine would have to grow again each time. A round is
// shorter than the time to wake a sleeping thread, so a worker spins for a while before it sleeps.
// between is called before each round.
func inParallel(do []func(), between func()) (all, end func()) {
	var running sync.WaitGroup
	others := make([]*worker, len(do)-1)
	for i, f := range do[1:] {
		o := &worker{wake: make(chan struct{}, 1)}
		others[i] = o
		running.Go(func() { o.run(f) })
	}
	all = func() {
		between()
		for _, o := range others {
			o.begin()
		}
		do[0]()
		for _, o := range others {
			for o.done.Load() != o.turn.Load() {
				runtime.Gosched()
			}
		}
	}
	end = func() {
		for _, o := range others {
			o.over.Store(true)
			o.begin()
		}
		running.Wait()
	}
	return all, end
}

// A worker does its part of each round on its own goroutine.
type worker struct {
	turn, done atomic.Uint64 // rounds that have begun, and that are done
	over       atomic.Bool
	asleep     atomic.Bool // asleep, or about to be; the side that clears the flag must wake the worker
	wake       chan struct{}
}

// spinCount is how often a worker checks for the next round before it sleeps.
const spinCount = 1 << 12

func (o *worker) run(f func()) {
	for turn := uint64(1); ; turn++ {
		for look := 0; o.turn.Load() != turn; look++ {
			if look < spinCount {
				runtime.Gosched()
				continue
			}
			if o.asleep.Store(true); o.turn.Load() != turn || !o.asleep.CompareAndSwap(true, false) {
				<-o.wake
			}
			look = 0
		}
		if o.over.Load() {
			return
		}
		f()
		o.done.Store(turn)
	}
}

// begin begins a round; the previous one must be done.
func (o *worker) begin() {
	o.turn.Add(1)
	if o.asleep.CompareAndSwap(true, false) {
		o.wake <- struct{}{}
	}
}
