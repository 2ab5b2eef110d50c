package sim

import (
	"fmt"
	"time"

	"github.com/cespare/xxhash/v2"

	"tidings/internal/env"
)

// Faults are what the network does to frames, each with a probability of its
// own from 0 to 1, honoured to one part in two million.
type Faults struct {
	Loss      float64       // the frame vanishes
	Duplicate float64       // it arrives twice, the second time late
	Reorder   float64       // it arrives late, after frames sent later
	Late      time.Duration // the longest lateness; zero: one second
}

func (f Faults) check() {
	for _, p := range []float64{f.Loss, f.Duplicate, f.Reorder} {
		if !(p >= 0 && p <= 1) {
			panic(fmt.Sprintf("sim: faults %+v: a probability lies between 0 and 1", f))
		}
	}
	if f.Late < 0 {
		panic(fmt.Sprintf("sim: faults %+v: lateness cannot be negative", f))
	}
}

// SetFaults changes what the network does to frames sent from now on.
func (w *World) SetFaults(f Faults) {
	f.check()
	if w.config.Faults.Loss > heavyLoss {
		w.lossyAt = w.own.now
	}
	w.config.Faults = f
}

// Partition parts the network: hosts of different sides do not reach each
// other. Hosts that are on no side form one of their own. Frames under way
// arrive, and nobody is told. A partition replaces the one before it.
func (w *World) Partition(sides ...[]*Host) {
	w.Heal()
	w.sides = len(sides)
	for i, side := range sides {
		for _, h := range side {
			h.side = i + 1
		}
	}
}

// PartOneWay parts the network in one direction: frames of the hosts from vanish on
// their way to the hosts to, and those of to arrive, on the links that are there. None
// is opened between the two, for that takes a word each way. It replaces the partition
// before it.
func (w *World) PartOneWay(from, to []*Host) {
	w.Partition(from, to)
	w.sides = oneWay
}

// oneWay is the number of sides of a partition of which the first is not heard by the
// second, and all others hear each other.
const oneWay = -1

// Heal ends a partition.
func (w *World) Heal() {
	if w.parted() {
		w.partedAt = w.own.now
	}
	w.sides = 0
	for _, h := range w.hosts {
		h.side = 0
	}
}

// parted says whether there is a partition.
func (w *World) parted() bool { return w.sides != 0 }

// deaf says whether a host does not hear another.
func (h *Host) deaf(to *Host) bool {
	if h.world.sides == oneWay {
		return h.side == 2 && to.side == 1
	}
	return h.side != to.side
}

// transit is a frame under way.
type transit struct {
	msg   []byte
	from  int32
	class env.Class
}

// sum is the frame's part in the hash of the trace.
func (t *transit) sum() uint64 {
	return xxhash.Sum64(t.msg) ^ scatter(uint64(t.from)<<8|uint64(t.class))
}

// post has a frame sent when all lanes have come as far. Whom it is for is looked up here, where they
// go side by side.
func (h *Host) post(to env.Peer, class env.Class, msg []byte) {
	e := errand{host: h, kind: sending, to: to, class: class, msg: msg}
	if e.peer = h.world.find(&e.to); e.peer != nil {
		e.link = h.links[e.peer.index]
	}
	h.lane.ask(e)
}

// send puts a frame on the link to its peer. The dice are thrown alike for
// every frame that has a link, whatever the faults, so that another probability
// touches only the frames it concerns.
func (h *Host) send(e *errand) {
	w, now, class, msg := h.world, h.world.own.now, e.class, e.msg
	l := e.link
	if l == nil || l.idle(now) {
		if l = h.link(e.peer, &e.to); l == nil {
			h.stats.Undeliverable++
			return
		}
	}
	from := l.side(h)
	peer := l.ends[1-from]
	h.stats.Sent[class].add(msg)
	jitter, fate, lateness := throw(&h.linkDice), h.linkDice.Uint64(), throw(&h.linkDice)

	f := &w.config.Faults
	const bits, mask = 21, 1<<21 - 1
	chance := func(i uint, p float64) bool { return float64(fate>>(i*bits)&mask) < p*(mask+1) }
	if peer.deaf(h) || chance(0, f.Loss) {
		h.stats.Lost++
		return
	}
	l.used = now
	// Jitter is mostly small: an eighth of the way on average, at most half.
	at := max(now, l.ready) + l.delay + int64(jitter*jitter*jitter*float64(l.delay)/2)
	last := &l.last[from][class]
	at = max(at, *last)
	late := at + w.late(lateness)
	if chance(1, f.Reorder) {
		h.stats.Reordered++
		at = late
	} else {
		*last = at
	}
	peer.lane.push(at, peer, frame, peer.lane.frames.Put(transit{msg, h.index, class}))
	if chance(2, f.Duplicate) {
		h.stats.Repeated++
		peer.lane.push(late, peer, frame, peer.lane.frames.Put(transit{msg, h.index, class}))
	}
}

// late turns a throw of the dice into an extra delay of at least a nanosecond.
func (w *World) late(lateness float64) int64 {
	most := w.config.Faults.Late
	if most == 0 {
		most = time.Second
	}
	return 1 + int64(lateness*float64(most))
}

// receive hands a frame to the node of a host.
func (h *Host) receive(t *transit) {
	h.stats.Received[t.class].add(t.msg)
	from := h.world.hosts[t.from]
	if err := h.node.Receive(from.id, t.msg); err != nil {
		h.blame(from)
	}
}
