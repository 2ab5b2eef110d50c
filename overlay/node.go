package overlay

import (
	"slices"
	"time"

	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay/overlaypb"
)

// An Application is a layer above the overlay.
type Application interface {
	// Forward is called at every node on a message's way, including its origin and its root,
	// before the message goes on. If Forward returns true the layer has taken the message
	// over, and routing ends here.
	Forward(m *Message) bool

	// Deliver is called at the root of the message's key, at most once per message at one
	// node. Another node may deliver the message again if the origin retried and the root
	// changed in between.
	Deliver(m *Message)

	// PeerGone reports that a peer on which the layer called Watch is dead or has left.
	PeerGone(id env.PeerID)

	// LeafChanged reports that members joined or left the node's leaf, so that the root of a
	// key may have changed.
	LeafChanged()
}

// A Message is a routed payload.
type Message struct {
	Key     ID
	Layer   wire.Layer
	Payload []byte
	// Prev is the peer that the message came from, empty at its origin.
	Prev env.PeerID
	Hops int
}

// State is the stage of a node's membership.
type State uint8

const (
	// Alone: the node knows no other node yet, or waits to learn whether it can be dialled.
	Alone State = iota
	// Joining: the node knows its leaf and waits for its acknowledgements.
	Joining
	// Active: the node is a member and the root of keys.
	Active
	// Attached: the node is a client, and one or two members act for it.
	Attached
	// Left: the node left the network in good order.
	Left
)

func (s State) String() string {
	return [...]string{"alone", "joining", "active", "attached", "left"}[s]
}

// A Node is one node of the overlay. It is not safe for concurrent use. It passes messages, time
// and changes of its surroundings to its components. Each component uses only those above it in
// this list. A Node embeds them, so their exported methods are its own.
type Node struct {
	*neighbours                   // the peers that the node knows, its leaf and its table
	pool         *pool            // members heard of by a node without a place
	*counts                       // the number of members below each prefix of its id
	*liveness                     // finds out who is alive, and gives members their places
	tableUpkeep  *tableUpkeep     // finds contacts for the table
	leafUpkeep   *leafUpkeep      // keeps the leaf the same as that of its other members
	*lookups                      // searches for the members nearest to a key
	*router                       // messages on their way
	memory       *memory          // peers in the store
	*entryPoints                  // checks whether the network is what others know, too
	*join                         // gets the node its place
	admissions   *admissions      // the node's certificate, and what authorities have revoked
	proofs       *proofs          // which members were reached at their addresses
	takenUntil   [slots]time.Time // when the slots of the node's block may be free again; zero: now

	reachable []string // addresses at which it was dialled back; nil: not reachable, or not known yet
}

// New returns a node that is not in the network yet. It acts when Run and Found are called.
func New(e env.Env, signer *wire.Signer, verify wire.Verifier, cfg Config) *Node {
	b := &base{
		cfg: cfg.withDefaults(), clock: e.Clock, net: e.Network, rand: e.Rand, log: e.Log, records: cfg.Records, started: e.Clock.Now(),
		place: place{callbacks: cfg.Callbacks},
	}
	if b.records == nil {
		b.records = NewRecords(cfg.Network, verify, ownRecords)
	}
	b.self = b.records.newRecord(signer, nil, b.started, false, place{})
	n := &Node{neighbours: newNeighbours(b), pool: &pool{}}
	n.counts = &counts{neighbours: n.neighbours, pool: n.pool}
	n.liveness = newLiveness(n.neighbours)
	n.tableUpkeep = newTableUpkeep(n.counts, n.liveness, func() { n.router.release() })
	n.leafUpkeep = &leafUpkeep{neighbours: n.neighbours, counts: n.counts, liveness: n.liveness, tableUpkeep: n.tableUpkeep}
	n.lookups = newLookups(n.counts, n.liveness, n.pool)
	n.proofs = &proofs{base: b, prover: e.Prover, young: map[env.PeerID]proof{}, proving: map[env.PeerID][]byte{}}
	n.router = newRouter(n.liveness, n.tableUpkeep, n.leafUpkeep, &receipts{counts: n.counts, lookups: n.lookups, proofs: n.proofs, signer: signer, verify: verify})
	n.memory = &memory{neighbours: n.neighbours, store: e.Store}
	n.entryPoints = &entryPoints{
		neighbours: n.neighbours, pool: n.pool, counts: n.counts, liveness: n.liveness, lookups: n.lookups, memory: n.memory,
	}
	n.join = &join{
		neighbours: n.neighbours, liveness: n.liveness, tableUpkeep: n.tableUpkeep, leafUpkeep: n.leafUpkeep,
		router: n.router, pool: n.pool, lookups: n.lookups, memory: n.memory,
		entryPoints: n.entryPoints, signer: signer,
	}
	n.admissions = &admissions{base: b, store: e.Store, lookups: n.lookups, neighbour: n.neighbours, changed: n.settle}
	if n.memory.load() {
		n.join.issue(nil, false)
	}
	n.admissions.load()
	n.at(n.started, task{kind: taskJoin})
	n.entryPoints.schedule(env.Jitter(n.rand, entrySoon))
	n.after(env.Jitter(n.rand, n.cfg.WatchInterval), task{kind: taskWatch})
	n.after(env.Jitter(n.rand, deadInterval), task{kind: taskDead})
	n.after(env.Jitter(n.rand, n.cfg.SaveInterval), task{kind: taskSave})
	return n
}

