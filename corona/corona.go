package corona

import (
	"math"
	"time"

	"tidings/corona/coronapb"
	"tidings/difference"
	"tidings/honeycomb"
	"tidings/internal/env"
	"tidings/internal/feed"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/wedge"
)

// Application is what the layers above do with the results of polls.
type Application interface {
	// Found hands over the changes that a poll found in a channel, for its log, and the document
	// they came from. It calls done with true when a quorum holds all of them, and with false if
	// that fails. Found returns false if it cannot take the changes now.
	Found(key overlay.ID, d difference.Delta, doc *feed.Feed, done func(ok bool)) bool

	// Saw hands over the head of a channel's document that this node has just fetched from the
	// origin, before the document's changes. secure means that nobody could have altered the
	// document on the way.
	Saw(key overlay.ID, head *feed.Head, secure bool)

	// StateChanged hands over a new state of a channel's polls, encoded, for its subscribers.
	StateChanged(key overlay.ID, state []byte, urgency Urgency)

	// SetNote replicates the channel's record among its owners.
	SetNote(key overlay.ID, note []byte)

	// Weight returns the number of clients of a channel, as last reported.
	Weight(key overlay.ID) int

	// Leader returns the sequencer of a channel, if this node knows one.
	Leader(key overlay.ID) (env.Peer, bool)

	// Term returns the number of this node's term as the sequencer of a channel. It is the number
	// that Lead was called with, or a greater one if another node led the channel in between.
	Term(key overlay.ID) uint64

	// Fading returns the items that the channel's log will drop when so many items are appended.
	// Items that the origin still shows are appended again.
	Fading(key overlay.ID, items int) []feed.ID

	// Owns says whether this node is an owner of a channel's key.
	Owns(key overlay.ID) bool

	// Fetched answers FetchOnce with the document, or with nil if there is none. o is what the
	// address offers in place of a feed.
	Fetched(key overlay.ID, f *feed.Feed, o Offer, state State)
}

// Urgency says how soon subscribers should learn of a state.
type Urgency uint8

const (
	NotUrgent Urgency = iota // with the next heartbeat
	Soon                     // within some minutes
	AtOnce
)

// Wedges assigns ranks to the pollers of channels. A *wedge.Wedges implements it.
type Wedges interface {
	Enlist(key overlay.ID, o wedge.Order) error
	Broadcast(key overlay.ID, message []byte) error
	Leads(key overlay.ID) bool
	Served(key overlay.ID) (served, declined int)
	AdjustLevels()
}

// Config holds the settings of a Corona. A zero field means its default.
type Config struct {
	// Network is the name from which keys are derived.
	Network string
	// PollInterval is tau, the time between two polls of a channel by one node. Default 30 min.
	PollInterval time.Duration
	// MaintenanceInterval is the period of leases and of decisions. Default 10 min.
	MaintenanceInterval time.Duration
	// Objective, Cut, Base, Load and Detection define the optimisation problem (honeycomb). The
	// default is Lite with a load of 1.
	Objective honeycomb.Objective
	Cut       honeycomb.Cut
	Base      int
	Load      float64
	Detection time.Duration
	// Clusters publishes the paper's tradeoff clusters instead of bins, and uses its estimate of
	// wedge sizes, N/b^l.
	Clusters bool
	// Random lets each poller draw its own phase, as in the paper. Otherwise phases are evenly
	// spaced.
	Random bool
	// DAG lets each node of a wedge of Levels decide for the nodes behind it, as in the paper.
	// Phases are then random. Otherwise sequencers decide alone.
	DAG bool
	// Politeness limits how often origins are polled (EnablePoliteness).
	Politeness bool
	// ExemptPrivate exempts origins on private addresses from budgets. A node that may fetch from
	// private addresses sets it. In a laboratory without it, private addresses stand for public
	// ones.
	ExemptPrivate bool
	// Compression is the factor by which a laboratory's intervals are shorter than real ones. The
	// times of politeness (minChannelGap, budgetFloor, budgetCeil, ungrantedGap, and the shortest
	// interval without a grant) shrink by the same factor. At least 1. Default 1.
	Compression float64
	// Payloads is a cache that several nodes of one network may share if they run on one goroutine.
	// If it is nil, the node has its own.
	Payloads *PayloadCache
}

func (c Config) filled() Config {
	if c.PollInterval == 0 {
		c.PollInterval = 30 * time.Minute
	}
	if c.Base == 0 {
		c.Base = 16
	}
	if c.Load == 0 {
		c.Load = 1
	}
	if c.MaintenanceInterval == 0 {
		c.MaintenanceInterval = 10 * time.Minute
	}
	c.Compression = max(c.Compression, 1)
	if c.Payloads == nil {
		c.Payloads = NewPayloadCache(ownPayloads)
	}
	return c
}

