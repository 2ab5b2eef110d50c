package scribe

import (
	"bytes"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"tidings/internal/env"
	"tidings/internal/plant"
	"tidings/internal/slab"
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

// Scribe is one node's part in all trees. It is not safe for concurrent use.
type Scribe struct {
	cfg     Config
	clock   env.Clock
	net     env.Network
	rand    *rand.Rand
	log     *slog.Logger
	node    *overlay.Node
	deliver func(Delivery)
	stats   Stats

	groups         *groupIndex
	links          map[env.PeerID]*link
	linkStore      slab.Slab[link]                // storage of the links; see linkNumber
	toSweep        []*group                       // groups that the next sweep checks
	recent         map[overlay.ID][]recentMessage // forwarded messages not older than recentTTL, the oldest first
	keptBytes      int                            // bytes of the messages in recent
	nodeState      overlay.State                  // of the overlay, when the leaf last changed
	seen           [2]map[messageKey]env.PeerID   // messages of the current and the previous period, with the peer that first sent them; "": not received from a peer
	blocked        map[blockKey]blockEntry
	sweeps         int           // number of sweeps since the last rotation of seen
	heartbeatPhase time.Duration // offset of this node's heartbeat slots; see align
	outbox         outbox
	cal            env.Calendar[task]
}

// A messageKey identifies a message. It contains the group, because publishers choose ids, and must
// not be able to suppress a message of one group by another's.
type messageKey struct {
	group overlay.ID
	id    uint64
}

// A task is an entry of the calendar. Its group or link may be gone when it is due, and its number
// in use by another one.
type task struct {
	kind   taskKind
	number uint32 // of the group, or link
}

type taskKind uint8

const (
	taskJoinRetry        taskKind = iota // a Join was not answered in time
	taskPushCheck                        // a child that was asked to move should have done so
	taskPushDown                         // there are more children than the fan-out
	taskHeartbeat                        // renew the edges of a link
	taskHeartbeatTimeout                 // a heartbeat was not answered in time
	taskFlush                            // send acknowledgements and weights
	taskOutbox                           // send the entries of the outbox
	taskResend                           // a Multicast was not acknowledged in time
	taskCheckLink                        // a lease may be over, or a link without edges
	taskSweep                            // drop expired messages and unused groups
)

// New returns the Scribe of a node, and registers it with the node. It calls deliver once for each
// message of a group that the node has joined.
func New(e env.Env, node *overlay.Node, cfg Config, deliver func(Delivery)) *Scribe {
	s := &Scribe{
		cfg:     cfg.withDefaults(),
		clock:   e.Clock,
		net:     e.Network,
		rand:    e.Rand,
		log:     e.Log,
		node:    node,
		deliver: deliver,
		groups:  overlay.NewIndex(e.Rand.Uint64(), func(g *group) *overlay.ID { return &g.id }),
		links:   map[env.PeerID]*link{},
		recent:  map[overlay.ID][]recentMessage{},
		outbox:  outbox{byPeer: map[env.PeerID]*peerQueue{}},
		seen:    [2]map[messageKey]env.PeerID{{}, {}},
		blocked: map[blockKey]blockEntry{},
	}
	s.heartbeatPhase = time.Duration(s.rand.Int64N(int64(s.cfg.HeartbeatInterval)))
	node.Handle(wire.Scribe, s)
	s.schedule(sweepInterval, task{kind: taskSweep})
	return s
}

func (s *Scribe) schedule(d time.Duration, t task) { s.cal.Add(s.clock.Now().Add(d), t) }

// jitter returns a random duration between 3/4 and 5/4 of d.
func (s *Scribe) jitter(d time.Duration) time.Duration {
	return d*3/4 + time.Duration(s.rand.Int64N(int64(d)/2+1))
}

// Join subscribes the node to a group, or changes its weight there: the number of clients behind
// it, at least 1.
func (s *Scribe) Join(id overlay.ID, weight int) {
	g := s.group(id)
	g.ownWeight = uint32(min(max(weight, 1), s.cfg.MaxWeight))
	s.updateWeight(g)
	s.ensureParent(g)
}

// Leave ends the node's subscription. The node forwards messages as long as it has children.
func (s *Scribe) Leave(id overlay.ID) {
	g := s.groups.Get(id)
	if g == nil {
		return
	}
	g.ownWeight = 0
	s.sweepLater(g)
	s.updateWeight(g)
	s.dropIfUnused(g)
}

// Publish sends a message of at most MaxPayload bytes to a group, and returns its id. It calls done
// with true when the root has the message, or with false if the root was not reached within
// overlay.Config.RouteDeadline.
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
	body := encode(&scribepb.Message{Body: &scribepb.Message_Publish{Publish: &scribepb.Publish{
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

func multicastFrame(id []byte, msg uint64, payload []byte) []byte {
	return wire.AppendFrame(nil, wire.Scribe, &scribepb.Message{Body: &scribepb.Message_Multicast{Multicast: &scribepb.Multicast{
		Group: id, Id: msg, Payload: payload,
	}}})
}

// Weight returns the number of clients of a group, as summed at its root; ok is false if this node
// is not the root.
func (s *Scribe) Weight(id overlay.ID) (weight int, ok bool) {
	if g := s.groups.Get(id); g != nil && g.root {
		return int(g.weight()), true
	}
	return 0, false
}

// Stats returns the counters.
func (s *Scribe) Stats() Stats {
	st := s.stats
	st.Groups, st.Links = s.groups.Len(), len(s.links)
	for g := range s.groups.All() {
		st.Children += len(g.children)
		if g.root {
			st.Roots++
		}
	}
	return st
}

// Run handles everything that is due, and returns the time of the next call.
func (s *Scribe) Run(now time.Time) time.Time {
	for {
		t, _, ok := s.cal.Pop(now)
		if !ok {
			return s.cal.Next()
		}
		switch t.kind {
		case taskOutbox:
			s.sendOutbox(now)
		case taskSweep:
			s.sweep(now)
		case taskJoinRetry, taskPushCheck, taskPushDown:
			if g := s.groups.At(t.number); s.isCurrent(g) {
				s.runGroup(g, t.kind, now)
			}
		default:
			if l := s.linkAt(linkNumber(t.number)); l.contact != nil {
				s.runLink(l, t.kind, now)
			}
		}
	}
}

// runGroup handles a task of a group.
func (s *Scribe) runGroup(g *group, kind taskKind, now time.Time) {
	switch kind {
	case taskJoinRetry:
		s.retrySearch(g, now)
	case taskPushCheck:
		if g.pushCheckPlanned {
			g.pushCheckPlanned = false
			s.pushDown(g)
		}
	case taskPushDown:
		if g.pushPlanned {
			g.pushPlanned = false
			s.pushDown(g)
		}
	}
}

// runLink handles a task of a link.
func (s *Scribe) runLink(l *link, kind taskKind, now time.Time) {
	switch kind {
	case taskHeartbeat:
		s.heartbeat(l, now)
	case taskHeartbeatTimeout:
		s.heartbeatTimeout(l, now)
	case taskFlush:
		s.flush(l, now)
	case taskResend:
		s.resend(l, now)
	case taskCheckLink:
		s.checkLink(l, now)
	}
}

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
	s.accept(g, c, requestOf(j), false)
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
		g := s.group(m.Key)
		s.becomeRoot(g)
		if c.ID != s.node.ID() {
			s.accept(g, c, requestOf(b.Join), false)
		}
	case *scribepb.Message_Publish:
		if overlay.ID(b.Publish.Group) != m.Key {
			s.stats.Garbage++
			return
		}
		g := s.group(m.Key)
		s.becomeRoot(g)
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
	l := s.links[from]
	switch b := m.Body.(type) {
	case *scribepb.Message_Join:
		c, err := s.openFrom(from, b.Join.Record)
		if err != nil {
			return err
		}
		s.onJoin(c, overlay.ID(b.Join.Group), requestOf(b.Join))
	case *scribepb.Message_Accept:
		c, err := s.openFrom(from, b.Accept.Record)
		if err != nil {
			return err
		}
		s.onAccept(c, overlay.ID(b.Accept.Group), b.Accept.Edge)
	case *scribepb.Message_Redirect:
		return s.onRedirect(from, overlay.ID(b.Redirect.Group), b.Redirect.Record)
	case *scribepb.Message_Batch:
		return s.onBatch(from, b.Batch)
	case *scribepb.Message_Prune:
		s.onPrune(l, overlay.ID(b.Prune.Group), b.Prune.Edge)
	case *scribepb.Message_Multicast:
		s.onMulticast(from, b.Multicast, frame)
	case *scribepb.Message_Ack:
		s.onAck(l, b.Ack)
	case *scribepb.Message_Heartbeat:
		s.onHeartbeat(from, l, b.Heartbeat)
	case *scribepb.Message_HeartbeatAck:
		s.onHeartbeatAck(l, b.HeartbeatAck)
	case *scribepb.Message_EdgeList:
		s.onEdgeList(from, l, b.EdgeList)
	case *scribepb.Message_Reject:
		for _, g := range b.Reject.Groups {
			s.onReject(from, l, overlay.ID(g))
		}
	case *scribepb.Message_Offer:
		s.onOffer(l, b.Offer)
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

// forward sends a message to all children other than the sender, and delivers it, once. It keeps
// the message for what is left of recentTTL: if every hop kept it for the full time, the message
// could outlive the nodes that recognise it as a duplicate.
func (s *Scribe) forward(g *group, from *link, id uint64, payload, frame []byte, age time.Duration) {
	known := s.seenBefore(messageKey{g.id, id}, from)
	if known {
		s.stats.Repeated++
		if !plant.Duplicate {
			return
		}
	}
	now := s.clock.Now()
	if age < recentTTL {
		s.keep(g, recentMessage{id: id, at: now.Add(-age), frame: frame})
	}
	for i := range g.children {
		if l := s.linkAt(g.children[i].link); l != from && !known {
			s.sendMulticast(l, g.id, id, frame)
		}
	}
	if g.ownWeight > 0 {
		s.stats.Delivered++
		s.deliver(Delivery{g.id, id, payload})
	}
}

// seenBefore says whether a message was here before, and remembers it and the peer that first sent
// it.
func (s *Scribe) seenBefore(msg messageKey, from *link) bool {
	var peer env.PeerID
	if from != nil {
		peer = from.contact.Peer.ID
	}
	for _, m := range s.seen {
		if by, ok := m[msg]; ok {
			if by == "" {
				m[msg] = peer
			}
			return true
		}
	}
	if len(s.seen[0]) >= maxSeen/2 {
		s.rotateSeen()
	}
	s.seen[0][msg] = peer
	return false
}

func (s *Scribe) rotateSeen() {
	s.seen[0], s.seen[1] = map[messageKey]env.PeerID{}, s.seen[0]
	s.sweeps = 0
}

// sortedGroups returns the groups for which keep is true, by id.
func (s *Scribe) sortedGroups(keep func(*group) bool) []*group {
	var of []*group
	for g := range s.groups.All() {
		if keep(g) {
			of = append(of, g)
		}
	}
	return sortByID(of)
}

func sortByID(of []*group) []*group {
	slices.SortFunc(of, func(a, b *group) int { return bytes.Compare(a.id[:], b.id[:]) })
	return of
}

// sweep drops expired messages, forgets old message ids, and removes unused groups.
func (s *Scribe) sweep(now time.Time) {
	s.schedule(sweepInterval, task{kind: taskSweep})
	// Sweeps are counted instead of time, so that a leap of the clock makes no message old that
	// other nodes still have.
	if s.sweeps++; s.sweeps >= int(seenTTL/sweepInterval) {
		s.rotateSeen()
	}
	pending := slices.Compact(sortByID(s.toSweep)) // a group that reuses the memory of another is listed twice
	s.toSweep = nil
	for _, g := range pending {
		if g.sweepQueued = false; !s.isCurrent(g) {
			continue
		}
		s.forgetOld(g, now)
		s.dropIfUnused(g)
		s.ensureParent(g)
		useful := g.root && len(g.children) > 0 // until its children change, which queues the group again
		if s.isCurrent(g) && (!useful && g.onlyForwards() || g.lacksParent() || len(s.recent[g.id]) > 0) {
			s.sweepLater(g)
		}
	}
	s.unblock(now)
	s.planted()
}
