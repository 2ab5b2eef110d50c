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

// A Delivery is a message of a group this node joined.
type Delivery struct {
	Group   overlay.ID
	ID      uint64 // chosen by the publisher; the same at all subscribers
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
	linkStore      slab.Slab[link]                // where they lie; see linkNumber
	toSweep        []*group                       // to be looked at by the next sweep
	recent         map[overlay.ID][]recentMessage // messages of the last minutes, the oldest first
	keptBytes      int                            // their bytes
	nodeState      overlay.State                  // of the node, when the leaf last changed
	seen           [2]map[messageKey]env.PeerID   // by whom they came first, "": not by a peer; now, and in the time before
	blocked        map[blockKey]blockEntry
	sweeps         int           // since they last changed places
	heartbeatPhase time.Duration // of its strokes; see together
	outbox         outbox
	cal            env.Calendar[task]
}

// A passed names a message that was here. Publishers choose ids, and must not be
// able to hide a message of one group behind another's.
type messageKey struct {
	group overlay.ID
	id    uint64
}

// A task is an entry of the calendar. What it is about may be gone when its time
// comes, and another group, or link, in the place of the one that it was about.
type task struct {
	kind   taskKind
	number uint32 // number of the group, or link
}

type taskKind uint8

const (
	taskJoinRetry        taskKind = iota // a Join was not answered
	taskPushCheck                        // a child asked to move may have done so
	taskPushDown                         // there were more children than the fan-out
	taskHeartbeat                        // renew the edges to a parent
	taskHeartbeatTimeout                 // a Beat was not answered
	taskFlush                            // send acknowledgements and weights
	taskOutbox                           // send what was to be said
	taskResend                           // a Down was not acknowledged
	taskCheckLink                        // a lease may be over, or a link of no use
	taskSweep                            // forget what is old
)

// New returns the Scribe of a node, and registers it there. Messages of the
// groups it joins go to deliver, each once.
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

// spread returns d give or take a quarter.
func (s *Scribe) jitter(d time.Duration) time.Duration {
	return d*3/4 + time.Duration(s.rand.Int64N(int64(d)/2+1))
}

// Join subscribes the node to a group, or changes its weight there: the number
// of clients, at least 1, that stand behind it.
func (s *Scribe) Join(id overlay.ID, weight int) {
	g := s.group(id)
	g.ownWeight = uint32(min(max(weight, 1), s.cfg.MaxWeight))
	s.updateWeight(g)
	s.ensureParent(g)
}

// Leave ends the node's subscription. It goes on forwarding as long as it has
// children.
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

// Publish sends a message of at most MaxPayload bytes to a group. done is called
// when the root has it, or with false when it could not be reached in
// overlay.Config.RouteDeadline. The message's id is returned.
func (s *Scribe) Publish(id overlay.ID, payload []byte, done func(ok bool)) uint64 {
	msg := s.rand.Uint64()
	s.PublishWithID(id, msg, payload, done)
	return msg
}

// PublishAs is Publish of a message whose id is known to all who have it, by whatever way. Ids are
// to be as hard to foretell as the messages are: of those with one id only the first is passed on.
func (s *Scribe) PublishWithID(id overlay.ID, msg uint64, payload []byte, done func(ok bool)) {
	s.stats.Published++
	body := encode(&scribepb.Message{Body: &scribepb.Message_Publish{Publish: &scribepb.Publish{
		Group: id[:], Id: msg, Payload: payload,
	}}})
	s.node.Route(wire.Scribe, id, body, func(_ overlay.Receipt, ok bool) { done(ok) })
}

// Spread gives those below this node in a group a message that it has by another way, as if
// it had come down the tree.
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

// Weight returns the clients of a group as its root counts them; ok is false if
// this node is not the root.
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

// Run does what is due and returns when it wants to be run next.
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

// doFor does what is due for a group.
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

// doOn does what is due on a link.
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

// Forward is the overlay's question about a Join or a message that passes.
func (s *Scribe) Forward(m *overlay.Message) bool {
	if m.Prev == "" {
		return false // my own
	}
	msg, err := parse(m.Payload)
	if err != nil {
		return false // the root counts it
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

// Deliver takes what was routed to this node as the root.
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
		if err != nil || !c.Member { // clients ask the members that act for them
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

// Receive takes one message of scribe's from a peer; body is what the frame
// carries.
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
		return env.ErrFrame // a Publish is routed, never sent
	}
	return nil
}

// openFrom opens the record that a peer sends of itself.
func (s *Scribe) openFrom(from env.PeerID, record []byte) (*overlay.Contact, error) {
	c, err := s.node.OpenRecord(record)
	if err != nil || c.Peer.ID != from {
		s.stats.Garbage++
		return nil, env.ErrFrame
	}
	return c, nil
}

// pass sends a message on to all children but the one it came from, and up to
// the layer above, once. It is kept for as long as is left of recentLife: a
// message handed on again and again would outlive those who know it.
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

// known says whether a message has been here, and notes that it has, and by whom it came first.
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

// sorted returns the groups for which keep is true, by id.
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

// sweep forgets what has grown old: messages kept and known, groups without a use.
func (s *Scribe) sweep(now time.Time) {
	s.schedule(sweepInterval, task{kind: taskSweep})
	// Counted in sweeps, not by the clock: one that leaps makes no message old that others
	// still have.
	if s.sweeps++; s.sweeps >= int(seenTTL/sweepInterval) {
		s.rotateSeen()
	}
	loose := slices.Compact(sortByID(s.toSweep)) // one that took the place of another is there twice
	s.toSweep = nil
	for _, g := range loose {
		if g.sweepQueued = false; !s.isCurrent(g) {
			continue
		}
		s.forgetOld(g, now)
		s.dropIfUnused(g)
		s.ensureParent(g)
		useful := g.root && len(g.children) > 0 // until that changes, and then it is looked after
		if s.isCurrent(g) && (!useful && g.onlyForwards() || g.lacksParent() || len(s.recent[g.id]) > 0) {
			s.sweepLater(g)
		}
	}
	s.unblock(now)
	s.planted()
}
