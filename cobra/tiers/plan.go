package tiers

import (
	"errors"
	"fmt"
	"hash/fnv"
	"slices"

	"tidings/cobra/provision"
	"tidings/internal/env"
)

// A Plan says which nodes there are and who sends to whom.
type Plan struct {
	Nodes      []Node // in the order of the topology file, which numbers the nodes of a role
	OutFilters int    // filters with different queries and the same feeds, at least 1
	Digest     string // of the topology
}

// A Node is a node of a plan.
type Node struct {
	Name  string
	Role  string   // one of the roles of cobra/provision
	Peer  env.Peer // its id and addresses
	Links []string // names of the nodes to which it sends articles
}

// A neighbour is a node with which a node exchanges messages. Filters have a place in the plan's grid: in-replicas have
// different feeds, out-replicas different queries.
type neighbour struct {
	Node
	in, out int // of a filter
}

// neighbours are what one node needs to know of its plan.
type neighbours struct {
	self      Node
	index, of int // place of this node among those of its role, and their number
	down, up  []neighbour
	ins, outs []int // in-replicas among down, and out-replicas among up, each once and in order
}

// find returns the neighbours of a peer in a plan.
func (p Plan) find(self env.PeerID) (n neighbours, err error) {
	grid, ids := map[string]neighbour{}, map[env.PeerID]string{}
	counts := map[string]int{}
	found := false
	for _, node := range p.Nodes {
		if other, twice := ids[node.Peer.ID]; twice {
			return n, fmt.Errorf("topology: %s and %s have the same id in their \"peer\": give each node its own", other, node.Name)
		}
		if _, twice := grid[node.Name]; twice {
			return n, fmt.Errorf("topology: two nodes have the name %q: give each its own", node.Name)
		}
		ids[node.Peer.ID] = node.Name
		i := counts[node.Role]
		counts[node.Role]++
		grid[node.Name] = neighbour{Node: node, in: i / max(p.OutFilters, 1), out: i % max(p.OutFilters, 1)}
		if node.Peer.ID == self {
			n.self, n.index, found = node, i, true
		}
	}
	if !found {
		return n, errNotInPlan
	}
	n.of = counts[n.self.Role]
	for _, name := range n.self.Links {
		to, ok := grid[name]
		if !ok || to.Role != next[n.self.Role] {
			return n, fmt.Errorf("topology: the link from %s to %q does not lead to a %s", n.self.Name, name, next[n.self.Role])
		}
		n.down = append(n.down, to)
		n.ins = append(n.ins, to.in)
	}
	for _, node := range p.Nodes {
		if slices.Contains(node.Links, n.self.Name) {
			n.up = append(n.up, grid[node.Name])
			n.outs = append(n.outs, grid[node.Name].out)
		}
	}
	for _, list := range []*[]int{&n.ins, &n.outs} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	return n, nil
}

var errNotInPlan = errors.New("no node of the topology has this node's id: give the entry of this node its address as \"peer\"")

// next is the role to which nodes of a role send articles.
var next = map[string]string{provision.Crawler: provision.Filter, provision.Filter: provision.Reflector}

// share returns which of n equal parts a text belongs to.
func share(text string, n int) int { return int(hashOf(text) >> 32 * uint64(n) >> 32) }

// hashOf returns the hash of a text, of which all bits depend on all of the text.
func hashOf(text string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text))
	x := h.Sum64() // whose upper bits depend little on the last bytes
	x ^= x >> 32
	x *= 0xd6e8feb86659fd93
	x ^= x >> 32
	x *= 0xd6e8feb86659fd93
	return x ^ x>>32
}
