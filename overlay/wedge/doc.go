// Package wedge gives the members nearest to a key their ranks.
//
// It is the DAG of Corona (NSDI 2006, §3.4), by which the owner of a channel tells the
// nodes of its wedge to poll, as a tree, and with the rank cut: a leader, who may stand
// anywhere, orders n ranks for a key, and the n members nearest to it, by XOR, get the
// ranks 0 to n-1, the nearest the first. What they do for it is the application's affair;
// the package says to each when it has its turn (Duty.Next), so that the n turns are
// spread evenly over the interval, and stay nearly so when members die (Phase).
//
// # The walk
//
// A member that is told (depth d, ranks first ... first+k-1) stands for all members that
// share d bits of their ids with it. By its counts it parts the ranks between the half in
// which it is itself and the other one: the half nearer to the key has its members'
// number of ranks first, or, if there are more ranks than members, its part of them. To
// somebody of the other half it sends an Entry, for depth d+1; with its own half it goes
// on. Who is left alone serves the ranks that are left, four at most. So every rank has
// one member whatever the counts are, as many entries as ranks are sent, and the tree is
// as deep as the logarithm of n. Who was asked for others, and is left without a rank, is
// a relay.
//
//	walk.go     the split, and who is asked
//	take.go     what an entry has to be like, and what it changes
//	link.go     what has changed on a link goes in one batch, acknowledged and repeated
//	lease.go    one digest renews all edges of a link; rounds compare splits with counts
//	tally.go    ranks that are not served, summed to the leader; stand-ins
//	down.go     messages of the leader to all of its wedge
//	reach.go    polling levels in place of ranks, where each member decides for others
//
// # Orders, terms, leases
//
// An order has a Term, and the latest counts. A member goes over to it as it comes,
// without a gap, and tells its former parent. A member has one parent for a key. Of two
// that give the same term, the later word counts: it comes from where the tree was
// repaired. Edges are leases: a parent renews all edges on a link at once, by their
// number and digest, and lists them if the child knows others. What is not renewed for a
// lease ends, and so does all below it. An order of no ranks ends all within seconds.
//
// # Repair
//
// When a child dies, or refuses, its parent asks another member of that half; if there is
// none, it serves the ranks itself until its next round. Nobody else hears of it. Every
// round each member compares its splits with fresh counts, and changes those that are off
// by much: to part ranks anew moves the turns of all behind.
//
// When a member declines its duty, the leader hears of it (Tally), and gives its phase to
// the rank after the last (stand-in); to sixteen at most.
//
// # What a liar can do
//
// An entry counts only from a member that stands where the walk would have led, for no
// more ranks than the network can serve, and by an order that the application holds for
// valid; and one peer can fill but a part of a node's room. A member that lies can swallow
// the ranks of all that stand behind it, say that they are served, or that as many as have
// stand-ins are declined. Who has an order can also draw members away from their parents;
// these ask them back in their next round. Who needs more looks at what the members do.
//
// # How to use it
//
// A Wedge is an overlay.Application for one goroutine: driven by Receive and Run, it tells
// its Application of duties by Serve and Release. The wire specification is
// wedgepb/wedge.proto.
//
// The package leaves to the layers above what is polled, who leads a key, and how large n
// is.
package wedge

//go:generate protoc --proto_path=wedgepb --go_out=wedgepb --go_opt=paths=source_relative wedgepb/wedge.proto
