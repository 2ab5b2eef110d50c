package owner

import (
	"maps"
	"slices"
	"time"

	"tidings/internal/env"
	"tidings/overlay"
	"tidings/overlay/owner/ownerpb"
)

// maxBar is the longest time for which an owner is barred.
const maxBar = 24 * time.Hour

// Bar keeps an owner from leading a key until a time, at most maxBar from now, because the layer above has proof that it leads
// dishonestly. If the peer leads the key now, this node campaigns for an epoch without it. The peer stays an owner. Bar reports
// whether the peer is barred now and was not before: it is not if this node does not own the key, or if a minority of the
// owners is barred already, because the log must go on. Bars are stored, so that a restart of this node does not end them.
func (p *proposer) Bar(key overlay.ID, peer env.PeerID, until time.Time) bool {
	s := p.replicas.byKey[key]
	if s == nil || s.epoch == nil || !s.owned || peer == p.self || !s.epoch.owns(peer) || p.barred(s, peer) {
		return false
	}
	for other := range s.campaign.barred {
		p.barred(s, other) // forgets those whose time is over
	}
	barred := 0
	for _, other := range s.epoch.Owners {
		if other != peer && p.barred(s, other) {
			barred++
		}
	}
	if barred >= (len(s.epoch.Owners)-1)/2 {
		return false
	}
	if s.campaign.barred == nil {
		s.campaign.barred = map[env.PeerID]time.Time{}
	}
	s.campaign.barred[peer] = env.Sooner(until, p.clock.Now().Add(maxBar))
	p.stats.Barred++
	p.storage.save(s, nil)
	p.checkOwners(s)
	return true
}

// barsProto encodes bars.
func barsProto(of map[env.PeerID]time.Time) (all []*ownerpb.Bar) {
	for _, peer := range slices.Sorted(maps.Keys(of)) {
		all = append(all, &ownerpb.Bar{Peer: []byte(peer), UntilMs: uint64(of[peer].UnixMilli())})
	}
	return all
}

// shorten applies maxBar to stored bars, because this node's clock may have been ahead when it made them.
func (c *campaign) shorten(now time.Time) {
	for peer, until := range c.barred {
		c.barred[peer] = env.Sooner(until, now.Add(maxBar))
	}
}

// barsFrom decodes bars that this node has stored.
func barsFrom(all []*ownerpb.Bar) map[env.PeerID]time.Time {
	if len(all) == 0 {
		return nil
	}
	of := map[env.PeerID]time.Time{}
	for _, b := range all {
		of[env.PeerID(b.Peer)] = time.UnixMilli(int64(b.UntilMs))
	}
	return of
}

// barred reports whether a peer may not lead a key now.
func (m *membership) barred(s *replica, peer env.PeerID) bool {
	until, ok := s.campaign.barred[peer]
	if ok && !m.clock.Now().Before(until) {
		delete(s.campaign.barred, peer)
		ok = false
	}
	return ok
}
