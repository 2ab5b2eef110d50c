package proxy

import (
	"context"
	"time"

	"tidings/internal/feed"
)

// Subscriptions is the node, as its readers use it. It is safe for concurrent use.
// All addresses are spelled as [feed.Canonical] spells them.
type Subscriptions interface {
	// Version changes whenever what Read returns would, its times and words
	// included; ok is false if the node does not subscribe to url. It is asked
	// each time a feed is read, so it is fast, and it counts as a reading for
	// subscriptions that lapse unread.
	Version(url string) (version uint64, ok bool)
	// Read returns the window of a feed that is subscribed to, or else the
	// document as the node's cache has it or fetches it. If the source cannot be
	// had, it returns the last copy, and says why in Stale; an error only if
	// there is none.
	Read(ctx context.Context, url string) (Window, error)
	// Look fetches what is at an address, or has it of a few minutes ago. It waits no longer than
	// ctx lasts; nothing comes of it otherwise. What is there and can be neither read nor followed is
	// ErrNotFeed, or ErrNotPage of a page's address.
	Inspect(ctx context.Context, url string) (Inspection, error)
	// Subscribe returns when the subscription is durable; it does not wait for
	// the feed. auto says that it was made by reading, and lapses unread
	// after 30 days. To subscribe twice is no error; a subscription that was
	// asked for stays one, and one made by reading becomes one when asked for.
	Subscribe(ctx context.Context, url string, auto bool) error
	// Unsubscribe returns when the subscription is gone for good, ErrUnknown
	// if there was none. From then on Subscribe with auto refuses, until
	// somebody subscribes without.
	Unsubscribe(ctx context.Context, url string) error
	// Describe adds to a subscription what its user says of it. It returns when that is durable, ErrUnknown if
	// there is no subscription.
	Describe(ctx context.Context, url string, d Description) error
	// List returns all subscriptions. ReadURL is left empty: the server fills it.
	List(ctx context.Context) ([]Channel, error)
	Status(ctx context.Context) (Status, error)
	Doctor(ctx context.Context) ([]Finding, error)
	Network(ctx context.Context) (Network, error)
}

// A Description is what a user, or the list that was imported, says of a subscription.
type Description struct {
	Tags  []string // in place of those that it has; nil: they stay
	Title string   // shown until the feed gives its own; "": it stays as it is
	Site  string   // where people read it, likewise
}

func (d Description) empty() bool { return d.Tags == nil && d.Title == "" && d.Site == "" }

// A Window is what a reader is shown of a feed: the source's items, and those of
// at least the last 7 days or 200 items.
type Window struct {
	// Document is the feed in the order in which readers see it. The server
	// sets its URL; it changes nothing else.
	Document feed.Document
	Version  uint64
	// Fetched is when the source was last seen to be as it is here.
	Fetched time.Time
	// Stale says in words why the document is not fresh; empty if it is.
	Stale string
	// State is how the feed is, in a word as in [Channel]; Words say more.
	State, StateDetail string
}

// States of a channel. Any other word names a trouble, and Error says which.
const (
	StateOK  = "ok"
	StateNew = "new" // subscribed to, not seen yet
	// StateUnsaved is that of a feed whose news the node cannot keep, as its disk
	// is full or broken.
	StateUnsaved = "unsaved"
	// StateCutOff is that of a feed of which the node hears nothing from the network, so that it polls the
	// feed itself, and that of a node that hears of nobody. It serves what it has and what it finds.
	StateCutOff = "cut off"
	// StateRefused is that of a node that the nodes it was told to join through refuse, because its data directory
	// belongs to another network. It serves its readers and polls by itself.
	StateRefused = "refused"
)

