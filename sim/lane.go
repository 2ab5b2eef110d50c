package sim

import (
	"fmt"
	"time"

	"github.com/cespare/xxhash/v2"

	"tidings/internal/env"
	"tidings/internal/slab"
)

// A lane is a subset of a world's hosts, with a clock and an event queue of its own. Small worlds
// have one lane. Several lanes run in parallel for a window of Config.Lookahead, within which no
// frame can get from one host to another, so they do not affect each other. An operation that
// involves two hosts is deferred until all lanes have reached the end of the window; then all
// deferred operations are applied in the order of their times. Until then a lane touches only its
// own hosts.
//
// This is conservative synchronisation (Chandy and Misra, 1979) with a time window. Neither the
// number of lanes that run at once nor their speed changes the result.
type lane struct {
	world   *World
	now     int64
	queue   env.Calendar[event]
	events  uint64
	trace   uint64
	running *Host // host whose node is being called; nil: none

	frames      slab.Slab[frameInTransit]
	topicFrames slab.Slab[topicFrame]
	fetches     slab.Slab[fetch]
	callbacks   slab.Slab[func()]
	scripts     slab.Slab[func()]

	deferred     []crossLaneOp // operations that wait for the other lanes, in order of time
	deferredDone int           // how many of the deferred operations have been applied
}

// A crossLaneOp is an operation of a host that involves another host.
type crossLaneOp struct {
	at   int64
	host *Host
	kind crossLaneKind

	peer *Host // the other host; nil: it does not exist

	to    env.Peer // addressee of a frame
	link  *link    // to the peer, at the time of the operation; nil: none
	class env.Class
	msg   []byte
}

type crossLaneKind uint8

const (
	opSend        crossLaneKind = iota // send a frame
	opCutLink                          // cut the link to a misbehaving peer
	opUndelivered                      // a frame of the host did not reach its peer
)

// makeLanes creates the lanes of a world without hosts.
func (w *World) makeLanes(n int) {
	w.lanes = []*lane{w.scriptLane}
	if n == 1 {
		return
	}
	if w.config.Lookahead <= 0 {
		panic("sim: several lanes need Config.Lookahead")
	}
	w.lanes = make([]*lane, n)
	for i := range w.lanes {
		l := &lane{world: w}
		w.lanes[i] = l
		w.laneRuns = append(w.laneRuns, func() { l.run(w.windowEnd) })
	}
	if w.config.Parallel == nil {
		w.config.Parallel = sequentially
	}
}

// sequentially is the default of Config.Parallel: it runs the functions one after the other.
func sequentially(do []func()) (all, end func()) {
	all = func() {
		for _, f := range do {
			f()
		}
	}
	return all, func() {}
}

// setTime sets the time of all lanes.
func (w *World) setTime(now int64) {
	w.scriptLane.now = now
	for _, l := range w.lanes {
		l.now = now
	}
}

// runLanes runs all lanes until end, window by window. At one instant, scripts run before hosts.
func (w *World) runLanes(end time.Time) {
	all, done := w.config.Parallel(w.laneRuns)
	defer done()
	for {
		w.applyDeferred()
		var next time.Time
		for _, l := range w.lanes {
			next = env.Sooner(next, l.queue.Next())
		}
		script := w.scriptLane.queue.Next()
		first := env.Sooner(script, next)
		if first.IsZero() || first.After(end) {
			return
		}
		if first.Equal(script) {
			w.setTime(first.UnixNano())
			w.scriptLane.run(first)
			continue
		}
		w.windowEnd = env.Sooner(first.Add(w.config.Lookahead), env.Sooner(script, end.Add(1))).Add(-1)
		all()
	}
}

// applyDeferred applies the deferred operations of all lanes, the earliest first; at one instant,
// the host with the lower index goes first.
func (w *World) applyDeferred() {
	latest := w.scriptLane.now
	for {
		var from *lane
		for _, l := range w.lanes {
			latest = max(latest, l.now)
			if l.deferredDone < len(l.deferred) && (from == nil || l.deferred[l.deferredDone].before(&from.deferred[from.deferredDone])) {
				from = l
			}
		}
		if from == nil {
			break
		}
		e := &from.deferred[from.deferredDone]
		from.deferredDone++
		w.scriptLane.now = e.at
		e.run()
	}
	for _, l := range w.lanes {
		clear(l.deferred)
		l.deferred, l.deferredDone = l.deferred[:0], 0
	}
	w.setTime(latest)
}

