package firehose

import (
	"time"

	"tidings/cobra/firehose/firehosepb"
	"tidings/internal/env"
	"tidings/overlay/owner"
)

// A passage is a report on its way between two nodes.
type transferID struct {
	peer    env.PeerID
	payload owner.Hash // of the whole
}

// going is the sender's side.
type outgoing struct {
	shard   int
	to      env.Peer
	payload []byte
	acked   int
	tries   int // since the last acknowledgement
	timeout time.Time
	done    func(answer)
}

// coming is the receiver's side.
type incoming struct {
	payload    []byte // as far as it came
	size       int
	lastPartAt time.Time // of the last part
}

const (
	// partSize fits a frame with room for what stands around it.
	partSize = 48 << 10
	// maxReport is the size of the largest report: an entry's body, and its evidence.
	maxReportSize = owner.MaxBody + 64<<10
	// maxPassages and maxPassing bound the reports under way in both directions, and
	// their bytes. Further ones are not begun; who sends tries again.
	// One peer's share of what comes is maxPeer.
	maxTransfers     = 4096
	maxTransferBytes = 64 << 20
	maxPeerBytes     = 8 << 20
	// partAgain is waited for an acknowledgement, so much longer after each try.
	partRetry    = time.Second
	maxPartTries = 6
	// comingFor is how long a part is waited for.
	incomingTimeout = time.Minute
)

// pass sends a report to a peer. done is called with what becomes of it: once.
func (f *Firehose) transfer(s *shard, to env.Peer, blob []byte, done func(answer)) {
	p := transferID{to.ID, owner.HashOf(blob)}
	if f.outgoing[p] != nil {
		return // it is on its way
	}
	if len(f.outgoing) >= maxTransfers || f.transferBytes+len(blob) > maxTransferBytes {
		done(answer{})
		return
	}
	f.transferBytes += len(blob)
	f.outgoing[p] = &outgoing{shard: s.number, to: to, payload: blob, done: done}
	f.sendPart(p, f.outgoing[p])
}

func (f *Firehose) sendPart(p transferID, g *outgoing) {
	end := min(g.acked+partSize, len(g.payload))
	f.send(g.to, env.Bulk, &firehosepb.Message{Body: &firehosepb.Message_Part{Part: &firehosepb.Part{
		Shard: uint32(g.shard), Report: p.payload[:], Size: uint32(len(g.payload)), Offset: uint32(g.acked), Bytes: g.payload[g.acked:end],
	}}})
	g.tries++
	wait := time.Duration(g.tries) * partRetry
	g.timeout = f.clock.Now().Add(wait)
	f.schedule(wait, task{kind: taskPartTimeout, peer: p.peer, entry: p.payload})
}

// urgePart sends a part again that was not acknowledged.
func (f *Firehose) partTimeout(p transferID, now time.Time) {
	g := f.outgoing[p]
	switch {
	case g == nil || now.Before(g.timeout):
	case g.tries >= maxPartTries:
		f.finishTransfer(p, g, answer{})
	default:
		f.sendPart(p, g)
	}
}

func (f *Firehose) finishTransfer(p transferID, g *outgoing, a answer) {
	delete(f.outgoing, p)
	f.transferBytes -= len(g.payload)
	g.done(a)
}

// onGot goes on with what was acknowledged.
func (f *Firehose) onPartAck(from env.PeerID, m *firehosepb.PartAck) {
	p := transferID{from, owner.Hash(m.Report)}
	g := f.outgoing[p]
	if g == nil || int(m.Received) > len(g.payload) {
		return
	}
	switch {
	case m.Refused:
		f.finishTransfer(p, g, answer{})
	case int(m.Received) == len(g.payload):
		f.finishTransfer(p, g, answer{accepted: true, idle: m.Idle})
	case int(m.Received) > g.acked:
		g.acked, g.tries = int(m.Received), 0
		f.sendPart(p, g)
	}
}

// onPart takes a part. What is whole is a report for an owner of the shard, or an entry
// that a filter has asked for.
func (f *Firehose) onPart(from env.PeerID, m *firehosepb.Part) {
	s := f.shards[m.Shard]
	p := transferID{from, owner.Hash(m.Report)}
	now := f.clock.Now()
	ack := &firehosepb.PartAck{Shard: m.Shard, Report: m.Report}
	defer func() {
		f.send(f.peer(from), env.Control, &firehosepb.Message{Body: &firehosepb.Message_PartAck{PartAck: ack}})
	}()
	if !s.owned && len(s.missing) == 0 {
		ack.Refused = true
		return
	}
	c := f.incoming[p]
	if c == nil {
		if m.Offset == 0 && int(m.Size) == len(m.Bytes) {
			f.completeTransfer(s, from, p.payload, m.Bytes, ack, now)
			return
		}
		if m.Offset > 0 || len(f.incoming) >= maxTransfers || f.transferBytes+int(m.Size) > maxTransferBytes || f.incomingBytes[from]+int(m.Size) > maxPeerBytes {
			return // Have is 0: it begins anew, later
		}
		c = &incoming{size: int(m.Size)}
		f.incoming[p] = c
		f.transferBytes += c.size
		f.incomingBytes[from] += c.size
	}
	if c.lastPartAt = now; int(m.Size) == c.size && int(m.Offset) == len(c.payload) && len(c.payload)+len(m.Bytes) <= c.size {
		c.payload = append(c.payload, m.Bytes...)
	}
	if ack.Received = uint32(len(c.payload)); len(c.payload) < c.size {
		return
	}
	f.dropIncoming(p, c)
	f.completeTransfer(s, from, p.payload, c.payload, ack, now)
}

// whole takes a report, and says so.
func (f *Firehose) completeTransfer(s *shard, from env.PeerID, hash owner.Hash, blob []byte, ack *firehosepb.PartAck, now time.Time) {
	if owner.HashOf(blob) != hash || !f.receiveReport(s, blob, from, now) {
		f.stats.Garbage++
		ack.Refused = true
		return
	}
	ack.Received, ack.Idle = uint32(len(blob)), f.idle(s, now)
}

func (f *Firehose) dropIncoming(p transferID, c *incoming) {
	delete(f.incoming, p)
	f.transferBytes -= c.size
	if f.incomingBytes[p.peer] -= c.size; f.incomingBytes[p.peer] == 0 {
		delete(f.incomingBytes, p.peer)
	}
}

// tidyPassages forgets what goes on no longer.
func (f *Firehose) dropStaleTransfers(now time.Time) {
	for p, c := range f.incoming {
		if now.Sub(c.lastPartAt) > incomingTimeout {
			f.dropIncoming(p, c)
		}
	}
}
