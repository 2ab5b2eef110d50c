package owner

import (
	"cmp"
	"time"

	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay"
)

// An Application is the layer above. Its methods are called from within Receive, Run and other methods of Owners.
type Application interface {
	// VisibleChanged reports that the result of Visible has changed.
	VisibleChanged(key overlay.ID)

	// Weight returns the number of clients in a key's tree; ok is false if this node is not the tree's root.
	Weight(key overlay.ID) (weight int, ok bool)

	SequencerApplication
	MergeApplication
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
	c.Owners = cmp.Or(c.Owners, 5)
	c.Lease = cmp.Or(c.Lease, 10*time.Minute)
	c.HeartbeatInterval = cmp.Or(c.HeartbeatInterval, time.Minute)
	return c
}

const (
	// answerTime is how long an owner may take to answer before a request is repeated.
	answerTime = time.Second
)

// Owners is one node's part in all logs: components, to which it passes messages, tasks and calls. It is not safe for
// concurrent use.
type Owners struct {
	*Resolver
	base
	*epochs
	*storage
	*puller
	server   *server
	liveness *liveness
	locator  *locator
	*membership
	acceptor *acceptor
	*sequencer
	*proposer
	*departure
	*learner
	merger *merger
	*keeper

	stats    Stats
	replicas replicas
	started  bool // the overlay was active once, and resume was called
}

// New returns the Owners of a node, with the logs that a former run has stored, and registers it with the overlay. It
// acts once the node is active.
func New(e env.Env, node *overlay.Node, signer *wire.Signer, verify wire.Verifier, cfg Config, app Application) (*Owners, error) {
	cfg = cfg.withDefaults()
	o := &Owners{replicas: newReplicas(signer.PeerID())}
	b := base{
		timers:   &timers{clock: e.Clock, rand: e.Rand},
		peers:    &peers{node: node, net: e.Network, self: signer.PeerID(), owners: cfg.Owners, stats: &o.stats},
		replicas: &o.replicas,
	}
	o.base = b
	o.epochs = &epochs{base: b, verify: verify, cache: cfg.EpochCache}
	o.Resolver = newResolver(b, o.epochs, o, app)
	o.storage = newStorage(e, &o.stats, &o.replicas, app.VisibleChanged)
	o.puller = &puller{base: b, epochs: o.epochs, storage: o.storage}
	o.server = &server{base: b, storage: o.storage}
	o.liveness = &liveness{timers: b.timers, lease: cfg.Lease, matched: map[env.PeerID]time.Time{}}
	o.locator = &locator{base: b, puller: o.puller}
	o.membership = &membership{base: b}
	o.acceptor = &acceptor{membership: o.membership, storage: o.storage, puller: o.puller, liveness: o.liveness, signer: signer}
	o.sequencer = &sequencer{membership: o.membership, storage: o.storage, puller: o.puller, signer: signer, app: app}
	o.proposer = &proposer{
		membership: o.membership, storage: o.storage, puller: o.puller, liveness: o.liveness, locator: o.locator,
		acceptor: o.acceptor, sequencer: o.sequencer, epochs: o.epochs, signer: signer,
	}
	o.departure = &departure{membership: o.membership}
	o.learner = &learner{
		base: b, storage: o.storage, epochs: o.epochs, puller: o.puller, liveness: o.liveness, locator: o.locator,
		acceptor: o.acceptor, sequencer: o.sequencer, proposer: o.proposer, departure: o.departure,
	}
	o.merger = &merger{
		base: b, storage: o.storage, epochs: o.epochs, puller: o.puller, locator: o.locator, sequencer: o.sequencer,
		proposer: o.proposer, learner: o.learner, app: app,
	}
	o.keeper = &keeper{
		membership: o.membership, storage: o.storage, puller: o.puller, liveness: o.liveness, sequencer: o.sequencer,
		proposer: o.proposer, interval: cfg.HeartbeatInterval, listed: map[env.PeerID]map[overlay.ID]bool{}, weight: app.Weight,
	}
	o.puller.finish, o.proposer.commit, o.learner.otherBranch = o.learner.take, o.learner.commit, o.merger.onOtherBranch
	if err := o.storage.load(verify, e.Clock.Now()); err != nil {
		return nil, err
	}
	node.Handle(wire.Owner, o)
	o.after(o.spread(cfg.HeartbeatInterval), task{kind: taskHeartbeat})
	return o, nil
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
		switch s := o.replicas.byKey[t.key]; {
		case t.kind == taskHeartbeat:
			o.keeper.heartbeat(now)
		case t.kind == taskStartWaiting:
			o.proposer.startWaiting()
		case t.kind == taskCheckAllOwners:
			o.membership.checkAllOwners()
		case t.kind == taskHandOverTimeout:
			o.departure.timeout(now)
		case s == nil: // the log was forgotten
		case t.kind == taskCheckOwners:
			o.membership.checkOwners(s)
		case t.kind == taskCampaign:
			o.proposer.campaign(s, now)
		case t.kind == taskRetryCandidacy:
			o.proposer.retry(s, now)
		case t.kind == taskRetryReplicate:
			o.sequencer.retry(s, now)
		case t.kind == taskRetryPull:
			o.puller.retry(s, now)
		case t.kind == taskLookUpAgain:
			o.locator.lookUpAgain(s)
		case t.kind == taskContactRival:
			o.merger.retryContact(s, now)
		}
	}
}

// resume continues the work of a former run: the node leads the keys that it led.
func (o *Owners) resume() {
	for _, s := range o.replicas.all() {
		o.liveness.heard(s)
		if s.ledBy(o.self) {
			o.sequencer.becomeLeader(s)
		}
	}
	o.LeafChanged()
}

// PeerGone does nothing: owners are members of one leaf, and LeafChanged reports its changes.
func (o *Owners) PeerGone(env.PeerID) {}
