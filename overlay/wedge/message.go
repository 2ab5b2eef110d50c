package wedge

import (
	"bytes"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"tidings/internal/env"
	"tidings/overlay"
	"tidings/overlay/wedge/wedgepb"
)

// parse decodes a message and checks every bound that does not depend on the node's state, so that
// no other code has to.
func parse(body []byte) (*wedgepb.Message, error) {
	m := readBroadcasts(body)
	if m == nil {
		m = new(wedgepb.Message)
		if err := proto.Unmarshal(body, m); err != nil {
			return nil, fmt.Errorf("%w: %w", env.ErrFrame, err)
		}
	}
	if problem := checkMessage(m); problem != "" {
		return nil, fmt.Errorf("%w: wedge message: %s", env.ErrFrame, problem)
	}
	return m, nil
}

// checkMessage returns the bound that a message breaks, or an empty string.
func checkMessage(m *wedgepb.Message) string {
	switch b := m.Body.(type) {
	case *wedgepb.Message_Batch:
		return checkBatch(b.Batch)
	case *wedgepb.Message_Ack:
		if len(b.Ack.Refusals) > maxChanges {
			return "ack: too many answers"
		}
	case *wedgepb.Message_Digest, *wedgepb.Message_DigestReply:
	case *wedgepb.Message_Broadcasts:
		for _, d := range b.Broadcasts.Messages {
			if len(d.Message) > MaxBroadcast {
				return "broadcast: message"
			}
		}
	default:
		return "no body"
	}
	return ""
}

func checkBatch(b *wedgepb.Batch) string {
	switch {
	case len(b.Record) > overlay.MaxRecord:
		return "batch: record"
	case max(len(b.Entries), len(b.Ends), len(b.Leaves), len(b.Statuses)) > maxChanges:
		return "batch: too many"
	case b.Life == 0 || b.Number == 0:
		return "batch: no number"
	}
	for _, e := range b.Entries {
		if problem := checkEntry(e); problem != "" {
			return "entry: " + problem
		}
	}
	for _, t := range b.Statuses {
		if len(t.Ranks) > maxStandIns || t.Declined > t.Missing {
			return "status"
		}
	}
	return ""
}

func checkEntry(e *wedgepb.Entry) string {
	switch {
	case e.Depth < 1 || e.Depth > maxDepth:
		return "depth"
	case e.Ranks < 1 || uint64(e.First)+uint64(e.Ranks) > 1<<31:
		return "ranks"
	case len(e.StandIns) > maxStandIns:
		return "stand-ins"
	case e.Order == nil:
		return ""
	}
	o := e.Order
	interval := time.Duration(o.IntervalMs) * time.Millisecond
	switch {
	case o.N < 1 || o.N > 1<<30:
		return "n"
	case interval < minInterval || interval > maxInterval:
		return "interval"
	case o.DigitBits != 0 && (o.DigitBits != 1 && o.DigitBits != 4 || o.N != 1 || e.Ranks != 1 || e.First != 0):
		return "levels"
	case !o.HasPayload && len(o.Key)+len(o.Payload) > 0:
		return "payload without has_payload"
	case o.HasPayload && (len(o.Key) != len(overlay.ID{}) || shortKey(overlay.ID(o.Key)) != e.Key):
		return "key"
	case len(o.Payload) > MaxPayload || o.HasPayload && hashBytes(fnvOffset, o.Payload) != o.PayloadHash:
		return "payload"
	}
	return ""
}

// orderOf returns the order that an entry refers to; ok is false if the entry omits parts that this
// node lacks. The node's membership for the key is r, or nil.
func (w *Wedge) orderOf(e *wedgepb.Entry, r *membership) (o *order, ok bool) {
	if e.Order == nil {
		if r == nil || uint32(r.order.hash) != e.OrderHash {
			return nil, false
		}
		return r.order, true
	}
	m := e.Order
	next := order{
		term: Term{Epoch: m.Epoch, Seq: m.Seq}, n: m.N, digitBits: uint8(m.DigitBits),
		interval: time.Duration(m.IntervalMs) * time.Millisecond,
	}
	switch {
	case m.HasPayload:
		next.key, next.payload = overlay.ID(m.Key), m.Payload
	case r != nil && r.order.payloadHash == m.PayloadHash:
		next.key, next.payload = r.order.key, r.order.payload
	default:
		return nil, false
	}
	next.computeHashes()
	if r != nil && r.order.equal(&next) {
		return r.order, true
	}
	if r != nil && bytes.Equal(r.order.payload, next.payload) {
		next.payload = r.order.payload
		return w.cfg.OrderCache.intern(next, false), true
	}
	return w.cfg.OrderCache.intern(next, true), true
}
