// Package overlay routes a message to the live node nearest its key.
//
// It is Pastry (Rowstron and Druschel, Middleware 2001; Corona, NSDI 2006,
// §3.1) with Kademlia's order of distance. Ids and keys are 256 bits, read as
// 64 digits of base 16. The distance of two ids is their XOR; the root of a key
// is the live member nearest to it.
//
// # What a member knows
//
//   - Its leaf (LeafSet): the leaves partition the id space into prefix
//     subtrees of 12 to about 50 members, and all members of one leaf know one
//     another. The eight members nearest any key lie in one leaf, so the owners
//     of a key know one another too.
//   - Its routing table (Table): for each digit of its id that lies outside the
//     leaf and each other value of that digit, a live contact with that prefix,
//     and a spare.
//   - Counts: how many members stand below each prefix of its id, learned row
//     by row from the contacts; Count(0) is the size of the network.
//
// # What it does
//
//	join.go   finds the members near its id and is acknowledged by its leaf;
//	          offer.go weighs the leaf that one of them offers by what others say
//	depth.go  how deep the leaf is: split, merged, and agreed upon
//	route.go  recursive prefix routing; every hop acknowledges, and a silent
//	          hop is routed around; the root's receipt comes back along the way;
//	          line.go has a node's own messages wait for their turn
//	probe.go  who lives: three attempts, four in the leaf, timed by measured round trips
//	watch.go  each member is watched by its two nearest; notices of death,
//	          confirmed by everyone for himself; leave; remembered dead
//	sync.go   leaves compared by digest, repaired by difference
//	rows.go   rows repaired and counts learned, a contact at a time
//	unrest.go how much of that, by how often contacts die
//	lookup.go the members nearest a key by disjoint routes, for those who need not
//	          believe whom they meet; density.go says whether that can be all
//	accuse.go what others say of a third is only a reason to look
//	attach.go clients, who are in no table: two members act for each
//
// # What a liar can do
//
// A member that lies cannot make up members, because records are signed and everybody is
// spoken to before he gets a place; it can hide some, claim counts, deaths and depths,
// and swallow messages. What it says of others costs at most a few probes in an hour; a
// depth it decrees is taken only where either would do, and undone at most once in ten
// minutes; a count is bounded by those of the row; a message that it swallows is sent
// another way. Whoever needs more asks Lookup.
//
// # How to use it
//
// A Node is an object for one goroutine, driven by Receive, Found, Reachable,
// PeerDown and Run (see env.Node). Register an Application for each layer above;
// Route a payload towards a key, or Lookup who stands nearest to it. The wire
// specification is overlaypb/overlay.proto.
//
// The package leaves to the world how frames move and whether a node can be
// dialled, to overlay/scribe the groups of nodes below one root, and to
// overlay/owner who acts for a key.
package overlay

//go:generate protoc --proto_path=overlaypb --go_out=overlaypb --go_opt=paths=source_relative overlaypb/overlay.proto
