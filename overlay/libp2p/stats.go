package libp2p

import (
	"sync/atomic"
	"time"

	"tidings/internal/env"
)

// Stats counts a host's events since it was created.
type Stats struct {
	Connections int // peers connected now
	LinksOut    int // outgoing streams open now, one per peer and class
	LinksIn     int // incoming streams open now
	Gated       int // peers blocked now
	Reachable   int // addresses at which peers reached this node lately

	Control, Bulk ClassStats

	Dials         uint64 // attempts to open a stream
	DialFailures  uint64 // attempts to open a stream that failed for lack of a connection or a handshake
	Refusals      uint64 // handshakes that one side refused with a reason
	BadHandshakes uint64 // incoming handshakes that were invalid, or too slow
	Evicted       uint64 // connections of others closed to make room for newcomers
	BadFrames     uint64 // frames that were too large, or that the node rejected
	DialBacks     uint64 // times this node dialled a peer back
	DialBackFails uint64 // times a peer could not dial this node back

	Published   uint64 // frames published to topics
	Unpublished uint64 // frames not published, for lack of space
	Overheard   uint64 // frames of topics given to the node to validate
	Unjudged    uint64 // frames of topics that the node had no time to validate
}

// ClassStats counts the frames of a class.
type ClassStats struct {
	FramesIn, BytesIn   uint64 // frames received and given to the node, and their bytes
	FramesOut, BytesOut uint64 // frames written to a stream, and their bytes
	Slowed              uint64 // incoming frames delayed because the peer sends more than it may
	Paced               uint64 // pauses of outgoing links, before the peer would have to delay frames
	Drops               Drops
}

// Drops counts frames that were lost, by reason.
type Drops struct {
	QueueFull   uint64 // outgoing: the peer reads too slowly, and the oldest frame was dropped
	Unreachable uint64 // outgoing: no connection, or the connection broke
	Refused     uint64 // outgoing: the peer is of another network or version, or is blocked
	NoRoom      uint64 // outgoing: too many links, or the host is closing
	Inbox       uint64 // incoming: the node's inbox is full
}

// counters holds the fields of Stats that only grow.
type counters struct {
	classes [2]classCounters

	dials, dialFailures, refusals, badHandshakes atomic.Uint64
	evicted, badFrames, dialBacks, dialBackFails atomic.Uint64
	published, unpublished, overheard, unjudged  atomic.Uint64
}

type classCounters struct {
	framesIn, bytesIn, framesOut, bytesOut, slowed, paced atomic.Uint64
	queueFull, unreachable, refused, noRoom, inbox        atomic.Uint64
}

func (c *classCounters) stats() ClassStats {
	return ClassStats{
		FramesIn: c.framesIn.Load(), BytesIn: c.bytesIn.Load(),
		FramesOut: c.framesOut.Load(), BytesOut: c.bytesOut.Load(),
		Slowed: c.slowed.Load(), Paced: c.paced.Load(),
		Drops: Drops{
			QueueFull: c.queueFull.Load(), Unreachable: c.unreachable.Load(), Refused: c.refused.Load(),
			NoRoom: c.noRoom.Load(), Inbox: c.inbox.Load(),
		},
	}
}

// Stats returns the host's counters.
func (h *Host) Stats() Stats {
	out, in := h.links.open.Load(), h.inbound.len()
	return Stats{
		Connections: len(h.host.Network().Peers()),
		LinksOut:    int(out),
		LinksIn:     in,
		Gated:       h.reputations.countBlocked(time.Now()),
		Reachable:   len(h.reachability.addrs()),

		Control: h.count.classes[env.Control].stats(),
		Bulk:    h.count.classes[env.Bulk].stats(),

		Dials:         h.count.dials.Load(),
		DialFailures:  h.count.dialFailures.Load(),
		Refusals:      h.count.refusals.Load(),
		BadHandshakes: h.count.badHandshakes.Load(),
		Evicted:       h.count.evicted.Load(),
		BadFrames:     h.count.badFrames.Load(),
		DialBacks:     h.count.dialBacks.Load(),
		DialBackFails: h.count.dialBackFails.Load(),

		Published: h.count.published.Load(), Unpublished: h.count.unpublished.Load(),
		Overheard: h.count.overheard.Load(), Unjudged: h.count.unjudged.Load(),
	}
}

// Refusals returns the refusals of about the last ten minutes, the latest first.
func (h *Host) Refusals() []Refusal { return h.reputations.refusals(time.Now()) }
