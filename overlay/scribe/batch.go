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

// An outbox holds the entries that have not been sent.
type outbox struct {
	byPeer        map[env.PeerID]*peerQueue
	order         []*peerQueue // in the order of their first entries
	flushAt       moment       // when they are sent; never: there are none
	recentEntries int          // entries counted lately; maxImmediate of them expire in each batchDelay
	countedAt     moment       // when recentEntries was last reduced
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
func (o *outbox) delay(now moment) time.Duration {
	if past := now.sub(o.countedAt) / batchDelay; past > 0 {
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
func (s *Scribe) enqueue(to env.Peer, e batchEntry) {
	o := &s.outbox
	q := o.byPeer[to.ID]
	if q == nil {
		q = &peerQueue{to: to, entries: make([]batchEntry, 0, usualEntries)}
		o.byPeer[to.ID] = q
		o.order = append(o.order, q)
	}
	q.entries = append(q.entries, e)
	at := s.clock.Now().Add(o.delay(s.now()))
	if o.flushAt == never || momentOf(at) < o.flushAt {
		o.flushAt = momentOf(at)
		s.cal.Add(at, task{kind: taskOutbox})
	}
}

// sendOutbox sends all entries.
func (s *Scribe) sendOutbox(now time.Time) {
	o := &s.outbox
	if o.flushAt == never || momentOf(now) < o.flushAt {
		return
	}
	order := o.order
	o.order, o.flushAt = nil, never
	clear(o.byPeer)
	for _, q := range order {
		s.sendQueue(q)
	}
}

// sendQueue sends the entries for one peer. A single entry becomes a message of its own. The node's
// own routed Joins, if there are few, are routed by the overlay.
func (s *Scribe) sendQueue(q *peerQueue) {
	var left [entryKinds]int // entries that are still to be added
	own := true
	for i := range q.entries {
		e := &q.entries[i]
		left[e.kind]++
		own = own && (e.kind != entryRoutedJoin || e.contact == s.node.Self())
	}
	alone := own && left[entryRoutedJoin] < minRoutedBatch
	b := s.newBatch(&left)
	for i := range q.entries {
		e := &q.entries[i]
		switch {
		case e.kind == entryRoutedJoin && alone:
			if g := s.groups.Get(e.group); g != nil && g.searching() && g.search.edge == e.edge {
				s.routeJoin(g)
			}
		case e.kind != entryRoutedJoin && len(q.entries) == 1:
			s.send(q.to, s.single(e))
		default:
			b.add(e)
			if b.entries == maxBatch || b.bytes > batchBytes {
				s.sendBatch(q.to, b)
				b = s.newBatch(&left)
			}
		}
	}
	if b.entries > 0 {
		s.sendBatch(q.to, b)
	}
}

// single returns the message for one entry.
func (s *Scribe) single(e *batchEntry) *scribepb.Message {
	id := e.group[:]
	switch e.kind {
	case entryPrune:
		return &scribepb.Message{Body: &scribepb.Message_Prune{Prune: &scribepb.Prune{Group: id, Edge: e.edge}}}
	case entryReject:
		return &scribepb.Message{Body: &scribepb.Message_Reject{Reject: &scribepb.Reject{Groups: [][]byte{id}}}}
	case entryAccept:
		return &scribepb.Message{Body: &scribepb.Message_Accept{Accept: &scribepb.Accept{
			Group: id, Record: s.node.Self().Raw, Edge: e.edge,
		}}}
	case entryRedirect:
		return &scribepb.Message{Body: &scribepb.Message_Redirect{Redirect: &scribepb.Redirect{Group: id, Record: e.contact.Raw}}}
	}
	return &scribepb.Message{Body: &scribepb.Message_Join{Join: &scribepb.Join{
		Group: id, Record: s.node.Self().Raw, Weight: e.weight, Edge: e.edge,
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

func (s *Scribe) newBatch(left *[entryKinds]int) *batch {
	self := s.node.Self()
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

func (s *Scribe) sendBatch(to env.Peer, b *batch) {
	s.stats.Control++
	frame := wire.AppendFrame(nil, wire.Scribe, &scribepb.Message{Body: &scribepb.Message_Batch{Batch: b.Batch}})
	class := env.Control
	if len(frame) > maxControl {
		class = env.Bulk
	}
	s.net.Send(to, class, frame)
}

// onBatch handles the entries of a Batch. Edges end before new ones begin.
func (s *Scribe) onBatch(from env.PeerID, m *scribepb.Batch) error {
	c, err := s.openFrom(from, m.Records[0])
	if err != nil {
		return err
	}
	each(m.Prunes, func(i int, id overlay.ID) { s.onPrune(s.links[from], id, m.Prunes.Edges[i]) })
	each(m.Rejects, func(_ int, id overlay.ID) { s.onReject(from, s.links[from], id) })
	each(m.Joins, func(i int, id overlay.ID) {
		s.onJoin(c, id, joinRequest{weight: m.Joins.Weights[i], edge: m.Joins.Edges[i]})
	})
	each(m.RoutedJoins, func(i int, id overlay.ID) {
		s.onRoutedJoin(m.Records[m.RoutedJoins.Records[i]], id, joinRequest{weight: m.RoutedJoins.Weights[i], edge: m.RoutedJoins.Edges[i]})
	})
	each(m.Accepts, func(i int, id overlay.ID) { s.onAccept(c, id, m.Accepts.Edges[i]) })
	each(m.Redirects, func(i int, id overlay.ID) {
		if e := s.onRedirect(from, id, m.Records[m.Redirects.Records[i]]); e != nil {
			err = e
		}
	})
	return err
}

func each(c *scribepb.Column, do func(i int, id overlay.ID)) {
	const size = len(overlay.ID{})
	for i := range len(c.GetGroups()) / size {
		do(i, overlay.ID(c.Groups[i*size:(i+1)*size]))
	}
}

// onRoutedJoin handles a routed Join in a Batch as the overlay would deliver it: the first node in
// the tree, or else the root, accepts the child; other nodes forward the Join. Each hop is nearer
// to the key than the one before, so it cannot loop. If the next hop is not known with certainty,
// the Join is dropped, and its sender tries again alone.
func (s *Scribe) onRoutedJoin(record []byte, id overlay.ID, w joinRequest) {
	if s.node.State() != overlay.Active {
		return
	}
	c, err := s.node.OpenRecord(record)
	if err != nil || !c.Member || c.ID == s.node.ID() {
		s.stats.Garbage++
		return
	}
	g := s.groups.Get(id)
	if g != nil && overlay.Nearer(id, s.node.ID(), c.ID) {
		s.accept(g, c, w, false)
		return
	}
	next, root := s.node.NextHop(id)
	switch {
	case root:
		g = s.group(id)
		s.becomeRoot(g)
		s.accept(g, c, w, false)
	case next != nil:
		s.enqueue(next.Peer, batchEntry{kind: entryRoutedJoin, group: id, edge: w.edge, weight: w.weight, contact: c})
	}
}
