package sim

import (
	"maps"
	"time"

	"tidings/feedtree"
	"tidings/internal/feed"
	"tidings/overlay/owner"
)

// CheckReaders checks, when all origins have been still for a while, that every
// live reader has what they serve, as its proxy would show it, and what any reader
// was shown, as long as that is less than a window keeps.
func (s *Swarm) CheckReaders() {
	shown := map[string]map[feed.ID]bool{}
	for _, p := range s.members {
		for url, r := range p.reads {
			if shown[url] == nil {
				shown[url] = map[feed.ID]bool{}
			}
			for id := range r.at {
				if !s.feeds.past[id] {
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
			r := p.reads[url]
			if r == nil {
				continue
			}
			want := s.document(s.feeds.by[url], s.Now())
			has, _ := p.shows(r)
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
				s.violated(Forgotten, "host %d lacks %d items of %s that somebody was shown", p.Index(), gone, url)
			}
			if lacks > 0 {
				sub, _ := p.node.Feeds.Subscription(r.key)
				s.violated(NotShown, "host %d lacks %d of %d items of %s (%d in its window)", p.Index(), lacks, len(want.Items), url, sub.Items)
			}
		}
	}
}

// CheckKept checks that every live reader still has what it was shown in this life,
// whatever else goes on, as long as that is less than a window keeps. Those who stand still, or
// whose life ends just then, do not answer, and are passed over.
func (s *Swarm) CheckKept() {
	for _, p := range s.members {
		for _, url := range s.feeds.urls {
			r := p.reads[url]
			if r == nil || !p.Up() || len(r.got) > owner.KeepItems {
				continue
			}
			was, life := maps.Clone(r.got), p.lives
			has, answered := p.shows(r)
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
				s.violated(TakenBack, "host %d lacks %d of %d items of %s that it was shown", p.Index(), gone, len(was), url)
			}
		}
	}
}

// shows is what a reader's proxy would show it now, if its node answers within a second.
func (p *Peer) shows(r *reading) (has map[feed.ID]feed.Hash, answered bool) {
	has = map[feed.ID]feed.Hash{}
	p.Do(func() {
		p.node.Feeds.Read(r.key, func(d feedtree.Document) {
			answered = true
			for _, e := range d.Entries {
				has[e.Item.ID] = e.Item.Hash
			}
		})
	})
	p.swarm.World.RunUntil(func() bool { return answered }, 10*time.Millisecond, time.Second)
	return has, answered
}
