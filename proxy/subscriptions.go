package proxy

import (
	"context"
	"slices"
	"time"

	"tidings/internal/feed"
	"tidings/internal/locale"
)

// Subscriptions is the node's interface for readers. It is safe for concurrent use. All addresses are in the form
// of [feed.Canonical].
type Subscriptions interface {
	// Version changes whenever the result of Read changes, including its times and texts. ok is false if the node
	// does not subscribe to url. Version is called each time a feed is read, so it is fast. It counts as a read for
	// subscriptions that lapse when nobody reads them.
	Version(url string) (version uint64, ok bool)
	// Read returns the window of a subscription, or else the document from the node's cache or from the origin. If
	// the source is not available, Read returns the last copy and says why in Stale. It returns an error only if
	// there is no copy.
	Read(ctx context.Context, url string) (Window, error)
	// Inspect fetches the document at an address, or takes a copy that is a few minutes old. It waits until ctx
	// ends, and has no other effect. The error is ErrNotFeed if the document can be neither read nor followed, or
	// ErrNotPage for the address of a page.
	Inspect(ctx context.Context, url string) (Inspection, error)
	// Subscribe subscribes to a feed. It returns when the subscription is durable, and does not wait for the feed.
	// auto marks a subscription that was made by reading; it lapses if nobody reads it for 30 days. Subscribing
	// again is no error: a requested subscription stays one, and an automatic one becomes one when it is requested.
	Subscribe(ctx context.Context, url string, auto bool) error
	// SubscribeAs is Subscribe without auto, followed by Describe, in one step: there is no subscription without the
	// description, not even after a crash.
	SubscribeAs(ctx context.Context, url string, d Description) error
	// SubscribeQuietly subscribes to a feed as Subscribe does without auto, through members that stand between, so that
	// no member knows both the reader and the feed. The error is ErrKnown if there is another subscription.
	SubscribeQuietly(ctx context.Context, url string) error
	// Unsubscribe ends a subscription, and returns when that is durable. The error is ErrNoSubscription if there
	// was none. After that, Subscribe with auto fails until somebody subscribes without auto.
	Unsubscribe(ctx context.Context, url string) error
	// Resubscribe makes a subscription again as it was when Unsubscribe ended it: with its description and its settings,
	// and, if it is private, its headers and the address at which readers read it. It returns when that is durable. The
	// error is ErrNoSubscription if the node does not remember such a subscription. It may forget it when it stops.
	Resubscribe(ctx context.Context, url string) error
	// Describe stores the user's description of a subscription. It returns when that is durable. The error is
	// ErrNoSubscription if there is no subscription.
	Describe(ctx context.Context, url string, d Description) error
	// List returns all subscriptions. It leaves ReadURL empty, and the server fills it in. Of a private feed,
	// ReadURL is a path of the server. The caller may change the slice.
	List(ctx context.Context) ([]Channel, error)
	// Each passes all subscriptions to see, in no particular order. It does not hold all of them in memory. see must not keep the
	// channel.
	Each(ctx context.Context, see func(*Channel)) error
	// ListPart returns a part of the same list in the order of addresses.
	ListPart(ctx context.Context, q ListQuery) (ListPart, error)
	// CountShared returns how many subscriptions the network knows, which are all but private feeds. Searches cover these. It takes
	// the same time for many as for few.
	CountShared(ctx context.Context) (int, error)
	Status(ctx context.Context) (Status, error)
	// Doctor returns what is wrong with the node and its subscriptions. It also passes these to see, as Each does, unless see is nil.
	Doctor(ctx context.Context, see func(*Channel)) ([]Finding, error)
	Network(ctx context.Context) (Network, error)
	// Pollers returns the members that poll a channel, as far as the node knows them, those nearest to its key first. It
	// knows the others only if it polls the channel itself.
	Pollers(ctx context.Context, url string) (Pollers, error)
	// PollSoon asks the node that leads a channel to fetch it once its politeness allows, and does not wait for that. The
	// error is ErrNoSubscription if there is no subscription, and ErrForbidden for a quiet one.
	PollSoon(ctx context.Context, url string) error
	// Tree returns the node's place in the tree of a feed. It is the zero Tree if the node follows no such feed.
	Tree(ctx context.Context, url string) (Tree, error)
}

// A ListQuery says which part of the list of subscriptions is wanted.
type ListQuery struct {
	From   string   // address from which on; empty: from the first
	Filter string   // part of their addresses, titles or tags, in capital or small letters; empty: all
	Limit  int      // how many at most
	URLs   []string // only these; nil: all
}

