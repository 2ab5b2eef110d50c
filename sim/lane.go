package sim

import (
	"fmt"
	"time"

	"github.com/cespare/xxhash/v2"

	"tidings/internal/env"
	"tidings/internal/slab"
)

// A lane is a part of a world's hosts, with their time and their events. In small worlds
// there is one. Lanes of a large one go side by side for a stride of time, in which no frame
// gets from one host to another: what hosts of one lane do then is nothing to those of
// another. What they want of each other are errands, which are done when all lanes have come
// as far, in the order of their times; a lane touches nothing but its own hosts meanwhile.
// This is conservative synchronisation (Chandy and Misra, 1979) by a window: neither how many
// lanes go at once, nor how soon each is through, makes another world.
type lane struct {
	world  *World
	now    int64
	queue  env.Calendar[event]
	events uint64
	trace  uint64
	inside *Host // whose node is being called

	frames   slab.Slab[transit]
	whispers slab.Slab[whisper]
	fetches  slab.Slab[fetch]
	dones    slab.Slab[func()]
	scripts  slab.Slab[func()]

	errands []errand // that wait for the other lanes, in the order of their times
	done    int      // of the errands that are being done: how many are
}

// An errand is what a host has to do with others.
type errand struct {
	at   int64
	host *Host
	kind errandKind

	peer *Host // that it is about; nil: there is no such host

	to    env.Peer // of a frame
	link  *link    // to the peer, as it was then; nil: there was none
	class env.Class
	msg   []byte
}

type errandKind uint8

const (
	sending errandKind = iota // a frame
	cutting                   // the link to who broke the protocol
	unheard                   // a frame of the host came to nobody
)

// split makes the lanes of a world without hosts.
func (w *World) split(n int) {
	w.lanes = []*lane{w.own}
	if n == 1 {
		return
	}
	if w.config.Stride <= 0 {
		panic("sim: several lanes need a stride")
	}
	w.lanes = make([]*lane, n)
	for i := range w.lanes {
		l := &lane{world: w}
		w.lanes[i] = l
		w.runs = append(w.runs, func() { l.run(w.until) })
	}
	if w.config.Beside == nil {
		w.config.Beside = inTurn
	}
}

// inTurn is Config.Beside of who has no goroutines to give.
func inTurn(do []func()) (all, end func()) {
	all = func() {
		for _, f := range do {
			f()
		}
	}
	return all, func() {}
}

// reach says what time it is in all lanes.
func (w *World) reach(now int64) {
	w.own.now = now
	for _, l := range w.lanes {
		l.now = now
	}
}

// abreast lets the lanes go side by side until end, one stride after the other. Of one
// instant, scripts come before hosts.
func (w *World) abreast(end time.Time) {
	all, done := w.config.Beside(w.runs)
	defer done()
	for {
		w.settle()
		var next time.Time
		for _, l := range w.lanes {
			next = env.Sooner(next, l.queue.Next())
		}
		script := w.own.queue.Next()
		first := env.Sooner(script, next)
		if first.IsZero() || first.After(end) {
			return
		}
		if first.Equal(script) {
			w.reach(first.UnixNano())
			w.own.run(first)
			continue
		}
		w.until = env.Sooner(first.Add(w.config.Stride), env.Sooner(script, end.Add(1))).Add(-1)
		all()
	}
}

// settle does the errands of all lanes: the earliest first, and of one instant those of the
// host that was there first.
func (w *World) settle() {
	latest := w.own.now
	for {
		var from *lane
		for _, l := range w.lanes {
			latest = max(latest, l.now)
			if l.done < len(l.errands) && (from == nil || l.errands[l.done].before(&from.errands[from.done])) {
				from = l
			}
		}
		if from == nil {
			break
		}
		e := &from.errands[from.done]
		from.done++
		w.own.now = e.at
		e.run()
	}
	for _, l := range w.lanes {
		clear(l.errands)
		l.errands, l.done = l.errands[:0], 0
	}
	w.reach(latest)
}

