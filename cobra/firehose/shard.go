package firehose

import (
	"fmt"
	"time"

	"tidings/internal/env"
	"tidings/overlay"
	"tidings/overlay/owner"
)

// shardOf is the shard of a channel.
func (f *Firehose) shardOf(key overlay.ID) *shard {
	return f.shards[int(key[0])*len(f.shards)/256]
}

// A shard is what a node knows of one, and does for it.
type shard struct {
	n     int
	key   overlay.ID
	url   string
	topic string
	peers []env.Peer // of the topic, as last joined
	in    bool       // the topic is joined

	owners *owner.Tracker
	wanted time.Time // when this node, as the root of the key, was last asked for owners by a filter

	// As sequencer of channels:
	idle    time.Time // until when nobody listens
	reports map[owner.Hash]*report

	// As owner:
	owned     bool
	since     time.Time // of that
	kept      map[owner.Hash]*carried
	order     []*carried // the oldest first
	bytes     int
	listeners map[env.PeerID]*listener
	digested  time.Time                // when the last digest of any owner came or went
	listed    map[env.PeerID]time.Time // when an owner got a list of what it seems to lack
	refused   map[owner.Hash]bool      // entries that nobody could be asked for

	// As filter:
	listened time.Time  // when the owners were told last, and
	toldAs   owner.Hash // by which epoch
	began    time.Time  // from when on entries count: this node listens since
	heard    time.Time  // when the last digest came
	upTo     time.Time  // by digests, this node knows of everything until then
	lineage  uint64     // of the owners, and
	doubt    time.Time  // since when others may have sent what these do not know of
	behind   int        // how often it asked for what was before the digests it hears
	seen     map[owner.Hash]time.Time
	lacks    map[owner.Hash]*lack
	met      map[env.PeerID]env.Peer
}

// goOver notes of which lineage the owners are that are listened to now. Where the network was
// parted, each part had owners of its own, and those who go on do not know what the others
// sent: whoever becomes an owner is asked for all since then.
func (s *shard) goOver(lineage uint64, now time.Time) {
	if s.lineage != 0 && lineage != s.lineage && (s.doubt.IsZero() || now.Sub(s.doubt) > keepFor) {
		s.doubt = s.upTo
	}
	s.lineage = lineage
}

func newShard(network string, n int) *shard {
	url := overlay.ShardURL(n)
	return &shard{
		n: n, url: url, key: overlay.Key(network, url), topic: fmt.Sprintf("shard/%d", n),
		reports: map[owner.Hash]*report{}, kept: map[owner.Hash]*carried{}, refused: map[owner.Hash]bool{}, listeners: map[env.PeerID]*listener{},
		seen: map[owner.Hash]time.Time{}, lacks: map[owner.Hash]*lack{}, met: map[env.PeerID]env.Peer{},
	}
}

// keepTopic takes part in a shard's topic as its owner, or as a filter.
func (f *Firehose) keepTopic(s *shard) {
	if !s.owned && !f.cfg.Filter {
		if s.in {
			f.topics.Leave(s.topic)
			s.in, s.peers = false, nil
		}
		return
	}
	peers := s.mates(f.self)
	if s.in && samePeers(peers, s.peers) {
		return
	}
	s.in, s.peers = true, peers
	f.topics.Join(s.topic, peers, func(_ env.PeerID, frame []byte) env.Verdict { return f.hear(s, frame) })
}
