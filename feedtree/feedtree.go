package feedtree

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"tidings/difference"
	"tidings/feedtree/feedtreepb"
	"tidings/internal/env"
	"tidings/internal/feed"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/owner"
	"tidings/overlay/scribe"
)

// An Application is the layer above. Its methods are called from within Deliver, Receive, Run and other methods of
// a FeedTree.
type Application interface {
	// News reports items that readers of a subscribed feed see from now on: new items, and new versions of known
	// ones. Each version is reported once.
	News(key overlay.ID, changes []difference.Change, at time.Time)

	// StateChanged reports a new state of a feed's polls, as the sequencer signed it. It also reports, with the
	// same state as before, that the feed's publisher key or its head has changed.
	StateChanged(key overlay.ID, state []byte, at time.Time)

	// Fetch requests the feed's document over HTTP. The document comes back by Show, because no node of the network
	// had a missing item, or by HeadFetched.
	Fetch(key overlay.ID, url string)

	// PollAlone starts or stops polls of a feed by this node for its own readers, because no other node vouches for
	// the feed's log any more. The result comes back by ShowAlone.
	PollAlone(key overlay.ID, url string, on bool)

	// HandOver brings items that this node found while it was cut off from a feed to the feed's sequencer. known is
	// a sample of the items in the log.
	HandOver(key overlay.ID, head *feed.Head, found []feed.Item, known []difference.Entry)

	// Filter returns the changes in d, which come from another branch, that are new to this node's poller of the
	// feed. The poller treats them as known from then on.
	Filter(key overlay.ID, d difference.Delta) difference.Delta
}

// A Config holds the parameters of a FeedTree. A zero field stands for its default.
type Config struct {
	// BeatInterval is the longest time without a message in a feed: the sequencer sends a heartbeat after it.
	// Default 1 h.
	BeatInterval time.Duration
	// DigestInterval is the average time between two comparisons of heads with one parent. Default 1 min.
	DigestInterval time.Duration
	// AuditInterval bounds the time for which a node hears nothing certain about a feed before it compares its head
	// with one of the feed's owners, independently of all trees. The default of 8 min leaves time for a second
	// audit within ten minutes if the first owner does not answer.
	AuditInterval time.Duration
	// PollInterval is the time over which nodes that have to ask an origin themselves spread their requests.
	// Default 30 min.
	PollInterval time.Duration
}

func (c Config) withDefaults() Config {
	if c.BeatInterval == 0 {
		c.BeatInterval = time.Hour
	}
	if c.DigestInterval == 0 {
		c.DigestInterval = time.Minute
	}
	if c.AuditInterval == 0 {
		c.AuditInterval = 8 * time.Minute
	}
	if c.PollInterval == 0 {
		c.PollInterval = 30 * time.Minute
	}
	return c
}

// MaxSubscriptions bounds the feeds that one node subscribes to. Further subscriptions are refused.
const MaxSubscriptions = 5000

// ErrFull reports that a node has MaxSubscriptions subscriptions.
var ErrFull = errors.New("this node has reached its limit of subscriptions")

// A FeedTree is one node's part in all feeds. It is not safe for concurrent use.
type FeedTree struct {
	cfg    Config
	clock  env.Clock
	net    env.Network
	store  env.Store
	worker env.Worker
	rand   *rand.Rand
	log    *slog.Logger
	node   *overlay.Node
	scribe *scribe.Scribe
	owners *owner.Owners
	signer *wire.Signer
	verify wire.Verifier
	app    Application
	stats  Stats

	feeds           map[overlay.ID]*channel
	links           map[env.PeerID]*link
	pushes          map[feed.Hash]*push // publications of this node that no sequencer has committed yet, by their hash
	witnessRequests map[overlay.ID]*witnessRequest
	reputations     map[env.PeerID]reputation // of parents that this node left
	// State of audits and refusals:
	pendingAudits map[env.PeerID]*pendingAudit // by owner
	ownerAddrs    map[env.PeerID]env.Peer      // addresses of owners, as lookups found them
	refusals      []Refusal                    // the latest refusals, at most maxRefusals
	cal           env.Calendar[task]
	nonce         uint64
	started       bool
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
	Anew          uint64 // windows rebuilt because a log was replaced by another one
	Beats         uint64 // heartbeats sent
	Overdue       uint64 // heartbeats that did not come in time
	Heads         uint64 // heads announced in shadow trees
	Late          uint64 // entries that came too long after their heads
	Audits        uint64 // audits: comparisons of heads with those of an owner
	Unheard       uint64 // audits that found entries that no tree had brought
	Shunned       uint64 // parents left because they withheld something
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
	Objected      uint64 // objections sent because the web server names another key than the log
	Lacking       uint64 // publications that are missing in the logs of subscribed feeds
	CutOff        int    // 1 while the node hears of no other node, otherwise 0
	Alone         int    // feeds that the node polls itself because it is cut off from them
	Silences      uint64 // times that the node began to poll a feed because it was cut off
	Handed        uint64 // items found while cut off that were handed over to sequencers
}

