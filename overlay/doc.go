// Package overlay routes a message to the live node nearest to its key.
//
// It is Pastry (Rowstron and Druschel, Middleware 2001; Corona, NSDI 2006,
// §3.1) with Kademlia's distance. Ids and keys have 256 bits, read as 64 digits
// of base 16. The distance of two ids is their XOR. The root of a key is the
// live member nearest to it.
//
// # What a member knows
//
//   - Its leaf (LeafSet). Leaves partition the id space into prefix subtrees of
//     12 to about 50 members, and all members of one leaf know one another. The
//     eight members nearest to any key lie in one leaf, so the owners of a key
//     know one another too.
//   - Its routing table. For each digit of its id outside the leaf, and each
//     other value of that digit, it holds a live contact with that prefix, and a
//     spare.
//   - Counts: the number of members below each prefix of its id, learned row by
//     row from the contacts. Count(0) is the size of the network.
//
// # Components
//
//	join.go          finds the members near the node's id and announces the node
//	                 to its leaf; offer.go checks the leaf that a member offers
//	                 against the answers of others
//	depth.go         decides when the leaf splits or merges; vote.go counts what
//	                 other members say about its depth
//	route.go         recursive prefix routing: every hop acknowledges, a silent hop
//	                 is routed around, and the root's receipt returns along the
//	                 way; queue.go bounds a node's own messages in flight
//	nexthop.go       chooses the next hop; slotsearch.go fills a slot without a
//	                 contact, or confirms that it is empty
//	node.go          passes messages and time to the components; departure.go
//	                 removes peers from all of them; base.go is what all need
//	neighbours.go    the peers that the node knows, and their places; clients.go
//	pool.go          members that a node without a place has heard of
//	admit.go         gives members that are alive their places
//	probe.go         failure detection: three probes, four in the leaf, with
//	                 timeouts from measured round-trip times
//	watch.go         each member is watched by the two nearest to it; their reports
//	                 of a death are verified by every receiver; leaving
//	deathreports.go  ignores members whose reports were false too often
//	tombstones.go    remembers the dead, to notice that a partition has healed
//	sync.go          compares leaves by digest, and gossips about changes
//	counts.go        counts members below a prefix, and judges whether the members
//	                 found near a key can be all
//	rows.go          repairs rows and learns counts, one contact at a time;
//	                 churn.go sets the rate by how often contacts die
//	lookup.go        finds the members nearest to a key by disjoint routes, for
//	                 callers that cannot trust single members; lookupstart.go chooses
//	                 where they start, and find.go answers
//	entrypoints.go   checks whether the network is the one that bootstrap nodes and
//	                 members of an earlier run know
//	hosts.go         the client's side: two members act for each client, which is
//	                 in no table
//
// # What a liar can do
//
// A lying member cannot invent members, because records are signed and each
// member is probed before it gets a place. It can hide members, report wrong
// counts, deaths and depths, and swallow messages. What it says of others costs
// a receiver at most a few probes an hour. A depth that it claims is adopted only
// where either depth is possible, and only if a third of the leaf agrees. Its
// count is bounded by the other counts of the row. A message that it swallows is
// sent another way. A caller that needs stronger guarantees uses Lookup.
//
// # How to use it
//
// A Node is an object for one goroutine, driven by Receive, Found, Reachable,
// PeerDown and Run (see env.Node). Register an Application for each layer above.
// Then Route a payload towards a key, or Lookup the members nearest to it. The
// wire specification is overlaypb/overlay.proto.
//
// Transport and reachability checks are outside of this package. Package
// overlay/scribe forms groups of nodes below one root, and package overlay/owner
// replicates the log of a key on its owners.
package overlay

//go:generate protoc --proto_path=overlaypb --go_out=overlaypb --go_opt=paths=source_relative overlaypb/overlay.proto
