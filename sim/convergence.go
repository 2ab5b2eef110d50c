package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"tidings/internal/env"
	"tidings/overlay"
	"tidings/overlay/owner"
)

// Invariants of a network without faults and without changes.
const (
	// SeveralRoots (I9): some key does not have exactly one root.
	SeveralRoots = "several roots"
	// NotOneSequencer (I9): some channel with readers does not have exactly one sequencer.
	NotOneSequencer = "not one sequencer"
	// SeveralHeads (I9): the nodes that keep a log do not agree on its head. These nodes are the
	// owners that the sequencer names, and the followers.
	SeveralHeads = "several heads"
	// StrayOwner (I8): a node takes itself for an owner, and the sequencer does not list it.
	StrayOwner = "stray owner"
)

// propagationTime is how long a change may take to reach all nodes that it concerns: an entry,
// those that keep the log; an epoch, its owners.
const propagationTime = 15 * time.Second

// BrokenInvariants returns the names of the invariants that do not hold now, each once. Logs grow
// and sequencers change all the time, so invariants of logs are listed only when one channel has
// violated them for longer than propagationTime.
func (s *Swarm) BrokenInvariants() (names []string) {
	live := s.Live()
	reported := map[string]bool{}
	report := func(what, _ string, _ ...any) {
		if !reported[what] {
			reported[what] = true
			names = append(names, what)
		}
	}
	s.checkLeaves(live, report)
	s.checkRoots(live, report)
	s.checkPaths(report)
	s.reportPersistent(NotOneSequencer, s.checkLeaders, report)
	s.reportPersistent(SeveralHeads, s.checkHeads, report)
	return names
}

// reportPersistent reports an invariant that the same channel has violated for longer than
// propagationTime. The channel is the last detail that check reports. Different channels may each
// have an entry in transit, which is normal.
func (s *Swarm) reportPersistent(invariant string, check func(reportFunc), report reportFunc) {
	now, failing := s.Now(), map[string]bool{}
	check(func(_, _ string, facts ...any) { failing[invariant+" "+fmt.Sprint(facts[len(facts)-1])] = true })
	for failure := range s.feeds.failingSince {
		if strings.HasPrefix(failure, invariant+" ") && !failing[failure] {
			delete(s.feeds.failingSince, failure)
		}
	}
	for failure := range failing {
		since, was := s.feeds.failingSince[failure]
		if !was {
			s.feeds.failingSince[failure] = now
		} else if now.Sub(since) > propagationTime {
			report(invariant, "")
		}
	}
}

// checkRoots counts, for the key of each group and feed, the members that consider themselves its
// root.
func (s *Swarm) checkRoots(live []*Peer, report reportFunc) {
	for _, key := range sortedIDs(s.groups) {
		roots := 0
		for _, p := range live {
			leaf := p.node.Overlay.Leaf()
			if leaf.Covers(key) && leaf.NearestN(key, 1)[0].ID == p.id {
				roots++
			}
		}
		if roots != 1 {
			report(SeveralRoots, "%d members are the root of %s", roots, key.Short())
		}
	}
}

// checkLeaders counts the sequencers of each channel that has readers.
func (s *Swarm) checkLeaders(report reportFunc) {
	for _, url := range s.feeds.urls {
		key, leaders, read := s.Key(url), 0, false
		for _, p := range s.members {
			if p.Up() {
				if v, ok := p.node.Owners.View(key); ok && v.Leads {
					leaders++
				}
				read = read || p.subscriptions[url] != nil
			}
		}
		if read && leaders != 1 {
			report(NotOneSequencer, "%d members lead %s", leaders, url)
		}
	}
}

// checkHeads compares the heads of all nodes that keep a log.
func (s *Swarm) checkHeads(report reportFunc) {
	for _, url := range s.feeds.urls {
		key := s.Key(url)
		var first *Peer
		var head owner.Hash
		owners := s.ownersOf(key)
		for _, p := range s.members {
			if !p.Up() || !p.keepsLog(key, owners) {
				continue
			}
			hash := headOf(p.node.Owners.Log(key))
			if first == nil {
				first, head = p, hash
			} else if hash != head {
				report(SeveralHeads, "hosts %d and %d have different logs of %s", first.Index(), p.Index(), url)
				break
			}
		}
	}
}

// ownersOf returns the owners of a key according to its sequencer; nil if it has none.
func (s *Swarm) ownersOf(key overlay.ID) []env.PeerID {
	for _, p := range s.members {
		if p.Up() {
			if v, ok := p.node.Owners.View(key); ok && v.Leads {
				return v.Epoch.Owners
			}
		}
	}
	return nil
}

// keepsLog reports whether a peer keeps the log of a key, as one of its owners or as a follower.
func (p *Peer) keepsLog(key overlay.ID, owners []env.PeerID) bool {
	v, ok := p.node.Owners.View(key)
	return ok && (v.Follows || v.Owns && slices.Contains(owners, p.ID()))
}

// checkStrayOwners looks for owners that their sequencer does not list.
func (s *Swarm) checkStrayOwners(report reportFunc) {
	for _, url := range s.feeds.urls {
		key := s.Key(url)
		owners := s.ownersOf(key)
		for _, p := range s.members {
			if !p.Up() {
				continue
			}
			if v, ok := p.node.Owners.View(key); ok && v.Owns && !slices.Contains(owners, p.ID()) {
				report(StrayOwner, "host %d owns %s", p.Index(), url)
			}
		}
	}
}

func headOf(log []*owner.Entry) (h owner.Hash) {
	if len(log) > 0 {
		h = log[len(log)-1].Hash
	}
	return h
}