// Corona is one node's part in polling. It is not safe for concurrent use. It is made of components,
// each of which uses only those above it in this list, and passes them time, messages and answers.
type Corona struct {
	*base
	domains *domains
	permits *permits
	*steward
	*allocator
	*requests
	*lonePolls
	reports *reports
	*poller
	intake *intake
	*sequencer

	onDemand map[overlay.ID]bool // channels that FetchOnce fetches
}

// Stats counts what a Corona has done since it started. The names of the fields are those of the
// metrics (internal/daemon), so renaming a field renames a metric.
type Stats struct {
	Channels  int    // feeds that this node leads
	Duties    int    // feeds that this node polls
	Polls     uint64 // answers to polls
	Unchanged uint64 // answers to polls without anything new (304, or the same document)
	Sightings uint64 // answers to polls with something new for another node
	Failed    uint64 // answers to polls that were errors
	Findings  uint64 // documents with something new for a feed that this node leads
	Items     uint64 // new and edited items in those documents
	Asked     uint64 // documents fetched for a single reader
	Lone      uint64 // polls for readers of this node, because no other node was known to poll for them
	Late      uint64 // answers that never came
	Busy      uint64 // polls that the fetcher had no capacity for
	Garbage   uint64 // messages that make no sense
	Astray    uint64 // messages for the sequencer of a feed that this node does not lead
	Strangers uint64 // observations dropped: too old, from a node that cannot have a rank, or sent by another node
	Unheard   uint64 // reports about polls from nodes that cannot be pollers of the feed, or outdated ones
	Crowded   uint64 // change reports, and feeds of a domain, dropped for lack of space
	Unlisted  uint64 // orders to a wedge that could not be given

	Skipped    uint64 // polls left out because no grant covered them
	Solo       uint64 // polls without a grant, which a domain tolerates now and then
	Forged     uint64 // forged grants and epochs of budget leaders
	Expired    uint64 // grants that came too late, or ended before the next one came
	Replayed   uint64 // outdated grants and claims
	Granted    uint64 // requests for grants answered as the budget leader of a domain
	Short      uint64 // requests for grants refused because the budget was used up
	Denied     uint64 // grants of others that were not signed: beyond the budget, or out of order
	Misclaimed uint64 // feeds claimed by a node that cannot lead them, or for another domain
}

// New returns a Corona without channels.
func New(e env.Env, node *overlay.Node, signer *wire.Signer, verify wire.Verifier, wedges Wedges, cfg Config, app Application) *Corona {
	cfg = cfg.filled()
	b := &base{
		cfg: cfg, clock: e.Clock, net: e.Network, worker: e.Worker, rand: e.Rand, log: e.Log,
		node: node, signer: signer, verifier: verify, wedges: wedges, app: app,
	}
	c := &Corona{base: b, onDemand: map[overlay.ID]bool{}}
	c.domains = &domains{base: b, byName: map[string]*domain{}}
	c.permits = &permits{base: b, domains: c.domains, allowed: map[overlay.ID]moment{}}
	c.steward = &steward{base: b, permits: c.permits}
	c.allocator = newAllocator(b, c.permits)
	c.requests = &requests{base: b, fetcher: e.Fetcher, open: map[env.Handle]request{}}
	c.lonePolls = &lonePolls{base: b, domains: c.domains, requests: c.requests, byKey: map[overlay.ID]*lonePoll{}}
	c.reports = &reports{base: b}
	c.poller = newPoller(b, c.domains, c.permits, c.allocator, c.requests, c.lonePolls, c.reports)
	c.intake = &intake{base: b}
	c.sequencer = newSequencer(b, c.domains, c.permits, c.allocator, c.requests, c.poller, c.intake)
	return c
}

// Run does everything that is due and returns the time of the next call.
func (c *Corona) Run(now time.Time) time.Time {
	c.poller.run(now)
	c.lonePolls.run(now)
	c.sequencer.run(now)
	c.poller.repeatReports(now)
	c.intake.run(now)
	c.allocator.run(now, c.assignments.Len() > 0)
	c.permits.run(now)
	c.steward.run(now)
	c.poller.checkOverdue(now)
	next := c.poller.next()
	for _, at := range []time.Time{
		c.lonePolls.calendar.Next(), c.sequencer.calendar.Next(), c.reports.calendar.Next(), c.intake.calendar.Next(),
		c.decideAt, c.permits.calendar.Next(), c.steward.next(),
	} {
		next = env.Sooner(next, at)
	}
	return next
}

// Answered takes the response to a request.
func (c *Corona) Answered(h env.Handle, a env.Answer) {
	if !c.poller.responded(h, a) {
		c.requests.answered(h, a)
	}
}

