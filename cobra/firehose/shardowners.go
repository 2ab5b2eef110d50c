package firehose

import (
	"bytes"
	"slices"

	"tidings/internal/env"
	"tidings/overlay"
	"tidings/overlay/owner"
)

// track follows who owns a shard. Filters ask that a shard has owners, and have these verified by a lookup: a filter
// that listens to the wrong nodes hears nothing. Sequencers take the word of the root of the shard's key.
func (f *Firehose) track(s *shard) {
	cfg := owner.TrackerConfig{
		Verify:  func() bool { return f.cfg.Filter },
		Changed: func(e *owner.Epoch) { f.onOwnersChanged(s, e) },
	}
	if f.cfg.Filter {
		cfg.URL = s.url
	}
	s.owners = f.owners.Track(s.key, cfg)
}

// ownersChanged turns to the new owners of a shard. e is nil if the shard has none: then no filter listens.
func (f *Firehose) onOwnersChanged(s *shard, e *owner.Epoch) {
	now := f.clock.Now()
	if e == nil {
		if !f.cfg.Filter {
			s.owners.Forget()
			f.pauseReports(s, now)
		}
		return // the root of the key is finding owners for this filter
	}
	if f.cfg.Filter {
		s.switchBranch(e.Branch, now)
		f.sendListen(s, now)
		f.updateTopic(s)
	}
	f.sendReports(s, now)
}

// Wanted notes, at the root of a shard's key, that a filter wants the shard to have owners.
func (f *Firehose) Wanted(key overlay.ID) {
	for _, s := range f.shards {
		if s.key == key {
			s.wantedAt = f.clock.Now()
		}
	}
}

// Serves reports whether this node is the root of a shard's key and a filter asked for its owners of late. Then the key
// is in use, although nobody reads its log.
func (f *Firehose) IsWanted(key overlay.ID) bool {
	return slices.ContainsFunc(f.shards, func(s *shard) bool { return s.key == key && f.clock.Now().Sub(s.wantedAt) < 3*listenLease })
}

// mates are those with whom a node keeps in touch for a shard's topic.
func (s *shard) directPeers(self env.PeerID) (of []env.Peer) {
	for _, p := range s.owners.Owners() {
		if p.ID != self {
			of = append(of, p)
		}
	}
	for _, p := range s.introduced {
		of = append(of, p)
	}
	slices.SortFunc(of, func(a, b env.Peer) int { return bytes.Compare([]byte(a.ID), []byte(b.ID)) })
	return slices.CompactFunc(of, func(a, b env.Peer) bool { return a.ID == b.ID })
}

func samePeers(a, b []env.Peer) bool {
	return slices.EqualFunc(a, b, func(a, b env.Peer) bool { return a.ID == b.ID && slices.Equal(a.Addrs, b.Addrs) })
}
