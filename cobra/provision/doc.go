// Package provision plans how many crawlers, filters and reflectors carry a number
// of feeds and keyword subscriptions, and who of them talks to whom (Cobra,
// NSDI'07, section 3.5).
//
//	Model        what an article and a subscription cost
//	Constraints  what a node can do
//	Plan         nodes and links: Plan(load, constraints, model)
//
// It begins with one node of each kind and resolves one violated constraint after
// the other by one node more, as the paper's Figure 3 says by which: an
// in-decomposition parts what comes in and repeats what goes out, an
// out-decomposition the other way round. "When choosing which of multiple
// violations to resolve first, the algorithm will choose the violations with the
// least potential to be resolved indirectly": violations have ranks, and of equal
// ones crawlers come first, then filters, then reflectors.
//
//	0  crawler in     feeds fetched                     in: a crawler more
//	0  filter in      articles received                 in: an in-replica more
//	1  crawler out    articles to each out-replica      in: a crawler more
//	1  filter out     articles to its reflectors        in: an in-replica more
//	2  filter         processor, memory                 out: an out-replica more
//	2  reflector      polls, processor, memory          out: a reflector more
//	-  reflector in   all articles                      none: it fails
//
// # Topology files
//
// A [Topology] as JSON, which tidings provision --json prints, is a topology file:
//
//	{"crawlers": 1, "filters": 2, "reflectors": 2, "in_filters": 1, "out_filters": 2,
//	 "nodes": [{"name": "crawler-1", "role": "crawler", "feeds": 1000000, "subscriptions": 0,
//	            "links": ["filter-1-1", "filter-1-2"]}, …],
//	 "violations": []}
//
// Each node of a deployment is one of nodes, by its name. Feeds are parted between
// crawlers, and subscriptions between reflectors, in the order of their names, in
// parts of the sizes that stand there; links are the names of those to whom a node
// sends the articles that it has. A file with violations is no plan. Readers ignore
// keys that they do not know.
//
// The paper describes the algorithm informally and publishes no constants; which
// reproduce its figures, and how far they are from what it measured, says
// [Paper]. The package leaves to others to run what it plans.
package provision