// FetchOnce fetches a document once, outside the schedule, for a reader of this node that has not
// subscribed or that no other node could serve. The result goes to Application.Fetched.
func (c *Corona) FetchOnce(key overlay.ID, url string) {
	if c.onDemand[key] {
		return
	}
	c.onDemand[key] = true
	c.stats.Asked++
	address, isPage := feed.AtOrigin(url)
	h := c.requests.add(request{url: url, offers: true, then: func(_ env.Handle, a env.Answer, r observation, verdict State, _ time.Time) {
		delete(c.onDemand, key)
		c.noteAddress(key, a)
		switch {
		case verdict.Kind != coronapb.State_OK:
			r.f = nil
		case r.page != nil:
			r.f.Items = nil // of a page, readers read the changes only
		default:
			c.app.Saw(key, &r.f.Head, r.secure(url))
		}
		c.app.Fetched(key, r.f, r.offer, verdict)
	}})
	c.requests.fetcher.Fetch(h, env.Request{URL: address, Robots: isPage})
}

// Stats returns the counters.
func (c *Corona) Stats() Stats {
	st := c.stats
	st.Channels, st.Duties = len(c.leaders), c.assignments.Len()
	return st
}

// Level returns the level down to which a channel's wedge should reach (wedge.Application). It is
// called on nodes that decide for others. They know the channel's tradeoff factors from its
// parameters, and the load of all others from the aggregate (Corona §3.3).
func (c *Corona) Level(key overlay.ID) int {
	d := c.assignments.Get(key)
	if !c.allocator.decided || d == nil {
		return math.MaxInt
	}
	p, interval := &d.target.params, d.schedule.Interval
	return c.allocator.levelOf(key, honeycomb.Channel{
		Subscribers: float64(p.readers), Size: p.size, Update: p.update, Interval: interval,
		Max: c.permits.pollerLimit(d.domain, d.extras().permit, p.readers, interval),
	})
}

// EnablePoliteness makes a Corona keep to the budgets of domains, if Config.Politeness is set. The
// node asks the domains' stewards for grants, and acts as a steward for the domains whose keys it
// owns. Without it, origins have no budgets, as in the paper.
func (c *Corona) EnablePoliteness(owners Owners) {
	if c.cfg.Politeness {
		c.domains.budgeted = true
		c.permits.owners = owners
		c.steward.enable(owners)
	}
}

// Receive takes a message from a poller or a sequencer.
func (c *Corona) Receive(from env.PeerID, body []byte) error {
	m, key, err := parse(body)
	if err != nil {
		return err
	}
	if p := m.GetPoliteness(); p != nil {
		c.steward.receive(from, p)
		return nil
	}
	c.take(key, from, m)
	return nil
}

// Deliver takes a message that was routed to a key. If this node is not the key's sequencer but
// knows it, the message is forwarded.
func (c *Corona) Deliver(key overlay.ID, body []byte) {
	m, of, err := parse(body)
	if p := m.GetPoliteness(); err == nil && p != nil {
		c.steward.deliver(key, p)
		return
	}
	if err != nil || of != key || m.GetChange() == nil && m.GetStatus() == nil {
		c.stats.Garbage++
		return
	}
	if c.leaders[key] != nil {
		c.take(key, "", m)
	} else if to, ok := c.app.Leader(key); ok && to.ID != c.node.Self().Peer.ID {
		c.net.Send(to, env.Control, wire.AppendFrame(nil, wire.Corona, m))
	} // otherwise the poller repeats it
}

// take passes a message to the part of this node that handles it. from is empty if the message was
// routed to this node.
func (c *Corona) take(key overlay.ID, from env.PeerID, m *coronapb.Message) {
	l := c.leaders[key]
	switch b := m.Body.(type) {
	case *coronapb.Message_Change:
		if l == nil {
			c.stats.Astray++
			return
		}
		c.intake.onChange(l, from, b.Change)
	case *coronapb.Message_Status:
		if l == nil {
			c.stats.Astray++
			return
		}
		c.sequencer.monitor.onStatusReport(l, b.Status)
	case *coronapb.Message_ItemChunk:
		if l != nil {
			c.intake.onItemChunk(l, from, b.ItemChunk)
		}
	case *coronapb.Message_ItemRequest:
		c.reports.onItemRequest(from, b.ItemRequest)
	case *coronapb.Message_Snapshot:
		// Only a node that got the report can know its nonce. Snapshots for all pollers come down
		// the wedge instead.
		if w := c.reports.byNonce(b.Snapshot.Nonce); w != nil && w.key == key {
			c.poller.onSnapshot(key, noticeFrom(b.Snapshot))
		}
	}
}
