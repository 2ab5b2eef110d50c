package scribe

import (
	"slices"
	"time"

	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/scribe/scribepb"
)

// A Delivery is a message of a group that this node has joined.
type Delivery struct {
	Group   overlay.ID
	ID      uint64 // chosen by the publisher; equal at all subscribers
	Payload []byte // must not be changed
}

// Scribe is one node's part in all trees. It is not safe for concurrent use. It passes messages, time
// and changes of the overlay to its components, of which each uses those above it in this list only:
type Scribe struct {
	base
	deliver func(Delivery)

	groups     groupTable  // what this node is in each tree
	links      *links      // what it shares with each peer
	history    *history    // messages that passed
	blocks     *blocks     // parents that the layer above does not want
	outbox     *outbox     // messages about edges on their way to peers
	multicasts *multicasts // messages of groups on their way to children
	heartbeats *heartbeats // renewal of the edges
	parents    *parents    // the edges up
	children   *children   // the edges down

	nodeState overlay.State // of the overlay, when the leaf last changed
}

// New returns the Scribe of a node, and registers it with the node. It calls deliver once for each
// message of a group that the node has joined.
func New(e env.Env, node *overlay.Node, cfg Config, deliver func(Delivery)) *Scribe {
	s := &Scribe{
		base:    base{cfg: cfg.withDefaults(), clock: e.Clock, net: e.Network, rand: e.Rand, node: node},
		deliver: deliver,
		groups:  groupTable{groupIndex: overlay.NewIndex(e.Rand.Uint64(), func(g *group) *overlay.ID { return &g.id })},
		history: newHistory(),
	}
	b := &s.base
	s.links = &links{base: b, byPeer: map[env.PeerID]*link{}}
	s.blocks = &blocks{base: b, byKey: map[blockKey]blockEntry{}}
	s.outbox = &outbox{base: b, byPeer: map[env.PeerID]*peerQueue{}}
	s.multicasts = &multicasts{base: b, isChild: s.groups.isChild}
	s.heartbeats = &heartbeats{base: b, links: s.links, phase: time.Duration(s.rand.Int64N(int64(s.cfg.HeartbeatInterval)))}
	s.parents = &parents{
		base: b, groups: &s.groups, links: s.links, history: s.history, blocks: s.blocks, outbox: s.outbox, heartbeats: s.heartbeats,
	}
	s.children = &children{
		base: b, groups: &s.groups, links: s.links, history: s.history, outbox: s.outbox, multicasts: s.multicasts,
		heartbeats: s.heartbeats, parents: s.parents,
	}
	s.outbox.routeJoin, s.heartbeats.edges = s.parents.routeWanted, s.parents
	node.Handle(wire.Scribe, s)
	s.schedule(sweepInterval, task{kind: taskSweep})
	return s
}

// Join subscribes the node to a group, or changes its weight there: the number of clients behind
// it, at least 1.
func (s *Scribe) Join(id overlay.ID, weight int) {
	g := s.groups.ensure(id)
	g.ownWeight = uint32(min(max(weight, 1), s.cfg.MaxWeight))
	s.parents.updateWeight(g)
	s.parents.ensure(g)
}

// Leave ends the node's subscription. The node forwards messages as long as it has children.
func (s *Scribe) Leave(id overlay.ID) {
	g := s.groups.Get(id)
	if g == nil {
		return
	}
	g.ownWeight = 0
	s.groups.sweepLater(g)
	s.parents.updateWeight(g)
	s.children.dropIfUnused(g)
}

// Publish sends a message of at most MaxPayload bytes to a group, and returns its id. It calls done
// with true when the root has the message, or with false if the root was not reached within
// one minute (routeDeadline in package overlay).
func (s *Scribe) Publish(id overlay.ID, payload []byte, done func(ok bool)) uint64 {
	msg := s.rand.Uint64()
	s.PublishWithID(id, msg, payload, done)
	return msg
}

// PublishWithID publishes a message whose id its holders can derive, by whatever way they received
// it. Ids must be as hard to predict as the messages, because only the first message with an id is
// forwarded.
func (s *Scribe) PublishWithID(id overlay.ID, msg uint64, payload []byte, done func(ok bool)) {
	s.stats.Published++
	body := wire.Encode(&scribepb.Message{Body: &scribepb.Message_Publish{Publish: &scribepb.Publish{
		Group: id[:], Id: msg, Payload: payload,
	}}})
	s.node.Route(wire.Scribe, id, body, func(_ overlay.Receipt, ok bool) { done(ok) })
}

