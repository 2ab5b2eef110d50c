package provision

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// The roles of nodes.
const (
	Crawler   = "crawler"
	Filter    = "filter"
	Reflector = "reflector"
)

// A Node is a node of a topology.
type Node struct {
	Name          string   `json:"name"`
	Role          string   `json:"role"`
	Feeds         int      `json:"feeds"`         // feeds that it polls, or whose articles it receives
	Subscriptions int      `json:"subscriptions"` // 0 for a crawler
	Links         []string `json:"links"`         // names of the nodes to which it sends articles
	// Peer is the address at which the other nodes reach it, a multiaddr with a peer id at its end, as tidings run prints
	// it. Plans lack it; the operator adds it.
	Peer string `json:"peer,omitempty"`
	// HTTP is the host and port at which the node serves its readers and the operator's commands. Plans lack it.
	HTTP string `json:"http,omitempty"`
}

// A Topology is a set of nodes that carries a load. If it has violations, it has no nodes.
type Topology struct {
	Crawlers   int    `json:"crawlers"`
	Filters    int    `json:"filters"`
	Reflectors int    `json:"reflectors"`
	InFilters  int    `json:"in_filters"`  // in-replicas, with different feeds
	OutFilters int    `json:"out_filters"` // out-replicas, with different subscriptions
	Nodes      []Node `json:"nodes"`
	// Revision numbers the topologies that a hosting centre runs one after another: nodes take a later one only. Plans lack it;
	// tidings provision apply sets it.
	Revision   int      `json:"revision,omitempty"`
	Violations []string `json:"violations"`
}

// Plan computes the nodes that carry a load. The error describes an argument out of range.
func Plan(load Load, nodes Constraints, m Model) (Topology, error) {
	switch {
	case !(load.Feeds >= 1 && load.Feeds <= 1e12) || !(load.Subscriptions >= 1 && load.Subscriptions <= 1e12):
		return Topology{}, fmt.Errorf("%g feeds and %g subscriptions: want 1 to 10^12 of each", load.Feeds, load.Subscriptions)
	case !(nodes.Bandwidth > 0) || !(nodes.Memory > 0) || !(nodes.CPU > 0):
		return Topology{}, fmt.Errorf("bandwidth %g, memory %g, processor %g: want more than 0", nodes.Bandwidth, nodes.Memory, nodes.CPU)
	case !(nodes.Overprovision >= 0 && nodes.Overprovision <= 10):
		return Topology{}, fmt.Errorf("overprovisioning by %g: want 0 to 10", nodes.Overprovision)
	}
	p := problem{load, nodes, m}
	c, violated := p.solve()
	t := Topology{
		Crawlers: c.Crawlers, Filters: c.Filters(), Reflectors: c.Reflectors, InFilters: c.InFilters, OutFilters: c.OutFilters,
		Nodes: []Node{}, Violations: []string{},
	}
	for _, v := range violated {
		t.Violations = append(t.Violations, v.String())
	}
	if len(violated) == 0 {
		t.Nodes = p.nodesOf(c)
	}
	return t, nil
}

// nodesOf returns the nodes of a plan with their links. Feeds are divided among crawlers, and
// among in-replicas of filters; subscriptions among out-replicas, and among reflectors. Two
// nodes are linked if their parts overlap.
func (p *problem) nodesOf(c Counts) (nodes []Node) {
	feeds, subs := int(p.load.Feeds), int(p.load.Subscriptions)
	filter := func(in, out int) string { return fmt.Sprintf("filter-%d-%d", in+1, out+1) }
	for i := range c.Crawlers {
		n := Node{Name: fmt.Sprintf("crawler-%d", i+1), Role: Crawler, Feeds: part(feeds, c.Crawlers, i)}
		for in := range c.InFilters {
			if overlap(i, c.Crawlers, in, c.InFilters) {
				for out := range c.OutFilters {
					n.Links = append(n.Links, filter(in, out))
				}
			}
		}
		nodes = append(nodes, n)
	}
	for in := range c.InFilters {
		for out := range c.OutFilters {
			n := Node{Name: filter(in, out), Role: Filter, Feeds: part(feeds, c.InFilters, in), Subscriptions: part(subs, c.OutFilters, out)}
			for r := range c.Reflectors {
				if overlap(out, c.OutFilters, r, c.Reflectors) {
					n.Links = append(n.Links, fmt.Sprintf("reflector-%d", r+1))
				}
			}
			nodes = append(nodes, n)
		}
	}
	for r := range c.Reflectors {
		nodes = append(nodes, Node{
			Name: fmt.Sprintf("reflector-%d", r+1), Role: Reflector, Feeds: feeds, Subscriptions: part(subs, c.Reflectors, r), Links: []string{},
		})
	}
	return nodes
}

// part returns the size of the i-th of n parts of a whole number.
func part(whole, n, i int) int { return whole*(i+1)/n - whole*i/n }