// A Channel is a subscription and what the node knows about it. Pointers are nil
// where the node does not know, or the question makes no sense.
type Channel struct {
	URL         string `json:"url"`
	Title       string `json:"title"`
	Site        string `json:"site"`        // where people read it, as the feed says; may be empty
	Kind        string `json:"kind"`        // feed or page; later keywords
	ReadURL     string `json:"read_url"`    // what to give to a feed reader
	Subscribers int    `json:"subscribers"` // readers in the whole network

	Key     string   `json:"key"`     // its place on the ring of members: 64 hexadecimal digits
	Owners  int      `json:"owners"`  // members who keep the channel
	Pollers int      `json:"pollers"` // members who poll it
	Polls   bool     `json:"polls"`   // this node is one of them
	Rank    *int     `json:"rank"`    // this node's among the pollers, from 0
	PhaseS  *float64 `json:"phase_s"` // when in the interval this node polls: after rank 0, or, of random phases, of Unix time

	LastPoll *time.Time `json:"last_poll"`
	NextPoll *time.Time `json:"next_poll"`
	Why      string     `json:"why"`    // the rule that set NextPoll
	Budget   *int       `json:"budget"` // pollers granted at most
	Level    *float64   `json:"level"`  // Corona's polling level

	State string     `json:"state"`
	Error string     `json:"error"` // what is wrong, for people
	Since *time.Time `json:"since"` // how long State has been so
	Do    string     `json:"do"`    // what a person can do about it; empty if nothing

	Items      int        `json:"items"`
	Newest     *time.Time `json:"newest"`     // when the last new item was found
	Provenance string     `json:"provenance"` // publisher, single; later witnessed k/n
	// Publisher is the fingerprint of the key that the feed's publisher signs with, as SSH writes
	// it; empty: it is not published. PublisherSince is since when.
	Publisher      string     `json:"publisher"`
	PublisherSince *time.Time `json:"publisher_since"`
	Published      uint64     `json:"published"` // number of the publisher's last item
	// Former are the keys that it had before, the last one first; KeyChange says for people how the
	// present one came in their place, which was at PublisherSince.
	FormerKeys []FormerKey `json:"former"`
	KeyChange  string      `json:"key_change"`
	// Missing is how many of the publisher's items the feed's log leaves out, as far as it is kept: whoever
	// leads the feed has withheld them, or two logs that met had not kept them.
	Missing uint64 `json:"missing"`
	// Unreadable is how many entries of the feed's log, as far as it is kept, the node cannot read,
	// wholly or in part. It asks the origin for the items that were in them.
	Unreadable int `json:"unreadable"`
	// Claimed is the fingerprint of another key that the feed's owners say it has, and the node
	// does not believe; empty: there is none.
	ClaimedKey    string `json:"claimed"`
	MinProvenance string `json:"least"` // what has to vouch for an item to be shown; empty: whatever it is

	DetectionExpectedS *float64 `json:"detection_expected_s"`
	DetectionObservedS *float64 `json:"detection_observed_s"`

	Auto  bool     `json:"auto"`  // made by reading
	Moved string   `json:"moved"` // where the origin says the feed is now
	Tags  []string `json:"tags"`  // that the user gave it, by a command or as folders of a list
}

// Failing reports whether a person may have to do something about a channel.
func (c Channel) Failing() bool { return c.State != StateOK && c.State != StateNew }

// A FormerKey is one that a feed's publisher had.
type FormerKey struct {
	Key string `json:"key"` // its fingerprint
	// Revoked: the origin has taken it back, and what it signed is shown so; else it had itself
	// named the one that follows.
	Revoked bool `json:"revoked"`
}

// Status is how the node is.
type Status struct {
	ID             string   `json:"id"`
	PeerID         string   `json:"peer_id"`
	Addresses      []string `json:"addresses"`
	Peers          int      `json:"peers"`
	EstimateN      int      `json:"estimate_n"` // members of the network, about
	ChannelsOwned  int      `json:"channels_owned"`
	ChannelsPolled int      `json:"channels_polled"`
	Subscriptions  int      `json:"subscriptions"`
	UptimeS        float64  `json:"uptime_s"`
	Version        string   `json:"version"`
	Network        string   `json:"network"`
	// Settings are the network's, which are the same at all its nodes: values by the names of flags.
	Settings   map[string]string `json:"settings"`
	Scheme     string            `json:"scheme"`
	Lambda     *float64          `json:"lambda"`
	Overbooked bool              `json:"overbooked"` // a poller for each channel is more than all together may poll
	Clusters   int               `json:"clusters"`   // or bins: of the sums that it decides by
	Levels     []int             `json:"levels"`     // channels led here at each polling level, from 0
	State      string            `json:"state"`      // ok, or a trouble in a word
	Warnings   []string          `json:"warnings"`   // what a person should know, a sentence each
	// CutOff says that the node hears of no other node and polls its subscriptions itself; CutOffSince is
	// when it heard of one last.
	CutOff      bool       `json:"cut_off"`
	CutOffSince *time.Time `json:"cut_off_since"`
	// Refused are the last items that this node has not taken from publishers.
	RejectedItems []RejectedItem `json:"refused"`
}

// A Refused is a publisher's item that was not taken.
type RejectedItem struct {
	URL string     `json:"url"`
	Seq uint64     `json:"seq"` // its number
	Key string     `json:"key"` // fingerprint of the key that has signed it; empty: none has
	Why string     `json:"why"`
	At  *time.Time `json:"at"`
}

// A Finding is one thing the doctor looked at.
type Finding struct {
	Level string `json:"level"` // ok, note, problem
	What  string `json:"what"`
	Do    string `json:"do"` // what to do about it; empty if nothing
}

// At returns a time for a [Channel]: nil if it is zero, else in UTC and to the
// millisecond.
func OptionalTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC().Truncate(time.Millisecond)
	return &t
}