// SendBelow forwards a message that this node received outside the tree to its children, as if it
// had come down the tree.
func (s *Scribe) SendBelow(id overlay.ID, msg uint64, payload []byte) {
	if g := s.groups.Get(id); g != nil && len(g.children) > 0 {
		s.forward(g, nil, msg, payload, multicastFrame(id[:], msg, payload), 0)
	}
}

// Weight returns the number of clients of a group, as summed at its root; ok is false if this node
// is not the root.
func (s *Scribe) Weight(id overlay.ID) (weight int, ok bool) {
	if g := s.groups.Get(id); g != nil && g.root {
		return int(g.weight()), true
	}
	return 0, false
}

// Corroborated returns the number of clients of a group, as summed at its root, where the member that reports most, together
// with all clients of the root, whose ids cost nothing, counts at most as much as all others, and as many more as one node may
// have. So a single member that makes up clients, at itself or at the root, at most doubles the number. In honest trees no part
// is that large (sim.TestHonestTreesAreEven).
func (s *Scribe) Corroborated(id overlay.ID) (weight int, ok bool) {
	g := s.groups.Get(id)
	if g == nil || !g.root {
		return 0, false
	}
	part := 0
	if c := g.heaviest(); c != nil {
		part = int(c.weight)
	}
	for i := range g.children {
		if c := &g.children[i]; c.client {
			part += int(c.weight)
		}
	}
	others := int(g.weight()) - part
	return others + min(part, others+s.cfg.MaxWeight), true
}

// Stats returns the counters.
func (s *Scribe) Stats() Stats {
	st := s.stats
	st.Groups, st.Links = s.groups.Len(), len(s.links.byPeer)
	for g := range s.groups.All() {
		st.Children += len(g.children)
		if g.root {
			st.Roots++
		}
	}
	return st
}

// Next returns the time at which something is due, the zero time if nothing is.
func (s *Scribe) Next() time.Time { return s.cal.Next() }

// Run handles everything that is due, and returns Next.
func (s *Scribe) Run(now time.Time) time.Time {
	for {
		t, _, ok := s.cal.Pop(now)
		if !ok {
			return s.Next()
		}
		switch t.kind {
		case taskOutbox:
			s.outbox.flush(now)
		case taskSweep:
			s.sweep(now)
		case taskJoinRetry, taskAskWeights, taskPushCheck, taskPushDown:
			if g := s.groups.At(t.number); s.groups.isCurrent(g) {
				s.runGroup(g, t.kind, now)
			}
		default:
			if l := s.links.at(linkNumber(t.number)); l.contact != nil {
				s.runLink(l, t.kind, now)
			}
		}
	}
}

// runGroup handles a task of a group.
func (s *Scribe) runGroup(g *group, kind taskKind, now time.Time) {
	switch kind {
	case taskJoinRetry:
		s.parents.retry(g, now)
	case taskAskWeights:
		s.children.askWeights(g)
	case taskPushCheck:
		if g.pushCheckPlanned {
			g.pushCheckPlanned = false
			s.children.pushDown(g)
		}
	case taskPushDown:
		if g.pushPlanned {
			g.pushPlanned = false
			s.children.pushDown(g)
		}
	}
}

// runLink handles a task of a link.
func (s *Scribe) runLink(l *link, kind taskKind, now time.Time) {
	switch kind {
	case taskHeartbeat:
		s.heartbeats.beat(l, now)
	case taskHeartbeatTimeout:
		s.heartbeats.timeout(l, now)
	case taskFlush:
		s.flush(l, now)
	case taskResend:
		s.multicasts.resend(l, now)
	case taskCheckLink:
		s.children.checkLink(l, now)
	}
}

// sweep drops expired messages, forgets old message ids, and removes unused groups.
func (s *Scribe) sweep(now time.Time) {
	s.schedule(sweepInterval, task{kind: taskSweep})
	s.history.tick()
	pending := slices.Compact(sortByID(s.groups.toSweep)) // a group that reuses the memory of another is listed twice
	s.groups.toSweep = nil
	for _, g := range pending {
		if g.sweepQueued = false; !s.groups.isCurrent(g) {
			continue
		}
		s.history.forgetOld(g.id, now)
		s.children.dropIfUnused(g)
		s.parents.ensure(g)
		useful := g.root && len(g.children) > 0 // until its children change, which queues the group again
		if s.groups.isCurrent(g) && (!useful && g.onlyForwards() || g.lacksParent() || len(s.history.recent[g.id]) > 0) {
			s.groups.sweepLater(g)
		}
	}
	s.blocks.expire(now)
}