// Next returns the time at which something is due, the zero time if nothing is.
func (n *Node) Next() time.Time {
	switch {
	case n.state == Left:
		return time.Time{}
	case n.leafChanged:
		return env.AtOnce
	}
	return n.cal.Next()
}

// Run does what is due and returns Next.
func (n *Node) Run(now time.Time) time.Time {
	if n.state == Left {
		return time.Time{}
	}
	for {
		t, at, ok := n.cal.Pop(now)
		if !ok {
			break
		}
		n.do(t, at, now)
	}
	n.router.routes.expire(now)
	if n.leafChanged {
		n.leafChanged = false
		n.leafUpkeep.checkDepth(now)
		for _, app := range n.router.apps {
			app.LeafChanged()
		}
	}
	return n.Next()
}

func (n *Node) do(t task, at, now time.Time) {
	switch t.kind {
	case taskProbe:
		if p := n.peers.get(t.peer); n.liveness.probeUnanswered(p, t.n) {
			n.declareDead(p)
		}
	case taskHop:
		n.router.hopTimedOut(n.router.routes.byID[t.n], at)
	case taskRetry:
		n.router.retry(n.router.routes.byID[t.n], at)
	case taskHoldExpired:
		n.router.holdExpired(n.router.routes.byID[t.n], at)
	case taskJoin:
		n.join.step()
	case taskWatch:
		next := n.liveness.watch(now)
		n.expireClients(now)
		n.expireMembers()
		n.at(next, task{kind: taskWatch})
	case taskGossip:
		n.liveness.gossipLeaf()
	case taskRow:
		if n.tableUpkeep.nextRowAt.Equal(at) {
			n.tableUpkeep.askNextRow()
		}
	case taskSlotSearch:
		n.tableUpkeep.slotSearchUnanswered(t.n)
	case taskLookupQuery:
		n.lookups.queryUnanswered(t.n, at)
	case taskSelfLookup:
		if n.lookups.selfLookupAt.Equal(at) {
			n.lookups.selfLookup()
		}
	case taskStartLookups:
		n.lookups.start()
	case taskRowTimeout:
		n.tableUpkeep.rowUnanswered(n.peers.get(t.peer), at)
	case taskCheckDepth:
		n.leafUpkeep.checkDepth(now)
	case taskDead:
		n.liveness.probeDead()
	case taskEntryPoints:
		if n.entryPoints.nextAt.Equal(at) {
			n.entryPoints.step()
		}
	case taskSave:
		n.memory.savePeriodically()
	case taskCertificate:
		if n.admissions.stepAt.Equal(at) {
			n.admissions.step()
		}
	case taskHosts:
		if n.join.hostsAt.Equal(at) {
			n.join.findHosts()
		}
	case taskSlot:
		n.settle()
	}
}

// Reachable takes the addresses at which the node can be dialled, or nil if it cannot be
// dialled.
func (n *Node) Reachable(addrs []string) {
	if n.state == Left || slices.Equal(addrs, n.reachable) && (addrs == nil) == (n.reachable == nil) {
		return
	}
	n.reachable = slices.Clone(addrs)
	n.settle()
}

