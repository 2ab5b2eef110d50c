// Package owner says who owns a key and who acts for it now, and keeps what they
// must remember: the key's log.
//
// It stands between the overlay, which knows who is near a key, and the layers
// that poll a channel (corona) and send what changed (feedtree), which so need not
// know each other. A log is a chain of signed entries, each at a position
// (lineage, epoch, seq). What bodies mean is the affair of the layers above.
//
// # Owners, sequencer, epochs
//
// The owners of a key are the n members nearest to it; fewer in a small network,
// down to one. One of them, the sequencer, numbers the entries. It is sticky:
// another takes over only when the incumbent is dead, or has left the set of
// owners. Each change of sequencer or of owners is an epoch:
//
//	Seal     a candidate asks the owners to hold nothing of older epochs; they
//	         promise, durably, and say what they hold
//	Pull     the candidate gets what it lacks
//	Sign     the owners, old and new, get what they lack and sign the epoch
//	Install  a quorum of both has signed: the epoch is in force
//
// A quorum is more than half, and an owner signs one epoch of a number and one
// entry at a position, ever: the lock is durable before the signature leaves. So
// there is one sequencer per (lineage, epoch), and whatever a quorum held when
// the old epoch was sealed goes on in the new one. This is the vertical
// reconfiguration of Lamport, Malkhi and Zhou (2009) with votes of Paxos.
//
// # Entries
//
// An entry is durable at its sequencer, then sent to all owners; when a quorum
// holds it, itself included, Application.Held hands it up to be published. One is
// under way at a time. So a published entry survives whoever dies, as long as one
// of every quorum lives.
//
// # Leaving
//
// A sequencer that leaves in good order makes one more epoch of each key, without
// itself, before it goes (HandOver): the nearest of the owners that stay goes on within
// a few round trips, with all that was held in hand. An owner without whom the others are
// no quorum, one of two, does the same of the keys that another leads: they could not
// make an epoch without it, and would jump.
//
// # Many keys at once
//
// Whatever happens to a neighbour happens to all keys that it has in common with a node. So
// that thousands of them do not drown in each other's messages, only so many bids are
// under way at a time, and the others wait in line; who does not answer is asked again
// later each time; and whom nobody could answer asks once.
//
// # Lineages
//
// If a quorum of the old owners stays silent for a lease, the live ones nearest
// to the key start a new lineage by a jump: an epoch that only its own owners
// sign, naming the last entry they know. When a partition heals, two lineages
// meet. The one founded nearer to the key goes on, the older of two equals; its
// sequencer pulls the other's entries and appends what it lacks, and then the
// other's owners and followers join it. Where it lacks a quorum, whose members own the key in
// the other lineage by now, it gives way, and that one goes on.
//
// # Followers
//
// Any node may follow a key: it keeps the log without owning it. It takes entries
// from its tree (Offer) and pulls what it lacks from anybody who has it (Pull).
// An entry from the tree is held where its epoch is in force, or the later one that it comes with: that of another
// lineage may go on from an entry which the own one never held.
// An entry is trusted when the certified epoch's sequencer signed it, or an entry
// after it. An epoch that no other leads to, of a key in another leaf, is believed when a
// quorum of its owners is among those whom a look-up by disjoint routes finds near the
// key: owners that somebody has made up are not.
//
// # How to use it
//
// An Owners is an object for one goroutine, driven by Receive and Run; Want makes
// a key owned, Append adds to the log of one this node leads. Upcalls come through
// Application. The wire specification is ownerpb/owner.proto.
//
// The package leaves to overlay/scribe how entries reach followers, and to the
// layers above what an item is.
package owner

//go:generate protoc --proto_path=ownerpb --go_out=ownerpb --go_opt=paths=source_relative ownerpb/owner.proto