type task struct {
	kind taskKind
	key  overlay.ID
}

type taskKind uint8

const (
	taskDigest       taskKind = iota // compare heads with parents, and start what is due in each digest interval
	taskRepair                       // continue a repair
	taskFetch                        // ask the origin for missing items, if they are still missing
	taskRecover                      // continue a recovery of bodies
	taskSync                         // read a log that was on the disk at the start
	taskBeat                         // send a heartbeat, if a feed led by this node was silent for a beat interval
	taskPush                         // send a publication of this node again; the task's key is its hash
	taskKeyChange                    // ask owners again for witnesses of a key change
	taskHead                         // publish the head of a feed led by this node
	taskOverdueEntry                 // pull an entry whose head has arrived and which has not
	taskAudit                        // audit feeds that no parent keeps a log of
	taskProbationEnd                 // check whether both parents have delivered an entry
	taskKeyCheck                     // check the feed's key at the origin
)

// New returns the FeedTree of a node, with the subscriptions that its store holds.
func New(e env.Env, node *overlay.Node, s *scribe.Scribe, o *owner.Owners, signer *wire.Signer, verify wire.Verifier, cfg Config, app Application) (*FeedTree, error) {
	f := &FeedTree{
		cfg:             cfg.withDefaults(),
		clock:           e.Clock,
		net:             e.Network,
		store:           e.Store,
		worker:          e.Worker,
		rand:            e.Rand,
		log:             e.Log,
		node:            node,
		scribe:          s,
		owners:          o,
		signer:          signer,
		verify:          verify,
		app:             app,
		feeds:           map[overlay.ID]*channel{},
		links:           map[env.PeerID]*link{},
		pushes:          map[feed.Hash]*push{},
		witnessRequests: map[overlay.ID]*witnessRequest{},
		reputations:     map[env.PeerID]reputation{},

		pendingAudits: map[env.PeerID]*pendingAudit{},
		ownerAddrs:    map[env.PeerID]env.Peer{},
	}
	if err := f.load(); err != nil {
		return nil, err
	}
	f.after(f.spread(f.cfg.DigestInterval), task{kind: taskDigest})
	return f, nil
}

func (f *FeedTree) after(d time.Duration, t task) { f.cal.Add(f.clock.Now().Add(d), t) }

// spread returns d plus or minus a quarter, at random.
func (f *FeedTree) spread(d time.Duration) time.Duration {
	return d*3/4 + time.Duration(f.rand.Int64N(int64(d)/2+1))
}

// Run does everything that is due and returns when it wants to be called next.
func (f *FeedTree) Run(now time.Time) time.Time {
	if !f.started {
		f.started = true
		f.resume()
	}
	for {
		t, _, ok := f.cal.Pop(now)
		if !ok {
			return f.cal.Next()
		}
		c := f.feeds[t.key]
		switch t.kind {
		case taskDigest:
			f.compareHeads(now)
			f.runAudits(now)
			f.checkCutOff(now)
			f.handOverItems(now)
			f.forgetReputations(now)
			f.after(f.spread(f.cfg.DigestInterval), t)
		case taskRepair:
			if c != nil && c.repair != nil && !c.repair.resumeAt.After(now) {
				f.continueRepair(c)
			}
		case taskRecover:
			if c != nil {
				f.continueRecovery(c)
			}
		case taskSync:
			if c != nil && c.subscribed {
				f.sync(c, nil)
			}
		case taskFetch:
			if c != nil {
				f.fetchOrigin(c)
			}
		case taskAudit:
			f.runAudits(now)
		case taskHead:
			if c != nil && c.leader != nil {
				f.publishHead(c)
			}
		case taskOverdueEntry:
			if c != nil && c.probation != nil {
				f.pullOverdue(c)
			}
		case taskProbationEnd:
			if c != nil && c.probation != nil {
				f.endProbation(c)
			}
		case taskKeyCheck:
			if c != nil {
				f.runKeyCheck(c, now)
			}
		case taskPush:
			if p := f.pushes[feed.Hash(t.key)]; p != nil && !p.retryAt.After(now) {
				f.continuePush(p, now)
			}
		case taskKeyChange:
			if c != nil && c.leader != nil {
				f.continueKeyChange(c, now)
			}
		case taskBeat:
			if c != nil && c.leader != nil {
				f.beatIfSilent(c, now)
			}
		}
	}
}

