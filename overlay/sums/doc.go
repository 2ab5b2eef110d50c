// Package sums aggregates a value over all members of the network, counting each member once.
//
// It is the aggregation of Corona (Ramasubramanian, Peterson and Sirer, NSDI 2006, §3.2,
// §3.3): "each node aggregates the clusters of its contacts in a row". The layer above defines
// the meaning of a value (Adder); here a value is bytes.
//
// # How each member counts once
//
// A part is a piece of the network that one answer covers. The parts of a member are
//
//   - the other members of its leaf, each of which is asked for its own value;
//   - the slots of its routing table beyond the leaf. A slot in row r covers all members that
//     share r+1 digits with the contact in the slot, so the contact is asked for its sum over
//     them.
//
// Leaf and slots are disjoint and cover the id space, so a member's own value and its parts
// together contain each member once. With A_x[l] for the sum over the members that share l
// digits with x,
//
//	A_x[l] = own values of the members of x's leaf that share l digits with x
//	         + Σ A_contact[r+1] over the slots of rows r ≥ l
//
// which is the answer of x to a request for l digits. An answer depends only on answers for
// more digits, so there are no cycles.
//
// # Rounds
//
// Every member requests all its parts once in a maintenance interval. A value reaches everybody
// after as many intervals as the table has rows, plus one for the leaf. After a node has joined,
// and when much has changed at once, there are five quick rounds about ten seconds apart. Then
// the time between rounds doubles up to the maintenance interval, so that a node also learns
// soon what reached its contacts a little later. A new part is requested at once.
//
// Nodes aggregate only on demand. A node without a value of its own, whose layer above does not
// ask for the total, requests only the parts that its answers need (demand.go).
//
//	demand.go     which sums are wanted, and for how long
//	parts.go      the parts, and the contact that is asked for each
//	round.go      rounds of requests, retries, and responses that arrive
//	respond.go    responses to the requests of others
//	plausible.go  which values count
//
// The last value of a part is kept until it has not been confirmed for some intervals, so a lost
// answer or a contact that died and was replaced changes nothing. The contact of a slot stays
// the same as long as it lives. Other members of the slot have the same sum, but their floats
// were added in another order and at other times.
//
// # What a liar can do
//
// A member that lies can report any value for itself and for the part of the network for which
// it is asked. One in sixteen of all other nodes asks it for a sixteenth of the network. A value
// that the Adder refuses does not count. A value far outside its row does not count either, if
// the row is large enough to tell: the median of the row replaces it, and another contact is
// asked from then on if the table has one. A value within that distance (tolerance) is
// believed.
//
// # How to use it
//
// An Aggregator is an overlay.Application for one goroutine, driven by Receive and Run. Set sets
// the node's own value; Remote returns the sum of all other members' values. The wire
// specification is sumspb/sums.proto.
//
// The layer above decides what values mean, when they are out of date, and what is done with
// the sum.
package sums

//go:generate protoc --proto_path=sumspb --go_out=sumspb --go_opt=paths=source_relative sumspb/sums.proto
