// Package provision computes how many crawlers, filters and reflectors a number of feeds and
// keyword subscriptions needs, and the links between them (Cobra, NSDI'07, section 3.5).
//
//	Model        costs of articles, matching and subscriptions
//	Constraints  capacity of a node
//	Plan         nodes and links: Plan(load, constraints, model)
//
// Plan starts with one node of each kind and resolves violated constraints one by one, each by
// one additional node, as in the paper's Figure 3. An in-decomposition splits the input of a
// node and duplicates its output; an out-decomposition does the reverse. "When choosing which of
// multiple violations to resolve first, the algorithm will choose the violations with the least
// potential to be resolved indirectly": violations have ranks, and within a rank crawlers come
// first, then filters, then reflectors.
//
//	0  crawler in     feeds fetched                     in: one more crawler
//	0  filter in      articles received                 in: one more in-replica
//	1  crawler out    articles to each out-replica      in: one more crawler
//	1  filter out     articles to its reflectors        in: one more in-replica
//	2  filter         processor, memory                 out: one more out-replica
//	2  reflector      polls, processor, memory          out: one more reflector
//	-  reflector in   articles that match               none: the plan fails
//
// # Topology files
//
// A [Topology] as JSON, as printed by tidings provision --json, is a topology file:
//
//	{"crawlers": 1, "filters": 2, "reflectors": 2, "in_filters": 1, "out_filters": 2,
//	 "nodes": [{"name": "crawler-1", "role": "crawler", "feeds": 1000000, "subscriptions": 0,
//	            "links": ["filter-1-1", "filter-1-2"]}, …],
//	 "violations": []}
//
// Each node of a deployment has an entry in nodes. Feeds are divided among crawlers, and
// subscriptions among reflectors, in the order of the entries and in parts of the given sizes.
// The links of a node are the names of the nodes to which it sends its articles. A file with
// violations has no nodes. Readers ignore unknown keys. The operator of the nodes adds the address of each as "peer" before
// they can run (tidings run --topology), and as "http" the address at which tidings provision apply asks what it does.
//
// The paper describes the algorithm informally and publishes no constants. [Paper] has constants
// that reproduce its figures, and states how far they are from its measurements. Package
// cobra/tiers runs what this package plans, and [Model.Fitted] replaces the costs by what its nodes measure.
package provision
