package tiers

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"google.golang.org/protobuf/proto"

	"tidings/cobra"
	"tidings/cobra/provision"
	"tidings/cobra/tiers/tierspb"
	"tidings/internal/check"
	"tidings/internal/env"
	"tidings/internal/feed"
	"tidings/internal/wire"
)

// Config says what a node does in a plan.
type Config struct {
	// Plan names all nodes. One of them has this node's id. Default: none, so that the node has no role.
	Plan Plan
	// Drop lets a sender drop what a receiver with a full queue should get, and count it. Default false: the sender waits
	// for room, as in the paper's section 3, and in turn takes nothing more itself.
	Drop bool
	// Buffer bounds the articles that a receiver keeps for one sender, and those that wait for one receiver, in bytes.
	// Default 1 MiB, which is the paper's. More carries longer bursts and takes that much memory for each link.
	Buffer int
	// Items bounds the number of articles that wait for one receiver. Default 8,192: a queue of articles without content.
	Items int
	// Discover is how many requests an hour a crawler may spend on looking for feeds that its list lacks, on the sites to which
	// articles link: 0 to 3,600. Default 0: none.
	Discover int
	// Rules read documents and say when a feed may be polled again. Crawlers need them.
	Rules Rules
}

const (
	defaultBuffer = 1 << 20
	minBuffer     = 2 * env.MaxFrame // two of the largest articles, so that one is under way while one is handled
	maxBuffer     = 1 << 30
	defaultItems  = 8192
	// maxBatch bounds the articles of a frame in bytes, and maxArticle the content of one, so that both fit into a frame
	// with the rest.
	maxBatch     = env.MaxFrame - 4<<10
	maxArticle   = env.MaxFrame - 16<<10
	itemOverhead = 16
)

func (c Config) withDefaults() Config {
	c.Buffer, c.Items = cmp.Or(c.Buffer, defaultBuffer), cmp.Or(c.Items, defaultItems)
	return c
}

// Validate returns an error about the first wrong field.
func (c Config) Validate() error {
	c = c.withDefaults()
	return cmp.Or(
		check.Between("tiers: Buffer", c.Buffer, minBuffer, maxBuffer),
		check.AtLeast("tiers: Items", c.Items, 1),
		check.Between("tiers: Discover", c.Discover, 0, MaxDiscover),
	)
}

// Rules are the manners of polling. internal/node takes them from corona.
type Rules interface {
	// Read parses the document of an answer.
	Read(address string, a env.Answer) (*feed.Feed, error)
	// Next returns how long to wait until the next poll after an answer. fails counts the consecutive failures before it.
	// ok is false if the answer is a failure.
	Next(address string, a env.Answer, f *feed.Feed, err error, fails int) (wait time.Duration, ok bool)
	// Advertised returns the addresses of the feeds of articles that a page advertises.
	Advertised(a env.Answer) []string
	// Site returns what names the owner of an address: its registrable domain.
	Site(address string) string
}

// An Application keeps the articles of a reflector.
type Application interface {
	// Reflect takes an article that matches a query which the reflector has placed. The application calls done, on the
	// node's loop, when the article is stored or matches nothing any more, with false if it could not be stored. An
	// application without room calls it later: filters then wait. Whatever it has not answered comes again after a
	// restart.
	Reflect(a *cobra.Article, done func(ok bool))
}

// Stats are counters since the start.
type Stats struct {
	Received uint64 // articles received
	Repeated uint64 // articles received again, and dropped
	Resent   uint64 // times a link went back to what was acknowledged
	Passed   uint64 // articles handed to receivers or to the application
	Failed   uint64 // articles that the application could not store
	Garbage  uint64 // invalid messages and articles
	Polls    uint64 // answers of origins to a crawler
	Found    uint64 // new articles that a crawler has found
	Probes   uint64 // requests with which a crawler only measured how far a host is
	Handed   uint64 // feeds that a crawler has handed to another
	Taken    uint64 // feeds that a crawler has got from another
	Looks    uint64 // requests with which a crawler has looked for feeds that its list lacks
	Rescued  uint64 // articles that a crawler has queued again, because the filter that had not acknowledged them is gone
	Turned   uint64 // documents without any item of the one before, so that a crawler may have missed some in between

	Bytes         uint64 // of the articles that were found or received
	Sent          uint64 // articles queued for receivers, once for each
	Documents     uint64 // documents that origins have answered with
	DocumentBytes uint64 // of them
	MatchMicros   uint64 // microseconds that a filter has spent on matching

	Hosts      int // hosts that a crawler has looked at for feeds, or will
	Candidates int // feeds that it has found there and its list lacks

	Waiting      int    // articles that wait for receivers, once for each
	WaitingBytes int    // of them
	Full         int    // receivers with a full queue
	Dropped      uint64 // articles that were dropped for receivers with a full queue, ever
	Lacking      uint64 // articles that senders have dropped for this node, ever
}

// base is what every part needs.
type base struct {
	cfg       Config
	clock     env.Clock
	net       env.Network
	store     env.Store
	rand      *rand.Rand
	log       *slog.Logger
	session   uint64
	stats     Stats
	due       time.Time // when Run has work next
	plans     plans
	isSettled bool // nothing of an earlier plan is under way, when Run last looked
}

// wake lets Run look for work at once.
func (b *base) wake() { b.due = env.AtOnce }

func (b *base) send(to env.Peer, class env.Class, m *tierspb.Message) {
	b.net.Send(to, class, wire.AppendFrame(nil, wire.Tiers, m))
}

// failed returns a function that logs an error of the disk. Records are written again with the next ones of their kind.
func (b *base) failed(what string) func(error) {
	return func(err error) {
		if err != nil {
			b.log.Error("records of a hosting centre's node could not be stored", "records", what, "err", err)
		}
	}
}

