package overlay

import (
	"cmp"
	"log/slog"
	"math/rand/v2"
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

// A Node is one node of the overlay. It is not safe for concurrent use.
type Node struct {
	cfg     Config
	network string
	clock   env.Clock
	net     env.Network
	store   env.Store
	rand    *rand.Rand
	log     *slog.Logger
	signer  *wire.Signer
	records *Records
	apps    []application // by layer

	self      *Contact
	state     State
	started   time.Time
	lastHeard time.Time // when any peer last spoke; the start time until then
	reachable []string  // addresses at which it was dialled back; nil: not reachable, or not known yet
	stats     Stats

	peers         peerList
	watchList     watchList
	hasClients    bool         // there may be clients that this member acts for
	unplaced      []env.PeerID // peers without a place, the oldest first
	leaf          *LeafSet
	table         table
	join          join
	held          []*routeState // messages that wait until the node is active or a slot is confirmed empty
	sendQueue     []*routeState // own messages that wait for room in flight
	inFlight      int           // number of own messages that no next hop has taken over
	drainingQueue bool          // drainQueue is running
	routes        routeStates
	slotSearches  map[uint64]*slotSearch // by the nonce of the outstanding query
	lookupQueries map[uint64]lookupQuery // outstanding queries of lookups, by nonce
	activeLookups []*lookup
	queuedLookups []*lookup // lookups that wait for room
	tombstones    tombstones
	deathReports  deathReports
	churn         churnRate
	remembered    []*Contact // members remembered from an earlier run
	bootstraps    []*Contact // members found outside the network, such as from a list of the operator
	hosts         []*peer    // members that act for this client

	cal                 env.Calendar[task]
	leafChanged         bool          // LeafChanged has to be called
	nextRowAt           time.Time     // when the next contact of the table is asked
	selfLookupAt        time.Time     // when the node next looks up its own id
	selfLookupInterval  time.Duration // time until the lookup after that
	unsettledSince      time.Time     // since when the leaf has called for another depth; zero: it does not
	surveyedAt          time.Time     // when members of the leaf were last asked for its depth
	surveyCount         int           // surveys since the depth was last changed
	depthChangedAt      time.Time     // when the leaf's depth was last changed
	siblingCountedAt    time.Time     // when the leaf's sibling was last counted again
	depthBeforeWidening int           // depth of the leaf before it was widened
	wideningEnds        time.Time     // when the widened leaf counts as complete
	gossipLeft          int           // remaining rounds of gossip about the leaf
	tableProbedAt       time.Time     // when the whole table was last probed
	deadProbedAt        time.Time     // when all tombstones were last probed
	slotTurn            int           // index of the slot whose contact was asked last
	quickRounds         int           // remaining rounds that ask the whole table at once
	savedRecords        []*Contact    // records in the store, in the order of their ids
}

// A task is an entry of the node's schedule. Its subject may be gone when its time comes.
type task struct {
	kind taskKind
	peer env.PeerID
	n    uint64
}

type taskKind uint8

const (
	taskProbe        taskKind = iota // a probe is unanswered; n: nonce
	taskHop                          // a hop did not acknowledge; n: message
	taskRetry                        // the root did not acknowledge; n: message
	taskHoldExpired                  // a message has been held long enough; n: message
	taskJoin                         // take the next step of a join
	taskWatch                        // probe watched members that are silent
	taskGossip                       // compare leaves after a change
	taskRow                          // ask the next contact of the table
	taskSlotSearch                   // a Find of a slot search is unanswered; n: nonce
	taskLookupQuery                  // a Find of a lookup is unanswered; n: nonce
	taskSelfLookup                   // look up the node's own id
	taskStartLookups                 // start queued lookups
	taskRowTimeout                   // a RowRequest is unanswered
	taskCheckDepth                   // check whether the leaf still calls for another depth
	taskDead                         // probe a peer that is remembered as dead
	taskSave                         // save the current peers
)

// New returns a node that is not in the network yet. It acts when Run and Found are called.
func New(e env.Env, signer *wire.Signer, verify wire.Verifier, cfg Config) *Node {
	n := &Node{
		cfg:          cfg.filled(),
		network:      cfg.Network.Name,
		clock:        e.Clock,
		net:          e.Network,
		store:        e.Store,
		rand:         e.Rand,
		log:          e.Log,
		signer:       signer,
		records:      cfg.Records,
		routes:       routeStates{byID: map[uint64]*routeState{}},
		slotSearches: map[uint64]*slotSearch{},

		lookupQueries: map[uint64]lookupQuery{},
		deathReports:  deathReports{pending: map[env.PeerID]env.PeerID{}, falseReports: map[env.PeerID]falseReportCount{}},
	}
	if n.records == nil {
		n.records = NewRecords(n.network, verify, ownRecords)
	}
	n.started = n.clock.Now()
	n.lastHeard = n.started
	n.self = newRecord(n.network, signer, nil, n.started, false)
	n.leaf = newLeafSet(n.self, cfg.Network.LeafSplit, cfg.Network.LeafMerge)
	n.table.self = n.self.ID
	n.loadRemembered()
	n.at(n.started, task{kind: taskJoin})
	n.after(n.jitter(n.cfg.WatchInterval), task{kind: taskWatch})
	n.after(n.jitter(n.cfg.DeadInterval), task{kind: taskDead})
	n.after(n.jitter(n.cfg.SaveInterval), task{kind: taskSave})
	return n
}

// Handle registers the layer that receives the messages routed for it.
func (n *Node) Handle(layer wire.Layer, app Application) {
	i, ok := slices.BinarySearchFunc(n.apps, layer, func(a application, l wire.Layer) int { return cmp.Compare(a.layer, l) })
	if !ok {
		n.apps = slices.Insert(n.apps, i, application{layer: layer})
	}
	n.apps[i].Application = app
}

// application is a layer above with its number.
type application struct {
	layer wire.Layer
	Application
}

// app returns the layer with a number, or nil.
func (n *Node) app(layer wire.Layer) Application {
	for _, a := range n.apps {
		if a.layer == layer {
			return a
		}
	}
	return nil
}

// ID returns the node's own id.
func (n *Node) ID() ID { return n.self.ID }

// Self returns the node's own record.
func (n *Node) Self() *Contact { return n.self }

// State returns the stage of the node's membership.
func (n *Node) State() State { return n.state }

// LastHeard returns the time at which the node last received an overlay message from any peer,
// or its start time if it has received none. In a live network it is seldom longer ago than a
// watch interval.
func (n *Node) LastHeard() time.Time { return n.lastHeard }

// Leaf returns the node's leaf. The caller must neither change nor keep it.
func (n *Node) Leaf() *LeafSet { return n.leaf }

// Hosts returns the members that act for this node while it is a client.
func (n *Node) Hosts() []*Contact {
	var contacts []*Contact
	for _, p := range n.hosts {
		contacts = append(contacts, p.contact)
	}
	return contacts
}

// at schedules a task for a time, and after for a time from now.
func (n *Node) at(t time.Time, what task)        { n.cal.Add(t, what) }
func (n *Node) after(d time.Duration, what task) { n.cal.Add(n.clock.Now().Add(d), what) }

// jitter varies d by up to a quarter, so that nodes do not act in step.
func (n *Node) jitter(d time.Duration) time.Duration {
	return d*3/4 + time.Duration(n.rand.Int64N(int64(d)/2+1))
}

// Run does what is due and returns the time of the next call.
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
	n.routes.expire(now)
	if n.leafChanged {
		n.leafChanged = false
		n.checkDepth(now)
		for _, app := range n.apps {
			app.LeafChanged()
		}
	}
	return n.cal.Next()
}

