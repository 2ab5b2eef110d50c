package tiers

import (
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"tidings/cobra/tiers/tierspb"
	"tidings/internal/env"
	"tidings/internal/wire"
)

const cursorPrefix = "tiers/in/" // then the sender's peer id

// An inbox is a link upstream: what a sender has sent and this node has not passed on yet.
type inbox struct {
	*base
	from     neighbour
	log      uint64 // of the sender; 0: it has never sent
	received uint64 // position of the last article in buffer, or before it
	done     uint64 // position up to which everything is passed on, durably
	plan     string // digest of the sender's
	since    uint64 // position after which it sends by that plan
	dropped  uint64 // articles that the sender has dropped, as it last said
	buffer   []*tierspb.Item
	bytes    int       // of buffer, and of what is being passed on
	handed   []*handed // to the application of a reflector, and not stored yet
	life     uint64    // counts the logs of the sender, so that what belongs to an earlier one is recognised
	acks     uint64
	ackDue   bool
	heardAt  time.Time
	waitsFor string // the node whose queue is full; empty: none
}

// handed is an article that the application has not stored yet, or stored before an earlier one.
type handed struct {
	position uint64
	bytes    int
	stored   bool
}

func (i *inbox) load() error {
	value, err := i.store.Get([]byte(cursorPrefix + string(i.from.Peer.ID)))
	var m tierspb.Cursor
	if err == nil {
		err = proto.Unmarshal(value, &m)
	}
	i.log, i.received, i.done, i.dropped = m.Log, m.Done, m.Done, m.Dropped
	return err
}

// onSend takes the articles that continue what was received, as far as there is room.
func (i *inbox) onSend(m *tierspb.Send, now time.Time) {
	i.heardAt, i.ackDue = now, true
	if m.Log != i.log { // the sender's store is new, or this node's
		i.log, i.received, i.done, i.buffer, i.bytes = m.Log, m.Acked, m.Acked, nil, 0
		i.handed = nil
		i.life++
		i.since = 0
	}
	i.received, i.done = max(i.received, m.Acked), max(i.done, m.Acked)
	if m.Since >= i.since { // otherwise a later frame has overtaken this one
		i.plan, i.since = m.Plan, m.Since
	}
	i.dropped = max(i.dropped, m.Dropped)
	previous := m.Previous
	for _, item := range m.Items {
		if item.Position <= previous {
			i.stats.Garbage++
			return
		}
		switch {
		case item.Position <= i.received:
			i.stats.Repeated++
		case previous > i.received || i.bytes+len(item.Article) > i.cfg.Buffer:
			return // a frame before this one was lost, or the sender has no credit
		default:
			i.buffer = append(i.buffer, item)
			i.bytes += len(item.Article)
			i.received = item.Position
			i.stats.Received++
			i.stats.Bytes += uint64(len(item.Article))
		}
		previous = item.Position
	}
}

// take removes the first article of the buffer. Its bytes count until passed is called.
func (i *inbox) take() *tierspb.Item {
	item := i.buffer[0]
	i.buffer = slices.Delete(i.buffer, 0, 1)
	return item
}

// cursor returns the record which says that everything up to a position is passed on.
func (i *inbox) cursor(position uint64) env.Op {
	return env.Op{
		Key:   []byte(cursorPrefix + string(i.from.Peer.ID)),
		Value: wire.Encode(&tierspb.Cursor{Log: i.log, Done: position, Dropped: i.dropped}),
	}
}

// passed notes that articles of so many bytes, up to a position, are passed on. life is that of the time when they were
// taken.
func (i *inbox) passed(position uint64, bytes int, life uint64) {
	if life == i.life {
		i.done = max(i.done, position)
		i.bytes -= bytes
		i.ackDue = true
	}
	i.wake()
}

// acknowledge answers the sender, if there is something to say.
func (i *inbox) acknowledge() {
	if !i.ackDue || i.log == 0 {
		return
	}
	i.ackDue = false
	i.acks++
	i.send(i.from.Peer, env.Control, &tierspb.Message{Body: &tierspb.Message_Ack{Ack: &tierspb.Ack{
		Log: i.log, Session: i.session, Number: i.acks, Received: i.received, Done: i.done,
		Room: uint32(max(0, i.cfg.Buffer-i.bytes)), WaitsFor: i.waitsFor, Plan: i.plans.plan.Digest, Settled: i.isSettled,
	}}})
}

// waitFor names the node that this node waits for.
func (i *inbox) waitFor(name string) {
	if i.waitsFor != name {
		i.waitsFor, i.ackDue = name, true
	}
}