// Tiers is the part of one node in a plan. A node without a role has one, too, which does nothing.
type Tiers struct {
	*base
	selfID  env.PeerID
	out     *outbox
	in      []*inbox
	crawler *crawler // nil: the node is none
	filter  *filter  // likewise
	queries *queries // of a reflector, likewise
	app     Application
}

// New returns the part of the node with an id.
func New(e env.Env, self env.PeerID, c Config, app Application) (*Tiers, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	t := &Tiers{selfID: self, app: app, base: &base{cfg: c.withDefaults(), clock: e.Clock, net: e.Network, store: e.Store, rand: e.Rand, log: e.Log}}
	if len(c.Plan.Nodes) == 0 {
		return t, nil
	}
	var fresh bool
	var err error
	if t.plans, fresh, err = loadPlans(t.base, c.Plan, self); err != nil {
		return nil, err
	}
	t.session = t.rand.Uint64()
	t.out = &outbox{base: t.base}
	if err := t.out.load(t.plans.down()); err != nil {
		return nil, fmt.Errorf("read the queue for other nodes: %w", err)
	}
	if fresh {
		t.begin(nil)
	}
	for _, n := range t.plans.up() {
		i := &inbox{base: t.base, from: n}
		if err := i.load(); err != nil {
			return nil, fmt.Errorf("read how far %s has sent: %w", n.Name, err)
		}
		t.in = append(t.in, i)
	}
	switch t.plans.self().Role {
	case provision.Crawler:
		if c.Rules == nil {
			return nil, errors.New("tiers: Rules is nil; a crawler needs them")
		}
		if t.crawler, err = newCrawler(t.base, e, t.out); err != nil {
			return nil, fmt.Errorf("read the feeds of other crawlers: %w", err)
		}
	case provision.Filter:
		t.filter, err = newFilter(t)
	case provision.Reflector:
		t.queries = newQueries(t)
	default:
		err = fmt.Errorf("topology: %s has the unknown role %q", t.plans.self().Name, t.plans.self().Role)
	}
	t.wake()
	return t, err
}

// Role returns the node's role in the plan; "" if it has none.
func (t *Tiers) Role() string { return t.plans.self().Role }

// Receive handles a message of another node.
func (t *Tiers) Receive(from env.PeerID, body []byte) error {
	var m tierspb.Message
	if err := proto.Unmarshal(body, &m); err != nil {
		return fmt.Errorf("%w: tiers: %w", wire.ErrFrame, err)
	}
	if t.out == nil {
		return nil // the node has left its plan
	}
	now := t.clock.Now()
	defer t.wake()
	if t.crawler != nil && t.crawler.near.self >= 0 {
		if i := t.crawler.near.index(from); i >= 0 && i != t.crawler.near.self {
			return t.crawler.onMessage(i, &m)
		}
	}
	down, up := t.out.link(from), t.inboxOf(from)
	switch b := m.Body.(type) {
	case *tierspb.Message_Send:
		if up != nil {
			up.onSend(b.Send, now)
			return nil
		}
	case *tierspb.Message_Ack:
		if down != nil {
			t.out.onAck(down, b.Ack, now)
			return nil
		}
	case *tierspb.Message_Compare:
		if down != nil && t.filter != nil {
			return t.filter.onCompare(down, b.Compare)
		}
	case *tierspb.Message_Place:
		if down != nil && t.filter != nil {
			t.filter.onPlace(down, b.Place)
			return nil
		}
	case *tierspb.Message_Differs:
		if up != nil && t.queries != nil {
			t.queries.onDiffers(from, b.Differs, now)
			return nil
		}
	}
	t.stats.Garbage++ // of a node that has another plan
	return nil
}

func (t *Tiers) inboxOf(id env.PeerID) *inbox {
	for _, i := range t.in {
		if i.from.Peer.ID == id {
			return i
		}
	}
	return nil
}

// Next returns the time at which something is due.
func (t *Tiers) Next() time.Time { return t.due }

// Run does what is due.
func (t *Tiers) Run(now time.Time) time.Time {
	t.due = time.Time{}
	if t.out == nil {
		return t.due
	}
	t.rescue(now)
	var next time.Time
	switch {
	case t.crawler != nil:
		next = env.Sooner(t.crawler.keepNear(now), t.crawler.run(now))
		next = env.Sooner(next, t.crawler.discover(now))
	case t.filter != nil:
		t.filter.prepare()
		for _, i := range t.in {
			t.filter.match(i)
		}
	case t.queries != nil:
		for _, i := range t.in {
			t.reflect(i)
		}
		next = t.queries.run(now)
	}
	if settled := t.settled(now); settled != t.isSettled {
		t.isSettled = settled
		for _, i := range t.in {
			i.ackDue = true
		}
	}
	next = env.Sooner(next, t.out.run(now))
	for _, i := range t.in {
		i.acknowledge()
	}
	t.due = env.Sooner(t.due, next) // a callback may have come meanwhile
	return t.due
}

// Stats returns the counters and the queues.
func (t *Tiers) Stats() Stats {
	s := t.stats
	if t.out == nil {
		return s
	}
	for _, l := range t.out.links {
		s.Waiting += len(l.pending)
		s.WaitingBytes += l.bytes
		s.Dropped += l.dropped
		if l.full {
			s.Full++
		}
	}
	for _, i := range t.in {
		s.Lacking += i.dropped
	}
	if c := t.crawler; c != nil {
		s.Hosts = len(c.hosts.leads)
		c.hosts.proposed(func(*lead, *tierspb.FoundFeed) { s.Candidates++ })
	}
	return s
}