// sorted returns the channels in the order of their keys, so that messages do not depend on the order of a map.
func (f *FeedTree) sorted() []*channel {
	channels := make([]*channel, 0, len(f.feeds))
	for _, c := range f.feeds {
		channels = append(channels, c)
	}
	slices.SortFunc(channels, func(a, b *channel) int { return bytes.Compare(a.key[:], b.key[:]) })
	return channels
}

// Stats returns the counters.
func (f *FeedTree) Stats() Stats {
	st := f.stats
	for _, c := range f.feeds {
		if c.subscribed {
			st.Subscriptions++
		}
		if c.leader != nil {
			st.Led++
		}
		if c.alone {
			st.Alone++
		}
	}
	if _, ok := f.CutOff(); ok {
		st.CutOff = 1
	}
	return st
}

// HasTree reports whether a group is one of the two trees of a feed that this node follows or leads.
func (f *FeedTree) HasTree(group overlay.ID) bool {
	return f.feeds[group] != nil || f.feeds[shadowOf(group)] != nil
}

// Deliver handles a message that scribe brought down a tree.
func (f *FeedTree) Deliver(d scribe.Delivery) {
	n, err := parseNews(d.Payload)
	if err != nil {
		f.stats.Garbage++
		return
	}
	if raw := n.GetObjection(); raw != nil {
		if f.onObjection(raw) != nil {
			f.stats.Garbage++
		}
		return
	}
	if c := f.feeds[shadowOf(d.Group)]; c != nil {
		if n.GetBeat() == nil || f.onHead(c, n.GetBeat()) != nil {
			f.stats.Garbage++
		}
		return
	}
	switch b := n.News.(type) {
	case *feedtreepb.News_Update:
		f.onUpdate(d.Group, b.Update)
	case *feedtreepb.News_Beat:
		if f.onBeat(b.Beat) != nil {
			f.stats.Garbage++
		}
	}
}

// Receive handles one message of this layer from a peer. An error means that the peer broke the protocol.
func (f *FeedTree) Receive(from env.PeerID, body []byte) error {
	m, err := parse(body)
	if err != nil {
		f.stats.Garbage++
		return err
	}
	switch b := m.Body.(type) {
	case *feedtreepb.Message_Digest:
		f.onDigest(from, b.Digest)
	case *feedtreepb.Message_DigestAck:
		f.onDigestAck(from, b.DigestAck)
	case *feedtreepb.Message_Heads:
		f.onHeads(from, b.Heads)
	case *feedtreepb.Message_HeadsReply:
		f.onHeadsReply(from, b.HeadsReply)
	case *feedtreepb.Message_Push:
		if err := f.onPush(from, b.Push, false); err != nil {
			f.stats.Garbage++
			return fmt.Errorf("%w: %w", env.ErrFrame, err)
		}
	case *feedtreepb.Message_PushReply:
		f.onPushReply(from, b.PushReply)
	case *feedtreepb.Message_WitnessRequest:
		f.onWitnessRequest(from, b.WitnessRequest)
	case *feedtreepb.Message_WitnessReply:
		if err := f.onWitnessReply(from, b.WitnessReply); err != nil {
			f.stats.Garbage++
			return fmt.Errorf("%w: %w", env.ErrFrame, err)
		}
	case *feedtreepb.Message_Objection:
		if err := f.onObjection(b.Objection.Witness); err != nil {
			f.stats.Garbage++
			return fmt.Errorf("%w: %w", env.ErrFrame, err)
		}
	case *feedtreepb.Message_Beats:
		for _, raw := range b.Beats.Beats {
			if err := f.onBeat(raw); err != nil {
				f.stats.Garbage++
				return fmt.Errorf("%w: %w", env.ErrFrame, err)
			}
		}
	}
	return nil
}

// Route handles a message that was routed to this node as the root of a feed's key. A malformed one is only
// counted: the peer that passed it on is not its sender.
func (f *FeedTree) Route(body []byte) {
	m, err := parse(body)
	if err != nil || m.GetPush() == nil || f.onPush("", m.GetPush(), true) != nil {
		f.stats.Garbage++
	}
}

func (f *FeedTree) send(to env.Peer, m *feedtreepb.Message) {
	f.stats.Control++
	f.net.Send(to, env.Control, wire.AppendFrame(nil, wire.Feed, m))
}
