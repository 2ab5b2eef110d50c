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

// An Application is what the layers above make of a log.
type Application interface {
	// Lead tells that this node has become the sequencer of a key, with all
	// that was held in hand, or that it is so no longer.
	Lead(key overlay.ID, on bool)

	// Grew tells that what Shown returns of a key is another.
	VisibleChanged(key overlay.ID)

	// Held tells the sequencer that a quorum holds an entry: it may go down
	// the tree. After a change of sequencer, entries come again.
	Committed(key overlay.ID, e *Entry, body []byte)

	// Absorb hands the sequencer a body of another lineage, to be appended as
	// far as it brings anything new.
	Absorb(key overlay.ID, body []byte)

	// Absorbing says whether something of what Absorb took is still to be
	// appended.
	Absorbing(key overlay.ID) bool
	// Merged says that another lineage has ended in that of the sequencer, this node: who
	// followed it may not know yet.
	BranchMerged(key overlay.ID)

	// Weight returns the clients of a key's tree as its root counts them; ok is
	// false where this node is not the root.
	Weight(key overlay.ID) (weight int, ok bool)

	// Siblings are followers of a key that this node knows.
	Siblings(key overlay.ID) []*overlay.Contact
}

// Config is what an Owners is told. A zero field means its default.
type Config struct {
	// Owners is n, the number of owners of a key. Default 5.
	Owners int
	// Lease is how long a quorum may stay silent before the others go on
	// without it. Default 10 min.
	Lease time.Duration
	// BeatInterval is the time between two comparisons of sequencer and owner.
	// Default 1 min.
	HeartbeatInterval time.Duration
	// Epochs remembers the epochs that others send. Nil: nobody does; nodes of one
	// goroutine may share one.
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
	// answerTime is how long an owner may take before it is asked again.
	answerTime = time.Second
	// settleTime is waited after a change of the leaf: members come and go in
	// groups, and each change of owners costs three rounds.
	leafSettleTime = 2 * time.Second
	// rankTime is how much later the next owner tries to take over than the one
	// before it.
	rankTime = 3 * time.Second
	// maxSeats bounds the keys one node has to do with. At the bound a Want is
	// dropped: its sender tries again, when others may be nearer.
	maxReplicas = 200_000
)

// Owners is one node's part in all logs. It is not safe for concurrent use.
type Owners struct {
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
	sortedReplicas replicaSet                // the same
	ledBy          map[env.PeerID]replicaSet // those this node owns, by their sequencers
	retired        map[overlay.ID]*replica   // the locks of keys this node has to do with no longer
	bodies         bodyCache
	// volatile entries are in a log and not durable yet.
	volatile          map[Hash]bool
	cal               env.Calendar[task]
	checkOwnersAt     time.Time                // when all seats are to be looked at; zero: not
	matchedHeartbeats map[env.PeerID]time.Time // sequencers by their last beat that matched
	listed            map[env.PeerID]map[overlay.ID]bool
	nonce             uint64
	pulledBytes       int // bytes that the pulls under way have brought, or are about to
	queries           map[overlay.ID]*ownerQuery
	candidacies       int          // that hold a place
	waitingKeys       []overlay.ID // keys that wait for one
	started           bool
	leaving           *departure // it gives away what it leads, and owns nothing new; nil: it stays
}

type task struct {
	kind taskKind
	key  overlay.ID
}

type taskKind uint8

const (
	taskCampaign        taskKind = iota // try to make an epoch
	taskRetryCandidacy                  // answers to a bid may be missing
	taskStartWaiting                    // there is room for another bid
	taskRetryReplicate                  // acknowledgements of an entry may be missing
	taskRetryPull                       // an answer to a Pull may be missing
	taskHeartbeat                       // compare with the owners
	taskContactRival                    // tell another lineage
	taskLookUpAgain                     // who lives near a key of another leaf may be looked up again
	taskRetryQuery                      // an answer to a Where may be missing
	taskCheckAllOwners                  // the leaf has changed
	taskCheckOwners                     // the owners of a key may have changed while it got others
	taskHandOverTimeout                 // what is not handed over by now stays so
)

// New returns the Owners of a node, with what an earlier life left in the store,
// and registers it. It acts when the node is active.
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
		queries:           map[overlay.ID]*ownerQuery{},
	}
	o.bodies.pinned = func(h Hash) bool { return o.volatile[h] }
	if err := o.load(); err != nil {
		return nil, err
	}
	node.Handle(wire.Owner, o)
	o.after(o.spread(o.cfg.HeartbeatInterval), task{kind: taskHeartbeat})
	return o, nil
}

func (o *Owners) after(d time.Duration, t task) { o.cal.Add(o.clock.Now().Add(d), t) }

// spread returns d give or take a quarter.
func (o *Owners) spread(d time.Duration) time.Duration {
	return d*3/4 + time.Duration(o.rand.Int64N(int64(d)/2+1))
}

// Run does what is due and returns when it wants to be run next.
func (o *Owners) Run(now time.Time) time.Time {
	if !o.started && o.node.State() == overlay.Active {
		o.started = true
		o.resume()
	}
	for {
		t, _, ok := o.cal.Pop(now)
		if !ok {
			return o.cal.Next()
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
		case taskRetryQuery:
			o.retryQuery(t.key, now)
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

// resume takes up the keys of an earlier life: the node leads those it led.
func (o *Owners) resume() {
	for _, s := range o.sorted() {
		s.lastHeard = o.clock.Now()
		if o.leads(s) {
			o.becomeLeader(s)
		}
	}
	o.LeafChanged()
}

// Want makes the key of a URL owned, if it is not yet. If this node keeps a log of
// the key whose owners have all gone, the new ones go on with that. done is called
// when the root has heard of it, or with false when it could not be reached.
func (o *Owners) RequestOwners(key overlay.ID, url string, done func(ok bool)) {
	want := &ownerpb.RequestOwners{Url: url}
	if s := o.replicas[key]; s != nil && len(s.log) > 0 && o.node.State() == overlay.Active {
		want.Record = o.node.Self().Raw
	}
	o.node.Route(wire.Owner, key, encode(&ownerpb.Message{Body: &ownerpb.Message_RequestOwners{RequestOwners: want}}),
		func(_ overlay.Receipt, ok bool) { done(ok) })
}

// Follow keeps the log of a key here from now on.
func (o *Owners) Follow(key overlay.ID, url string) {
	s := o.ensureReplica(key, url)
	if !s.follow {
		s.follow = true
		o.saveReplica(s, nil)
	}
}

// Unfollow ends a Follow.
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

// PeerGone is not needed: owners are members of one leaf, whose changes tell.
func (o *Owners) PeerGone(env.PeerID) {}

// LeafChanged looks, a little later, who should own what this node owns.
func (o *Owners) LeafChanged() {
	if o.checkOwnersAt.IsZero() {
		o.checkOwnersAt = o.clock.Now().Add(leafSettleTime)
		o.cal.Add(o.checkOwnersAt, task{kind: taskCheckAllOwners})
	}
}
