package owner

import (
	"cmp"
	"fmt"
	"time"

	"tidings/internal/check"
	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/owner/ownerpb"
)

// A Config holds the parameters of an Owners. A zero field means its default.
type Config struct {
	// Owners is the number of owners of a key, 1 to 8. Default 5. More owners survive more simultaneous deaths, but
	// each entry is sent to all of them.
	Owners int
	// Lease is how long a quorum may stay silent before the other owners make a forced reconfiguration. It must not
	// be shorter than HeartbeatInterval, because heartbeats renew it. Default 10 min. With a longer lease, readers wait
	// longer after such a failure; a shorter one branches more logs in a short partition.
	Lease time.Duration
	// HeartbeatInterval is the average time between two comparisons of a sequencer with an owner, at least 100 ms.
	// Default 1 min. A longer interval saves messages, and owners that miss an entry stay behind for longer.
	HeartbeatInterval time.Duration
	// EpochCache holds epochs received from other nodes. Nodes in one goroutine may share one. Default nil: no cache.
	EpochCache *EpochCache
}

func (c Config) withDefaults() Config {
	c.Owners = cmp.Or(c.Owners, 5)
	c.Lease = cmp.Or(c.Lease, 10*time.Minute)
	c.HeartbeatInterval = cmp.Or(c.HeartbeatInterval, time.Minute)
	return c
}

// Validate returns an error that names the first wrong field.
func (c Config) Validate() error {
	c = c.withDefaults()
	return cmp.Or(
		check.Between("owner: Owners", c.Owners, 1, maxOwners),
		check.AtLeast("owner: HeartbeatInterval", c.HeartbeatInterval, 100*time.Millisecond),
		check.That(c.Lease >= c.HeartbeatInterval, "owner: Lease", "is %v; it must be at least HeartbeatInterval, which is %v", c.Lease, c.HeartbeatInterval),
	)
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
	resumed  bool       // the overlay was active once, and resume was called
	resuming []*replica // those that a former run led, and that this one does not lead yet
}

// New returns the Owners of a node, with the logs that a former run has stored, and registers it with the overlay. It
// acts once the node is active.
func New(e env.Env, node *overlay.Node, signer *wire.Signer, verify wire.Verifier, cfg Config, app Application) (*Owners, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
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
	o.storage = newStorage(e, &o.stats, &o.replicas, app.Emit)
	o.puller = &puller{base: b, epochs: o.epochs, storage: o.storage}
	o.server = &server{base: b, storage: o.storage}
	o.liveness = &liveness{base: b, lease: cfg.Lease, matched: map[env.PeerID]time.Time{}}
	o.locator = &locator{base: b, puller: o.puller}
	o.membership = &membership{base: b}
	o.acceptor = &acceptor{membership: o.membership, storage: o.storage, puller: o.puller, liveness: o.liveness, signer: signer}
	o.sequencer = &sequencer{membership: o.membership, storage: o.storage, puller: o.puller, signer: signer, emit: app.Emit}
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
	if err := o.storage.load(e.Clock.Now()); err != nil {
		return nil, err
	}
	node.Handle(wire.Owner, o)
	o.after(env.Jitter(o.rand, cfg.HeartbeatInterval), task{kind: taskHeartbeat})
	return o, nil
}

// Next returns the time of the first task, the zero time if there is none.
func (o *Owners) Next() time.Time {
	if o.mayResume() {
		return env.AtOnce
	}
	return env.Sooner(o.cal.Next(), o.Resolver.due.Next())
}

// mayResume reports whether the node has become a member and not continued the work of its former run yet.
func (o *Owners) mayResume() bool { return !o.resumed && o.node.State() == overlay.Active }

