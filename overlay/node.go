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
	// Forward is asked about a message at every node on its way, its origin
	// and its root included, before it goes on. If it returns true the layer
	// has taken the message over, and the way ends here.
	Forward(m *Message) bool

	// Deliver is called at the root of the message's key. At most once for
	// a message at one node; at another node again if the origin had to try
	// once more and the root changed between.
	Deliver(m *Message)

	// PeerGone reports that a peer the layer Watches is dead, or has left.
	PeerGone(id env.PeerID)

	// LeafChanged reports that members joined or left the node's leaf, so
	// that the root of a key may be another.
	LeafChanged()
}

// A Message is a payload on its way.
type Message struct {
	Key     ID
	Layer   wire.Layer
	Payload []byte
	// Prev is the peer it came from, empty at its origin.
	Prev env.PeerID
	Hops int
}

// State says how far a node has come in its network.
type State uint8

const (
	// Alone: it knows nobody yet, or waits to learn whether it can be dialled.
	Alone State = iota
	// Joining: it looks for its leaf and is being acknowledged.
	Joining
	// Active: a member; it is the root of keys.
	Active
	// Attached: a client that one or two members act for.
	Attached
	// Left: it left in good order.
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
	lastHeard time.Time // when any peer spoke last; the start, as long as nobody has
	reachable []string  // where it was dialled back; nil: not, or not known
	stats     Stats

	peers         peerList
	watchList     watchList
	hasClients    bool         // there may be clients that it acts for
	unplaced      []env.PeerID // peers without a place, the oldest first
	leaf          *LeafSet
	table         table
	join          join
	held          []*routeState // wait until the node is active, or a slot is confirmed
	sendQueue     []*routeState // own messages that wait for their turn
	inFlight      int           // own messages that no next hop has taken over
	drainingQueue bool          // their turn is being given
	routes        routeStates
	slotSearches  map[uint64]*slotSearch // searches, by the nonce of the question that is out
	lookupQueries map[uint64]lookupQuery // of look-ups, by nonce
	activeLookups []*lookup
	queuedLookups []*lookup // for their turn
	tombstones    tombstones
	deathReports  deathReports
	churn         churnRate
	remembered    []*Contact // remembered from an earlier life
	bootstraps    []*Contact // members that the node was told of by others than members
	hosts         []*peer    // the members that act for a client

	cal                 env.Calendar[task]
	leafChanged         bool          // LeafChanged is due
	nextRowAt           time.Time     // when the next contact of the table is asked
	selfLookupAt        time.Time     // when its own id is next looked up
	selfLookupInterval  time.Duration // and how long after that again
	unsettledSince      time.Time     // since when the leaf calls for another depth
	surveyedAt          time.Time     // when some of the leaf were last asked for its depth
	surveyCount         int           // times that they were asked since it was changed
	depthChangedAt      time.Time     // when the leaf's depth was last changed
	siblingCountedAt    time.Time     // when the leaf's sibling was last counted anew
	depthBeforeWidening int           // depth of the leaf before it was widened
	wideningEnds        time.Time     // when the wider one counts as whole
	gossipLeft          int           // rounds of comparing leaves that are still to come
	tableProbedAt       time.Time     // when the whole table was last probed
	deadProbedAt        time.Time     // when the dead were last all visited
	slotTurn            int           // of the slots, whose contact is asked next
	quickRounds         int           // rounds through the whole table that are still to come at once
	savedRecords        []*Contact    // what the store holds, by id
}

// A task is an entry of the node's calendar. What it is about may be gone when
// its time comes.
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
	taskHoldExpired                  // a message has waited long enough; n: message
	taskJoin                         // the next step of a join
	taskWatch                        // look after the watched
	taskGossip                       // compare leaves after a change
	taskRow                          // ask the next contact of the table
	taskSlotSearch                   // a member left Find unanswered; n: nonce
	taskLookupQuery                  // so did one that a look-up asked; n: nonce
	taskSelfLookup                   // see who is near the node's own id
	taskStartLookups                 // there is room for another look-up
	taskRowTimeout                   // a contact left RowRequest unanswered; n: row
	taskCheckDepth                   // see whether the leaf still calls for another depth
	taskDead                         // probe somebody remembered as dead
	taskSave                         // remember who is here
)

// New returns a node that is not yet in the network; it acts when Run and Found
// are called.
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

// Handle registers the layer that takes the messages routed for it.
func (n *Node) Handle(layer wire.Layer, app Application) {
	i, ok := slices.BinarySearchFunc(n.apps, layer, func(a application, l wire.Layer) int { return cmp.Compare(a.layer, l) })
	if !ok {
		n.apps = slices.Insert(n.apps, i, application{layer: layer})
	}
	n.apps[i].Application = app
}

// application is a layer above and its number.
type application struct {
	layer wire.Layer
	Application
}

// app returns the layer that takes messages of a number, nil if there is none.
func (n *Node) app(layer wire.Layer) Application {
	for _, a := range n.apps {
		if a.layer == layer {
			return a
		}
	}
	return nil
}

// ID is the node's own id.
func (n *Node) ID() ID { return n.self.ID }

// Self is the node's own record.
func (n *Node) Self() *Contact { return n.self }

// State says how far the node has come.
func (n *Node) State() State { return n.state }

// LastHeard is when the node last received a message of the overlay from any peer; as long as it has
// received none, when it started. In a live network hardly more than a watch interval passes.
func (n *Node) LastHeard() time.Time { return n.lastHeard }

// Leaf is the node's leaf. It must not be changed, nor kept.
func (n *Node) Leaf() *LeafSet { return n.leaf }

// Hosts returns the members that act for this node while it is a client.
func (n *Node) Hosts() []*Contact {
	var of []*Contact
	for _, p := range n.hosts {
		of = append(of, p.contact)
	}
	return of
}

// at enters a task; after does so from now on.
func (n *Node) at(t time.Time, what task)        { n.cal.Add(t, what) }
func (n *Node) after(d time.Duration, what task) { n.cal.Add(n.clock.Now().Add(d), what) }
func (n *Node) jitter(d time.Duration) time.Duration { // d give or take a quarter, so that nodes do not march in step
	return d*3/4 + time.Duration(n.rand.Int64N(int64(d)/2+1))
}

// Run does what is due and returns when it wants to be run next.
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
			n.nextRow()
		}
	case taskSlotSearch:
		n.slotSearchUnanswered(t.n)
	case taskLookupQuery:
		n.queryUnanswered(t.n, at)
	case taskSelfLookup:
		if n.selfLookupAt.Equal(at) {
			n.lookUpSelfAgain()
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

// Receive takes one message of the overlay's from a peer.
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
		return ErrRecord // nobody passes on a record that he has not verified
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

// send puts a message on its way, with the node's record as long as the peer
// may not have it.
func (n *Node) send(p *peer, m *overlaypb.Message) { n.sendAs(p, env.Control, m) }

func (n *Node) sendAs(p *peer, class env.Class, m *overlaypb.Message) {
	_, ack := m.Body.(*overlaypb.Message_Ack)
	if !p.knowsMe && !ack { // who gets an acknowledgement knows whom it sent to
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

// toSend encodes a message that is about to be sent, and counts it.
func (n *Node) encode(m *overlaypb.Message) []byte {
	f := frame(m)
	n.stats.Sent++
	n.stats.Bytes += uint64(len(f))
	return f
}

// Network is the name of the node's network, which ids and keys are made with.
func (n *Node) Network() string { return n.network }
