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

// Invariants of a network that was left alone.
const (
	// OneRoot (I9): after quiet, each key has one root.
	OneRoot = "several roots"
	// OneLeader (I9): after quiet, each channel that is read has one sequencer.
	OneLeader = "not one sequencer"
	// OneHead (I9): after quiet, all who keep a log have the same: its owners by the word of
	// its sequencer, and those who follow it.
	OneHead = "several heads"
	// Stray (I8): after quiet, nobody takes himself for an owner who is none.
	Stray = "stray owner"
)

// passingPause is how long what changes may take to all whom it concerns: an entry to
// those who keep the log, an epoch to its owners.
const passingPause = 15 * time.Second

// Ails returns the names of the invariants of a network left alone that do not hold
// now, each once. Of logs, which go on, and their sequencers, who change, it names what has
// been so for a while.
func (s *Swarm) Ails() (names []string) {
	live := s.Live()
	had := map[string]bool{}
	found := func(what, _ string, _ ...any) {
		if !had[what] {
			had[what] = true
			names = append(names, what)
		}
	}
	s.checkLeaves(live, found)
	s.checkRoots(live, found)
	s.checkWays(found)
	s.lasting(OneLeader, s.checkLeaders, found)
	s.lasting(OneHead, s.checkHeads, found)
	return names
}

// lasting finds what a check has found of one channel for a while: the last of its facts. That
// one entry after the other is on its way, each of another channel, is nothing amiss.
func (s *Swarm) lasting(what string, check func(finder), found finder) {
	now, amiss := s.Now(), map[string]bool{}
	check(func(_, _ string, facts ...any) { amiss[what+" "+fmt.Sprint(facts[len(facts)-1])] = true })
	for of := range s.feeds.amiss {
		if strings.HasPrefix(of, what+" ") && !amiss[of] {
			delete(s.feeds.amiss, of)
		}
	}
	for of := range amiss {
		since, was := s.feeds.amiss[of]
		if !was {
			s.feeds.amiss[of] = now
		} else if now.Sub(since) > passingPause {
			found(what, "")
		}
	}
}

// checkRoots looks who takes himself for the root of the keys of all groups and feeds.
func (s *Swarm) checkRoots(live []*Peer, found finder) {
	for _, key := range sortedIDs(s.groups) {
		roots := 0
		for _, p := range live {
			leaf := p.node.Overlay.Leaf()
			if leaf.Covers(key) && leaf.NearestN(key, 1)[0].ID == p.id {
				roots++
			}
		}
		if roots != 1 {
			found(OneRoot, "%d members are the root of %s", roots, key.Short())
		}
	}
}

// checkLeaders looks who leads the channels that somebody reads.
func (s *Swarm) checkLeaders(found finder) {
	for _, url := range s.feeds.urls {
		key, leaders, read := s.Key(url), 0, false
		for _, p := range s.members {
			if p.Up() {
				if v, ok := p.node.Owners.View(key); ok && v.Leads {
					leaders++
				}
				read = read || p.reads[url] != nil
			}
		}
		if read && leaders != 1 {
			found(OneLeader, "%d members lead %s", leaders, url)
		}
	}
}

// checkHeads compares the logs of all who keep them.
func (s *Swarm) checkHeads(found finder) {
	for _, url := range s.feeds.urls {
		key := s.Key(url)
		var first *Peer
		var head owner.Hash
		owners := s.owners(key)
		for _, p := range s.members {
			if !p.Up() || !p.keeps(key, owners) {
				continue
			}
			its := headOf(p.node.Owners.Log(key))
			if first == nil {
				first, head = p, its
			} else if its != head {
				found(OneHead, "hosts %d and %d have different logs of %s", first.Index(), p.Index(), url)
				break
			}
		}
	}
}

// owners are those of a key by the word of who leads it; none if nobody does.
func (s *Swarm) owners(key overlay.ID) []env.PeerID {
	for _, p := range s.members {
		if p.Up() {
			if v, ok := p.node.Owners.View(key); ok && v.Leads {
				return v.Epoch.Owners
			}
		}
	}
	return nil
}

// keeps says whether a peer keeps the log of a key: as one of its owners, or for its
// readers.
func (p *Peer) keeps(key overlay.ID, owners []env.PeerID) bool {
	v, ok := p.node.Owners.View(key)
	return ok && (v.Follows || v.Owns && slices.Contains(owners, p.ID()))
}

// checkStrays looks for owners whose sequencer does not know them.
func (s *Swarm) checkStrays(found finder) {
	for _, url := range s.feeds.urls {
		key := s.Key(url)
		owners := s.owners(key)
		for _, p := range s.members {
			if !p.Up() {
				continue
			}
			if v, ok := p.node.Owners.View(key); ok && v.Owns && !slices.Contains(owners, p.ID()) {
				found(Stray, "host %d owns %s", p.Index(), url)
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
