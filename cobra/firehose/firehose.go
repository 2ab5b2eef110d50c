package firehose

import (
	"log/slog"
	"math/rand/v2"
	"time"

	"tidings/cobra/firehose/firehosepb"
	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/owner"
)

// DefaultShards is how many shards there are. All nodes of a network have to agree.
// Eight owners each carry an eighth of all articles; at a million feeds, with the
// paper's 48.5 articles a second, that is six a second.
const DefaultShards = 8

// Config is what a Firehose is told.
type Config struct {
	// Shards is their number; 0: there is no firehose.
	Shards int
	// Filter says that this node wants all entries.
	Filter bool
}

// An Application takes what a filter gets.
type Application interface {
	// Dispatched brings a new entry of a channel: once, unless the node was restarted
	// meanwhile, or the entry is older than an hour. False: there is no room for it now. It
	// comes again as long as digests list it, for more than a minute.
	Dispatched(d Dispatch) bool
}

// Owners say who owns a key, and keep logs: an *owner.Owners.
type Owners interface {
	View(key overlay.ID) (owner.View, bool)
	FindOwners(key overlay.ID, then func(f owner.Found))
	Track(key overlay.ID, cfg owner.TrackerConfig) *owner.Tracker
	OpenEpoch(b []byte) (*owner.Epoch, error)
	Log(key overlay.ID) []*owner.Entry
	Body(e *owner.Entry, then func(body []byte))
}

const (
	// tick is the time between two looks at what a node is for each shard.
	maintenanceInterval = 5 * time.Second
	// keepFor is how long an owner can list and an hour's outage can be made up for.
	keepTime = time.Hour
	// freshFor is how old an entry may be that is reported, and how far a
	// broadcast's time may be from the own clock's.
	maxEntryAge = 10 * time.Minute
)

// A Firehose is one node's part in it.
type Firehose struct {
	cfg    Config
	clock  env.Clock
	net    env.Network
	topics env.Topics
	store  env.Store
	rand   *rand.Rand
	log    *slog.Logger
	node   *overlay.Node
	owners Owners
	signer *wire.Signer
	verify wire.Verifier
	app    Application
	self   env.PeerID
	stats  Stats

	shards        []*shard
	epochs        epochCache // of channels, whose signatures were checked
	outgoing      map[transferID]*outgoing
	incoming      map[transferID]*incoming
	transferBytes int                // bytes of going and coming, and
	incomingBytes map[env.PeerID]int // of coming, by peer
	cal           env.Calendar[task]

	progressSavedAt time.Time // when a filter noted last until when it has everything
}

type task struct {
	kind  taskKind
	shard int
	entry owner.Hash // or report
	peer  env.PeerID
}

type taskKind uint8

const (
	taskMaintain       taskKind = iota
	taskRetryReport             // a report may have to go to others
	taskPartTimeout             // an acknowledgement may be missing
	taskPublishTimeout          // another owner should have broadcast it
	taskRequest                 // an entry is still missing
)

// Stats counts what a Firehose did since it started.
type Stats struct {
	Reported   uint64 // entries to report as the sequencer
	Unheard    uint64 // entries not reported because no filter listens
	Unreported uint64 // entries not reported because no owners were reached, or too many entries waited
	Carried    uint64 // reports accepted as the owner of a shard
	Broadcast  uint64 // reports broadcast to filters
	Rescued    uint64 // reports broadcast because another owner did not
	Digests    uint64 // digests broadcast
	Heard      uint64 // entries received as a filter, each counted once
	Lacked     uint64 // entries that the filter had to ask for
	Missed     uint64 // entries that the filter could not get
	Refused    uint64 // times that the filter had no space for an entry
	Gaps       uint64 // times that owners no longer had the entries a filter missed
	Strange    uint64 // broadcasts from a node that is not known to own the shard
	Garbage    uint64 // messages that broke the protocol
	Forged     uint64 // reports not from the sequencer of a feed, and epochs without a signature
	Listeners  int    // filters known as the owner of a shard
	Served     int    // shards that the node owns
	Deaf       int    // shards that the filter has received no digest of for some minutes
	Kept       int    // entries kept for filters as an owner
}

