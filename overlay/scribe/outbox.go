package scribe

import (
	"time"

	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/scribe/scribepb"
)

// A batchEntry is a message about one group. Entries for the same peer are sent together, because a
// node that starts joins thousands of groups but has only some hundred neighbours.
type batchEntry struct {
	kind    entryKind
	weight  uint32 // of a Join
	edge    uint64 // id of the edge; not used by Reject and Redirect
	group   overlay.ID
	contact *overlay.Contact // of a routed Join: the joining node; of a Redirect: the new parent
}

type entryKind uint8

const (
	entryPrune entryKind = iota
	entryReject
	entryJoin       // a Join sent directly to a parent
	entryRoutedJoin // a Join on its way to the root, forwarded from hop to hop
	entryAccept
	entryRedirect
	entryKinds int = iota
)

// An outbox sends messages about edges. It holds the entries that wait for others to the same peer.
type outbox struct {
	*base
	// routeJoin routes this node's own Join, if the edge is still wanted.
	routeJoin func(group overlay.ID, edge uint64)

	byPeer        map[env.PeerID]*peerQueue
	order         []*peerQueue // in the order of their first entries
	flushAt       env.Moment   // when they are sent; never: there are none
	recentEntries int          // entries counted lately; maxImmediate of them expire in each batchDelay
	countedAt     env.Moment   // when recentEntries was last reduced
}

// A peerQueue holds the entries for one peer.
type peerQueue struct {
	to      env.Peer
	entries []batchEntry
}

// usualEntries is the initial capacity of a peerQueue: about the number of entries for a peer when
// a node starts.
const usualEntries = 8

// delay counts an entry, and returns how long it waits for others.
func (o *outbox) delay(now env.Moment) time.Duration {
	if past := now.Sub(o.countedAt) / batchDelay; past > 0 {
		o.recentEntries = max(0, o.recentEntries-int(min(past, maxImmediate))*maxImmediate)
		o.countedAt = now
	}
	if o.recentEntries++; o.recentEntries <= maxImmediate {
		return 0
	}
	o.recentEntries = min(o.recentEntries, 2*maxImmediate)
	return batchDelay
}

// enqueue sends an entry, together with others to the same peer.
func (o *outbox) enqueue(to env.Peer, e batchEntry) {
	q := o.byPeer[to.ID]
	if q == nil {
		q = &peerQueue{to: to, entries: make([]batchEntry, 0, usualEntries)}
		o.byPeer[to.ID] = q
		o.order = append(o.order, q)
	}
	q.entries = append(q.entries, e)
	at := o.clock.Now().Add(o.delay(o.now()))
	if o.flushAt == env.Never || env.MomentOf(at) < o.flushAt {
		o.flushAt = env.MomentOf(at)
		o.cal.Add(at, task{kind: taskOutbox})
	}
}

// flush sends all entries.
func (o *outbox) flush(now time.Time) {
	if o.flushAt == env.Never || env.MomentOf(now) < o.flushAt {
		return
	}
	order := o.order
	o.order, o.flushAt = nil, env.Never
	clear(o.byPeer)
	for _, q := range order {
		o.sendQueue(q)
	}
}

// sendQueue sends the entries for one peer. A single entry becomes a message of its own. The node's
// own routed Joins, if there are few, are routed by the overlay.
func (o *outbox) sendQueue(q *peerQueue) {
	var left [entryKinds]int // entries that are still to be added
	own := true
	for i := range q.entries {
		e := &q.entries[i]
		left[e.kind]++
		own = own && (e.kind != entryRoutedJoin || e.contact == o.node.Self())
	}
	alone := own && left[entryRoutedJoin] < minRoutedBatch
	b := o.newBatch(&left)
	for i := range q.entries {
		e := &q.entries[i]
		switch {
		case e.kind == entryRoutedJoin && alone:
			o.routeJoin(e.group, e.edge)
		case e.kind != entryRoutedJoin && len(q.entries) == 1:
			o.send(q.to, o.single(e))
		default:
			b.add(e)
			if b.entries == maxBatch || b.bytes > batchBytes {
				o.sendBatch(q.to, b)
				b = o.newBatch(&left)
			}
		}
	}
	if b.entries > 0 {
		o.sendBatch(q.to, b)
	}
}

