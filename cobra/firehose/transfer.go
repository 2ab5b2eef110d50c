package firehose

import (
	"time"

	"tidings/cobra/firehose/firehosepb"
	"tidings/internal/env"
	"tidings/overlay/owner"
)

// transfers sends reports to other nodes in parts, of which each is acknowledged, and puts received parts together.
type transfers struct {
	*base
	outgoing      map[transferID]*outgoing
	incoming      map[transferID]*incoming
	bytes         int                // bytes of all transfers in both directions, at most maxTransferBytes
	incomingBytes map[env.PeerID]int // bytes of incoming transfers by peer, at most maxPeerBytes each
}

// A transferID identifies a report in transit between this node and a peer.
type transferID struct {
	peer   env.PeerID
	report owner.Hash // of the whole report
}

// outgoing is a report that this node sends.
type outgoing struct {
	shard   int
	to      env.Peer
	report  []byte
	acked   int       // bytes that the peer has acknowledged, from the beginning
	tries   int       // number of times that the next part was sent
	timeout time.Time // when it is sent again
	done    func(answer)
}

// incoming is a report that this node receives in parts.
type incoming struct {
	received   []byte
	size       int // of the whole report, in bytes
	lastPartAt time.Time
}

// An answer is what a node said of a report. The zero answer means that it refused the report or did not answer.
type answer struct {
	accepted bool
	idle     bool // no filter listens to the shard
}

const (
	// partSize fits into a frame with room for the other fields of the message.
	partSize = 48 << 10
	// maxReportSize is the maximum size of a report: an entry's body and the proof.
	maxReportSize = owner.MaxBody + 64<<10
	// maxTransfers bounds the reports in transit in each direction, and maxTransferBytes their bytes in both. At the bound
	// no transfer is started, and the sender tries again later. maxPeerBytes bounds the share of one sender.
	maxTransfers     = 4096
	maxTransferBytes = 64 << 20
	maxPeerBytes     = 8 << 20
	// partRetry is the time after which a part without an acknowledgement is sent again; it grows by as much with each try.
	partRetry    = time.Second
	maxPartTries = 6
	// incomingTimeout is how long a receiver waits for the next part.
	incomingTimeout = time.Minute
)

func newTransfers(b *base) *transfers {
	return &transfers{base: b, outgoing: map[transferID]*outgoing{}, incoming: map[transferID]*incoming{}, incomingBytes: map[env.PeerID]int{}}
}

// start sends a report to a peer, unless the same report is under way. It calls done once, with the answer.
func (t *transfers) start(shard int, to env.Peer, report []byte, done func(answer)) {
	id := transferID{to.ID, owner.HashOf(report)}
	if t.outgoing[id] != nil {
		return
	}
	if len(t.outgoing) >= maxTransfers || t.bytes+len(report) > maxTransferBytes {
		done(answer{})
		return
	}
	t.bytes += len(report)
	t.outgoing[id] = &outgoing{shard: shard, to: to, report: report, done: done}
	t.sendPart(id, t.outgoing[id])
}

func (t *transfers) sendPart(id transferID, o *outgoing) {
	end := min(o.acked+partSize, len(o.report))
	t.send(o.to, env.Bulk, &firehosepb.Message{Body: &firehosepb.Message_Part{Part: &firehosepb.Part{
		Shard: uint32(o.shard), Report: id.report[:], Size: uint32(len(o.report)), Offset: uint32(o.acked), Bytes: o.report[o.acked:end],
	}}})
	o.tries++
	wait := time.Duration(o.tries) * partRetry
	o.timeout = t.clock.Now().Add(wait)
	t.schedule(wait, task{kind: taskPartTimeout, peer: id.peer, entry: id.report})
}

// partTimeout sends a part again, or gives up the transfer.
func (t *transfers) partTimeout(id transferID, now time.Time) {
	o := t.outgoing[id]
	switch {
	case o == nil || now.Before(o.timeout):
	case o.tries >= maxPartTries:
		t.finish(id, o, answer{})
	default:
		t.sendPart(id, o)
	}
}

func (t *transfers) finish(id transferID, o *outgoing, a answer) {
	delete(t.outgoing, id)
	t.bytes -= len(o.report)
	o.done(a)
}

// onAck sends the next part, or finishes the transfer.
func (t *transfers) onAck(from env.PeerID, m *firehosepb.PartAck) {
	id := transferID{from, owner.Hash(m.Report)}
	o := t.outgoing[id]
	if o == nil || int(m.Received) > len(o.report) {
		return
	}
	switch {
	case m.Refused:
		t.finish(id, o, answer{})
	case int(m.Received) == len(o.report):
		t.finish(id, o, answer{accepted: true, idle: m.Idle})
	case int(m.Received) > o.acked:
		o.acked, o.tries = int(m.Received), 0
		t.sendPart(id, o)
	}
}

// receive adds a part to its report, and notes in ack how much of it was received. It returns the report once it is
// complete, otherwise nil. A transfer that is not accepted now is acknowledged with 0 bytes: its sender tries again.
func (t *transfers) receive(from env.PeerID, m *firehosepb.Part, ack *firehosepb.PartAck, now time.Time) []byte {
	id := transferID{from, owner.Hash(m.Report)}
	in := t.incoming[id]
	if in == nil {
		if m.Offset == 0 && int(m.Size) == len(m.Bytes) {
			return m.Bytes
		}
		if m.Offset > 0 || len(t.incoming) >= maxTransfers || t.bytes+int(m.Size) > maxTransferBytes || t.incomingBytes[from]+int(m.Size) > maxPeerBytes {
			return nil
		}
		in = &incoming{size: int(m.Size)}
		t.incoming[id] = in
		t.bytes += in.size
		t.incomingBytes[from] += in.size
	}
	if in.lastPartAt = now; int(m.Size) == in.size && int(m.Offset) == len(in.received) && len(in.received)+len(m.Bytes) <= in.size {
		in.received = append(in.received, m.Bytes...)
	}
	if ack.Received = uint32(len(in.received)); len(in.received) < in.size {
		return nil
	}
	t.drop(id, in)
	return in.received
}

func (t *transfers) drop(id transferID, in *incoming) {
	delete(t.incoming, id)
	t.bytes -= in.size
	if t.incomingBytes[id.peer] -= in.size; t.incomingBytes[id.peer] == 0 {
		delete(t.incomingBytes, id.peer)
	}
}

// dropStale drops incoming reports of which no part has come for a while.
func (t *transfers) dropStale(now time.Time) {
	for id, in := range t.incoming {
		if now.Sub(in.lastPartAt) > incomingTimeout {
			t.drop(id, in)
		}
	}
}
