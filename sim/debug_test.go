package sim

import (
	"fmt"
	"os"
)

func (s *Swarm) dump(url string) {
	key := s.Key(url)
	fmt.Fprintln(os.Stderr, url, key.Short(), "root", s.Root(key).Index(), "polls", s.feeds.by[url].Polls)
	for _, p := range s.members {
		if !p.Up() {
			continue
		}
		v, ok := p.node.Owners.View(key)
		if !ok {
			continue
		}
		log := p.node.Owners.Log(key)
		head := ""
		if len(log) > 0 {
			head = fmt.Sprint(log[len(log)-1].At, log[len(log)-1].Hash)
		}
		cv, polled := p.node.Corona.View(key)
		ep := ""
		if v.Epoch != nil {
			ep = fmt.Sprintf("%x/%d seq=%d owners=", v.Epoch.Lineage, v.Epoch.Number, s.byPeer(string(v.Epoch.Sequencer)))
			for _, o := range v.Epoch.Owners {
				ep += fmt.Sprint(s.byPeer(string(o)), " ")
			}
		}
		fmt.Fprintf(os.Stderr, "  host %d owns=%v leads=%v follows=%v w=%d n=%d head=%s epoch=%s polled=%v %v %s| %s\n", p.Index(), v.Owns, v.Leads, v.Follows, v.Weight, len(log), head, ep, polled, cv.State.Kind, cv.State.Words, p.node.Owners.Debug(key))
	}
}

func (s *Swarm) byPeer(id string) int {
	for _, p := range s.members {
		if string(p.ID()) == id {
			return p.Index()
		}
	}
	return -1
}
