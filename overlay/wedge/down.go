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
func (w *Wedge) Down(key overlay.ID, payload []byte) error {
	r := w.named(name(key))
	switch {
	case r == nil || r.order.key != key || r.flags&leads == 0:
		return fmt.Errorf("send down %s: the node does not lead it", key.Short())
	case len(payload) > MaxDown:
		return fmt.Errorf("send down %s: %d bytes where %d are allowed", key.Short(), len(payload), MaxDown)
	}
	w.pass(r, payload)
	w.settle()
	return nil
}

// PassesOn says whether a message of the layer's, as Receive takes it, holds nothing but messages of leaders: it
// changes nobody's part in a wedge, and nothing that a Wedge plans.
func PassesOn(body []byte) bool {
	field, kind, n := protowire.ConsumeTag(body)
	return n > 0 && field == downsField && kind == protowire.BytesType && n+protowire.ConsumeFieldValue(field, kind, body[n:]) == len(body)
}

// The numbers of the fields of Message, Downs and Down that readDowns reads.
const (
	downsField = 5

	numberField = 1
	eachField   = 2

	keyField     = 1
	payloadField = 2
	lastField    = 3
)

// readDowns reads a message that holds nothing but messages of leaders, as most of a network at work are. What
// comes of it is what [proto.Unmarshal] would make of the body, in a quarter of the time, but for payloads: those are
// parts of the body, and empty where the library leaves nil. Nil: it is another message, or breaks the protocol.
func readDowns(body []byte) *wedgepb.Message {
	if !PassesOn(body) {
		return nil
	}
	var made struct { // mostly there is one message, and all of it fits one piece of memory
		message wedgepb.Message
		body    wedgepb.Message_Downs
		downs   wedgepb.Downs
		first   wedgepb.Down
		of      [1]*wedgepb.Down
	}
	made.message.Body, made.body.Downs = &made.body, &made.downs
	m := &made.downs
	m.Downs = made.of[:0]
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
		case field == eachField && kind == protowire.BytesType:
			var each []byte
			if each, n = protowire.ConsumeBytes(body); n < 0 {
				return nil
			}
			d := &made.first
			if len(m.Downs) > 0 {
				d = new(wedgepb.Down)
			}
			if !readDown(d, each) {
				return nil
			}
			m.Downs = append(m.Downs, d)
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

func readDown(d *wedgepb.Down, body []byte) bool {
	for len(body) > 0 {
		field, kind, n := protowire.ConsumeTag(body)
		if n < 0 {
			return false
		}
		body = body[n:]
		switch {
		case field == keyField && kind == protowire.Fixed64Type:
			d.Key, n = protowire.ConsumeFixed64(body)
		case field == payloadField && kind == protowire.BytesType:
			d.Payload, n = protowire.ConsumeBytes(body)
		case field == lastField && kind == protowire.VarintType:
			var last uint64
			last, n = protowire.ConsumeVarint(body)
			d.Last = protowire.DecodeBool(last)
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
func (w *Wedge) pass(r *record, payload []byte) {
	if len(r.edges) == 0 {
		return
	}
	d := &wedgepb.Down{Key: name(r.order.key), Payload: payload}
	for i := range r.edges {
		if l := w.numbered(r.edges[i].link); l != nil {
			w.queueDown(l, d)
			r.edges[i].flags &^= owed
		}
	}
}

// passOwed sends what this node was handed on to the children who came before it was.
func (w *Wedge) passOwed(r *record, payload []byte) {
	d := &wedgepb.Down{Key: name(r.order.key), Payload: payload, Last: true}
	for i := range r.edges {
		if e := &r.edges[i]; e.link != none && e.flags&owed != 0 {
			e.flags &^= owed
			w.queueDown(w.numbered(e.link), d)
		}
	}
}

// handOff tells a new child what it has missed, or, where this node does not know itself yet,
// as soon as it was told: trees grow faster than this comes.
func (w *Wedge) handOff(l *link, key uint64) {
	r := w.named(key)
	if r == nil {
		return
	}
	e := r.to(l)
	if e == nil {
		return
	}
	payload := w.app.Handoff(r.order.key)
	if payload == nil && r.extra != nil {
		payload = r.extra.passed
	}
	if payload == nil || len(payload) > MaxDown {
		e.flags |= owed
		return
	}
	w.queueDown(l, &wedgepb.Down{Key: key, Payload: payload, Last: true})
}

// queueDown sends a message to a child when what is under way is done (settle), with others that came of it.
func (w *Wedge) queueDown(l *link, d *wedgepb.Down) {
	if l.downBytes+len(d.Payload) > maxQueued {
		w.stats.Lost++
		return
	}
	if len(l.downs) == 0 {
		w.downs = append(w.downs, l)
	}
	l.downs = append(l.downs, d)
	l.downBytes += len(d.Payload)
}

// sendDowns sends the messages of leaders that wait on all links. Mostly one goes to all children of a record:
// in one frame for all of them, of one number.
func (w *Wedge) sendDowns() {
	var frame []byte
	var alone *wedgepb.Down // in frame
	for _, l := range w.downs {
		for first := 0; first < len(l.downs); {
			end, size := first, 0
			for end < len(l.downs) && (end == first || size+len(l.downs[end].Payload)+16 <= maxBatch) {
				size += len(l.downs[end].Payload) + 16
				end++
			}
			if some := l.downs[first:end]; len(some) > 1 || some[0] != alone {
				frame = wire.AppendFrame(nil, wire.Wedge, &wedgepb.Message{
					Body: &wedgepb.Message_Downs{Downs: &wedgepb.Downs{Number: w.nextNumber(), Downs: some}},
				})
				if alone = nil; len(some) == 1 {
					alone = some[0]
				}
			}
			w.stats.Downs += uint64(end - first)
			w.net.Send(l.peer, env.Bulk, frame)
			first = end
		}
		l.downs, l.downBytes = nil, 0
	}
	clear(w.downs)
	w.downs = w.downs[:0]
}

// onDowns hands up the messages of leaders that come from the right parent, and sends
// them on.
func (w *Wedge) onDowns(l *link, m *wedgepb.Downs) {
	if l == nil || !l.seen.first(m.Number) {
		return
	}
	for _, d := range m.Downs {
		r := w.named(d.Key)
		if r == nil || r.parent != l.number {
			continue
		}
		if d.Last {
			w.passOwed(r, d.Payload)
		} else {
			w.pass(r, d.Payload)
		}
		w.stats.Delivered++
		if r.serving().Len() == 0 {
			w.keep(r, d.Payload)
		}
		w.app.Delivered(r.order.key, l.peer.ID, d.Payload)
	}
}

// keep keeps what a relay has passed on last, if there is room; nil: nothing.
func (w *Wedge) keep(r *record, payload []byte) {
	if payload == nil && r.extra == nil {
		return
	}
	x := r.rare()
	if w.kept -= len(x.passed); w.kept+len(payload) > maxPassed {
		payload = nil
	}
	x.passed = bytes.Clone(payload) // of a frame that may be much larger
	w.kept += len(payload)
}

// recall brings a member that was a relay, and serves now, what it has passed on last. Nobody
// else would: it has had the words of the order, so that it is not new to its parent.
func (w *Wedge) recall(r *record) {
	if r.extra == nil || r.extra.passed == nil || r.parent == none {
		return
	}
	payload := r.extra.passed
	w.keep(r, nil)
	w.app.Delivered(r.order.key, w.numbered(r.parent).peer.ID, payload)
}

// seen remembers which of the last numbers of a peer have come, so that none is taken
// twice.
type seen struct {
	recent []uint64 // a ring
	next   int
}

// maxSeen is how many numbers are remembered: a frame is overtaken by few.
const maxSeen = 16

// first says whether a number has not come before, and notes it.
func (s *seen) first(number uint64) bool {
	if slices.Contains(s.recent, number) {
		return false
	}
	if len(s.recent) < maxSeen {
		s.recent = append(s.recent, number)
		return true
	}
	s.recent[s.next] = number
	s.next = (s.next + 1) % maxSeen
	return true
}