// Receive takes one overlay message from a peer.
func (n *Node) Receive(from env.PeerID, body []byte) error {
	m, err := parse(body)
	if err != nil {
		n.stats.Garbage++
		return err
	}
	if n.state == Left {
		return nil
	}
	p := n.peers.get(from)
	if len(m.Record) > 0 && (p == nil || p.contact == nil || string(p.contact.Raw) != string(m.Record)) {
		c, err := n.records.open(m.Record)
		if err != nil {
			n.stats.Garbage++
			return err
		}
		if c.Peer.ID != from {
			n.stats.Garbage++
			return ErrRecord
		}
		p = n.meet(c)
	}
	if p == nil {
		p = n.ensurePeer(from)
	}
	if p.contact == nil && n.IDsCost() {
		if c := n.askedContact(from, m); c != nil {
			p = n.ensureContact(c) // the record was forgotten while the answer was on its way
		}
	}
	if !n.accepts(p, body) {
		return nil
	}
	n.liveness.heardFrom(p)
	n.entryPoints.heard(p)
	garbage := n.stats.Garbage
	n.dispatch(p, m)
	n.forget(p)
	if n.stats.Garbage != garbage {
		return ErrRecord // an honest node never passes on a record that it has not verified
	}
	return nil
}

func (n *Node) dispatch(p *peer, m *overlaypb.Message) {
	switch b := m.Body.(type) {
	case *overlaypb.Message_Probe:
		n.onProbe(p, b.Probe)
	case *overlaypb.Message_Route:
		n.router.onRoute(p, b.Route)
	case *overlaypb.Message_Ack:
		n.router.onAck(p, b.Ack)
	case *overlaypb.Message_Find:
		n.lookups.onFind(p, b.Find)
	case *overlaypb.Message_Nearby:
		n.onNearby(p, b.Nearby)
	case *overlaypb.Message_Leaf:
		if n.leafUpkeep.onLeaf(p, b.Leaf) {
			n.join.checkJoined()
		}
	case *overlaypb.Message_RowRequest:
		n.tableUpkeep.onRowRequest(p, b.RowRequest)
	case *overlaypb.Message_RowReply:
		n.tableUpkeep.onRowReply(p, b.RowReply)
	case *overlaypb.Message_Dead:
		n.liveness.onDead(p, b.Dead)
	case *overlaypb.Message_Leave:
		n.onLeave(p)
	case *overlaypb.Message_AuthorityNews:
		if !n.admissions.onNews(p, b.AuthorityNews) {
			n.stats.Garbage++
		}
	case *overlaypb.Message_Renew:
		n.admissions.onRenew(p, b.Renew)
	}
}

func (n *Node) onProbe(p *peer, m *overlaypb.Probe) {
	n.admissions.compare(p, m.Revocations)
	if m.Reply {
		answer := m.Nonce == p.nonce && m.Nonce != 0
		if answer {
			p.nonce = 0 // a repeated reply is ignored
			p.sample(n.clock.Now().Sub(p.probeSent.Time()))
			p.candidate, p.acked = false, true
			p.probing, p.attempts = false, 0
		}
		if m.WantRecord {
			p.knowsMe = false // it forgot this node's record
			n.liveness.probe(p)
		}
		if m.Attach {
			n.join.attachedTo(p)
		} else if answer && p.isHost && !n.self.Member {
			n.join.detach(p) // it does not act for this node, or no longer does
		}
	}
	n.leafUpkeep.onLeafDigest(p, int(m.Depth), m.Decided, m.Digest, m.Reply) // before the reply, so that the reply's digest finds the peer up to date
	if !m.Reply {
		if m.KnownIssued != 0 && m.KnownIssued == uint32(n.self.Issued) {
			p.knowsMe = true
		}
		granted := m.Attach && n.attach(p)
		n.send(p, n.liveness.probeReply(m, granted))
		n.join.askOnceMore(p)
	}
	n.join.checkJoined()
}

// onNearby passes an answer to Find to the component that asked.
func (n *Node) onNearby(p *peer, m *overlaypb.Nearby) {
	if !n.tableUpkeep.onNearby(p, m) && !n.lookups.onNearby(p.id, m) {
		n.join.onNearby(p, m)
	}
}

// Stats returns the node's counters.
func (n *Node) Stats() Stats {
	s := n.stats
	s.Peers, s.Passages = len(n.peers.all), len(n.router.routes.byID)
	s.Leaf = n.leaf.Len()
	n.table.eachPeer(n.leaf.Depth(), func(*peer) { s.Contacts++ })
	for _, p := range n.peers.all {
		if p.attached != env.Never {
			s.Clients++
		}
	}
	s.EstimatedN = n.counts.Count(0)
	s.Known = len(n.memory.saved)
	return s
}
