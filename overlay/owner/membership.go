package owner

import (
	"time"

	"tidings/internal/env"
	"tidings/overlay"
)

const (
	// leafSettleTime is the delay after a change of the leaf: members come and go in groups, and each change of owners
	// costs three rounds.
	leafSettleTime = 2 * time.Second
	// rankTime is how much later each owner campaigns than the next nearer one.
	rankTime = 3 * time.Second
	// excludeTime is how long a peer is not made an owner after it has said that it owns the key in another
	// branch, or that it gives the key up. It is longer than maxHandOver, after which a leaving peer is gone.
	excludeTime = 15 * time.Second
)

// A membership tells who should own a key, and when it is time for this node to campaign for other owners or another
// sequencer.
type membership struct {
	base
	leaving bool      // this node is leaving: it hands over its keys, and owns no new ones
	checkAt time.Time // time of the next check of all owners; zero: none planned
}

// A campaign is what a node knows of its attempts to begin an epoch of a key.
type campaign struct {
	at                env.Moment               // time of the next campaign; Never: none planned
	waiting           bool                     // the campaign waits for one of maxCandidacies slots
	promisedElsewhere uint32                   // highest epoch number that an owner has promised to another candidate; 0: none known
	abandoned         map[Hash]bool            // own proposals that were given up; at most maxAbandoned
	excluded          map[env.PeerID]time.Time // peers not to become owners (they own the key in another branch, or are leaving), by time of their message
	barred            map[env.PeerID]time.Time // owners that may not lead the key, and until when (bar.go)
}

// desiredOwners returns the members that should own a key: the nearest ones, except for excluded peers, and except
// for this node if it is leaving; nil if there are none, or the key lies outside the leaf.
func (m *membership) desiredOwners(s *replica) []env.PeerID {
	now := m.clock.Now()
	for p, said := range s.campaign.excluded {
		if now.Sub(said) >= excludeTime {
			delete(s.campaign.excluded, p)
		}
	}
	if len(s.campaign.excluded)+len(s.conduct.leftOut) == 0 && !m.leaving {
		return m.nearest(s.key, nil)
	}
	of := m.nearest(s.key, func(p env.PeerID) bool {
		_, foreign := s.campaign.excluded[p]
		return foreign || m.leaving && p == m.self || s.conduct.isLeftOut(p, now)
	})
	if len(s.campaign.excluded) > 0 && !m.outsideLeaf(s.key) {
		m.LeafChanged() // check again later, when the exclusions have expired
	}
	return of
}

// checkAllOwners checks the owners of all keys after a change of the leaf.
func (m *membership) checkAllOwners() {
	m.checkAt = time.Time{}
	for _, s := range m.replicas.all() {
		m.checkOwners(s)
	}
}

// checkOwners plans a campaign if a key should have other owners, its sequencer is dead, or a promise blocks the
// epoch in force.
func (m *membership) checkOwners(s *replica) {
	switch {
	case !s.owned || s.candidacy != nil:
	case s.ledBy(m.self):
		if want := m.desiredOwners(s); want != nil && !sameSet(want, s.epoch.Owners) {
			m.campaignIn(s, 0)
		} else if s.promisedAway() {
			m.campaignIn(s, candidacyTime) // the candidate with the promise may have failed
		}
	case !m.alive(s.epoch.Sequencer) || m.barred(s, s.epoch.Sequencer):
		m.campaignIn(s, m.turn(s))
	}
}

// turn returns how long this node waits before it campaigns in place of a dead sequencer: the living owners campaign in
// the order of their distance from the key.
func (m *membership) turn(s *replica) (d time.Duration) {
	for _, p := range s.epoch.Owners {
		if p != m.self && m.alive(p) && overlay.Nearer(s.key, m.id(p), m.node.ID()) {
			d += rankTime
		}
	}
	return d
}

// LeafChanged plans a check of all owners.
func (m *membership) LeafChanged() {
	if m.checkAt.IsZero() {
		m.checkAt = m.after(leafSettleTime, task{kind: taskCheckAllOwners})
	}
}

// campaignIn plans a campaign after d, unless an earlier one is planned.
func (m *membership) campaignIn(s *replica, d time.Duration) {
	at := m.clock.Now().Add(d)
	if s.candidacy == nil && !s.campaign.waiting && (s.campaign.at == env.Never || s.campaign.at.After(at)) {
		s.campaign.at = env.MomentOf(m.after(d, task{kind: taskCampaign, key: s.key}))
	}
}

// exclude keeps a peer from becoming an owner for excludeTime.
func (c *campaign) exclude(p env.PeerID, now time.Time) {
	if c.excluded == nil {
		c.excluded = map[env.PeerID]time.Time{}
	}
	c.excluded[p] = now
}

// A liveness knows when sequencers were last heard.
type liveness struct {
	base
	lease   time.Duration            // how long a sequencer may be silent before other owners take over
	matched map[env.PeerID]time.Time // time of the last matching heartbeat, by sequencer
}

// silent reports whether a key's sequencer has given no sign of life for 7/8 of a lease. The margin allows for
// inexact clocks and heartbeats.
func (l *liveness) silent(s *replica) bool {
	return s.leader == nil && l.clock.Now().Sub(l.lastHeard(s)) > l.lease*7/8
}

// failed reports whether another sequencer should take over: the present one is silent, or makes no progress.
func (l *liveness) failed(s *replica) bool { return l.silent(s) || l.stalled(s) }

// lastHeard returns the time of the sequencer's last sign of life, about this key or in a heartbeat.
func (l *liveness) lastHeard(s *replica) time.Time {
	at := s.lastHeard.Time()
	if s.epoch != nil {
		if b := l.matched[s.epoch.Sequencer]; b.After(at) {
			at = b
		}
	}
	return at
}

// heard records a sign of life of a key's sequencer.
func (l *liveness) heard(s *replica) { s.lastHeard = env.MomentOf(l.clock.Now()) }

// mustHandOver reports whether this node is leaving and has to hand over the key: it leads the key, or the other live
// owners are no quorum.
func (m *membership) mustHandOver(s *replica) bool {
	return m.leaving && (s.leader != nil || s.owned && m.living(s.epoch.Owners)-1 < quorum(len(s.epoch.Owners)))
}
