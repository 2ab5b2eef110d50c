package sim

import (
	"slices"

	"tidings/internal/env"
	"tidings/overlay"
	"tidings/overlay/owner"
)

// checkSubscriptions looks whether all that was acknowledged is there.
func (s *Swarm) checkSubscriptions() {
	for _, p := range s.members {
		if !p.Up() {
			continue
		}
		for _, r := range p.reads {
			if _, ok := p.node.Feeds.Subscription(r.key); !ok && r.acked {
				s.violated(Unsubscribed, "host %d reads %s no more", p.Index(), r.url)
			}
		}
	}
}

// history is what was seen of a log, by anybody.
type history struct {
	at         map[owner.Position]owner.Hash
	sequencers map[[2]uint64]env.PeerID
}

// checkLogs looks at the new entries of all logs.
func (s *Swarm) checkLogs() {
	for _, p := range s.members {
		if !p.Up() {
			continue
		}
		for _, key := range p.node.Owners.Keys() {
			s.checkLog(p, key)
		}
		for _, r := range p.reads {
			log := p.node.Owners.Visible(r.key)
			v, ok := p.node.Owners.View(r.key)
			if !ok || v.Owns || v.Epoch == nil || len(log) == 0 {
				r.last = owner.Position{} // what an owner holds may yet be dropped; nobody was shown it
				continue
			}
			if anew := p.node.Feeds.Stats().Anew; v.Epoch.Branch != r.in || anew != r.anew {
				// Gone over to another, and back perhaps, it begins where that one does.
				r.last, r.in, r.anew = owner.Position{}, v.Epoch.Branch, anew
			}
			if head := log[len(log)-1].At; head.Before(r.last) {
				s.violated(WentBack, "host %d, %s: from %v to %v", p.Index(), r.url, r.last, head)
			} else {
				r.last = head
			}
		}
	}
}

func (s *Swarm) checkLog(p *Peer, key overlay.ID) {
	h := s.feeds.logs[key]
	if h == nil {
		h = &history{map[owner.Position]owner.Hash{}, map[[2]uint64]env.PeerID{}}
		s.feeds.logs[key] = h
	}
	log := p.node.Owners.Log(key)
	for _, e := range slices.Backward(log) {
		known, ok := h.at[e.At]
		if ok && known == e.Hash {
			break // and so are those before it
		}
		if ok {
			s.violated(TwoEntries, "%s at %v", key.Short(), e.At)
		}
		h.at[e.At] = e.Hash
		epoch := [2]uint64{e.At.Branch, uint64(e.At.Epoch)}
		if by, ok := h.sequencers[epoch]; ok && by != e.Signer {
			s.violated(TwoSequencers, "%s at %v", key.Short(), e.At)
		}
		h.sequencers[epoch] = e.Signer
	}
}
