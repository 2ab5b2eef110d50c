package scribe

import (
	"slices"
	"time"

	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/scribe/scribepb"
)

// multicasts send messages to children, each until it is acknowledged.
type multicasts struct {
	*base
	// isChild reports whether the peer of a link is still a child in a group.
	isChild func(id overlay.ID, l *link) bool
}

// A transfer holds the messages in transit on a link.
type transfer struct {
	inFlight      []outgoing // not acknowledged, the oldest first
	queue         []outgoing // waiting for the window
	queuedBytes   int        // bytes of the queue
	resendPlanned bool       // a check for missing acknowledgements is planned
	acks          []uint64   // ids to be acknowledged to the peer
}

// ensureTransfer returns the transfer of a link, making one if there is none.
func (l *link) ensureTransfer() *transfer {
	if l.transfer == nil {
		l.transfer = &transfer{}
	}
	return l.transfer
}

// dropIdleTransfer removes a transfer that is empty.
func (l *link) dropIdleTransfer() {
	if d := l.transfer; d != nil && len(d.inFlight)+len(d.queue)+len(d.acks) == 0 && !d.resendPlanned {
		l.transfer = nil
	}
}

// An outgoing is a Multicast on its way to a child.
type outgoing struct {
	group overlay.ID
	id    uint64
	frame []byte
	at    time.Time
	tries int
}

func multicastFrame(id []byte, msg uint64, payload []byte) []byte {
	return wire.AppendFrame(nil, wire.Scribe, &scribepb.Message{Body: &scribepb.Message_Multicast{Multicast: &scribepb.Multicast{
		Group: id, Id: msg, Payload: payload,
	}}})
}

// enqueue sends a message to a child, or queues it if window messages are unacknowledged.
func (mc *multicasts) enqueue(l *link, id overlay.ID, msg uint64, frame []byte) {
	d, m := l.ensureTransfer(), outgoing{group: id, id: msg, frame: frame}
	if len(d.inFlight) >= window {
		d.queue = append(d.queue, m)
		if d.queuedBytes += len(frame); len(d.queue) > maxQueue || d.queuedBytes > maxQueued {
			mc.thinQueue(d)
		}
		return
	}
	mc.transmit(l, m)
}

// thinQueue reduces the queue of a slow child to the last message of each group. That message shows
// the child that others are missing, and it pulls them. If that is not enough, the oldest messages
// are dropped, too.
func (mc *multicasts) thinQueue(d *transfer) {
	last := map[overlay.ID]int{}
	for i := range d.queue {
		last[d.queue[i].group] = i
	}
	before, i := len(d.queue), -1
	d.queuedBytes = 0
	d.queue = slices.DeleteFunc(d.queue, func(m outgoing) bool {
		i++
		if last[m.group] == i {
			d.queuedBytes += len(m.frame)
			return false
		}
		return true
	})
	for len(d.queue) > maxQueue || d.queuedBytes > maxQueued {
		d.queuedBytes -= len(d.queue[0].frame)
		d.queue = slices.Delete(d.queue, 0, 1)
	}
	mc.stats.Lost += uint64(before - len(d.queue))
}

func (mc *multicasts) transmit(l *link, m outgoing) {
	m.at = mc.clock.Now()
	l.transfer.inFlight = append(l.transfer.inFlight, m)
	mc.stats.Sent++
	mc.net.Send(l.contact.Peer, env.Bulk, m.frame)
	mc.planResend(l)
}

// ackTimeout is how long a Multicast may stay unacknowledged.
func (mc *multicasts) ackTimeout(l *link, tries int) time.Duration {
	return (mc.node.RTO(l.contact.Peer.ID) + 2*ackDelay) << min(tries, 3)
}

func (mc *multicasts) planResend(l *link) {
	d := l.transfer
	if d.resendPlanned || len(d.inFlight) == 0 {
		return
	}
	d.resendPlanned = true
	first := d.inFlight[0]
	mc.cal.Add(first.at.Add(mc.ackTimeout(l, first.tries)), task{kind: taskResend, number: uint32(l.number)})
}

// resend repeats the Multicasts that were not acknowledged in time.
func (mc *multicasts) resend(l *link, now time.Time) {
	d := l.transfer
	if d == nil {
		return // the peer was reported dead meanwhile
	}
	d.resendPlanned = false
	var late []outgoing
	d.inFlight = slices.DeleteFunc(d.inFlight, func(m outgoing) bool {
		over := !now.Before(m.at.Add(mc.ackTimeout(l, m.tries)))
		if over {
			late = append(late, m)
		}
		return over
	})
	for _, m := range late {
		if !mc.isChild(m.group, l) {
			continue
		}
		if m.tries++; m.tries > maxResends {
			mc.stats.Lost++
			continue
		}
		if m.tries == 2 {
			mc.node.Suspect(l.contact.Peer.ID)
		}
		mc.stats.Resent++
		mc.transmit(l, m)
	}
	mc.refill(l)
	mc.planResend(l)
	l.dropIdleTransfer()
}

// refill sends queued messages while the window allows.
func (mc *multicasts) refill(l *link) {
	for d := l.transfer; len(d.queue) > 0 && len(d.inFlight) < window; {
		m := d.queue[0]
		d.queue = slices.Delete(d.queue, 0, 1)
		d.queuedBytes -= len(m.frame)
		mc.transmit(l, m)
	}
}

func (mc *multicasts) onAck(l *link, m *scribepb.Ack) {
	if l == nil || l.transfer == nil {
		return
	}
	l.transfer.inFlight = slices.DeleteFunc(l.transfer.inFlight, func(d outgoing) bool { return slices.Contains(m.Ids, d.id) })
	mc.refill(l)
	l.dropIdleTransfer()
}

// sendAcks acknowledges what was received on a link.
func (mc *multicasts) sendAcks(l *link) {
	d := l.transfer
	if d == nil {
		return
	}
	for part := range slices.Chunk(d.acks, maxAcks) {
		mc.send(l.contact.Peer, &scribepb.Message{Body: &scribepb.Message_Ack{Ack: &scribepb.Ack{Ids: part}}})
	}
	d.acks = nil
	l.dropIdleTransfer()
}