// submit applies an operation at once if there is only one lane; otherwise it defers the operation.
func (l *lane) submit(e crossLaneOp) {
	if l == l.world.scriptLane {
		e.run()
		return
	}
	e.at = l.now
	l.deferred = append(l.deferred, e)
}

func (e *crossLaneOp) before(f *crossLaneOp) bool {
	return e.at < f.at || e.at == f.at && e.host.index < f.host.index
}

func (e *crossLaneOp) run() {
	switch e.kind {
	case opSend:
		e.host.transmit(e)
	case opCutLink:
		e.host.cutLink(e.peer)
	case opUndelivered:
		e.host.stats.Undelivered++
	}
}

// run handles all events up to a time.
func (l *lane) run(end time.Time) {
	var e event
	defer l.annotatePanic(&e)
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

// annotatePanic adds the seed, the time and the host to a panic.
func (l *lane) annotatePanic(e *event) {
	if r := recover(); r != nil {
		panic(fmt.Sprintf("sim: seed %d, %v, host %d, %v: %v",
			l.world.config.Seed, instant(l.now).Format(time.RFC3339Nano), e.host, e.kind, r))
	}
}

// schedule adds an event, now at the earliest; a nil host means the world itself.
func (l *lane) schedule(at int64, h *Host, k eventKind, item uint32) {
	e := event{host: -1, item: item, kind: k}
	if h != nil {
		e.host, e.life = h.index, h.life
	}
	l.queue.Add(instant(max(at, l.now)), e)
}

// dispatch handles one event. Payloads are removed from their slabs even if the event is void.
func (l *lane) dispatch(e *event) {
	l.events++
	if e.kind == eventScript {
		l.hashEvent(e, 0)
		l.scripts.Take(e.item)()
		return
	}
	h := l.world.hosts[e.host]
	if h.stall == nil {
		l.handle(e)
	} else if e.kind == eventResume {
		if e.life == h.life {
			h.resume()
		}
	} else if !h.stall.defers(h, e) {
		l.handle(e)
	}
}

// handle handles an event of a host that is not stalled.
func (l *lane) handle(e *event) {
	h := l.world.hosts[e.host]
	if e.kind == eventAlarm {
		h.handleAlarm(e)
		return
	}
	live := h.node != nil && h.life == e.life
	l.running = h
	payload := uint64(e.item)
	switch e.kind {
	case eventFrame:
		t := l.frames.Take(e.item)
		if !live || h.blocks(l.world.hosts[t.from]) {
			l.submit(crossLaneOp{host: l.world.hosts[t.from], kind: opUndelivered})
			live = false
		} else {
			payload = t.hash()
			h.receive(&t)
		}
	case eventFetched:
		f := l.fetches.Take(e.item)
		if live {
			a := l.world.config.Origin(instant(f.at), f.request)
			a.Latency = time.Duration(f.latency)
			if h.FilterAnswer != nil {
				a = h.FilterAnswer(f.request, a)
			}
			payload = mix64(uint64(f.handle)) ^ uint64(a.Status)<<32 ^ uint64(len(a.Body))
			h.deliverAnswer(f.handle, a)
		}
	case eventComputed:
		if done := l.callbacks.Take(e.item); live {
			done()
		}
	case eventDurable:
		if live {
			h.disk.sync()
		}
	case eventTopicFrame:
		t := l.topicFrames.Take(e.item)
		if payload = xxhash.Sum64(t.msg); live {
			h.receiveTopicFrame(&t)
		}
	case eventPeerDown:
		if live {
			h.node.PeerDown(l.world.hosts[e.item].id)
		}
	case eventPeerFound:
		if live {
			h.node.Found(l.world.hosts[e.item].Peer())
		}
	case eventReachable:
		if live {
			h.node.Reachable([]string{h.addr})
		}
	case eventCall:
		if do := l.scripts.Take(e.item); live {
			do()
		}
	case eventResume:
		live = false // nothing to do: the stall is over
	}
	if live {
		l.hashEvent(e, payload)
		h.run()
	}
	l.running = nil
}

// pending returns the number of events that are scheduled.
func (w *World) pending() int {
	n := w.scriptLane.queue.Len()
	for _, l := range w.lanes {
		if l != w.scriptLane {
			n += l.queue.Len()
		}
	}
	return n
}
