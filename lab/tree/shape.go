package tree

import (
	"fmt"

	"tidings/overlay"
)

// A forest is the shapes of some trees.
type forest []treeShape

// A treeShape is the places that hosts have in one topic's tree.
type treeShape struct {
	topic  int
	places []place
}

// A place is the place of one host.
type place struct {
	host     int
	parent   int // none: it has no parent
	root     bool
	children int
}

// none stands for a host that does not exist.
const none = -1

// inspectTrees returns the trees of a range of topics.
func (g *treeHosts) inspectTrees(from, to int) (forest, error) {
	looks := make([]map[int]place, len(g.hosts))
	if err := g.each(func(i int, h *host) {
		looks[i] = map[int]place{}
		for t := from; t < to; t++ {
			p, ok := h.scribe.Place(g.plan.topics[t].key)
			if !ok {
				continue
			}
			up := none
			if len(p.Parents) > 0 {
				up = g.index[p.Parents[0]]
			}
			looks[i][t] = place{host: i, parent: up, root: p.Root, children: len(p.Children)}
		}
	}); err != nil {
		return nil, err
	}
	var s forest
	for t := from; t < to; t++ {
		of := treeShape{topic: t}
		for i := range looks {
			if p, ok := looks[i][t]; ok {
				of.places = append(of.places, p)
			}
		}
		s = append(s, of)
	}
	return s, nil
}

// missing returns the share of trees that are complete, with at most children children per node,
// and describes an incomplete one.
func (s forest) missing(g *treeHosts, children int) (done float64, missing string) {
	stand := 0
	for _, of := range s {
		if fault := of.problem(g, children); fault != "" {
			missing = fmt.Sprintf("topic %d: %s", of.topic, fault)
			continue
		}
		stand++
	}
	return float64(stand) / float64(len(s)), missing
}

// problem says why a tree is not complete. In a complete tree all followers have places, all paths
// up end at the host nearest to the key, which alone is the root, and no node has too many
// children.
func (of treeShape) problem(g *treeHosts, children int) string {
	at := of.byHost()
	for _, f := range g.plan.topics[of.topic].followers {
		if _, ok := at[f]; !ok {
			return fmt.Sprintf("host %d has no place", f)
		}
	}
	root := g.tracker.roots[of.topic]
	for _, p := range of.places {
		switch {
		case p.root != (p.host == root):
			return fmt.Sprintf("host %d is root: %v", p.host, p.root)
		case p.children > children:
			return fmt.Sprintf("host %d has %d children", p.host, p.children)
		}
		if _, ok := of.depth(at, p.host); !ok {
			return fmt.Sprintf("the path up from host %d does not end at the root", p.host)
		}
	}
	return ""
}

func (of treeShape) byHost() map[int]place {
	at := make(map[int]place, len(of.places))
	for _, p := range of.places {
		at[p.host] = p
	}
	return at
}

// depth returns the number of edges between a host and its root; false if it is not below one.
func (of treeShape) depth(at map[int]place, host int) (depth int, ok bool) {
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

// nearest returns the host nearest to a key.
func (g *treeHosts) nearest(key overlay.ID) (best int) {
	for i, h := range g.hosts {
		if overlay.Nearer(key, h.id, g.hosts[best].id) {
			best = i
		}
	}
	return best
}

// finish writes the figures into a result.
func (s forest) finish(g *treeHosts, r *Result) {
	followers, inner, depths, children, others := 0, 0, 0, 0, 0
	for _, of := range s {
		at := of.byHost()
		for _, p := range of.places {
			if p.children > 0 {
				inner++
				children += p.children
				r.FanOutMax = max(r.FanOutMax, p.children)
			}
			if !g.plan.follows(of.topic, p.host) {
				others++
				continue
			}
			depth, _ := of.depth(at, p.host)
			followers++
			depths += depth
			r.DepthMax = max(r.DepthMax, depth)
		}
	}
	r.DepthMean = float64(depths) / float64(max(1, followers))
	r.FanOutMean = float64(children) / float64(max(1, inner))
	r.Forwarders = float64(others) / float64(len(s))
}
