package wedge

import (
	"bytes"
	"fmt"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/wedge/wedgepb"
)

// Down sends a message of at most MaxDown bytes to all who have a part in the wedge of a
// key that this node leads: those who serve, and those who only pass it on. Nobody says
// whether it comes; who gets another parent meanwhile may miss it. It must not be changed
// afterwards.
func (w *Wedge) Broadcast(key overlay.ID, message []byte) error {
	r := w.byKey(shortKey(key))
	switch {
	case r == nil || r.order.key != key || r.flags&leads == 0:
		return fmt.Errorf("send down %s: the node does not lead it", key.Short())
	case len(message) > MaxBroadcast:
		return fmt.Errorf("send down %s: %d bytes where %d are allowed", key.Short(), len(message), MaxBroadcast)
	}
	w.forward(r, message)
	w.finishChanges()
	return nil
}

// PassesOn says whether a message of the layer's, as Receive takes it, holds nothing but messages of leaders: it
// changes nobody's part in a wedge, and nothing that a Wedge plans.
func IsBroadcast(body []byte) bool {
	field, kind, n := protowire.ConsumeTag(body)
	return n > 0 && field == broadcastsField && kind == protowire.BytesType && n+protowire.ConsumeFieldValue(field, kind, body[n:]) == len(body)
}

// The numbers of the fields of Message, Downs and Down that readDowns reads.
const (
	broadcastsField = 5

	numberField   = 1
	messagesField = 2

	keyField     = 1
	messageField = 2
	catchUpField = 3
)

// readDowns reads a message that holds nothing but messages of leaders, as most of a network at work are. What
// comes of it is what [proto.Unmarshal] would make of the body, in a quarter of the time, but for payloads: those are
// parts of the body, and empty where the library leaves nil. Nil: it is another message, or breaks the protocol.
func readBroadcasts(body []byte) *wedgepb.Message {
	if !IsBroadcast(body) {
		return nil
	}
	var made struct { // mostly there is one message, and all of it fits one piece of memory
		message wedgepb.Message
		body    wedgepb.Message_Broadcasts
		downs   wedgepb.Broadcasts
		first   wedgepb.Broadcast
		of      [1]*wedgepb.Broadcast
	}
	made.message.Body, made.body.Broadcasts = &made.body, &made.downs
	m := &made.downs
	m.Messages = made.of[:0]
	_, _, n := protowire.ConsumeTag(body)
	body, _ = protowire.ConsumeBytes(body[n:])
	for len(body) > 0 {
		field, kind, n := protowire.ConsumeTag(body)
		if n < 0 {
			return nil
		}
		body = body[n:]
		switch {
		case field == numberField && kind == protowire.VarintType:
			m.Number, n = protowire.ConsumeVarint(body)
		case field == messagesField && kind == protowire.BytesType:
			var each []byte
			if each, n = protowire.ConsumeBytes(body); n < 0 {
				return nil
			}
			d := &made.first
			if len(m.Messages) > 0 {
				d = new(wedgepb.Broadcast)
			}
			if !readBroadcast(d, each) {
				return nil
			}
			m.Messages = append(m.Messages, d)
		default:
			return nil
		}
		if n < 0 {
			return nil
		}
		body = body[n:]
	}
	return &made.message
}

func readBroadcast(d *wedgepb.Broadcast, body []byte) bool {
	for len(body) > 0 {
		field, kind, n := protowire.ConsumeTag(body)
		if n < 0 {
			return false
		}
		body = body[n:]
		switch {
		case field == keyField && kind == protowire.Fixed64Type:
			d.Key, n = protowire.ConsumeFixed64(body)
		case field == messageField && kind == protowire.BytesType:
			d.Message, n = protowire.ConsumeBytes(body)
		case field == catchUpField && kind == protowire.VarintType:
			var last uint64
			last, n = protowire.ConsumeVarint(body)
			d.CatchUp = protowire.DecodeBool(last)
		default:
			return false
		}
		if n < 0 {
			return false
		}
		body = body[n:]
	}
	return true
}

// pass sends a message on to all children.
func (w *Wedge) forward(r *membership, message []byte) {
	if len(r.edges) == 0 {
		return
	}
	d := &wedgepb.Broadcast{Key: shortKey(r.order.key), Message: message}
	for i := range r.edges {
		if l := w.linkAt(r.edges[i].link); l != nil {
			w.queueBroadcast(l, d)
			r.edges[i].flags &^= catchUpOwed
		}
	}
}

// passOwed sends what this node was handed on to the children who came before it was.
func (w *Wedge) forwardCatchUp(r *membership, message []byte) {
	d := &wedgepb.Broadcast{Key: shortKey(r.order.key), Message: message, CatchUp: true}
	for i := range r.edges {
		if e := &r.edges[i]; e.link != noLink && e.flags&catchUpOwed != 0 {
			e.flags &^= catchUpOwed
			w.queueBroadcast(w.linkAt(e.link), d)
		}
	}
}

