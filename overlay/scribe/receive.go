package scribe

import (
	"time"

	"tidings/internal/env"
	"tidings/overlay"
	"tidings/overlay/scribe/scribepb"
)

// Forward intercepts a routed Join if this node is in the group's tree and nearer to the key than
// the joining node. Every other message passes.
func (s *Scribe) Forward(m *overlay.Message) bool {
	if m.Prev == "" {
		return false // this node's own message
	}
	msg, err := parse(m.Payload)
	if err != nil {
		return false // the root counts it as garbage
	}
	j := msg.GetJoin()
	if j == nil {
		return false
	}
	g := s.groups.Get(overlay.ID(j.Group))
	if g == nil || overlay.ID(j.Group) != m.Key {
		return false
	}
	c, err := s.node.OpenRecord(j.Record)
	if err != nil || !c.Member || !overlay.Nearer(g.id, s.node.ID(), c.ID) {
		return false
	}
	s.children.accept(g, c, requestOf(j), false)
	return true
}

// Deliver handles a message that was routed to this node as the root of its key.
func (s *Scribe) Deliver(m *overlay.Message) {
	msg, err := parse(m.Payload)
	if err != nil {
		s.stats.Garbage++
		return
	}
	switch b := msg.Body.(type) {
	case *scribepb.Message_Join:
		if overlay.ID(b.Join.Group) != m.Key {
			s.stats.Garbage++
			return
		}
		c, err := s.node.OpenRecord(b.Join.Record)
		if err != nil || !c.Member { // clients send their Joins to the members that act for them
			s.stats.Garbage++
			return
		}
		g := s.groups.ensure(m.Key)
		s.parents.becomeRoot(g)
		if c.ID != s.node.ID() {
			s.children.accept(g, c, requestOf(b.Join), false)
		}
	case *scribepb.Message_Publish:
		if overlay.ID(b.Publish.Group) != m.Key {
			s.stats.Garbage++
			return
		}
		g := s.groups.ensure(m.Key)
		s.parents.becomeRoot(g)
		s.forward(g, nil, b.Publish.Id, b.Publish.Payload, multicastFrame(b.Publish.Group, b.Publish.Id, b.Publish.Payload), 0)
	default:
		s.stats.Garbage++
	}
}

// Receive handles one message of this layer from a peer. The body is the content of the frame.
func (s *Scribe) Receive(from env.PeerID, frame, body []byte) error {
	m, err := parse(body)
	if err != nil {
		s.stats.Garbage++
		return err
	}
	l := s.links.byPeer[from]
	switch b := m.Body.(type) {
	case *scribepb.Message_Join:
		c, err := s.openFrom(from, b.Join.Record)
		if err != nil {
			return err
		}
		s.children.onJoin(c, overlay.ID(b.Join.Group), requestOf(b.Join))
	case *scribepb.Message_Accept:
		c, err := s.openFrom(from, b.Accept.Record)
		if err != nil {
			return err
		}
		s.onAccept(c, overlay.ID(b.Accept.Group), b.Accept.Edge)
	case *scribepb.Message_Redirect:
		return s.parents.onRedirect(from, overlay.ID(b.Redirect.Group), b.Redirect.Record)
	case *scribepb.Message_Batch:
		return s.onBatch(from, b.Batch)
	case *scribepb.Message_Prune:
		s.onPrune(l, overlay.ID(b.Prune.Group), b.Prune.Edge)
	case *scribepb.Message_Multicast:
		s.onMulticast(from, b.Multicast, frame)
	case *scribepb.Message_Ack:
		s.multicasts.onAck(l, b.Ack)
	case *scribepb.Message_Heartbeat:
		s.heartbeats.onHeartbeat(from, l, b.Heartbeat)
	case *scribepb.Message_HeartbeatAck:
		s.heartbeats.onAck(l, b.HeartbeatAck)
	case *scribepb.Message_EdgeList:
		s.children.onEdgeList(from, l, b.EdgeList)
	case *scribepb.Message_Reject:
		for _, g := range b.Reject.Groups {
			s.parents.onReject(from, l, overlay.ID(g))
		}
	case *scribepb.Message_Offer:
		s.children.onOffer(l, b.Offer)
	default:
		return env.ErrFrame // a Publish is routed, never sent directly
	}
	return nil
}

// openFrom opens a record, and checks that it is the sender's own.
func (s *Scribe) openFrom(from env.PeerID, record []byte) (*overlay.Contact, error) {
	c, err := s.node.OpenRecord(record)
	if err != nil || c.Peer.ID != from {
		s.stats.Garbage++
		return nil, env.ErrFrame
	}
	return c, nil
}

