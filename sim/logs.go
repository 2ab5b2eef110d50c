package sim

import (
	"slices"

	"tidings/internal/env"
	"tidings/overlay"
	"tidings/overlay/owner"
)

// checkSubscriptions checks that all acknowledged subscriptions still exist.
func (s *Swarm) checkSubscriptions() {
	for _, p := range s.members {
		if !p.Up() {
			continue
		}
		for _, r := range p.subscriptions {
			if _, ok := p.node.NodeOf(r.key).Feeds.Subscription(r.key); !ok && r.acknowledged {
				s.reportViolation(SubscriptionLost, "host %d is no longer subscribed to %s", p.Index(), r.url)
			}
		}
	}
}

// A logHistory is everything that any node's copy of a log has contained.
type logHistory struct {
	entries    map[owner.Position]owner.Hash
	sequencers map[[2]uint64]env.PeerID
}

// checkLogs checks the new entries of all logs.
func (s *Swarm) checkLogs() {
	for _, p := range s.members {
		if !p.Up() {
			continue
		}
		for _, key := range p.node.Owners.Keys() {
			s.checkLog(p, key)
		}
		for _, r := range p.subscriptions {
			log := p.node.Owners.Visible(r.key)
			v, ok := p.node.Owners.View(r.key)
			if !ok || v.Owns || v.Epoch == nil || len(log) == 0 {
				r.lastHead = owner.Position{} // an owner's entries that are not committed may be dropped; no reader was shown them
				continue
			}
			if rebuilt := p.node.Feeds.Stats().Rebuilt; v.Epoch.Branch != r.branch || rebuilt != r.logSwitches {
				// The node has replaced its log, so positions start again.
				r.lastHead, r.branch, r.logSwitches = owner.Position{}, v.Epoch.Branch, rebuilt
			}
			if head := log[len(log)-1].At; head.Before(r.lastHead) {
				s.reportViolation(PositionWentBack, "host %d, %s: from %v to %v", p.Index(), r.url, r.lastHead, head)
			} else {
				r.lastHead = head
			}
		}
	}
}

func (s *Swarm) checkLog(p *Peer, key overlay.ID) {
	h := s.feeds.histories[key]
	if h == nil {
		h = &logHistory{map[owner.Position]owner.Hash{}, map[[2]uint64]env.PeerID{}}
		s.feeds.histories[key] = h
	}
	log := p.node.Owners.Log(key)
	for _, e := range slices.Backward(log) {
		known, ok := h.entries[e.At]
		if ok && known == e.Hash {
			break // all entries before it are known, too
		}
		if ok {
			s.reportViolation(TwoEntries, "%s at %v", key.Short(), e.At)
		}
		h.entries[e.At] = e.Hash
		epoch := [2]uint64{e.At.Branch, uint64(e.At.Epoch)}
		if by, ok := h.sequencers[epoch]; ok && by != e.Signer {
			s.reportViolation(TwoSequencers, "%s at %v", key.Short(), e.At)
		}
		h.sequencers[epoch] = e.Signer
	}
}
