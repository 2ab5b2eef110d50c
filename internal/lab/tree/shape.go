package tree

import (
	"fmt"

	"tidings/overlay"
)

// A shape is what all trees look like, by topic.
type shape []tree

// A tree is the places that hosts have in one topic.
type tree []place

// A place is that of one host.
type place struct {
	host     int
	parent   int // none: it has none
	root     bool
	children int
}

// none stands for a host that is not there.
const none = -1

// shape looks at all trees.
func (g *grove) shape() (shape, error) {
	type seen struct {
		topic int
		place
	}
	looks := make([][]seen, len(g.hosts))
	if err := g.each(func(i int, h *host) {
		for _, id := range h.scribe.Groups() {
			p, _ := h.scribe.Place(id)
			t, ours := g.topic[id]
			if !ours {
				continue
			}
			up := none
			if len(p.Parents) > 0 {
				up = g.index[p.Parents[0]]
			}
			looks[i] = append(looks[i], seen{t, place{host: i, parent: up, root: p.Root, children: len(p.Children)}})
		}
	}); err != nil {
		return nil, err
	}
	s := make(shape, len(g.plan.topics))
	for _, l := range looks {
		for _, p := range l {
			s[p.topic] = append(s[p.topic], p.place)
		}
	}
	return s, nil
}

// lack says which part of all trees stands, and what is missing in one that does not.
func (s shape) lack(g *grove) (done float64, lack string) {
	stand := 0
	for t, of := range s {
		if fault := of.fault(g, t); fault != "" {
			lack = fmt.Sprintf("topic %d: %s", t, fault)
			continue
		}
		stand++
	}
	return float64(stand) / float64(len(s)), lack
}

// fault says why a tree does not stand. One stands when all followers have places in it, and
// all ways up end at the host that is nearest to the key, which alone is its root, and nobody has more
// children than the fan-out.
func (of tree) fault(g *grove, topic int) string {
	at := of.byHost()
	for _, f := range g.plan.topics[topic].followers {
		if _, ok := at[f]; !ok {
			return fmt.Sprintf("host %d has no place", f)
		}
	}
	root := g.tally.roots[topic]
	for _, p := range of {
		switch {
		case p.root != (p.host == root):
			return fmt.Sprintf("host %d is root: %v", p.host, p.root)
		case p.children > g.bench.FanOut:
			return fmt.Sprintf("host %d has %d children", p.host, p.children)
		}
		if _, ok := of.depth(at, p.host); !ok {
			return fmt.Sprintf("the way up from host %d does not end at the root", p.host)
		}
	}
	return ""
}

func (of tree) byHost() map[int]place {
	at := make(map[int]place, len(of))
	for _, p := range of {
		at[p.host] = p
	}
	return at
}

// depth counts the edges between a host and its root; false if it does not hang below one.
func (of tree) depth(at map[int]place, host int) (depth int, ok bool) {
	for range at {
		p, there := at[host]
		switch {
		case !there:
			return 0, false
		case p.root:
			return depth, true
		}
		host = p.parent
		depth++
	}
	return 0, false
}

// nearest is the host nearest to a key.
func (g *grove) nearest(key overlay.ID) (best int) {
	for i, h := range g.hosts {
		if overlay.Nearer(key, h.id, g.hosts[best].id) {
			best = i
		}
	}
	return best
}

// sum writes what was found into a result.
func (s shape) sum(g *grove, r *Result) {
	followers, inner, depths, children, others := 0, 0, 0, 0, 0
	for t, of := range s {
		at := of.byHost()
		for _, p := range of {
			if p.children > 0 {
				inner++
				children += p.children
				r.FanOutMost = max(r.FanOutMost, p.children)
			}
			if !g.plan.follower(t, p.host) {
				others++
				continue
			}
			depth, _ := of.depth(at, p.host)
			followers++
			depths += depth
			r.DepthMost = max(r.DepthMost, depth)
		}
	}
	r.DepthMean = float64(depths) / float64(max(1, followers))
	r.FanOutMean = float64(children) / float64(max(1, inner))
	r.Forwarders = float64(others) / float64(len(s))
}
