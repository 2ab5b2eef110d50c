package owner

import (
	"log/slog"
	"math/rand/v2"
	"time"

	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/owner/ownerpb"
)

// An Application is the layer above. Its methods are called from within Receive, Run and other methods of Owners.
type Application interface {
	// Lead reports that this node has become the sequencer of a key, and has all committed entries, or that it
	// has ceased to be.
	Lead(key overlay.ID, on bool)

	// VisibleChanged reports that the result of Visible has changed.
	VisibleChanged(key overlay.ID)

	// Committed reports to the sequencer that an entry is committed and may be sent down the tree. After a
	// change of sequencer some entries are reported again.
	Committed(key overlay.ID, e *Entry, body []byte)

	// Absorb hands the sequencer a body of another branch; what is new in it is to be appended.
	Absorb(key overlay.ID, body []byte)

	// Absorbing reports whether something that Absorb took is still to be appended.
	Absorbing(key overlay.ID) bool
	// BranchMerged reports to the sequencer that another branch has ended in its own. Followers of the other
	// branch may not know yet.
	BranchMerged(key overlay.ID)

	// Weight returns the number of clients in a key's tree; ok is false if this node is not the tree's root.
	Weight(key overlay.ID) (weight int, ok bool)

	ResolverApplication
}

// A Config holds the parameters of an Owners. A zero field stands for its default.
type Config struct {
	// Owners is the number of owners of a key, 1 to 8. More owners survive more simultaneous deaths, but each
	// entry is sent to all of them. Default 5.
	Owners int
	// Lease is how long a quorum may stay silent before the other owners make a forced reconfiguration. A shorter
	// lease lets readers wait less after such a failure, but branches more logs in a short partition. Default
	// 10 min.
	Lease time.Duration
	// HeartbeatInterval is the average time between two comparisons of a sequencer with an owner. Default 1 min.
	HeartbeatInterval time.Duration
	// EpochCache holds epochs received from other nodes. Nodes in one goroutine may share one. Nil: no cache.
	EpochCache *EpochCache
}

func (c Config) withDefaults() Config {
	if c.Owners == 0 {
		c.Owners = 5
	}
	if c.Lease == 0 {
		c.Lease = 10 * time.Minute
	}
	if c.HeartbeatInterval == 0 {
		c.HeartbeatInterval = time.Minute
	}
	return c
}

const (
	// answerTime is how long an owner may take to answer before a request is repeated.
	answerTime = time.Second
	// leafSettleTime is the delay after a change of the leaf: members come and go in groups, and each change of owners
	// costs three rounds.
	leafSettleTime = 2 * time.Second
	// rankTime is how much later each owner campaigns than the next nearer one.
	rankTime = 3 * time.Second
	// maxReplicas bounds the keys in which one node takes part. At the bound requests for owners are dropped; a later
	// request may reach a node with room.
	maxReplicas = 200_000
)

// Owners is one node's part in all logs. It is not safe for concurrent use.
type Owners struct {
	*Resolver

	cfg    Config
	clock  env.Clock
	net    env.Network
	store  env.Store
	worker env.Worker
	rand   *rand.Rand
	log    *slog.Logger
	node   *overlay.Node
	signer *wire.Signer
	verify wire.Verifier
	app    Application
	self   env.PeerID
	stats  Stats

	replicas       map[overlay.ID]*replica
	sortedReplicas replicaSet                // the same replicas, by key
	ledBy          map[env.PeerID]replicaSet // replicas of owned keys, by sequencer
	retired        map[overlay.ID]*replica   // votes for keys that were forgotten
	bodies         bodyCache
	// volatile holds the entries of logs that are not durable yet.
	volatile          map[Hash]bool
	cal               env.Calendar[task]
	checkOwnersAt     time.Time                          // time of the next check of all owners; zero: none planned
	matchedHeartbeats map[env.PeerID]time.Time           // time of the last matching heartbeat, by sequencer
	listed            map[env.PeerID]map[overlay.ID]bool // keys listed so far by sequencers whose heartbeat did not match
	nonce             uint64                             // last nonce of a heartbeat or page
	pulledBytes       int                                // bytes held by pulls under way; at most about maxPulling
	candidacies       int                                // candidacies that hold a slot; at most maxCandidacies
	waitingKeys       []overlay.ID                       // keys whose campaigns wait for a slot, in order
	started           bool                               // the overlay was active once, and resume was called
	leaving           *departure                         // non-nil when the node is leaving: it hands over its keys and owns no new ones
}

type task struct {
	kind taskKind
	key  overlay.ID
}

type taskKind uint8

const (
	taskCampaign        taskKind = iota // start a candidacy
	taskRetryCandidacy                  // repeat a candidacy's requests
	taskStartWaiting                    // start campaigns that wait for a slot
	taskRetryReplicate                  // send an entry again
	taskRetryPull                       // repeat a pull's request
	taskHeartbeat                       // send heartbeats
	taskContactRival                    // contact another branch again
	taskLookUpAgain                     // a lookup has expired; pull from the informant
	taskCheckAllOwners                  // check all owners after a change of the leaf
	taskCheckOwners                     // check the owners of a key after an epoch was committed
	taskHandOverTimeout                 // end a hand-over without progress
)