// single returns the message for one entry.
func (o *outbox) single(e *batchEntry) *scribepb.Message {
	id := e.group[:]
	switch e.kind {
	case entryPrune:
		return &scribepb.Message{Body: &scribepb.Message_Prune{Prune: &scribepb.Prune{Group: id, Edge: e.edge}}}
	case entryReject:
		return &scribepb.Message{Body: &scribepb.Message_Reject{Reject: &scribepb.Reject{Groups: [][]byte{id}}}}
	case entryAccept:
		return &scribepb.Message{Body: &scribepb.Message_Accept{Accept: &scribepb.Accept{
			Group: id, Record: o.node.Self().Raw, Edge: e.edge,
		}}}
	case entryRedirect:
		return &scribepb.Message{Body: &scribepb.Message_Redirect{Redirect: &scribepb.Redirect{Group: id, Record: e.contact.Raw}}}
	}
	return &scribepb.Message{Body: &scribepb.Message_Join{Join: &scribepb.Join{
		Group: id, Record: o.node.Self().Raw, Weight: e.weight, Edge: e.edge,
	}}}
}

// A batch is a Batch that is being built.
type batch struct {
	*scribepb.Batch
	self        *overlay.Contact            // whose record is the first
	recordIndex map[*overlay.Contact]uint32 // indices of the other records
	remaining   *[entryKinds]int            // entries still to be added, here and in the following batches
	entries     int
	bytes       int // approximate size
}

func (o *outbox) newBatch(left *[entryKinds]int) *batch {
	self := o.node.Self()
	return &batch{Batch: &scribepb.Batch{Records: [][]byte{self.Raw}}, self: self, remaining: left, bytes: len(self.Raw)}
}

// indexOf returns the index of a record, adding the record if necessary.
func (b *batch) indexOf(c *overlay.Contact) uint32 {
	if c == b.self {
		return 0
	}
	i, ok := b.recordIndex[c]
	if !ok {
		if b.recordIndex == nil {
			b.recordIndex = map[*overlay.Contact]uint32{}
		}
		i = uint32(len(b.Records))
		b.recordIndex[c] = i
		b.Records = append(b.Records, c.Raw)
		b.bytes += len(c.Raw)
	}
	return i
}

func (b *batch) add(e *batchEntry) {
	b.entries++
	b.bytes += len(e.group) + 16
	switch e.kind {
	case entryPrune:
		b.column(&b.Prunes, e)
	case entryReject:
		b.column(&b.Rejects, e)
	case entryJoin:
		c := b.column(&b.Joins, e)
		c.Weights = append(c.Weights, e.weight)
	case entryRoutedJoin:
		c := b.column(&b.RoutedJoins, e)
		c.Weights, c.Records = append(c.Weights, e.weight), append(c.Records, b.indexOf(e.contact))
	case entryAccept:
		b.column(&b.Accepts, e)
	case entryRedirect:
		c := b.column(&b.Redirects, e)
		c.Records = append(c.Records, b.indexOf(e.contact))
	}
	b.remaining[e.kind]--
}

// column appends an entry's group, and its edge if the kind has one, to the entry's column, making
// the column if necessary.
func (b *batch) column(c **scribepb.Column, e *batchEntry) *scribepb.Column {
	edged := e.kind != entryReject && e.kind != entryRedirect
	if *c == nil {
		n := min(b.remaining[e.kind], maxBatch)
		*c = &scribepb.Column{Groups: make([]byte, 0, n*len(e.group))}
		if edged {
			(*c).Edges = make([]uint64, 0, n)
		}
	}
	(*c).Groups = append((*c).Groups, e.group[:]...)
	if edged {
		(*c).Edges = append((*c).Edges, e.edge)
	}
	return *c
}

func (o *outbox) sendBatch(to env.Peer, b *batch) {
	o.stats.Control++
	frame := wire.AppendFrame(nil, wire.Scribe, &scribepb.Message{Body: &scribepb.Message_Batch{Batch: b.Batch}})
	class := env.Control
	if len(frame) > maxControl {
		class = env.Bulk
	}
	o.net.Send(to, class, frame)
}

// sendPrune ends an edge. Edge 0 means any edge that exists at this time, so that Prune is sent at
// once.
func (o *outbox) sendPrune(to env.Peer, id overlay.ID, edge uint64) {
	if e := (batchEntry{kind: entryPrune, group: id, edge: edge}); edge != 0 {
		o.enqueue(to, e)
	} else {
		o.send(to, o.single(&e))
	}
}

func (o *outbox) sendReject(to env.Peer, ids ...overlay.ID) {
	m := &scribepb.Reject{}
	for i := range ids {
		m.Groups = append(m.Groups, ids[i][:])
	}
	o.send(to, &scribepb.Message{Body: &scribepb.Message_Reject{Reject: m}})
}
