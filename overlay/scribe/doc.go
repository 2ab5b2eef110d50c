// Package scribe maintains a multicast tree for each group, and sends messages down the tree.
//
// It is Scribe (Castro, Druschel, Kermarrec and Rowstron, JSAC 2002; FeedTree, IPTPS 2005, §4.2). A
// group is a key; its root is the live member nearest to the key. A node joins by routing a Join
// towards the key, and the first node on the route that is in the tree becomes its parent. A published
// message is routed to the root and forwarded down the edges.
//
// # Why trees have no cycles
//
// A parent is always nearer to the group's key than its child. So edges cannot form a cycle, whatever
// is lost, repeated or late, and every path upwards ends at a root.
//
// # Differences from the paper
//
//   - A node on the route that is not in the tree lets a Join pass and does not become a forwarder. A
//     parent with more children than its fan-out redirects the farthest of them to nearer ones
//     (push-down). So few nodes only forward. A forwarder that has lost its last subscriber hands its
//     children to its parent while that one has room. There is little more than one edge per delivery.
//   - Messages about many groups share a Batch: a node that starts joins thousands of groups by way of
//     some tens of neighbours. Joins with the same next hop are one Batch, and so are those that a hop
//     forwards, and the answers to one child. The overlay does not acknowledge these; a Join that is not
//     answered is routed again by itself.
//   - An edge is a lease. All edges between two nodes, in both directions, are renewed by a single
//     Heartbeat with digests of groups and weights, and listed only if the two ends differ. A node with
//     many links sends heartbeats less often on each of them, and announces the period.
//   - Each Multicast is acknowledged, and repeated up to ten times, for about half a minute. A new child
//     receives the messages of the last minutes. Neither loss on a link nor a change of parents loses a
//     message as long as some node that has it remains.
//   - A child that is too slow receives the last message of each group, and pulls what it lacks.
//   - The layer above can block a parent (Block). The node then asks the root directly, past the nodes on
//     the route, and names the members that it avoids.
//   - Weights, the clients at and below a node, are summed up to the root, which thus knows the number of
//     clients of a group. A Join along the route carries none, because anybody could make one up; the
//     child tells it when it has the Accept.
//   - A client has two parents, and counts once.
//
// # How to use it
//
// A Scribe is an overlay.Application for one goroutine. Join and Leave groups, and Publish to them;
// messages are delivered through the function given to New. The wire specification is
// scribepb/scribe.proto.
//
// The layers above decide what messages mean and their order, and pull messages that were missed over
// longer times.
package scribe

//go:generate protoc --proto_path=scribepb --go_out=scribepb --go_opt=paths=source_relative scribepb/scribe.proto
