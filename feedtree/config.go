package feedtree

import (
	"cmp"
	"time"

	"tidings/internal/check"
)

// A Config holds the parameters of a FeedTree. A zero field means its default.
type Config struct {
	// BeatInterval is the longest time without a message in a feed: the sequencer sends a heartbeat after it. At
	// least 1 s, default 1 h. A longer interval saves messages, and a lost last entry of a feed is noticed later.
	BeatInterval time.Duration
	// DigestInterval is the average time between two comparisons of heads with one parent. At least 1 s, default
	// 1 min. A longer interval saves messages, and entries that a tree lost are missing for longer.
	DigestInterval time.Duration
	// PollInterval is the time over which nodes that have to ask an origin themselves spread their requests. At
	// least 1 s, default 30 min. A longer interval spares the origin, and cut-off readers get news later.
	PollInterval time.Duration
	// AuditOneIn is how many new items a node is shown, on average, for each comparison of a feed's log with its
	// origin, and also how many polling intervals pass on average until it compares them without a cause. At least 1, default
	// 200. A smaller number finds owners that lie sooner, and costs the origin more requests: with 1, each reader's node
	// fetches the document once for each new item, and as often as if it polled alone.
	AuditOneIn int
	// MaxSubscriptions bounds the subscriptions of the node; a further one is refused. At least 1, default
	// [DefaultMaxSubscriptions]. Subscriptions that the store has from before stay. Each takes about 30 KB of memory.
	MaxSubscriptions int
}

func (c Config) withDefaults() Config {
	c.BeatInterval = cmp.Or(c.BeatInterval, time.Hour)
	c.DigestInterval = cmp.Or(c.DigestInterval, time.Minute)
	c.PollInterval = cmp.Or(c.PollInterval, 30*time.Minute)
	c.AuditOneIn = cmp.Or(c.AuditOneIn, 200)
	c.MaxSubscriptions = cmp.Or(c.MaxSubscriptions, DefaultMaxSubscriptions)
	return c
}

// Validate returns an error that names the first wrong field.
func (c Config) Validate() error {
	c = c.withDefaults()
	return cmp.Or(
		check.AtLeast("feedtree: BeatInterval", c.BeatInterval, time.Second),
		check.AtLeast("feedtree: DigestInterval", c.DigestInterval, time.Second),
		check.AtLeast("feedtree: PollInterval", c.PollInterval, time.Second),
		check.AtLeast("feedtree: AuditOneIn", c.AuditOneIn, 1),
		check.AtLeast("feedtree: MaxSubscriptions", c.MaxSubscriptions, 1),
	)
}

// Stats counts what a FeedTree did since it started.
type Stats struct {
	Subscriptions int    // subscriptions of this node
	Led           int    // feeds that this node is the sequencer of
	Published     uint64 // entries sent down a tree
	Received      uint64 // entries received down a tree
	Repeated      uint64 // entries received down a tree that were known already
	Gaps          uint64 // times that entries were missing
	Filled        uint64 // times that missing entries came from another node
	Fetches       uint64 // times that missing entries could come only from the web server
	Shown         uint64 // items shown to readers, edits included
	Rebuilt       uint64 // windows rebuilt because a log was replaced by another one
	Beats         uint64 // heartbeats sent
	Overdue       uint64 // heartbeats that did not come in time
	Heads         uint64 // heads announced in shadow trees
	Late          uint64 // entries that came too long after their heads
	Audits        uint64 // audits: comparisons of heads with those of an owner
	AuditsBehind  uint64 // audits that found entries that no tree had brought
	ParentsLeft   uint64 // parents left because they withheld something
	Digests       uint64 // comparisons of the heads of logs with a parent
	Differed      uint64 // comparisons of the heads of logs that found differences
	Unlike        uint64 // logs whose set of items differs from the hash in its entry
	Unread        uint64 // times that a body could not be read, wholly or in part
	Illegible     uint64 // items left out of entries because other nodes could not read them
	Garbage       uint64 // messages that broke the protocol
	Untrusted     uint64 // heartbeats with a wrong signature
	Control       uint64 // messages sent
	Pushes        uint64 // publications sent to sequencers, repetitions included
	Accepted      uint64 // publications accepted as the sequencer
	Refused       uint64 // publications refused as the sequencer
	Withheld      uint64 // change reports left to the publisher of the feed
	Pinned        uint64 // keys of publishers pinned as the sequencer, changes included
	Doubted       uint64 // changed keys that this node does not trust
	Witnessed     uint64 // keys read from web servers for other nodes
	Sights        uint64 // requests to web servers because a key was in doubt
	Looks         uint64 // documents fetched only to confirm what other nodes had found
	Sighted       uint64 // versions of items that this node has signed to have seen, for sequencers
	Certificates  uint64 // certificates appended as the sequencer
	Missed        uint64 // versions of items that this node has signed to have looked for in vain
	Contests      uint64 // items contested in certificates that this node has appended as the sequencer
	OriginAudits  uint64 // documents fetched only to compare the log of a followed feed with its web server
	Problems      uint64 // times that such a comparison showed that the log is wrong
	Unseen        uint64 // times that a publisher stated more items than the log had
	Unspoken      uint64 // times that a publisher was overdue that has promised to speak
	Objected      uint64 // objections sent because the web server names another key than the log
	Lacking       uint64 // publications that are missing in the logs of subscribed feeds
	CutOff        int    // 1 while the node hears of no other node, otherwise 0
	Alone         int    // feeds that the node polls itself because it is cut off from them
	Silences      uint64 // times that the node began to poll a feed because it was cut off
	Handed        uint64 // items found while cut off that were handed over to sequencers
}