// New returns the Owners of a node, with the logs that a former run has stored, and registers it with the overlay. It
// acts once the node is active.
func New(e env.Env, node *overlay.Node, signer *wire.Signer, verify wire.Verifier, cfg Config, app Application) (*Owners, error) {
	o := &Owners{
		cfg:      cfg.withDefaults(),
		clock:    e.Clock,
		net:      e.Network,
		store:    e.Store,
		worker:   e.Worker,
		rand:     e.Rand,
		log:      e.Log,
		node:     node,
		signer:   signer,
		verify:   verify,
		app:      app,
		self:     signer.PeerID(),
		replicas: map[overlay.ID]*replica{},
		ledBy:    map[env.PeerID]replicaSet{},
		retired:  map[overlay.ID]*replica{},
		bodies:   bodyCache{byEntry: map[Hash][]byte{}},

		volatile:          map[Hash]bool{},
		matchedHeartbeats: map[env.PeerID]time.Time{},
		listed:            map[env.PeerID]map[overlay.ID]bool{},
	}
	o.Resolver = newResolver(e, node, o, app, o.self, o.cfg.Owners)
	o.bodies.pinned = func(h Hash) bool { return o.volatile[h] }
	if err := o.load(); err != nil {
		return nil, err
	}
	node.Handle(wire.Owner, o)
	o.after(o.spread(o.cfg.HeartbeatInterval), task{kind: taskHeartbeat})
	return o, nil
}

func (o *Owners) after(d time.Duration, t task) { o.cal.Add(o.clock.Now().Add(d), t) }

// spread returns a random duration between 3/4 and 5/4 of d.
func (o *Owners) spread(d time.Duration) time.Duration {
	return d*3/4 + time.Duration(o.rand.Int64N(int64(d)/2+1))
}

// Run executes the tasks that are due and returns the time of the next one.
func (o *Owners) Run(now time.Time) time.Time {
	if !o.started && o.node.State() == overlay.Active {
		o.started = true
		o.resume()
	}
	for {
		t, _, ok := o.cal.Pop(now)
		if !ok {
			return env.Sooner(o.cal.Next(), o.Resolver.run(now))
		}
		s := o.replicas[t.key]
		switch t.kind {
		case taskCampaign:
			if s != nil && !s.campaignAt.IsZero() && !s.campaignAt.After(now) {
				s.campaignAt = time.Time{}
				o.campaign(s)
			}
		case taskRetryCandidacy:
			if s != nil && s.candidacy != nil {
				o.retryCandidacy(s, now)
			}
		case taskStartWaiting:
			o.startWaiting()
		case taskRetryReplicate:
			if s != nil && s.leader != nil {
				o.retryReplicate(s, now)
			}
		case taskRetryPull:
			if s != nil && s.pull != nil {
				o.retryPull(s, now)
			}
		case taskContactRival:
			if s != nil {
				s.rivalContacted = false
				o.retryContact(s, now)
			}
		case taskLookUpAgain:
			if s != nil {
				o.lookUpAgain(s)
			}
		case taskHeartbeat:
			o.heartbeat(now)
			o.after(o.spread(o.cfg.HeartbeatInterval), t)
		case taskCheckAllOwners:
			if !o.checkOwnersAt.IsZero() && !o.checkOwnersAt.After(now) {
				o.checkOwnersAt = time.Time{}
				o.checkAllOwners()
			}
		case taskCheckOwners:
			if s != nil && o.owns(s) {
				o.checkOwners(s)
			}
		case taskHandOverTimeout:
			o.handOverTimeout(now)
		}
	}
}

// resume continues the work of a former run: the node leads the keys that it led.
func (o *Owners) resume() {
	for _, s := range o.sorted() {
		s.lastHeard = o.clock.Now()
		if o.leads(s) {
			o.becomeLeader(s)
		}
	}
	o.LeafChanged()
}

// RequestOwners asks the root of a URL's key to found a log if the key has no owners. If this node keeps a log whose
// owners are all gone, the new owners continue that log. done is told whether the root received the request.
func (o *Owners) RequestOwners(key overlay.ID, url string, done func(ok bool)) {
	want := &ownerpb.RequestOwners{Url: url}
	if s := o.replicas[key]; s != nil && len(s.log) > 0 && o.node.State() == overlay.Active {
		want.Record = o.node.Self().Raw
	}
	o.node.Route(wire.Owner, key, encode(&ownerpb.Message{Body: &ownerpb.Message_RequestOwners{RequestOwners: want}}),
		func(_ overlay.Receipt, ok bool) { done(ok) })
}

// Follow makes this node keep the log of a key.
func (o *Owners) Follow(key overlay.ID, url string) {
	s := o.ensureReplica(key, url)
	if !s.follow {
		s.follow = true
		o.saveReplica(s, nil)
	}
}

// Unfollow ends a Follow. The log is forgotten unless this node is an owner.
func (o *Owners) Unfollow(key overlay.ID) {
	s := o.replicas[key]
	if s == nil || !s.follow {
		return
	}
	s.follow = false
	o.Release(key, Hash{})
	if !o.owns(s) {
		o.forget(s)
		return
	}
	o.saveReplica(s, nil)
}

func (o *Owners) ensureReplica(key overlay.ID, url string) *replica {
	s := o.replicas[key]
	if s == nil {
		s = &replica{key: key, url: url}
		if locks := o.retired[key]; locks != nil {
			s.promised, s.signed = locks.promised, locks.signed
			delete(o.retired, key)
		}
		s.lastHeard = o.clock.Now()
		o.addReplica(s)
	}
	return s
}

// PeerGone does nothing: owners are members of one leaf, and LeafChanged reports its changes.
func (o *Owners) PeerGone(env.PeerID) {}

// LeafChanged plans a check of all owners.
func (o *Owners) LeafChanged() {
	if o.checkOwnersAt.IsZero() {
		o.checkOwnersAt = o.clock.Now().Add(leafSettleTime)
		o.cal.Add(o.checkOwnersAt, task{kind: taskCheckAllOwners})
	}
}