// ask has an errand done, at once if nobody is to be waited for.
func (l *lane) ask(e errand) {
	if l == l.world.own {
		e.run()
		return
	}
	e.at = l.now
	l.errands = append(l.errands, e)
}

func (e *errand) before(f *errand) bool {
	return e.at < f.at || e.at == f.at && e.host.index < f.host.index
}

func (e *errand) run() {
	switch e.kind {
	case sending:
		e.host.send(e)
	case cutting:
		e.host.cut(e.peer)
	case unheard:
		e.host.stats.Unheard++
	}
}

// run lets all events happen up to a time.
func (l *lane) run(end time.Time) {
	var e event
	defer l.explain(&e)
	for {
		var at time.Time
		var due bool
		if e, at, due = l.queue.Pop(end); !due {
			return
		}
		l.now = at.UnixNano()
		l.dispatch(&e)
	}
}

// explain adds to a panic where in which world it happened.
func (l *lane) explain(e *event) {
	if r := recover(); r != nil {
		panic(fmt.Sprintf("sim: seed %d, %v, host %d, %v: %v",
			l.world.config.Seed, instant(l.now).Format(time.RFC3339Nano), e.host, e.kind, r))
	}
}

// push makes an event, of a time that has not passed; a nil host is the world itself.
func (l *lane) push(at int64, h *Host, k kind, item uint32) {
	e := event{host: -1, item: item, kind: k}
	if h != nil {
		e.host, e.life = h.index, h.life
	}
	l.queue.Add(instant(max(at, l.now)), e)
}

// dispatch lets one event happen. Payloads leave their slabs even when the
// event is void.
func (l *lane) dispatch(e *event) {
	l.events++
	if e.kind == turn {
		l.fold(e, 0)
		l.scripts.Take(e.item)()
		return
	}
	h := l.world.hosts[e.host]
	if h.stall == nil {
		l.handle(e)
	} else if e.kind == rouse {
		if e.life == h.life {
			h.goOn()
		}
	} else if !h.stall.delay(h, e) {
		l.handle(e)
	}
}

// handle lets an event happen to a host that can handle it.
func (l *lane) handle(e *event) {
	h := l.world.hosts[e.host]
	if e.kind == alarm {
		h.alarmed(e)
		return
	}
	live := h.node != nil && h.life == e.life
	l.inside = h
	payload := uint64(e.item)
	switch e.kind {
	case frame:
		t := l.frames.Take(e.item)
		if !live || h.shuns(l.world.hosts[t.from]) {
			l.ask(errand{host: l.world.hosts[t.from], kind: unheard})
			live = false
		} else {
			payload = t.sum()
			h.receive(&t)
		}
	case fetched:
		f := l.fetches.Take(e.item)
		if live {
			a := l.world.config.Origin(instant(f.at), f.request)
			payload = scatter(uint64(f.handle)) ^ uint64(a.Status)<<32 ^ uint64(len(a.Body))
			h.answered(f.handle, a)
		}
	case computed:
		if done := l.dones.Take(e.item); live {
			done()
		}
	case durable:
		if live {
			h.disk.sync()
		}
	case gossip:
		t := l.whispers.Take(e.item)
		if payload = xxhash.Sum64(t.msg); live {
			h.overhear(&t)
		}
	case down:
		if live {
			h.node.PeerDown(l.world.hosts[e.item].id)
		}
	case found:
		if live {
			h.node.Found(l.world.hosts[e.item].Peer())
		}
	case reachable:
		if live {
			h.node.Reachable([]string{h.addr})
		}
	case asked:
		if do := l.scripts.Take(e.item); live {
			do()
		}
	case rouse:
		live = false // the stall is over
	}
	if live {
		l.fold(e, payload)
		h.run()
	}
	l.inside = nil
}

// pending is how many events are to come.
func (w *World) pending() int {
	n := w.own.queue.Len()
	for _, l := range w.lanes {
		if l != w.own {
			n += l.queue.Len()
		}
	}
	return n
}
