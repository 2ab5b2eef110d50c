// Package wedge gives the members nearest to a key their ranks.
//
// It is the DAG of Corona (NSDI 2006, §3.4), by which the owner of a channel tells the nodes of its
// wedge to poll. Here it is a tree, and divides ranks instead of levels: a leader, which may be any
// member, orders n ranks for a key, and the n members nearest to the key by XOR get the ranks 0 to
// n-1, the nearest member the first. The application decides what a rank does. The package tells
// each member the times of its turns (Assignment.Next). The n turns are spread evenly over the
// interval, and stay nearly even when members die (Phase).
//
// # The walk
//
// A member that receives (depth d, ranks first ... first+k-1) acts for all members that share d
// bits of their ids with it. Using its counts of members, it divides the ranks between its own half
// of them and the other half. The half nearer to the key gets the first ranks: one per member, or,
// if there are more ranks than members, in proportion to the members. The node sends an Entry of
// depth d+1 to a member of the other half, and continues with its own half. When it is alone, it
// serves the ranks that are left, four at most. So every rank has one member whatever the counts
// are, there are about as many entries as ranks, and the tree is as deep as the logarithm of n. A
// relay is a member that passed ranks on and kept none.
//
//	walk.go        the split, and the choice of children
//	receive.go     entries and acknowledgements: what is accepted, and what it changes
//	membership.go  a node's state for one key, and its edges
//	table.go       the memberships, and which of them have changed
//	tree.go        what follows from a change: parents, children and entries for them
//	outbox.go      the changes on a link, sent in batches that are acknowledged and repeated
//	renewal.go     one digest renews all edges of a link; rounds compare splits with counts
//	status.go      ranks that nobody serves, summed up to the leader; stand-ins
//	broadcast.go   messages of the leader to its whole wedge
//	levels.go      polling levels in place of ranks, where each member decides for others
//
// # Orders, terms, leases
//
// An order has a Term. A member adopts a later order as soon as it receives it, without a pause, and
// tells its former parent. It has one parent for each key. If two parents have orders of the same
// term, the later entry wins, because it comes from where the tree was repaired. Edges are leases. A
// parent renews all edges of a link at once, by their number and digest, and lists them if the child
// knows different ones. An edge that is not renewed for a lease ends, with everything below it. An
// order without ranks ends the whole tree within seconds.
//
// # Repair
//
// When a child dies or refuses, its parent asks another member of that half. If there is none, the
// parent serves the ranks itself until its next round. No other member is involved. In every round
// each member compares its splits with fresh counts, and changes only those that are far off,
// because a new split moves the turns of all members behind it.
//
// When a member declines its assignment, the leader learns of it (Status), and gives the phase to the
// rank after the last, a stand-in. There are at most sixteen stand-ins.
//
// # What a malicious member can do
//
// A node accepts an entry only from a member that the walk could have led to, for no more ranks than
// the network can serve, and only if the application considers the order valid. One peer can fill
// only a part of a node's memberships. A malicious member can drop the ranks of all members behind
// it, claim that they are served, or claim that as many are declined as there are stand-ins. With a
// valid order it can also draw members away from their parents, which ask them back in the next
// round. An application that needs more must check what the members do.
//
// # How to use it
//
// A Wedge is an overlay.Application for one goroutine. It is driven by Receive and Run, and informs its
// own Application of assignments by Serve and Release. The wire specification is
// wedgepb/wedge.proto.
//
// The layers above decide what is polled, who leads a key, and how large n is.
package wedge

//go:generate protoc --proto_path=wedgepb --go_out=wedgepb --go_opt=paths=source_relative wedgepb/wedge.proto