// Covers reports whether an address is in the part of the list, whatever the filter says.
func (q ListQuery) Covers(url string) bool {
	return url >= q.From && (q.URLs == nil || slices.Contains(q.URLs, url))
}

// A ListPart is a part of the list of subscriptions. It may have fewer than were wanted, or none, although the list goes on.
type ListPart struct {
	Channels []Channel
	Next     string // address from which the list goes on; empty at its end
}

// Pollers are the members that poll a channel.
type Pollers struct {
	Interval time.Duration // between two polls of one of them; 0: not known
	Pollers  []Poller
}

// A Poller is a member that polls a channel.
type Poller struct {
	Member
	Next *time.Time // its next poll, as planned; nil if the node does not know it
}

// A Description holds what a user, or an imported list, says about a subscription.
type Description struct {
	Tags  []string // replaces the tags; nil keeps them
	Title string   // shown in place of the feed's own title; "" keeps the present one
	// OwnTitle shows the feed's own title again, if Title is "".
	OwnTitle bool
	Site     string  // where people read the feed on the Web; "" keeps the present one
	Note     *string // the user's own words about it; nil keeps the present ones
}

// A Window holds the items of a feed that readers are shown: those in the source, and at least those of the last 7
// days or 200 items.
type Window struct {
	// Document is the feed in the order in which readers see it. The server sets its URL, and changes nothing else.
	Document feed.Document
	Version  uint64
	// Fetched is when the source was last seen to be unchanged from Document.
	Fetched time.Time
	// Stale says why the document is not fresh; "" if it is fresh.
	Stale string
	// State is the state of the feed, as in [Channel]. StateDetail explains it.
	State, StateDetail string
}

// States of a channel. Any other word names a problem, which Error explains.
const (
	StateOK  = "ok"
	StateNew = "new" // subscribed to, not polled yet
	// StateUnsaved is the state of a feed whose new items the node cannot store, because its disk is full or
	// broken.
	StateUnsaved = "unsaved"
	// StateCutOff is the state of a feed about which the node hears nothing from the network, so that the node
	// polls the feed itself. It is also the state of a node that hears from no other node. The node serves the
	// items that it has and that it finds.
	StateCutOff = "cut off"
	// StateRefused is the state of a node that the nodes at --bootstrap refuse, because its data directory belongs
	// to another network. The node serves its readers and polls by itself.
	StateRefused = "refused"
)

// A Channel is a subscription, with what the node knows about it. Pointers are nil if the value is not known or
// does not apply.
type Channel struct {
	URL         string `json:"url"`
	Title       string `json:"title"`
	Site        string `json:"site"`        // where people read it on the Web, as the feed says; may be empty
	Kind        string `json:"kind"`        // feed or page
	Private     bool   `json:"private"`     // only this node polls it; URL is its name then, as in [PrivateFeeds]
	Quiet       bool   `json:"quiet"`       // followed through members that stand between
	ReadURL     string `json:"read_url"`    // address to give to a feed reader
	Subscribers int    `json:"subscribers"` // number of readers in the whole network

	Key     string   `json:"key"`     // position on the ring of members: 64 hexadecimal digits
	Owners  int      `json:"owners"`  // number of members that keep the channel's log
	Pollers int      `json:"pollers"` // number of members that poll it
	Polls   bool     `json:"polls"`   // this node polls it
	Rank    *int     `json:"rank"`    // this node's rank among the pollers, from 0
	PhaseS  *float64 `json:"phase_s"` // when in the interval this node polls, in seconds: after rank 0, or after the start of Unix time for random phases

	LastPoll *time.Time `json:"last_poll"`
	NextPoll *time.Time `json:"next_poll"`
	Why      string     `json:"why"`                 // the rule that set NextPoll
	PushedBy string     `json:"pushed_by,omitempty"` // host of the hub that pushes the channel's news, so that it is hardly polled
	HubFault string     `json:"hub_fault,omitempty"` // why the channel's hub is not relied on, for people
	Budget   *int       `json:"budget"`              // maximum number of pollers granted
	Level    *float64   `json:"level"`               // Corona's polling level

	State string     `json:"state"`
	Error string     `json:"error"` // the problem, for people
	Since *time.Time `json:"since"` // when State began
	Do    string     `json:"do"`    // what a person can do about the problem; may be empty

	Items      int        `json:"items"`
	Newest     *time.Time `json:"newest"`     // when the last new item was found
	Provenance string     `json:"provenance"` // publisher, witnessed (most items are) or single
	// Publisher is the fingerprint of the publisher's key, as SSH writes it; "" if the feed is not published.
	// PublisherSince is when that key began to be used.
	Publisher      string     `json:"publisher"`
	PublisherSince *time.Time `json:"publisher_since"`
	// PublisherSilent is when the publisher last spoke, if it has promised to speak more often.
	PublisherSilent *time.Time `json:"publisher_silent_since,omitempty"`
	Published       uint64     `json:"published"` // number of the publisher's last item
	// FormerKeys holds the earlier keys, the latest first. KeyChange describes for people how the present key
	// replaced the last one, which happened at PublisherSince.
	FormerKeys []FormerKey `json:"former"`
	KeyChange  string      `json:"key_change"`
	// Missing is how many of the publisher's items the feed's log lacks, as far as the log is kept. Either the
	// log's sequencer has withheld them, or they were lost when two branches were merged.
	Missing uint64 `json:"missing"`
	// Unreadable is how many entries of the feed's log, as far as the log is kept, the node cannot read completely.
	// The node asks the origin for the items that were in them.
	Unreadable int `json:"unreadable"`
	// ClaimedKey is the fingerprint of another key that the feed's owners name and that the node does not believe;
	// "" if there is none.
	ClaimedKey    string `json:"claimed"`
	MinProvenance string `json:"least"` // minimum provenance of items that are shown; "" for any
	// Waiting is how many items are not shown, or only as they were before an edit, until owners of the feed have seen them
	// at the origin. It is 0 unless MinProvenance is ProvenanceWitnessed.
	Waiting int `json:"waiting"`

	DetectionExpectedS *float64 `json:"detection_expected_s"`
	DetectionObservedS *float64 `json:"detection_observed_s"`

	Auto  bool     `json:"auto"`  // made by reading
	Moved string   `json:"moved"` // new address of the feed, according to the origin
	Tags  []string `json:"tags"`  // set by the user, with a command or as folders of a list

	Note  string     `json:"-"` // the user's own words; only pages show it
	Added *time.Time `json:"-"` // when the subscription was made; only pages show it
}

