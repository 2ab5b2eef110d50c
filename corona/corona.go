package corona

import (
	"log/slog"
	"math"
	"math/rand/v2"
	"time"

	"tidings/difference"
	"tidings/honeycomb"
	"tidings/internal/env"
	"tidings/internal/feed"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/wedge"
)

// An Application is what the layers above make of polls.
type Application interface {
	// Found hands over what a poll found new in a channel, to become entries of
	// its log, and the document it was found in. done is called when all of it is
	// held by a quorum, or with false when it is not; Found returns false if it
	// cannot take it now.
	Found(key overlay.ID, d difference.Delta, doc *feed.Feed, done func(ok bool)) bool

	// Saw hands over the head of a channel's document as this node has just got it from its
	// origin, before what is new in it. secure says that nobody on the way could change it.
	Saw(key overlay.ID, head *feed.Head, secure bool)

	// Said hands over another word about the polls of a channel, for its
	// subscribers.
	Said(key overlay.ID, state []byte, haste Haste)

	// SetNote replicates the channel's record among its owners.
	SetNote(key overlay.ID, note []byte)

	// Weight returns the clients of a channel, as last reported.
	Weight(key overlay.ID) int

	// Leader returns who is the sequencer of a channel, as far as is known here.
	Leader(key overlay.ID) (env.Peer, bool)

	// Term returns the name of this node's time in office as the sequencer of a channel, as
	// Lead was told it, or a greater one: others may have led it for a while.
	Term(key overlay.ID) uint64

	// Fading returns items that the log of a channel is about to forget when so many
	// are added: as long as the origin shows them, they are said again.
	Fading(key overlay.ID, items int) []feed.ID

	// Owns says whether this node is an owner of a channel's key.
	Owns(key overlay.ID) bool

	// Fetched answers Ask with the document, nil if there is none; o is what there is at its
	// address instead of a feed.
	Fetched(key overlay.ID, f *feed.Feed, o Offer, state State)
}

// Haste says when subscribers should know.
type Haste uint8

const (
	NoHaste Haste = iota // with the next heartbeat
	Soon                 // in some minutes
	AtOnce
)

// Wedges give the pollers of channels their ranks: a *wedge.Wedges.
type Wedges interface {
	Enlist(key overlay.ID, o wedge.Order) error
	Down(key overlay.ID, message []byte) error
	Leads(key overlay.ID) bool
	Serving(key overlay.ID) (served, declined int)
	Relevel()
}

// Config is what a Corona is told. A zero field means its default.
type Config struct {
	// Network is the name that keys are made with.
	Network string
	// PollInterval is tau, the time between two polls of a channel. Default 30 min.
	PollInterval time.Duration
	// MaintenanceInterval is that of leases, and of decisions. Default 10 min.
	MaintenanceInterval time.Duration
	// Objective, Cut, Base, Load and Detection are honeycomb's: what is optimised.
	// Default: Lite, with a load of 1.
	Objective honeycomb.Objective
	Cut       honeycomb.Cut
	Base      int
	Load      float64
	Detection time.Duration
	// Clusters has the paper's clusters told instead of bins, and its estimate of wedges
	// believed: N/b^l.
	Clusters bool
	// Random has each poller draw a phase of its own, as in the paper. Else they are even.
	Random bool
	// DAG has each node of a wedge of Levels decide for those behind it, as in the paper.
	// Then phases are random. Else sequencers decide alone.
	DAG bool
	// Politeness bounds what origins are asked (BePolite).
	Politeness bool
	// ExemptPrivate lets origins on private addresses have no budget: a node that may ask them
	// sets it. In a laboratory without it, they stand for public ones.
	ExemptPrivate bool
	// Compression is how many times shorter than the world's a laboratory's intervals are:
	// the times of politeness (politeGap, budgetFloor, budgetCeil, soloGap, and the shortest
	// interval without a grant) shrink with them. At least 1. Default 1.
	Compression float64
	// Briefs is a memory that several nodes of one network and one goroutine share. Nil: the
	// node has its own.
	Briefs *Briefs
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
	if c.Briefs == nil {
		c.Briefs = NewBriefs(ownBriefs)
	}
	return c
}

