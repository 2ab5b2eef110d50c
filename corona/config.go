package corona

import (
	"cmp"
	"time"

	"tidings/difference"
	"tidings/difference/page"
	"tidings/honeycomb"
	"tidings/internal/check"
	"tidings/internal/env"
	"tidings/internal/feed"
	"tidings/overlay"
	"tidings/overlay/wedge"
)

// Application is what the layers above do with the results of polls.
type Application interface {
	// Found hands over the changes that a poll found in a channel, for its log, and the document
	// they came from. It calls done with true when a quorum holds all of them, and with false if
	// that fails. Found returns false if it cannot take the changes now.
	Found(key overlay.ID, d difference.Delta, doc *feed.Feed, done func(ok bool)) bool

	// Saw hands over a channel's document that this node has just fetched from the origin, before
	// the document's changes. secure means that nobody could have altered the document on the way.
	// doc is nil if the document that it fetched last has not changed.
	Saw(key overlay.ID, url string, doc *feed.Feed, secure bool)

	// SawPage hands over the text of a channel's page as Saw does a feed. That the page has not changed is told by Saw.
	SawPage(key overlay.ID, url string, text *page.Core)

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

	// Fading returns the items that the channel's log will drop when that number of items is appended.
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

// Wedges assigns ranks to the pollers of channels. A *wedge.Wedge implements it.
type Wedges interface {
	Enlist(key overlay.ID, o wedge.Order) error
	Broadcast(key overlay.ID, message []byte) error
	Leads(key overlay.ID) bool
	Decline(key overlay.ID)
	Served(key overlay.ID) (served, declined int)
	AdjustLevels()
}

// Config holds the settings of a Corona. A zero field means its default.
type Config struct {
	// Network is the name from which keys are derived. It has no default.
	Network string
	// PollInterval is tau, the time between two polls of a channel by one node, 1 s to 30 days.
	// Default 30 min. A longer interval spares origins, and news is found later.
	PollInterval time.Duration
	// MaintenanceInterval is the period of leases and of decisions, at least 1 s. Default 10 min. A
	// longer period saves messages, and decisions follow changes of the network later.
	MaintenanceInterval time.Duration
	// Objective is what the number of pollers of each channel is optimised for (honeycomb). Default
	// honeycomb.Lite, the least mean detection time.
	Objective honeycomb.Objective
	// Cut says which numbers of pollers a channel may have: those of the levels of its wedge, which is
	// the default, or any (honeycomb.Ranks), which needs a single node that decides.
	Cut honeycomb.Granularity
	// Base is the base of the digits that levels of wedges share, 2 to 256. Default 16. A greater
	// base leaves fewer sizes of wedges to choose from.
	Base int
	// Load is the number of polls that all nodes together may make, as a multiple of those that all
	// subscribers would make; above 0, at most 1,000,000. Default 1. More load finds news earlier, at
	// the cost of the origins. The objective Fast ignores it.
	Load float64
	// Detection is the mean detection time at which the objective Fast aims, at most 30 days. A
	// longer time spares origins. It has no default; other objectives ignore it.
	Detection time.Duration
	// Clusters publishes the paper's tradeoff clusters instead of bins, and uses its estimate of
	// wedge sizes, N/b^l. Default false: bins, which are more exact, and sizes that were counted.
	Clusters bool
	// Random lets each poller draw its own phase, as in the paper. Default false: phases are evenly
	// spaced, which finds news earlier with the same polls.
	Random bool
	// DAG lets each node of a wedge decide for the nodes behind it, as in the paper. It needs random
	// phases and the levels of a wedge. Default false: sequencers decide alone.
	DAG bool
	// Politeness limits how often origins are polled (EnablePoliteness). Default false.
	Politeness bool
	// ExemptPrivate exempts origins on private addresses from budgets. A node that may fetch from
	// private addresses sets it. In a laboratory without it, private addresses stand for public
	// ones. Default false.
	ExemptPrivate bool
	// Compression is the factor by which a laboratory's intervals are shorter than real ones, at
	// least 1. The times of politeness (minChannelGap, budgetFloor, budgetCeil, ungrantedGap, and the
	// shortest interval without a grant) shrink by the same factor. Default 1. At a greater factor,
	// origins are polled more often than public ones may be.
	Compression float64
	// Witnesses lets owners vouch for documents that they have fetched themselves. They then poll without the validators
	// of documents that only another node has fetched, which costs each owner one full response for each new document.
	// Default false.
	Witnesses bool
	// AuditOneIn says that each reader's node fetches a feed itself once in so many polling intervals, to compare it with
	// the log. These requests count as load. At least 0, default 0: no node does.
	AuditOneIn int
	// Callbacks is the address at which the hubs of feeds reach this node, ending in a slash. The node then subscribes at
	// hubs if sequencers order it. Default empty: hubs do not reach it.
	Callbacks string
	// Payloads is a cache that several nodes of one network may share if they run on one goroutine.
	// Default nil: the node has its own.
	Payloads *PayloadCache
}

func (c Config) withDefaults() Config {
	c.PollInterval = cmp.Or(c.PollInterval, 30*time.Minute)
	c.MaintenanceInterval = cmp.Or(c.MaintenanceInterval, 10*time.Minute)
	c.Base = cmp.Or(c.Base, 16)
	c.Load = cmp.Or(c.Load, 1)
	c.Compression = cmp.Or(c.Compression, 1)
	if c.Payloads == nil {
		c.Payloads = NewPayloadCache(ownPayloads)
	}
	return c
}

// Validate returns an error that names the first wrong field.
func (c Config) Validate() error {
	c = c.withDefaults()
	return cmp.Or(
		check.That(c.Network != "", "corona: Network", "is empty; it must be the name of the network"),
		check.Between("corona: PollInterval", c.PollInterval, honeycomb.MinInterval, honeycomb.MaxInterval),
		check.AtLeast("corona: MaintenanceInterval", c.MaintenanceInterval, time.Second),
		check.Between("corona: Objective", c.Objective, honeycomb.Lite, honeycomb.FairLog),
		check.Between("corona: Cut", c.Cut, honeycomb.Levels, honeycomb.Ranks),
		check.Between("corona: Base", c.Base, 2, honeycomb.MaxBase),
		check.That(c.Load > 0 && c.Load <= honeycomb.MaxLoad, "corona: Load", "is %v; it must be above 0 and at most %v", c.Load, honeycomb.MaxLoad),
		check.That(c.Objective != honeycomb.Fast || c.Detection > 0 && c.Detection <= honeycomb.MaxInterval,
			"corona: Detection", "is %v; it must be above 0 and at most %v if Objective is Fast", c.Detection, honeycomb.MaxInterval),
		check.That(!c.DAG || c.Random && c.Cut == honeycomb.Levels, "corona: DAG", "is set; it must be unset unless Random is set and Cut is Levels"),
		check.AtLeast("corona: Compression", c.Compression, 1),
		check.AtLeast("corona: AuditOneIn", c.AuditOneIn, 0),
	)
}

// Stats counts what a Corona has done since it started. The names of the fields are those of the
// metrics (internal/daemon), so renaming a field renames a metric.
type Stats struct {
	Channels        int    // feeds that this node leads
	PolledFeeds     int    // feeds that this node polls
	Polls           uint64 // answers to polls
	Unchanged       uint64 // answers to polls without anything new (304, or the same document)
	UpdatesReported uint64 // answers to polls with something new for another node
	Failed          uint64 // answers to polls that were errors
	Declined        uint64 // times that this node gave up its ranks of a feed, because other nodes may reach it
	Updates         uint64 // documents with something new for a feed that this node leads
	Items           uint64 // new and edited items in those documents
	Asked           uint64 // documents fetched for a single reader
	Lone            uint64 // polls for readers of this node, because no other node was known to poll for them
	Late            uint64 // answers that never came
	Busy            uint64 // polls that the fetcher had no capacity for
	Garbage         uint64 // messages that make no sense
	Astray          uint64 // messages for the sequencer of a feed that this node does not lead
	Distrusted      uint64 // pollers whose reports are not believed for a day, because an item was not at the origin
	Verified        uint64 // documents fetched because such a poller has reported news
	Strangers       uint64 // observations dropped: too old, from a node that cannot have a rank, or sent by another node
	RefusedReports  uint64 // reports about polls from nodes that cannot be pollers of the feed, or outdated ones
	Crowded         uint64 // change reports, and feeds of a domain, dropped for lack of space
	Unlisted        uint64 // orders to a wedge that could not be given

	Pushed     uint64 // proven notifications of hubs with items
	PushHints  uint64 // hints that the document of a feed that this node leads may have changed
	PushLooks  uint64 // documents of such feeds fetched because of a hint, a silent hub, or a new subscription
	PushMoved  uint64 // times that another node was ordered to subscribe
	PushFailed uint64 // times that a hub left out an item, or was late

	Skipped     uint64 // polls left out because no grant covered them
	Solo        uint64 // polls without a grant, which a domain tolerates now and then
	Forged      uint64 // forged grants and epochs of budget leaders
	Expired     uint64 // grants that came too late, or ended before the next one came
	Replayed    uint64 // outdated grants and claims
	Granted     uint64 // requests for grants answered as the budget leader of a domain
	Unstored    uint64 // times that signed grants could not be stored, and were not sent
	Short       uint64 // requests for grants refused because the budget was used up
	Denied      uint64 // grants of others that were not signed: beyond the budget, or out of order
	Audited     uint64 // claims of readers that were compared with a feed's second tree
	Overclaimed uint64 // claims of more readers than that tree has
	Unaudited   uint64 // such comparisons without an answer
	Misclaimed  uint64 // feeds claimed by a node that cannot lead them, or for another domain
}