// Failing reports whether a person may have to do something about a channel.
func (c Channel) Failing() bool { return c.State != StateOK && c.State != StateNew }

// A FormerKey is an earlier key of a feed's publisher.
type FormerKey struct {
	Key string `json:"key"` // the key's fingerprint
	// Revoked says that the origin has revoked the key, and items that it signed are marked so. Otherwise the key
	// itself named its successor.
	Revoked bool `json:"revoked"`
}

// Status is the status of the node.
type Status struct {
	ID             string   `json:"id"`
	PeerID         string   `json:"peer_id"`
	Addresses      []string `json:"addresses"`
	Peers          int      `json:"peers"`
	EstimateN      int      `json:"estimate_n"` // estimated number of members
	ChannelsOwned  int      `json:"channels_owned"`
	ChannelsPolled int      `json:"channels_polled"`
	Subscriptions  int      `json:"subscriptions"`
	UptimeS        float64  `json:"uptime_s"`
	Version        string   `json:"version"`
	Network        string   `json:"network"`
	// Settings holds the network's settings, which are the same at all its nodes, by the names of flags.
	Settings   map[string]string `json:"settings"`
	Scheme     string            `json:"scheme"`
	Lambda     *float64          `json:"lambda"`
	Overbooked bool              `json:"overbooked"` // one poller per channel would already exceed the allowed load
	Clusters   int               `json:"clusters"`   // number of clusters or bins in the sums by which the node decides
	Levels     []int             `json:"levels"`     // number of channels led by this node at each polling level, from 0
	State      string            `json:"state"`      // ok, or a word for the problem
	Warnings   []Warning         `json:"warnings"`
	// CutOff says that the node hears from no other node and polls its subscriptions itself. CutOffSince is when it
	// last heard from one.
	CutOff      bool       `json:"cut_off"`
	CutOffSince *time.Time `json:"cut_off_since"`
	// EntryPoints says whether the network is the one that the node's entry points know.
	EntryPoints EntryPoints `json:"entry_points"`
	// RejectedItems holds the latest items of publishers that this node has rejected.
	RejectedItems []RejectedItem `json:"refused"`
	// Messenger says how the node talks with people by XMPP; nil if it does not.
	Messenger *Messenger `json:"messenger,omitempty"`
	// Hosting says what the node does in a hosting centre; nil if it is in none.
	Hosting *Hosting `json:"hosting,omitempty"`
	// SearchTokens counts the tokens with which others make searches; nil if there are none.
	SearchTokens *TokenCounts `json:"search_tokens,omitempty"`
}