// A Corona is one node's part in polling. It is not safe for concurrent use.
type Corona struct {
	cfg      Config
	clock    env.Clock
	net      env.Network
	fetcher  env.Fetcher
	worker   env.Worker
	rand     *rand.Rand
	log      *slog.Logger
	node     *overlay.Node
	signer   *wire.Signer
	verifier wire.Verifier
	wedges   Wedges
	sums     Sums
	app      Application
	stats    Stats
	manners  *manners // nil: no origin has a budget

	leads   map[overlay.ID]*lead
	duties  *overlay.Index[duty]
	out     []outing // the oldest first
	domains map[string]*domain
	spared  bool                  // one of them has asked for rest, since this node began
	asked   map[overlay.ID]string // documents asked for outside the schedule
	polls   map[env.Handle]poll   // beside the schedule
	lone    map[overlay.ID]*lonePoll
	local   LocalReaders // whom lone polls are for
	handle  env.Handle
	held    []*found // documents with news, the oldest first
	gathers int      // findings of others whose items are on their way
	resting int      // domains that nobody here polls and that asked for rest

	problem    honeycomb.Problem
	correction float64            // c of the last decision,
	aim        float64            // and of what is in force of it
	solution   honeycomb.Solution // the last one,
	decided    bool               // if there was one
	told       bool               // else: others were told of the channels led here, before anybody decided
	others     honeycomb.Rest     // the sums that it came from
	mean       float64            // size of a channel's content in bytes; 0: not known
	decideAt   time.Time
	quick      int           // decisions that are to come soon
	pause      time.Duration // between the present decision and the next, about
	weighed    float64       // subscribers of the channels led here when decisions were hurried last
	network    float64       // the same of the whole network

	cal     env.Calendar[uint32]     // duties' polls, by their slots
	loneCal env.Calendar[overlay.ID] // polls for this node's readers alone
	tend    env.Calendar[overlay.ID] // leads
	mail    env.Calendar[post]
}

// A post is a message that may have to be sent again.
type post struct {
	key   overlay.ID
	nonce uint64
}

// Stats counts what a Corona did since it started.
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

// A poll is a request that is out.
type poll struct {
	key  overlay.ID
	kind kind
	duty *duty // whose turn it is, of the schedule
}

type kind uint8

const (
	scheduled kind = iota // a duty's
	first                 // a lead's own, beside all slots
	solo                  // for a reader
	lone                  // for the readers here, as nobody else is heard of
)

const (
	// floor and ceiling bound the interval of a public origin, whatever the
	// network or the origin wish.
	floor   = 15 * time.Minute
	ceiling = 24 * time.Hour
	// patience is how long an answer may take. The fetcher always answers, after
	// less than a minute; this is for a world that forgot.
	patience = 5 * time.Minute
	// doubtFor is how long documents are not believed that look as if they had taken
	// the place of the feed: a host that lost its database mostly has it back by then,
	// and few feeds that turn all over are so quick to do it again.
	doubtFor = time.Hour
	// privateDoubt is the same in intervals, for an origin on a private address.
	privateDoubt = 4
	// busyFor is about how long a poll waits for which the fetcher had no room.
	busyFor = time.Minute
	// retell is the least time between two words to subscribers about polls that
	// fail: the next is due at a time that they cannot know.
	retell = time.Minute
	// idleLook is how often a channel without readers is looked at.
	idleLook = time.Minute
)