// Run executes the tasks that are due and returns Next.
func (o *Owners) Run(now time.Time) time.Time {
	if o.mayResume() {
		o.resume()
	}
	for t, _, ok := o.cal.Pop(now); ok; t, _, ok = o.cal.Pop(now) {
		switch s := o.replicas.byKey[t.key]; {
		case t.kind == taskHeartbeat:
			o.keeper.heartbeat(now)
		case t.kind == taskStartWaiting:
			o.proposer.startWaiting()
		case t.kind == taskCheckAllOwners:
			o.membership.checkAllOwners()
		case t.kind == taskHandOverTimeout:
			o.departure.timeout(now)
		case t.kind == taskResume:
			o.resumeGroup()
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
	o.Resolver.run(now)
	return o.Next()
}

// A node that led many keys leads them again in groups, and each ResumePause another one, so that its readers get answers
// meanwhile. A hundred thousand keys take a minute or two.
const (
	ResumedAtOnce = 64
	ResumePause   = 25 * time.Millisecond
)

// resume continues the work of a former run: the node leads the keys that it led.
func (o *Owners) resume() {
	o.resumed = true
	for _, s := range o.replicas.all() {
		o.liveness.heard(s)
		if s.ledBy(o.self) {
			o.resuming = append(o.resuming, s)
		}
	}
	o.resumeGroup()
	o.LeafChanged()
}

// resumeGroup leads the next keys that a former run led.
func (o *Owners) resumeGroup() {
	group := o.resuming[:min(len(o.resuming), ResumedAtOnce)]
	for _, s := range group {
		if s.ledBy(o.self) && s.leader == nil && o.replicas.byKey[s.key] == s {
			o.sequencer.becomeLeader(s)
		}
	}
	if o.resuming = o.resuming[len(group):]; len(o.resuming) == 0 {
		o.resuming = nil
		return
	}
	o.after(ResumePause, task{kind: taskResume})
}

// PeerGone does nothing: owners are members of one leaf, and LeafChanged reports its changes.
func (o *Owners) PeerGone(env.PeerID) {}

// Receive handles a message from a peer.
func (o *Owners) Receive(from env.PeerID, body []byte) error {
	m, err := parse(body)
	if err != nil {
		o.stats.Garbage++
		return err
	}
	if err := o.receive(from, m); err != nil {
		o.stats.Garbage++
		return fmt.Errorf("%w: %w", env.ErrFrame, err)
	}
	return nil
}

func (o *Owners) receive(from env.PeerID, m *ownerpb.Message) error {
	switch b := m.Body.(type) {
	case *ownerpb.Message_FindOwners:
		return o.Resolver.onFindOwners(from, b.FindOwners)
	case *ownerpb.Message_OwnersFound:
		return o.Resolver.onOwnersFound(b.OwnersFound)
	case *ownerpb.Message_Prepare:
		o.acceptor.onPrepare(from, b.Prepare)
	case *ownerpb.Message_Promise:
		return o.proposer.onPromise(from, b.Promise)
	case *ownerpb.Message_Sign:
		return o.acceptor.onSign(from, b.Sign)
	case *ownerpb.Message_Signed:
		o.proposer.onSigned(from, b.Signed)
	case *ownerpb.Message_Commit:
		return o.learner.onCommit(from, b.Commit)
	case *ownerpb.Message_Replicate:
		return o.learner.onReplicate(from, b.Replicate)
	case *ownerpb.Message_ReplicateAck:
		o.sequencer.onReplicateAck(from, b.ReplicateAck)
	case *ownerpb.Message_Note:
		o.learner.onNote(from, b.Note)
	case *ownerpb.Message_Heartbeat:
		o.keeper.onHeartbeat(from, b.Heartbeat)
	case *ownerpb.Message_HeartbeatAck:
		o.keeper.onHeartbeatAck(from, b.HeartbeatAck)
	case *ownerpb.Message_LogList:
		o.keeper.onList(from, b.LogList)
	case *ownerpb.Message_WeightReport:
		o.keeper.onWeightReport(from, b.WeightReport)
	case *ownerpb.Message_WeightRequest:
		o.keeper.onWeightRequest(from, b.WeightRequest)
	case *ownerpb.Message_Retire:
		o.keeper.onRetire(from, b.Retire)
	case *ownerpb.Message_Merge:
		return o.merger.onMerge(from, b.Merge)
	case *ownerpb.Message_Pull:
		o.server.onPull(from, b.Pull)
	case *ownerpb.Message_Entries:
		return o.puller.onEntries(from, b.Entries)
	case *ownerpb.Message_ChunkRequest:
		o.server.onChunkRequest(from, b.ChunkRequest)
	case *ownerpb.Message_Chunk:
		return o.puller.onChunk(from, b.Chunk)
	default:
		return errRouted
	}
	return nil
}

// Forward tells the overlay whether to stop a routed message here: never, as all go to the root.
func (o *Owners) Forward(*overlay.Message) bool { return false }

// Deliver handles a message that was routed to this node as the root.
func (o *Owners) Deliver(m *overlay.Message) {
	msg, err := parse(m.Payload)
	if err == nil {
		err = o.deliver(m.Key, msg)
	}
	if err != nil {
		o.stats.Garbage++
	}
}

func (o *Owners) deliver(key overlay.ID, m *ownerpb.Message) error {
	switch b := m.Body.(type) {
	case *ownerpb.Message_RequestOwners:
		if o.keyOf(b.RequestOwners.Url) != key {
			return errKey
		}
		var keeper *overlay.Contact
		if len(b.RequestOwners.Record) > 0 {
			var err error
			if keeper, err = o.node.OpenRecord(b.RequestOwners.Record); err != nil {
				return err
			}
		}
		o.proposer.onRequestOwners(key, b.RequestOwners.Url, keeper)
		return nil
	case *ownerpb.Message_FindOwners:
		if overlay.ID(b.FindOwners.Key) != key || b.FindOwners.Hops > 0 {
			return errKey
		}
		return o.Resolver.answer(b.FindOwners)
	}
	return errRouted
}
