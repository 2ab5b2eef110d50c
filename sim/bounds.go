package sim

// Overgrown (I8): a node remembers more than its present tasks need, or something in progress does
// not end.
const Overgrown = "overgrown"

// Allowances for what nodes may still remember after some minutes without use, in addition to the
// present network.
const (
	extraPeers    = 40 // peers that a node met recently or looks for
	extraPassages = 32 // relayed messages of feeds
	eventsPerHost = 16 // pending events per host
)

// CheckBounds checks the size of every node's tables, and of the event queue, in a network that has
// not been used for some minutes.
func (s *Swarm) CheckBounds() {
	live := len(s.Live())
	for _, p := range s.members {
		if !p.Up() {
			continue
		}
		o, g, w, c := p.node.Overlay.Stats(), p.node.Scribe.Stats(), p.node.Owners.Stats(), p.node.Corona.Stats()
		for _, b := range []struct {
			what      string
			has, most int
		}{
			{"peers", o.Peers, live + extraPeers},
			{"relayed messages", o.Passages, extraPassages},
			{"trees", g.Groups, len(s.groups) + len(s.feeds.urls)}, // a feed has two trees
			{"links of trees", g.Links, live + extraPeers},
			{"logs", w.Replicas, len(s.feeds.urls)},
			{"channels to poll", c.Channels, len(s.feeds.urls)},
		} {
			if b.has > b.most {
				s.reportViolation(Overgrown, "host %d has %d %s, expected at most %d", p.Index(), b.has, b.what, b.most)
			}
		}
	}
	if has, most := s.pending(), eventsPerHost*len(s.members); has > most {
		s.reportViolation(Overgrown, "%d events are scheduled for %d hosts", has, len(s.members))
	}
}