// onBatch handles the entries of a Batch. Edges end before new ones begin.
func (s *Scribe) onBatch(from env.PeerID, m *scribepb.Batch) error {
	c, err := s.openFrom(from, m.Records[0])
	if err != nil {
		return err
	}
	each(m.Prunes, func(i int, id overlay.ID) { s.onPrune(s.links.byPeer[from], id, m.Prunes.Edges[i]) })
	each(m.Rejects, func(_ int, id overlay.ID) { s.parents.onReject(from, s.links.byPeer[from], id) })
	each(m.Joins, func(i int, id overlay.ID) {
		s.children.onJoin(c, id, joinRequest{weight: m.Joins.Weights[i], edge: m.Joins.Edges[i]})
	})
	each(m.RoutedJoins, func(i int, id overlay.ID) {
		s.children.onRoutedJoin(m.Records[m.RoutedJoins.Records[i]], id, joinRequest{weight: m.RoutedJoins.Weights[i], edge: m.RoutedJoins.Edges[i]})
	})
	each(m.Accepts, func(i int, id overlay.ID) { s.onAccept(c, id, m.Accepts.Edges[i]) })
	each(m.Redirects, func(i int, id overlay.ID) {
		if e := s.parents.onRedirect(from, id, m.Records[m.Redirects.Records[i]]); e != nil {
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

// onMulticast handles a message from a parent: acknowledges and forwards it, or tells a sender that
// is no parent. A former parent may still bring something new. While a parent is sought, a
// message of any peer is forwarded, because the first Multicast can overtake the Accept; at other
// times one from a child, or from a peer without a link, is not.
func (s *Scribe) onMulticast(from env.PeerID, m *scribepb.Multicast, frame []byte) {
	id := overlay.ID(m.Group)
	s.stats.Received++
	g, l := s.groups.Get(id), s.links.byPeer[from]
	if l != nil {
		l.ensureTransfer().acks = append(l.ensureTransfer().acks, m.Id)
		s.links.flushSoon(l, ackDelay)
	} else {
		s.send(env.Peer{ID: from}, &scribepb.Message{Body: &scribepb.Message_Ack{Ack: &scribepb.Ack{Ids: []uint64{m.Id}}}})
	}
	parent := g != nil && (g.searching() || g.search != nil && g.search.target == from || g.parent(l) != nil)
	if !parent {
		s.outbox.sendPrune(env.Peer{ID: from}, id, 0)
	}
	if parent || g != nil && l != nil && overlay.Nearer(id, l.contact.ID, s.node.ID()) {
		s.forward(g, l, m.Id, m.Payload, frame, time.Duration(m.AgeMs)*time.Millisecond)
	}
}

// forward sends a message to all children other than the sender, and delivers it, once. It keeps
// the message for what is left of recentTTL: if every hop kept it for the full time, the message
// could outlive the nodes that recognise it as a duplicate.
func (s *Scribe) forward(g *group, from *link, id uint64, payload, frame []byte, age time.Duration) {
	var sender env.PeerID
	if from != nil {
		sender = from.contact.Peer.ID
	}
	if s.history.see(messageKey{g.id, id}, sender) {
		s.stats.Repeated++
		return
	}
	if !s.alone() && age < recentTTL && s.history.keep(g.id, recentMessage{id: id, at: s.clock.Now().Add(-age), frame: frame}) {
		s.groups.sweepLater(g)
	}
	for i := range g.children {
		if l := s.links.at(g.children[i].link); l != from {
			s.multicasts.enqueue(l, g.id, id, frame)
		}
	}
	if g.ownWeight > 0 {
		s.stats.Delivered++
		s.deliver(Delivery{g.id, id, payload})
	}
}

// alone reports whether this node knows no other node that could become its child. It then keeps no messages: a node that comes
// later pulls the log of each feed that it joins.
func (s *Scribe) alone() bool {
	leaf := s.node.Leaf()
	return s.node.State() == overlay.Active && leaf.Len() == 1 && leaf.Depth() == 0 && len(s.links.byPeer) == 0
}

// onAccept makes the sender the parent. A node that only forwards then offers its children to it.
func (s *Scribe) onAccept(c *overlay.Contact, id overlay.ID, edge uint64) {
	if g := s.parents.onAccept(c, id, edge); g != nil {
		s.children.dropIfUnused(g)
	}
}

// onPrune ends an edge that the peer has ended.
func (s *Scribe) onPrune(l *link, id overlay.ID, edge uint64) {
	g := s.groups.Get(id)
	if g == nil || l == nil {
		return
	}
	if c := g.child(l); c != nil && (edge == 0 || edge == c.edge) {
		s.children.forget(g, l)
		s.children.dropIfUnused(g)
	}
	if p := g.parent(l); p != nil && (edge == 0 || edge == p.edge) {
		s.parents.forget(g, l)
		s.parents.search(g)
	}
}