// handOff tells a new child what it has missed, or, where this node does not know itself yet,
// as soon as it was told: trees grow faster than this comes.
func (w *Wedge) sendCatchUp(l *link, key uint64) {
	r := w.byKey(key)
	if r == nil {
		return
	}
	e := r.edgeTo(l)
	if e == nil {
		return
	}
	message := w.app.CatchUp(r.order.key)
	if message == nil && r.extra != nil {
		message = r.extra.lastBroadcast
	}
	if message == nil || len(message) > MaxBroadcast {
		e.flags |= catchUpOwed
		return
	}
	w.queueBroadcast(l, &wedgepb.Broadcast{Key: key, Message: message, CatchUp: true})
}

// queueDown sends a message to a child when what is under way is done (settle), with others that came of it.
func (w *Wedge) queueBroadcast(l *link, d *wedgepb.Broadcast) {
	if l.broadcastBytes+len(d.Message) > maxQueued {
		w.stats.Lost++
		return
	}
	if len(l.broadcasts) == 0 {
		w.broadcastLinks = append(w.broadcastLinks, l)
	}
	l.broadcasts = append(l.broadcasts, d)
	l.broadcastBytes += len(d.Message)
}

// sendDowns sends the messages of leaders that wait on all links. Mostly one goes to all children of a record:
// in one frame for all of them, of one number.
func (w *Wedge) sendBroadcasts() {
	var frame []byte
	var alone *wedgepb.Broadcast // in frame
	for _, l := range w.broadcastLinks {
		for first := 0; first < len(l.broadcasts); {
			end, size := first, 0
			for end < len(l.broadcasts) && (end == first || size+len(l.broadcasts[end].Message)+16 <= maxBatch) {
				size += len(l.broadcasts[end].Message) + 16
				end++
			}
			if some := l.broadcasts[first:end]; len(some) > 1 || some[0] != alone {
				frame = wire.AppendFrame(nil, wire.Wedge, &wedgepb.Message{
					Body: &wedgepb.Message_Broadcasts{Broadcasts: &wedgepb.Broadcasts{Number: w.nextNumber(), Messages: some}},
				})
				if alone = nil; len(some) == 1 {
					alone = some[0]
				}
			}
			w.stats.Downs += uint64(end - first)
			w.net.Send(l.peer, env.Bulk, frame)
			first = end
		}
		l.broadcasts, l.broadcastBytes = nil, 0
	}
	clear(w.broadcastLinks)
	w.broadcastLinks = w.broadcastLinks[:0]
}

// onDowns hands up the messages of leaders that come from the right parent, and sends
// them on.
func (w *Wedge) onBroadcasts(l *link, m *wedgepb.Broadcasts) {
	if l == nil || !l.numbers.addNew(m.Number) {
		return
	}
	for _, d := range m.Messages {
		r := w.byKey(d.Key)
		if r == nil || r.parent != l.number {
			continue
		}
		if d.CatchUp {
			w.forwardCatchUp(r, d.Message)
		} else {
			w.forward(r, d.Message)
		}
		w.stats.Delivered++
		if r.serving().Len() == 0 {
			w.keepBroadcast(r, d.Message)
		}
		w.app.Delivered(r.order.key, l.peer.ID, d.Message)
	}
}

// keep keeps what a relay has passed on last, if there is room; nil: nothing.
func (w *Wedge) keepBroadcast(r *membership, message []byte) {
	if message == nil && r.extra == nil {
		return
	}
	x := r.ensureExtra()
	if w.relayedBytes -= len(x.lastBroadcast); w.relayedBytes+len(message) > maxRelayed {
		message = nil
	}
	x.lastBroadcast = bytes.Clone(message) // of a frame that may be much larger
	w.relayedBytes += len(message)
}

// recall brings a member that was a relay, and serves now, what it has passed on last. Nobody
// else would: it has had the words of the order, so that it is not new to its parent.
func (w *Wedge) deliverKept(r *membership) {
	if r.extra == nil || r.extra.lastBroadcast == nil || r.parent == noLink {
		return
	}
	message := r.extra.lastBroadcast
	w.keepBroadcast(r, nil)
	w.app.Delivered(r.order.key, w.linkAt(r.parent).peer.ID, message)
}

// seen remembers which of the last numbers of a peer have come, so that none is taken
// twice.
type recentNumbers struct {
	recent []uint64 // a ring
	next   int
}

// maxSeen is how many numbers are remembered: a frame is overtaken by few.
const maxRecentNumbers = 16

// first says whether a number has not come before, and notes it.
func (s *recentNumbers) addNew(number uint64) bool {
	if slices.Contains(s.recent, number) {
		return false
	}
	if len(s.recent) < maxRecentNumbers {
		s.recent = append(s.recent, number)
		return true
	}
	s.recent[s.next] = number
	s.next = (s.next + 1) % maxRecentNumbers
	return true
}
