// Package scribe keeps a tree for each group and sends down it.
//
// It is Scribe (Castro, Druschel, Kermarrec and Rowstron, JSAC 2002; FeedTree,
// IPTPS 2005, §4.2). A group is a key; its root is the live member nearest to
// the key. A node joins by routing a Join towards the key, and the first node on
// the way that is in the tree becomes its parent. What is published is routed
// to the root and sent down the edges.
//
// # The rule that keeps trees trees
//
// A parent is always nearer to the group's key than its child. Whatever is
// lost, repeated or late, edges thus cannot form a cycle, and every way up
// ends at a root.
//
// # Differences from the paper
//
//   - A node on the way that is not in the tree lets a Join pass and does not
//     become a forwarder. A parent with as many children as it may have sends
//     the farthest of them to one that is nearer (push-down). Nodes that only
//     forward are therefore rare; one that has lost its last subscriber hands
//     its children to its parent while that has room. Edges per delivery
//     stay near 1.
//   - What is said of many groups at one time goes together: a node that starts joins
//     thousands of groups by way of some tens of neighbours. Joins that have the next
//     hop in common are one Batch, and so are those that a hop passes on, and the
//     answers to one child. The overlay acknowledges none of these; a Join that
//     nothing came of goes again alone, routed.
//   - An edge is a lease. All edges between two nodes, whichever is the parent, are renewed by
//     a single Beat with digests of groups and weights, and spelled out only when one of the
//     two knows otherwise. Who has many links beats on each of them more seldom, and says so.
//   - Each Down is acknowledged, and repeated up to ten times, about half a
//     minute, until it is; a new child is given what came in the last minutes.
//     Loss on a link or a change of parents loses nothing as long as somebody
//     who had the message is left.
//   - A child that is too slow for what there is gets the last message of each group: what
//     it lacks is for it to pull.
//   - A parent can be left because the layer above wants it (Shun): the node then asks the
//     root by name, past those on the way, and says whom it avoids.
//   - Weights (clients at and below a node) are summed to the root, which so
//     knows how many a group serves.
//   - A client hangs below two members, and counts once.
//
// # How to use it
//
// A Scribe is an overlay.Application for one goroutine. Join and Leave groups,
// Publish to them; messages come through the function given to New. The wire
// specification is scribepb/scribe.proto.
//
// The package leaves to the layers above what messages mean, their order, and
// the pulling of those missed over longer times.
package scribe

//go:generate protoc --proto_path=scribepb --go_out=scribepb --go_opt=paths=source_relative scribepb/scribe.proto