// New returns a Corona that polls nothing yet.
func New(e env.Env, node *overlay.Node, signer *wire.Signer, verify wire.Verifier, wedges Wedges, cfg Config, app Application) *Corona {
	cfg = cfg.filled()
	return &Corona{
		cfg:      cfg,
		clock:    e.Clock,
		net:      e.Network,
		fetcher:  e.Fetcher,
		worker:   e.Worker,
		rand:     e.Rand,
		log:      e.Log,
		node:     node,
		signer:   signer,
		verifier: verify,
		wedges:   wedges,
		app:      app,
		leads:    map[overlay.ID]*lead{},
		duties:   overlay.NewIndex(e.Rand.Uint64(), func(d *duty) *overlay.ID { return &d.said.key }),
		domains:  map[string]*domain{},
		asked:    map[overlay.ID]string{},
		polls:    map[env.Handle]poll{},
		lone:     map[overlay.ID]*lonePoll{},
		problem: honeycomb.Problem{
			Objective: cfg.Objective, Cut: cfg.Cut, Base: cfg.Base, Interval: cfg.PollInterval,
			Load: cfg.Load, Detection: cfg.Detection,
		},
		correction: 1,
		aim:        1,
	}
}

// Run does what is due and returns when it wants to be run next.
func (c *Corona) Run(now time.Time) time.Time {
	for {
		slot, at, ok := c.cal.Pop(now)
		if !ok {
			break
		}
		if d := c.duties.At(slot); d.next == momentOf(at) && d.waiting == 0 {
			c.due(d, now)
		}
	}
	for {
		key, at, ok := c.loneCal.Pop(now)
		if !ok {
			break
		}
		if p := c.lone[key]; p != nil && p.state.Next.Equal(at) {
			c.loneDue(p, now)
		}
	}
	for {
		key, at, ok := c.tend.Pop(now)
		if !ok {
			break
		}
		if l := c.leads[key]; l != nil && l.tendAt.Equal(at) {
			c.tended(l, now)
		}
	}
	for {
		p, _, ok := c.mail.Pop(now)
		if !ok {
			break
		}
		c.again(p.nonce, now)
		if l := c.leads[p.key]; l != nil {
			c.wantDue(l, p.nonce, now)
		}
	}
	if !c.decideAt.IsZero() && !now.Before(c.decideAt) {
		c.decide(now)
	}
	next := env.Sooner(c.runManners(now), c.decideAt)
	next = env.Sooner(next, env.Sooner(c.runOut(now), c.loneCal.Next()))
	return env.Sooner(next, env.Sooner(c.cal.Next(), env.Sooner(c.tend.Next(), c.mail.Next())))
}

// Ask fetches a document once, outside the schedule, for a reader here: who reads
// without subscribing, or whom nobody in the network could help. Answers go to
// Application.Fetched.
func (c *Corona) Ask(key overlay.ID, url string) {
	if _, known := c.asked[key]; known {
		return
	}
	c.asked[key] = url
	c.handle++
	c.polls[c.handle] = poll{key: key, kind: solo}
	c.stats.Asked++
	url, isPage := feed.AtOrigin(url)
	c.fetcher.Fetch(c.handle, env.Request{URL: url, Robots: isPage})
}

// A Decision says by what a node chose how many poll the channels that it leads.
type Decision struct {
	Lambda   float64
	Fits     bool  // else a poller for each channel is more than all together may poll
	Clusters int   // or bins, that stand for all channels of others
	Levels   []int // of the channels led here, how many are at each polling level, from 0; of ranks, at that of a wedge as large, in whole digits
}

// Decision returns the last one; ok is false if there was none yet.
func (c *Corona) Decision() (v Decision, ok bool) {
	if !c.decided {
		return Decision{}, false
	}
	v = Decision{Lambda: c.solution.Lambda, Fits: c.solution.Fits, Clusters: c.others.Len()}
	for _, l := range c.leads {
		if l.pollers == 0 {
			continue
		}
		at := l.level
		if c.cfg.Cut == honeycomb.Ranks {
			at = int(math.Log(float64(c.problem.Nodes)/float64(l.pollers)) / math.Log(float64(c.cfg.Base)))
		}
		for at = max(at, 0); len(v.Levels) <= at; {
			v.Levels = append(v.Levels, 0)
		}
		v.Levels[at]++
	}
	return v, true
}

// Stats returns the counters.
func (c *Corona) Stats() Stats {
	st := c.stats
	st.Channels, st.Duties = len(c.leads), c.duties.Len()
	return st
}
