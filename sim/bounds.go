package sim

// Overgrown (I8): what a node remembers is bounded by what it has to do with, and what is
// under way ends.
const Overgrown = "overgrown"

// Bounds of what may be remembered, beside the network as it is, when it has not been
// used for some minutes.
const (
	sparePeers    = 40 // that a node met lately, or looks for
	sparePassages = 32 // messages on behalf of feeds that passed
	spareEvents   = 16 // of the world, for each host
)

// CheckBounds checks how much nodes remember, and the world, of a network that nobody
// has used for some minutes.
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
			{"peers", o.Peers, live + sparePeers},
			{"messages that passed", o.Passages, sparePassages},
			{"trees", g.Groups, len(s.groups) + len(s.feeds.urls)}, // feeds have two
			{"links of trees", g.Links, live + sparePeers},
			{"logs", w.Replicas, len(s.feeds.urls)},
			{"channels to poll", c.Channels, len(s.feeds.urls)},
		} {
			if b.has > b.most {
				s.violated(Overgrown, "host %d has %d %s, and reason for %d", p.Index(), b.has, b.what, b.most)
			}
		}
	}
	if has, most := s.pending(), spareEvents*len(s.members); has > most {
		s.violated(Overgrown, "%d events are to come, for %d hosts", has, len(s.members))
	}
}
