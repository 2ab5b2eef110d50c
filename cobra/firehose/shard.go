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
	number     int
	key        overlay.ID
	url        string
	topicName  string
	topicPeers []env.Peer // of the topic, as last joined
	joined     bool       // the topic is joined

	owners   *owner.Tracker
	wantedAt time.Time // when this node, as the root of the key, was last asked for owners by a filter

	// As sequencer of channels:
	pausedUntil time.Time // until when nobody listens
	reports     map[owner.Hash]*report

	// As owner:
	owned        bool
	ownedSince   time.Time // of that
	entries      map[owner.Hash]*storedEntry
	byArrival    []*storedEntry // the oldest first
	entryBytes   int
	listeners    map[env.PeerID]*listener
	digestAt     time.Time                // when the last digest of any owner came or went
	listSentAt   map[env.PeerID]time.Time // when an owner ack a list of what it seems to lack
	unobtainable map[owner.Hash]bool      // entries that nobody could be asked for

	// As filter:
	listenSentAt     time.Time  // when the owners were told last, and
	listenEpoch      owner.Hash // by which epoch
	beganAt          time.Time  // from when on entries count: this node listens since
	digestReceivedAt time.Time  // when the last digest came
	completeUntil    time.Time  // by digests, this node knows of everything until then
	branch           uint64     // of the owners, and
	unsureSince      time.Time  // since when others may have sent what these do not know of
	catchUps         int        // how often it asked for what was before the digests it hears
	received         map[owner.Hash]time.Time
	missing          map[owner.Hash]*missingEntry
	introduced       map[env.PeerID]env.Peer
}

// goOver notes of which lineage the owners are that are listened to now. Where the network was
// parted, each part had owners of its own, and those who go on do not know what the others
// sent: whoever becomes an owner is asked for all since then.
func (s *shard) switchBranch(lineage uint64, now time.Time) {
	if s.branch != 0 && lineage != s.branch && (s.unsureSince.IsZero() || now.Sub(s.unsureSince) > keepTime) {
		s.unsureSince = s.completeUntil
	}
	s.branch = lineage
}

func newShard(network string, n int) *shard {
	url := overlay.ShardURL(n)
	return &shard{
		number: n, url: url, key: overlay.Key(network, url), topicName: fmt.Sprintf("shard/%d", n),
		reports: map[owner.Hash]*report{}, entries: map[owner.Hash]*storedEntry{}, unobtainable: map[owner.Hash]bool{}, listeners: map[env.PeerID]*listener{},
		received: map[owner.Hash]time.Time{}, missing: map[owner.Hash]*missingEntry{}, introduced: map[env.PeerID]env.Peer{},
	}
}

// keepTopic takes part in a shard's topic as its owner, or as a filter.
func (f *Firehose) updateTopic(s *shard) {
	if !s.owned && !f.cfg.Filter {
		if s.joined {
			f.topics.Leave(s.topicName)
			s.joined, s.topicPeers = false, nil
		}
		return
	}
	peers := s.directPeers(f.self)
	if s.joined && samePeers(peers, s.topicPeers) {
		return
	}
	s.joined, s.topicPeers = true, peers
	f.topics.Join(s.topicName, peers, func(_ env.PeerID, frame []byte) env.Verdict { return f.onBroadcast(s, frame) })
}
