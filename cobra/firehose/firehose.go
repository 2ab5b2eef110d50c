package firehose

import (
	"cmp"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"tidings/cobra/firehose/firehosepb"
	"tidings/internal/check"
	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/owner"
)

// DefaultShards is the number of shards. All nodes of a network have to agree on it. Each of a shard's owners transmits an
// eighth of all articles: some six a second at a million feeds, which publish 48.5 articles a second by the paper.
const DefaultShards = 8

// Config holds the parameters of a Firehose. A zero field means its default.
type Config struct {
	// Shards is the number of shards. The default of 0 turns the firehose off. More shards spread the articles
	// over more owners, and each filter then listens to more topics.
	Shards int
	// Filter tells whether this node wants all entries, which needs Shards. Default false. A filter receives every new
	// article of the network.
	Filter bool
}

// Validate returns an error that names the first wrong field.
func (c Config) Validate() error {
	return cmp.Or(
		check.AtLeast("firehose: Shards", c.Shards, 0),
		check.That(!c.Filter || c.Shards > 0, "firehose: Filter", "is set; it must be unset if Shards is 0"),
	)
}

// An Application receives the entries of a filter.
type Application interface {
	// Dispatched delivers a new entry of a channel. Each entry is delivered once, unless the node was restarted meanwhile
	// or the entry is older than an hour. False means that there is no room for it now: the entry is delivered again as
	// long as digests list it, which is more than a minute.
	Dispatched(d Dispatch) bool
}

// A Firehose is one node's part in the firehose. It passes messages and time to the shards.
type Firehose struct {
	*base
	shards    []*shard
	transfers *transfers
	progress  *progress
}

// New returns the Firehose of a node. It does nothing if there are no shards, or no topics.
func New(e env.Env, node *overlay.Node, owners Owners, signer *wire.Signer, verify wire.Verifier, cfg Config, app Application) *Firehose {
	if e.Topics == nil {
		cfg.Shards = 0
	}
	b := &base{
		cfg: cfg, clock: e.Clock, net: e.Network, rand: e.Rand, log: e.Log, node: node, owners: owners, signer: signer, verify: verify,
		self: signer.PeerID(),
	}
	f := &Firehose{base: b, transfers: newTransfers(b), progress: newProgress(b, e.Store)}
	epochs := &epochCache{}
	for i := range cfg.Shards {
		f.shards = append(f.shards, newShard(b, i, e.Topics, f.transfers, f.progress, epochs, app))
	}
	if f.enabled() {
		f.schedule(0, task{kind: taskMaintain})
	}
	return f
}

func (f *Firehose) enabled() bool { return len(f.shards) > 0 }

// Next returns the time at which something is due, the zero time if nothing is.
func (f *Firehose) Next() time.Time { return f.cal.Next() }

// Run handles everything that is due, and returns Next.
func (f *Firehose) Run(now time.Time) time.Time {
	for {
		t, _, ok := f.cal.Pop(now)
		if !ok {
			return f.Next()
		}
		switch t.kind {
		case taskMaintain:
			f.maintain(now)
			f.schedule(maintenanceInterval, t)
		case taskPartTimeout:
			f.transfers.partTimeout(transferID{t.peer, t.entry}, now)
		case taskRetryReport:
			f.shards[t.shard].reporter.retry(t.entry, now)
		case taskPublishTimeout:
			f.shards[t.shard].keeper.publishTimeout(t.entry, now)
		case taskRequest:
			f.shards[t.shard].retryRequest(t.entry, now)
		}
	}
}

func (f *Firehose) maintain(now time.Time) {
	f.transfers.dropStale(now)
	for _, s := range f.shards {
		s.maintain(now)
	}
	if f.cfg.Filter {
		f.progress.save(now)
	}
}

// Report brings an entry that a quorum has committed to all filters. This node is the sequencer of the entry's key in
// epoch.
func (f *Firehose) Report(d Dispatch, epoch *owner.Epoch) {
	if f.enabled() && d.Entry.Items > 0 && epoch != nil && f.clock.Now().Sub(d.Entry.Time) <= maxEntryAge {
		f.shards[shardOf(d.Entry.Key, len(f.shards))].reporter.add(d, epoch)
	}
}

// Receive handles a message from a peer.
func (f *Firehose) Receive(from env.PeerID, body []byte) error {
	if !f.enabled() {
		return nil // this node has no topics, but other nodes may have some
	}
	m, err := parse(body, len(f.shards))
	if err != nil {
		f.stats.Garbage++
		return err
	}
	switch b := m.Body.(type) {
	case *firehosepb.Message_Listen:
		return f.shards[b.Listen.Shard].keeper.onListen(from, b.Listen)
	case *firehosepb.Message_ListenAck:
		return f.shards[b.ListenAck.Shard].onListenAck(from, b.ListenAck)
	case *firehosepb.Message_Direct:
		f.onDirect(b.Direct)
	case *firehosepb.Message_Part:
		f.shards[b.Part.Shard].onPart(from, b.Part)
	case *firehosepb.Message_PartAck:
		f.transfers.onAck(from, b.PartAck)
	case *firehosepb.Message_Request:
		f.shards[b.Request.Shard].onRequest(from, b.Request)
	}
	return nil
}

// onDirect handles a broadcast that was sent to this node alone.
func (f *Firehose) onDirect(raw []byte) {
	signed, err := f.verify.Open(wire.DomainShard, raw)
	if err != nil {
		f.stats.Garbage++
		return
	}
	m := new(firehosepb.Broadcast)
	if proto.Unmarshal(signed.Payload, m) == nil && int(m.Shard) < len(f.shards) {
		f.shards[m.Shard].onBroadcast(raw)
	}
}

// Wanted tells the root of a shard's key that a filter wants the shard to have owners.
func (f *Firehose) Wanted(key overlay.ID) {
	for _, s := range f.shards {
		if s.key == key {
			s.wantedAt = f.clock.Now()
		}
	}
}

// IsWanted reports whether this node is the root of a shard's key and a filter asked for its owners in the last minutes.
// Then the key is in use, although nobody reads its log.
func (f *Firehose) IsWanted(key overlay.ID) bool {
	return slices.ContainsFunc(f.shards, func(s *shard) bool { return s.key == key && f.clock.Now().Sub(s.wantedAt) < 3*listenLease })
}

// Stats returns the counters.
func (f *Firehose) Stats() Stats {
	st := f.stats
	now := f.clock.Now()
	for _, s := range f.shards {
		st.Listeners += len(s.keeper.listeners)
		st.Kept += len(s.keeper.entries)
		if s.keeper.owned {
			st.Served++
		}
		if f.cfg.Filter && s.filter.isSilent(now) {
			st.SilentShards++
		}
	}
	return st
}