// overlap reports whether the i-th of n equal parts and the j-th of m equal parts overlap.
func overlap(i, n, j, m int) bool { return i*m < (j+1)*n && j*n < (i+1)*m }

// Validate returns an error if nodes cannot run the topology, or if searches would miss feeds: filters stand in the order of their
// in-replicas, each of OutFilters filters, and every reflector is to get the articles of all in-replicas.
func (t *Topology) Validate() error {
	next := map[string]string{Crawler: Filter, Filter: Reflector}
	byName, filters, place := map[string]*Node{}, []*Node{}, map[string]int{}
	if t.Revision < 0 {
		return fmt.Errorf("topology: its revision is %d: give a positive number, or none", t.Revision)
	}
	for i := range t.Nodes {
		n := &t.Nodes[i]
		switch {
		case n.Role != Crawler && n.Role != Filter && n.Role != Reflector:
			return fmt.Errorf("topology: the role of %s is %q: give %s, %s or %s", n.Name, n.Role, Crawler, Filter, Reflector)
		case byName[n.Name] != nil:
			return fmt.Errorf("topology: two nodes have the name %q: give each its own", n.Name)
		case n.Role == Filter:
			place[n.Name] = len(filters)
			filters = append(filters, n)
		}
		byName[n.Name] = n
	}
	outs := max(1, t.OutFilters)
	ins := len(filters) / outs
	if len(filters) != ins*outs || t.InFilters != 0 && t.InFilters != ins {
		return fmt.Errorf("topology: there are %d filters, which are not in_filters (%d) times out_filters (%d): correct these numbers", len(filters), t.InFilters, t.OutFilters)
	}
	type pair struct {
		node string
		part int // an out-replica of a reflector, an in-replica of a crawler
	}
	has := map[pair]int{} // filters of the part that are linked with the node
	for _, n := range t.Nodes {
		for _, name := range n.Links {
			to := byName[name]
			switch {
			case to == nil || to.Role != next[n.Role]:
				return fmt.Errorf("topology: the link from %s to %q does not lead to a %s", n.Name, name, cmp.Or(next[n.Role], "node to which it could send"))
			case n.Role == Crawler:
				has[pair{n.Name, place[name] / outs}]++
			default:
				has[pair{name, place[n.Name] % outs}]++
			}
		}
	}
	for _, n := range t.Nodes {
		wanted, parts, linked := ins, outs, 0
		if n.Role == Crawler {
			wanted, parts = outs, ins
		}
		for part := range parts {
			switch count := has[pair{n.Name, part}]; count {
			case 0:
			case wanted:
				linked++
			default:
				return fmt.Errorf("topology: %s is linked with %d of %d filters that divide what it needs, so searches would miss articles: correct the links, or in_filters (%d) and out_filters (%d)",
					n.Name, count, wanted, ins, outs)
			}
		}
		if n.Role != Filter && linked == 0 && len(filters) > 0 {
			return fmt.Errorf("topology: %s is linked with no filter: correct the links", n.Name)
		}
	}
	return nil
}

// Digest identifies a topology: nodes that run the same one have the same digest, however its file is formatted. It begins with
// the revision, if there is one, so that nodes know which of two topologies is the later one.
func (t *Topology) Digest() string {
	raw, err := json.Marshal(t)
	if err != nil {
		panic("provision: encode a topology: " + err.Error()) // it has only texts and numbers
	}
	sum := sha256.Sum256(raw)
	digest := hex.EncodeToString(sum[:8])
	if t.Revision > 0 {
		digest = strconv.Itoa(t.Revision) + "-" + digest
	}
	return digest
}

// RevisionOf returns the revision in a topology's digest; 0 if it has none.
func RevisionOf(digest string) int {
	number, _, _ := strings.Cut(digest, "-")
	if number == digest { // a digest without a revision may have digits only
		return 0
	}
	revision, err := strconv.Atoi(number)
	if err != nil {
		return 0
	}
	return revision
}

// DOT returns the topology in the format of Graphviz.
func (t *Topology) DOT() string {
	var b strings.Builder
	b.WriteString("digraph cobra {\n\trankdir=LR;\n\tnode [shape=box, fontname=\"sans-serif\"];\n")
	for _, role := range []string{Crawler, Filter, Reflector} {
		b.WriteString("\t{ rank=same;")
		for _, n := range t.Nodes {
			if n.Role == role {
				fmt.Fprintf(&b, " %q;", n.Name)
			}
		}
		b.WriteString(" }\n")
	}
	for _, n := range t.Nodes {
		count, what := n.Feeds, "feed"
		if n.Role != Crawler {
			count, what = n.Subscriptions, "subscription"
		}
		if count != 1 {
			what += "s"
		}
		fmt.Fprintf(&b, "\t%q [label=\"%s\\n%d %s\"];\n", n.Name, n.Name, count, what)
		for _, to := range n.Links {
			fmt.Fprintf(&b, "\t%q -> %q;\n", n.Name, to)
		}
	}
	b.WriteString("}\n")
	return b.String()
}
