package sim

import (
	"fmt"
	"time"

	"github.com/cespare/xxhash/v2"

	"tidings/internal/env"
)

// NetworkFaults are what the network does to frames. Each fault has a probability of its own from 0
// to 1, with a resolution of one in two million.
type NetworkFaults struct {
	Loss      float64       // the frame is lost
	Duplicate float64       // the frame arrives twice, the second time late
	Reorder   float64       // the frame arrives late, after frames that were sent later
	Late      time.Duration // the longest extra delay; zero: one second
}

func (f NetworkFaults) check() {
	for _, p := range []float64{f.Loss, f.Duplicate, f.Reorder} {
		if !(p >= 0 && p <= 1) {
			panic(fmt.Sprintf("sim: faults %+v: probabilities must be between 0 and 1", f))
		}
	}
	if f.Late < 0 {
		panic(fmt.Sprintf("sim: faults %+v: the extra delay must not be negative", f))
	}
}

// SetNetworkFaults sets the faults of frames that are sent from now on.
func (w *World) SetNetworkFaults(f NetworkFaults) {
	f.check()
	if w.config.NetworkFaults.Loss > heavyLoss {
		w.lossEndedAt = w.scriptLane.now
	}
	w.config.NetworkFaults = f
}

// Partition splits the network: hosts of different sides cannot reach each other. Hosts on no side
// form a side of their own. Frames in transit still arrive, and no host is told. A partition
// replaces the previous one.
func (w *World) Partition(sides ...[]*Host) {
	w.Heal()
	w.partitionSides = len(sides)
	for i, side := range sides {
		for _, h := range side {
			h.side = i + 1
		}
	}
}

// PartitionOneWay splits the network in one direction: frames of the hosts from are lost on their
// way to the hosts to. Frames in the other direction arrive on existing links; no link is opened
// between the two, because that takes frames both ways. It replaces the previous partition.
func (w *World) PartitionOneWay(from, to []*Host) {
	w.Partition(from, to)
	w.partitionSides = oneWay
}

// oneWay as the number of sides marks a partition in which the second side does not hear the first,
// and all other hosts hear each other.
const oneWay = -1

// Heal ends a partition.
func (w *World) Heal() {
	if w.partitioned() {
		w.healedAt = w.scriptLane.now
	}
	w.partitionSides = 0
	for _, h := range w.hosts {
		h.side = 0
	}
}

// partitioned reports whether there is a partition.
func (w *World) partitioned() bool { return w.partitionSides != 0 }

// cannotHear reports whether the partition keeps the other host's frames from the host.
func (h *Host) cannotHear(to *Host) bool {
	if h.world.partitionSides == oneWay {
		return h.side == 2 && to.side == 1
	}
	return h.side != to.side
}

// A frameInTransit is a frame that has been sent.
type frameInTransit struct {
	msg   []byte
	from  int32
	class env.Class
}

// hash is the frame's contribution to the trace hash.
func (t *frameInTransit) hash() uint64 {
	return xxhash.Sum64(t.msg) ^ mix64(uint64(t.from)<<8|uint64(t.class))
}

// queueFrame sends a frame once all lanes have reached its time. The peer is looked up here,
// because this part runs in parallel.
func (h *Host) queueFrame(to env.Peer, class env.Class, msg []byte) {
	e := crossLaneOp{host: h, kind: opSend, to: to, class: class, msg: msg}
	if e.peer = h.world.hostOf(&e.to); e.peer != nil {
		e.link = h.links[e.peer.index]
	}
	h.lane.submit(e)
}

// transmit puts a frame on the link to its peer. It draws the same random numbers for every frame
// that has a link, whatever the faults, so that a change of one probability affects only the frames
// it concerns.
func (h *Host) transmit(e *crossLaneOp) {
	w, now, class, msg := h.world, h.world.scriptLane.now, e.class, e.msg
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
	jitter, fate, lateness := randFloat(&h.linkRNG), h.linkRNG.Uint64(), randFloat(&h.linkRNG)

	f := &w.config.NetworkFaults
	const bits, mask = 21, 1<<21 - 1
	chance := func(i uint, p float64) bool { return float64(fate>>(i*bits)&mask) < p*(mask+1) }
	if peer.cannotHear(h) || chance(0, f.Loss) {
		h.stats.Lost++
		return
	}
	l.lastUsed = now
	// Jitter is mostly small: an eighth of the delay on average, at most half.
	at := max(now, l.ready) + l.delay + int64(jitter*jitter*jitter*float64(l.delay)/2)
	last := &l.lastArrival[from][class]
	at = max(at, *last)
	late := at + w.extraDelay(lateness)
	if chance(1, f.Reorder) {
		h.stats.Reordered++
		at = late
	} else {
		*last = at
	}
	peer.lane.schedule(at, peer, eventFrame, peer.lane.frames.Put(frameInTransit{msg, h.index, class}))
	if chance(2, f.Duplicate) {
		h.stats.Duplicated++
		peer.lane.schedule(late, peer, eventFrame, peer.lane.frames.Put(frameInTransit{msg, h.index, class}))
	}
}

// extraDelay turns a random number into a delay of at least a nanosecond.
func (w *World) extraDelay(lateness float64) int64 {
	most := w.config.NetworkFaults.Late
	if most == 0 {
		most = time.Second
	}
	return 1 + int64(lateness*float64(most))
}

// receive hands a frame to the host's node.
func (h *Host) receive(t *frameInTransit) {
	h.stats.Received[t.class].add(t.msg)
	from := h.world.hosts[t.from]
	if err := h.node.Receive(from.id, t.msg); err != nil {
		h.recordOffence(from)
	}
}
