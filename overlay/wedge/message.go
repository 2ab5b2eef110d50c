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

const maxRecord = 1 << 10

// parse reads a message and checks every bound that does not depend on what the node
// knows, so that no other code has to.
func parse(body []byte) (*wedgepb.Message, error) {
	m := readDowns(body)
	if m == nil {
		m = new(wedgepb.Message)
		if err := proto.Unmarshal(body, m); err != nil {
			return nil, fmt.Errorf("%w: %w", env.ErrFrame, err)
		}
	}
	if what := breaks(m); what != "" {
		return nil, fmt.Errorf("%w: wedge message: %s", env.ErrFrame, what)
	}
	return m, nil
}

// breaks says which bound a message breaks, if any.
func breaks(m *wedgepb.Message) string {
	switch b := m.Body.(type) {
	case *wedgepb.Message_Batch:
		return breaksBatch(b.Batch)
	case *wedgepb.Message_Ack:
		if len(b.Ack.Answers) > maxItems {
			return "ack: too many answers"
		}
	case *wedgepb.Message_Digest, *wedgepb.Message_Agree:
	case *wedgepb.Message_Downs:
		for _, d := range b.Downs.Downs {
			if len(d.Payload) > MaxDown {
				return "down: payload"
			}
		}
	default:
		return "no body"
	}
	return ""
}

func breaksBatch(b *wedgepb.Batch) string {
	switch {
	case len(b.Record) > maxRecord:
		return "batch: record"
	case max(len(b.Entries), len(b.Ends), len(b.Parts), len(b.Tallies)) > maxItems:
		return "batch: too many"
	case b.Life == 0 || b.Number == 0:
		return "batch: no number"
	}
	for _, e := range b.Entries {
		if what := breaksEntry(e); what != "" {
			return "entry: " + what
		}
	}
	for _, t := range b.Tallies {
		if len(t.Ranks) > maxStandIns || t.Declined > t.Missing {
			return "tally"
		}
	}
	return ""
}

func breaksEntry(e *wedgepb.Entry) string {
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
	case o.Digit != 0 && (o.Digit != 1 && o.Digit != 4 || o.N != 1 || e.Ranks != 1 || e.First != 0):
		return "levels"
	case !o.Worded && len(o.Key)+len(o.Words) > 0:
		return "words and none"
	case o.Worded && (len(o.Key) != len(overlay.ID{}) || name(overlay.ID(o.Key)) != e.Key):
		return "key"
	case len(o.Words) > MaxWords || o.Worded && hashBytes(offset, o.Words) != o.WordsHash:
		return "words"
	}
	return ""
}

// orderOf returns the order that an entry names; ok is false if that cannot be known
// without what the sender has left out. r is what the node knows of the key, or nil.
func (w *Wedge) orderOf(e *wedgepb.Entry, r *record) (o *order, ok bool) {
	if e.Order == nil {
		if r == nil || uint32(r.order.hash) != e.Of {
			return nil, false
		}
		return r.order, true
	}
	m := e.Order
	next := order{
		term: Term{Epoch: m.Epoch, Seq: m.Seq}, n: m.N, digit: uint8(m.Digit),
		interval: time.Duration(m.IntervalMs) * time.Millisecond,
	}
	switch {
	case m.Worded:
		next.key, next.words = overlay.ID(m.Key), m.Words
	case r != nil && r.order.wordsHash == m.WordsHash:
		next.key, next.words = r.order.key, r.order.words
	default:
		return nil, false
	}
	next.seal()
	if r != nil && r.order.equal(&next) {
		return r.order, true
	}
	if r != nil && bytes.Equal(r.order.words, next.words) {
		next.words = r.order.words
		return w.cfg.Orders.share(next, false), true
	}
	return w.cfg.Orders.share(next, true), true
}
