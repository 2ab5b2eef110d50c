package sim

import (
	"maps"
	"time"

	"tidings/feedtree"
	"tidings/internal/feed"
	"tidings/overlay/owner"
)

// CheckReaders checks, when origins have not changed for a while, what the proxies of all live
// readers would show: all that the origin serves, and all that any reader was shown, if that is not
// more than a window keeps.
func (s *Swarm) CheckReaders() {
	shown := map[string]map[feed.ID]bool{}
	for _, p := range s.members {
		for url, r := range p.subscriptions {
			if shown[url] == nil {
				shown[url] = map[feed.ID]bool{}
			}
			for id := range r.firstShown {
				if !s.feeds.outsideLog[id] {
					shown[url][id] = true
				}
			}
		}
	}
	for url, of := range shown {
		if len(of) > owner.KeepItems {
			delete(shown, url)
		}
	}
	for _, p := range s.members {
		if !p.Up() {
			continue
		}
		for _, url := range s.feeds.urls {
			r := p.subscriptions[url]
			if r == nil {
				continue
			}
			want := s.document(s.feeds.byURL[url], s.Now())
			has, _ := p.currentItems(r)
			lacks, gone := 0, 0
			for _, it := range want.Items {
				if has[it.ID] != it.Hash {
					lacks++
				}
			}
			for id := range shown[url] {
				if _, ok := has[id]; !ok {
					gone++
				}
			}
			if gone > 0 {
				s.reportViolation(ShownAndGone, "host %d lacks %d items of %s that some reader was shown", p.Index(), gone, url)
			}
			if lacks > 0 {
				sub, _ := p.node.NodeOf(r.key).Feeds.Subscription(r.key)
				s.reportViolation(NotShown, "host %d lacks %d of %d items of %s (%d in its window)", p.Index(), lacks, len(want.Items), url, sub.Items)
			}
		}
	}
}

// CheckRetained checks that every live reader still has what it was shown in its present life, if
// that is not more than a window keeps. It may be called at any time. Peers that are stalled, or
// whose life ends during the check, are skipped.
func (s *Swarm) CheckRetained() {
	for _, p := range s.members {
		for _, url := range s.feeds.urls {
			r := p.subscriptions[url]
			if r == nil || !p.Up() || len(r.shownVersions) > owner.KeepItems {
				continue
			}
			was, life := maps.Clone(r.shownVersions), p.lives
			has, answered := p.currentItems(r)
			if !answered && (!p.Up() || p.lives != life || s.excused(s.Now(), p)) {
				continue
			}
			gone := 0
			for id := range was {
				if _, ok := has[id]; !ok {
					gone++
				}
			}
			if gone > 0 {
				s.reportViolation(ItemTakenBack, "host %d lacks %d of %d items of %s that it was shown", p.Index(), gone, len(was), url)
			}
		}
	}
}

// currentItems returns what a reader's proxy would show now; answered is false if the node does not
// answer within a second.
func (p *Peer) currentItems(r *subscription) (has map[feed.ID]feed.Hash, answered bool) {
	has = map[feed.ID]feed.Hash{}
	p.Do(func() {
		p.node.NodeOf(r.key).Feeds.Read(r.key, func(d feedtree.Document) {
			answered = true
			for _, e := range d.Entries {
				has[e.Item.ID] = e.Item.Hash
			}
		})
	})
	p.swarm.World.RunUntil(func() bool { return answered }, 10*time.Millisecond, time.Second)
	return has, answered
}
