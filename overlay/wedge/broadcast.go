package wedge

import (
	"bytes"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay/wedge/wedgepb"
)

// IsBroadcast says whether the body of a frame, as given to Receive, holds only broadcasts. Such a
// message changes neither memberships nor the calendar of a Wedge.
func IsBroadcast(body []byte) bool {
	field, kind, n := protowire.ConsumeTag(body)
	return n > 0 && field == broadcastsField && kind == protowire.BytesType && n+protowire.ConsumeFieldValue(field, kind, body[n:]) == len(body)
}

// Numbers of the fields of Message, Broadcasts and Broadcast that readBroadcasts reads.
const (
	broadcastsField = 5

	numberField   = 1
	messagesField = 2

	keyField     = 1
	messageField = 2
	catchUpField = 3
)

// readBroadcasts parses a message that holds only broadcasts, as most messages of a working network
// do. The result equals that of [proto.Unmarshal], in a quarter of the time, except that messages
// are slices of the body, and are empty where Unmarshal leaves nil. It returns nil for other and
// for malformed messages.
func readBroadcasts(body []byte) *wedgepb.Message {
	if !IsBroadcast(body) {
		return nil
	}
	var made struct { // usually there is one broadcast, and one allocation holds all of this
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

// broadcasts send the messages of leaders down the trees.
type broadcasts struct {
	*base
	links        *links
	table        *table
	waiting      []*link // links on which broadcasts wait for flush
	relayedBytes int     // bytes of the broadcasts kept as a relay
}

// broadcastState is what broadcasts keep of a link.
type broadcastState struct {
	broadcasts     []*wedgepb.Broadcast // queued
	broadcastBytes int
	numbers        recentNumbers // of recent frames
}

// forward sends a broadcast to all children.
func (bs *broadcasts) forward(r *membership, message []byte) {
	if len(r.edges) == 0 {
		return
	}
	d := &wedgepb.Broadcast{Key: shortKey(r.order.key), Message: message}
	for i := range r.edges {
		if l := bs.links.at(r.edges[i].link); l != nil {
			bs.queue(l, d)
			r.edges[i].flags &^= catchUpOwed
		}
	}
}

// forwardCatchUp sends a catch-up message to the children that came before this node had one.
func (bs *broadcasts) forwardCatchUp(r *membership, message []byte) {
	d := &wedgepb.Broadcast{Key: shortKey(r.order.key), Message: message, CatchUp: true}
	for i := range r.edges {
		if e := &r.edges[i]; e.link != noLink && e.flags&catchUpOwed != 0 {
			e.flags &^= catchUpOwed
			bs.queue(bs.links.at(e.link), d)
		}
	}
}

// sendCatchUp sends a new child the application's catch-up message, or the last broadcast that this
// node kept as a relay. If there is neither, since trees grow faster than broadcasts spread, the
// child gets the next catch-up message that this node receives.
func (bs *broadcasts) sendCatchUp(l *link, key uint64) {
	r := bs.table.byKey(key)
	if r == nil {
		return
	}
	e := r.edgeTo(l)
	if e == nil {
		return
	}
	message := bs.app.CatchUp(r.order.key)
	if message == nil && r.extra != nil {
		message = r.extra.lastBroadcast
	}
	if message == nil || len(message) > MaxBroadcast {
		e.flags |= catchUpOwed
		return
	}
	bs.queue(l, &wedgepb.Broadcast{Key: key, Message: message, CatchUp: true})
}

// queue queues a broadcast for a child. It is sent by finishChanges, together with others.
// If the queue is full, the broadcast is dropped and counted.
func (bs *broadcasts) queue(l *link, d *wedgepb.Broadcast) {
	if l.broadcastBytes+len(d.Message) > maxQueued {
		bs.stats.Lost++
		return
	}
	if len(l.broadcasts) == 0 {
		bs.waiting = append(bs.waiting, l)
	}
	l.broadcasts = append(l.broadcasts, d)
	l.broadcastBytes += len(d.Message)
}

// flush sends the broadcasts that wait on all links. Usually one broadcast goes to all
// children of a membership; then all links get the same frame, with the same number.
func (bs *broadcasts) flush() {
	var frame []byte
	var alone *wedgepb.Broadcast // the only broadcast in frame; nil: frame has several
	for _, l := range bs.waiting {
		for first := 0; first < len(l.broadcasts); {
			end, size := first, 0
			for end < len(l.broadcasts) && (end == first || size+len(l.broadcasts[end].Message)+16 <= maxBatch) {
				size += len(l.broadcasts[end].Message) + 16
				end++
			}
			if some := l.broadcasts[first:end]; len(some) > 1 || some[0] != alone {
				frame = wire.AppendFrame(nil, wire.Wedge, &wedgepb.Message{
					Body: &wedgepb.Message_Broadcasts{Broadcasts: &wedgepb.Broadcasts{Number: bs.nextNumber(), Messages: some}},
				})
				if alone = nil; len(some) == 1 {
					alone = some[0]
				}
			}
			bs.stats.Downs += uint64(end - first)
			bs.net.Send(l.peer, env.Bulk, frame)
			first = end
		}
		l.broadcasts, l.broadcastBytes = nil, 0
	}
	clear(bs.waiting)
	bs.waiting = bs.waiting[:0]
}

// onBroadcasts delivers the broadcasts that come from the parent of their key, and forwards them.
func (bs *broadcasts) onBroadcasts(l *link, m *wedgepb.Broadcasts) {
	if l == nil || !l.numbers.addNew(m.Number) {
		return
	}
	for _, d := range m.Messages {
		r := bs.table.byKey(d.Key)
		if r == nil || r.parent != l.number {
			continue
		}
		if d.CatchUp {
			bs.forwardCatchUp(r, d.Message)
		} else {
			bs.forward(r, d.Message)
		}
		bs.stats.Delivered++
		if r.serving().Len() == 0 {
			bs.keep(r, d.Message)
		}
		bs.app.Delivered(r.order.key, l.peer.ID, d.Message)
	}
}

// keep keeps the last broadcast that a relay has forwarded, if maxRelayed allows. Nil
// discards the kept one.
func (bs *broadcasts) keep(r *membership, message []byte) {
	if message == nil && r.extra == nil {
		return
	}
	x := r.ensureExtra()
	if bs.relayedBytes -= len(x.lastBroadcast); bs.relayedBytes+len(message) > maxRelayed {
		message = nil
	}
	x.lastBroadcast = bytes.Clone(message) // a copy, because the frame may be much larger
	bs.relayedBytes += len(message)
}

// deliverKept delivers the last broadcast that this node kept as a relay, when it begins to serve.
// The parent does not send it again, since the node was given the order with its payload before.
func (bs *broadcasts) deliverKept(r *membership) {
	if r.extra == nil || r.extra.lastBroadcast == nil || r.parent == noLink {
		return
	}
	message := r.extra.lastBroadcast
	bs.keep(r, nil)
	bs.app.Delivered(r.order.key, bs.links.at(r.parent).peer.ID, message)
}

// recentNumbers holds the last numbers of a peer's broadcast frames, to recognise duplicates.
type recentNumbers struct {
	recent []uint64 // a ring buffer
	next   int
}

// maxRecentNumbers bounds the numbers that are remembered. Few frames overtake another.
const maxRecentNumbers = 16

// addNew says whether a number is new, and remembers it.
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
