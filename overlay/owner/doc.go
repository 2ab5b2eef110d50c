// Package owner keeps the replicated log of a key: a few owners store it, one of them, the sequencer, numbers its
// entries, and followers copy it.
//
// The package stands between the overlay, which knows the members near a key, and the layers that poll a channel
// (corona) and deliver what changed (feedtree). A log is a chain of signed entries, each at a position
// (branch, epoch, seq). The bodies of entries have a meaning for the layers above only.
//
// # Owners, sequencer, epochs
//
// The owners of a key are the n members nearest to it; in a small network there are fewer, at least one. The
// sequencer stays until it dies or ceases to be an owner. Each change of sequencer or of owners is an epoch. A
// candidate makes it in four steps:
//
//	Prepare  the owners promise, durably, to accept no entries of older epochs,
//	         and report the head of their log
//	Pull     the candidate pulls what it lacks from the farthest head
//	Sign     the old and the new owners pull what they lack and sign the epoch
//	Commit   a quorum of both has signed: the epoch is certified and in force
//
// A quorum is more than half. An owner signs one epoch of each number and one entry at each position, ever: its
// vote is durable before the signature is sent. So each epoch of a branch has one sequencer, and an entry that a
// quorum had stored at the time of the promises is part of the new epoch. This is the vertical reconfiguration of
// Lamport, Malkhi and Zhou (2009) with votes as in Paxos.
//
// # Entries
//
// The sequencer stores an entry durably and sends it to all owners (Replicate). When a quorum including the
// sequencer has stored it, the entry is committed and a Committed event reports it. One entry is in flight at a
// time. A committed entry survives any deaths that leave one member of every quorum alive.
//
// Owners note that the last entry of a log is committed when that has been so for four heartbeats and the application has read it.
// A node that restarts shows it to readers at once, and neither sends nor reports it again. Of a later entry it hears again whether it
// is committed, and then reports it, because the layers above may not have passed it on.
//
// # Lying owners
//
// A minority of the owners may lie: refuse, campaign without end, stall, claim heads that nobody can pull, or date entries
// ahead. Votes of the others suffice, and owners that do not do their part are left out for an hour (suspicion.go, clocks.go,
// decision 023).
//
// # Leaving
//
// A sequencer that leaves in good order first makes an epoch without itself for each of its keys (HandOver). The
// nearest remaining owner becomes the sequencer within a few round trips, with all committed entries. An owner does
// the same for keys that others lead if they are no quorum without it, as with two owners: they could not make the
// epoch later, and would need a forced reconfiguration.
//
// # Many keys at once
//
// A change of one neighbour affects all keys that the two nodes share, which may be thousands. To keep their messages
// from drowning each other, the number of candidacies under way is bounded and further ones wait, requests are
// repeated with growing delays, and a candidate that no other owner can answer asks only once.
//
// # Branches
//
// If a quorum of the owners is silent for a lease, the live members nearest to the key make a forced
// reconfiguration: an epoch that only its own owners sign, and that continues from the last entry they know. It
// starts a new branch of the log. When a partition heals, two branches meet, and one of them continues: the one
// founded nearer to the key, or the older of two equals. Its sequencer pulls the other branch and appends what is
// new, and the owners and followers of the other branch then join it. If the branch that should continue lacks a
// quorum, because its owners now own the key in the other branch, it gives way and the other one continues.
//
// # Followers
//
// Any node may follow a key: it keeps the log without being an owner. It takes entries from its tree (Offer) and pulls
// what it lacks from any node that has it (Pull). An entry that comes down the tree counts as committed in
// the branch of its epoch. If a later epoch comes with it, it counts in that epoch's branch only, because a new branch
// may continue from an entry that the old branch never committed.
//
// An entry is trusted if the sequencer of a certified epoch has signed it or a later entry. A follower outside the leaf
// of the key may meet an epoch that it cannot derive from the epochs it knows. It trusts such an epoch if a quorum of
// the epoch's owners is among the members that a lookup by disjoint routes finds near the key. Made-up owners are not
// found there.
//
// # How to use it
//
// A node that keeps no log of a key finds its owners with FindOwners, or follows them with a Tracker (resolver.go,
// tracker.go).
//
// An Owners belongs to one goroutine and is driven by Receive and Run. RequestOwners gives a key owners; Append adds to
// the log of a key that this node leads. Owners reports changes by events
// (event.go). The wire format is specified in
// ownerpb/owner.proto. How entries reach followers is up to overlay/scribe, and what an item is, to the layers above.
package owner

//go:generate protoc --proto_path=ownerpb --go_out=ownerpb --go_opt=paths=source_relative ownerpb/owner.proto