// Add adds the counters of another node.
func (st *Stats) Add(t Stats) {
	st.Reported += t.Reported
	st.Unheard += t.Unheard
	st.Unreported += t.Unreported
	st.Carried += t.Carried
	st.Broadcast += t.Broadcast
	st.Rescued += t.Rescued
	st.Digests += t.Digests
	st.Heard += t.Heard
	st.Lacked += t.Lacked
	st.Missed += t.Missed
	st.Refused += t.Refused
	st.Gaps += t.Gaps
	st.Strange += t.Strange
	st.Garbage += t.Garbage
	st.Forged += t.Forged
	st.Listeners += t.Listeners
	st.Served += t.Served
	st.Deaf += t.Deaf
	st.Kept += t.Kept
}

// New returns the Firehose of a node. Without shards, or in a world without topics, it
// does nothing.
func New(e env.Env, node *overlay.Node, owners Owners, signer *wire.Signer, verify wire.Verifier, cfg Config, app Application) *Firehose {
	f := &Firehose{
		cfg: cfg, clock: e.Clock, net: e.Network, topics: e.Topics, store: e.Store, rand: e.Rand, log: e.Log,
		node: node, owners: owners, signer: signer, verify: verify, app: app, self: signer.PeerID(),
		outgoing: map[transferID]*outgoing{}, incoming: map[transferID]*incoming{}, incomingBytes: map[env.PeerID]int{},
	}
	if e.Topics == nil {
		f.cfg.Shards = 0
	}
	for i := range f.cfg.Shards {
		s := newShard(node.Network(), i)
		f.track(s)
		f.shards = append(f.shards, s)
	}
	if f.enabled() {
		if cfg.Filter {
			f.loadProgress()
		}
		f.schedule(0, task{kind: taskMaintain})
	}
	return f
}

// on says whether there is a firehose.
func (f *Firehose) enabled() bool { return len(f.shards) > 0 }

func (f *Firehose) schedule(d time.Duration, t task) { f.cal.Add(f.clock.Now().Add(d), t) }

// Run does what is due and returns when it wants to be run next.
func (f *Firehose) Run(now time.Time) time.Time {
	for {
		t, _, ok := f.cal.Pop(now)
		if !ok {
			return f.cal.Next()
		}
		switch t.kind {
		case taskMaintain:
			f.maintain(now)
			f.schedule(maintenanceInterval, t)
		case taskRetryReport:
			f.retryReport(f.shards[t.shard], t.entry, now)
		case taskPartTimeout:
			f.partTimeout(transferID{t.peer, t.entry}, now)
		case taskPublishTimeout:
			f.publishTimeout(f.shards[t.shard], t.entry, now)
		case taskRequest:
			f.requestMissing(f.shards[t.shard], t.entry, now)
		}
	}
}

// tick looks what this node is for each shard.
func (f *Firehose) maintain(now time.Time) {
	f.dropStaleTransfers(now)
	for _, s := range f.shards {
		f.runOwner(s, now)
		if f.cfg.Filter {
			f.runFilter(s, now)
		}
		f.updateTopic(s)
	}
	if f.cfg.Filter {
		f.saveProgress(now)
	}
}

// Receive takes a message from a peer.
func (f *Firehose) Receive(from env.PeerID, body []byte) error {
	if !f.enabled() {
		return nil // a world without topics hears of others who have some
	}
	m, err := parse(body, len(f.shards))
	if err != nil {
		f.stats.Garbage++
		return err
	}
	switch b := m.Body.(type) {
	case *firehosepb.Message_Listen:
		return f.onListen(from, b.Listen)
	case *firehosepb.Message_ListenAck:
		return f.onListenAck(from, b.ListenAck)
	case *firehosepb.Message_Direct:
		f.onDirect(b.Direct)
	case *firehosepb.Message_Part:
		f.onPart(from, b.Part)
	case *firehosepb.Message_PartAck:
		f.onPartAck(from, b.PartAck)
	case *firehosepb.Message_Request:
		f.onRequest(from, b.Request)
	}
	return nil
}

func (f *Firehose) send(to env.Peer, class env.Class, m *firehosepb.Message) {
	f.net.Send(to, class, wire.AppendFrame(nil, wire.Cobra, m))
}

// peer is a peer as it can be sent to.
func (f *Firehose) peer(id env.PeerID) env.Peer {
	if c := f.node.Contact(id); c != nil {
		return c.Peer
	}
	return env.Peer{ID: id}
}

// Stats returns the counters.
func (f *Firehose) Stats() Stats {
	st := f.stats
	now := f.clock.Now()
	for _, s := range f.shards {
		st.Listeners += len(s.listeners)
		st.Kept += len(s.entries)
		if s.owned {
			st.Served++
		}
		if f.cfg.Filter && now.Sub(s.digestReceivedAt) > silenceLimit {
			st.Deaf++
		}
	}
	return st
}