// Hosting is what a node does in a hosting centre.
type Hosting struct {
	Name       string        `json:"name"` // in the topology
	Role       string        `json:"role"`
	Plan       string        `json:"plan"`        // digest of the topology, which begins with its revision
	Feeds      int           `json:"feeds"`       // that a crawler polls
	Queries    int           `json:"queries"`     // distinct ones at a filter or a reflector
	Placed     bool          `json:"placed"`      // the filters of a reflector have all its queries
	Settled    bool          `json:"settled"`     // no article of an earlier topology is under way
	Retired    bool          `json:"retired"`     // the node is not in the topology any more
	WaitsFor   string        `json:"waits_for"`   // name of the node that this node waits for; "": none
	WaitsSince *time.Time    `json:"waits_since"` // nil: it does not wait
	Articles   uint64        `json:"articles"`    // found by a crawler, or received, since the start
	Links      []HostingLink `json:"links"`
	Rates      *HostingRates `json:"rates,omitempty"` // of the last five minutes; nil: not known yet

	// TopologyError says why the node does not take the topology of its file, and goes on with the one that it has.
	TopologyError string     `json:"topology_error,omitempty"`
	Discovery     *Discovery `json:"discovery,omitempty"`  // of a crawler
	CrawlList     *CrawlList `json:"crawl_list,omitempty"` // of a crawler
}

// A CrawlList says what of its list a crawler cannot poll.
type CrawlList struct {
	Wrong    int            `json:"wrong"`    // entries that are no addresses
	Failing  int            `json:"failing"`  // feeds whose last poll failed
	Failures []CrawlFailure `json:"failures"` // the first ten, by their addresses
}

// A CrawlFailure says why a poll failed.
type CrawlFailure struct {
	URL string `json:"url"`
	Why string `json:"why"`
}

// HostingRates are what a node of a hosting centre has measured lately. Plans are made from them.
type HostingRates struct {
	WindowS       float64 `json:"window_s"`       // time to which the rates belong, at most five minutes
	Articles      float64 `json:"articles"`       // articles a second, found by a crawler or received
	ArticleBytes  float64 `json:"article_bytes"`  // their mean size
	Sent          float64 `json:"sent"`           // articles a second for receivers, once for each
	Polls         float64 `json:"polls"`          // answers of web servers a second
	Documents     float64 `json:"documents"`      // those with a document
	DocumentBytes float64 `json:"document_bytes"` // mean size of a document
	MatchS        float64 `json:"match_s"`        // time to match an article, on average
	CPU           float64 `json:"cpu"`            // processor seconds a second, for everything; 0 if the system does not tell
	MemoryMB      float64 `json:"memory_mb"`      // memory of the program in megabytes
	InBytes       float64 `json:"in_bytes"`       // bytes a second from other nodes
	OutBytes      float64 `json:"out_bytes"`      // bytes a second to other nodes
}

// A HostingLink is a link between two nodes of a hosting centre.
type HostingLink struct {
	Name    string     `json:"name"`
	Way     string     `json:"way"`     // "to" a receiver or "from" a sender
	Waiting int        `json:"waiting"` // articles that wait
	Bytes   int        `json:"bytes"`   // of them
	Dropped uint64     `json:"dropped"` // articles that the sender has dropped because the receiver's queue was full
	Heard   *time.Time `json:"heard"`   // last message of the other node; nil: none since the start
}

// A RejectedItem is a publisher's item that was rejected.
type RejectedItem struct {
	URL string     `json:"url"`
	Seq uint64     `json:"seq"` // the item's number
	Key string     `json:"key"` // fingerprint of the key that signed it; "" if it is not signed
	Why string     `json:"why"`
	At  *time.Time `json:"at"`
}

// A Finding is the result of one check of the doctor.
type Finding struct {
	Level string      `json:"level"` // ok, note, problem
	What  locale.Text `json:"what"`
	Do    locale.Text `json:"do"` // what to do about it; may be empty
}

// A Warning is what a person should read about the node. Programs get it as an English sentence.
type Warning struct{ What, Do locale.Text }

// text returns the warning without the form of a sentence.
func (w Warning) text() locale.Text {
	if len(w.Do) == 0 {
		return w.What
	}
	return locale.Say("%s; %s", w.What, w.Do)
}

// String returns the warning as an English sentence.
func (w Warning) String() string { return sentence(w.text().String()) }

// MarshalText writes the warning as an English sentence.
func (w Warning) MarshalText() ([]byte, error) { return []byte(w.String()), nil }

// UnmarshalText reads a warning that a program has got.
func (w *Warning) UnmarshalText(text []byte) error {
	w.Do = nil
	return w.What.UnmarshalText(text)
}

// OptionalTime returns a time for a [Channel]: nil if t is zero, else t in UTC with milliseconds.
func OptionalTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC().Truncate(time.Millisecond)
	return &t
}