// LeafChanged checks whether this node is still the root of its groups, and whether its parents are
// still valid: the parents of a client are the members that act for it, the parent of a member is
// nearer to the key.
func (s *Scribe) LeafChanged() {
	was := s.nodeState
	s.nodeState = s.node.State()
	switch s.nodeState {
	case overlay.Active:
		if was != overlay.Active { // a search could not reach a parent until now
			for _, g := range s.groups.sorted((*group).lacksParent) {
				s.parents.search(g)
			}
		}
		for _, g := range s.groups.sorted(func(g *group) bool { return g.root && !s.node.IsRoot(g.id) }) {
			g.root = false
			s.groups.sweepLater(g)
			s.parents.search(g)
			s.children.dropIfUnused(g)
		}
		s.parents.replace(func(g *group, l *link) bool { return overlay.Nearer(g.id, l.contact.ID, s.node.ID()) })
	case overlay.Attached:
		hosts := s.node.Hosts()
		for _, g := range s.groups.sorted(func(*group) bool { return true }) {
			g.root = false
			s.groups.sweepLater(g)
			for len(g.children) > 0 { // a client has no children
				c, l := g.children[0], s.links.at(g.children[0].link)
				s.outbox.sendPrune(l.contact.Peer, g.id, c.edge)
				s.children.forget(g, l)
			}
			s.children.dropIfUnused(g)
		}
		s.parents.replace(func(_ *group, l *link) bool {
			return slices.ContainsFunc(hosts, func(h *overlay.Contact) bool { return h.Peer.ID == l.contact.Peer.ID })
		})
		for _, g := range s.groups.sorted(func(g *group) bool { return len(g.parentEdges()) < len(hosts) }) {
			s.parents.search(g)
		}
	case overlay.Alone, overlay.Joining, overlay.Left:
	}
}

// PeerGone ends all edges to a peer that died or left.
func (s *Scribe) PeerGone(id env.PeerID) {
	l := s.links.byPeer[id]
	if l == nil {
		return
	}
	l.transfer = nil
	for _, number := range slices.Clone(l.up.groups) {
		g := s.groups.At(number)
		s.parents.forget(g, l)
		s.parents.search(g)
	}
	s.children.dropAll(l)
	s.links.dropIdle(l)
}

// flush sends acknowledgements and changed weights.
func (s *Scribe) flush(l *link, now time.Time) {
	if l.flushAt == env.Never || env.MomentOf(now) < l.flushAt {
		return
	}
	l.flushAt = env.Never
	s.multicasts.sendAcks(l)
	s.parents.flushWeights(l)
}

// PeerDown handles a broken connection. If the peer has restarted, it has no edges, so a heartbeat
// is sent soon.
func (s *Scribe) PeerDown(id env.PeerID) {
	if l := s.links.byPeer[id]; l != nil && l.renewal.on {
		s.heartbeats.in(l, env.Jitter(s.rand, reconnectDelay))
	}
}

// FirstSender returns the peer that first sent this node a message of a group; ok is false if the
// message is unknown or came from no peer. Messages are remembered for at least seenTTL, unless
// maxSeen is exceeded.
func (s *Scribe) FirstSender(id overlay.ID, msg uint64) (by env.PeerID, ok bool) {
	by = s.history.firstSender(messageKey{id, msg})
	return by, by != ""
}

// Block leaves a parent in a group, and refuses it as a parent there for blockTime. A root is not
// refused, because there is no alternative. It has no effect at a client, whose parents are the members
// that act for it. Block says whether the parent was left.
func (s *Scribe) Block(id overlay.ID, peer env.PeerID) bool {
	g, l := s.groups.Get(id), s.links.byPeer[peer]
	if g == nil || l == nil || g.parent(l) == nil || s.node.State() != overlay.Active || !s.blocks.add(id, l.contact) {
		return false
	}
	s.stats.BlockedParents++
	s.parents.leave(g, l)
	s.parents.search(g)
	return true
}