func (n *Node) do(t task, at, now time.Time) {
	switch t.kind {
	case taskProbe:
		n.probeUnanswered(n.peers.get(t.peer), t.n)
	case taskHop:
		n.hopTimedOut(n.routes.byID[t.n], at)
	case taskRetry:
		n.retry(n.routes.byID[t.n], at)
	case taskHoldExpired:
		n.holdExpired(n.routes.byID[t.n], at)
	case taskJoin:
		n.stepJoin()
	case taskWatch:
		n.watch(now)
	case taskGossip:
		n.gossipLeaf()
	case taskRow:
		if n.nextRowAt.Equal(at) {
			n.askNextRow()
		}
	case taskSlotSearch:
		n.slotSearchUnanswered(t.n)
	case taskLookupQuery:
		n.queryUnanswered(t.n, at)
	case taskSelfLookup:
		if n.selfLookupAt.Equal(at) {
			n.selfLookup()
		}
	case taskStartLookups:
		n.startLookups()
	case taskRowTimeout:
		n.rowUnanswered(n.peers.get(t.peer), at)
	case taskCheckDepth:
		n.checkDepth(now)
	case taskDead:
		n.probeDead()
	case taskSave:
		n.savePeriodically()
	}
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
		p = n.ensureContact(c)
	}
	if p == nil {
		p = n.ensurePeer(from)
	}
	n.heardFrom(p)
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
		n.onRoute(p, b.Route)
	case *overlaypb.Message_Ack:
		n.onAck(p, b.Ack)
	case *overlaypb.Message_Find:
		n.onFind(p, b.Find)
	case *overlaypb.Message_Nearby:
		n.onNearby(p, b.Nearby)
	case *overlaypb.Message_Leaf:
		n.onLeaf(p, b.Leaf)
	case *overlaypb.Message_RowRequest:
		n.onRowRequest(p, b.RowRequest)
	case *overlaypb.Message_RowReply:
		n.onRowReply(p, b.RowReply)
	case *overlaypb.Message_Dead:
		n.onDead(p, b.Dead)
	case *overlaypb.Message_Leave:
		n.onLeave(p)
	}
}

// send sends a message, together with the node's record until the peer is known to have it.
func (n *Node) send(p *peer, m *overlaypb.Message) { n.sendAs(p, env.Control, m) }

func (n *Node) sendAs(p *peer, class env.Class, m *overlaypb.Message) {
	_, ack := m.Body.(*overlaypb.Message_Ack)
	if !p.knowsMe && !ack { // the receiver of an acknowledgement sent to this node, so it knows it
		m.Record = n.self.Raw
		p.recordSent = true
	}
	f := n.encode(m)
	switch m.Body.(type) {
	case *overlaypb.Message_Route, *overlaypb.Message_Ack:
		n.stats.Carrying++
		n.stats.CarryingBytes += uint64(len(f))
	}
	n.net.Send(p.addr(), class, f)
}

// encode encodes a message that is about to be sent, and counts it.
func (n *Node) encode(m *overlaypb.Message) []byte {
	f := frame(m)
	n.stats.Sent++
	n.stats.Bytes += uint64(len(f))
	return f
}

// Network returns the name of the node's network, which is part of every id and key.
func (n *Node) Network() string { return n.network }
