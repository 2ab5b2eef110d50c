// Package sums adds up a value of every member, each once.
//
// It is the aggregation of Corona (Ramasubramanian, Peterson and Sirer, NSDI 2006, §3.2,
// §3.3): "each node aggregates the clusters of its contacts in a row". What a value means is
// for the layer above to say (Adder); here it is bytes.
//
// # Each once
//
// A part is a piece of the network for which one answer speaks. The parts of a member are
//
//   - the other members of its leaf, each by itself, asked for their own values;
//   - the slots of its table beyond the leaf. A slot in row r holds all members that share
//     r+1 digits with whoever stands there, so that one is asked for its sum over them.
//
// Leaf and slots are disjoint and make up the id space: own value and parts together hold
// each member once. With A_x[l] for the sum over the members that share l digits with x,
//
//	A_x[l] = own values of those of x's leaf that share l digits with x
//	         + Σ A_contact[r+1] over the slots of rows r ≥ l
//
// which is what x answers when it is asked for l digits. It needs only answers for more
// digits, so that nothing goes round in a circle.
//
// # When
//
// Every member asks for all its parts once in a maintenance interval. A value thus takes as
// many intervals to reach everybody as the table has rows, and one for the leaf. After
// joining, and when much has changed at once, there are quick rounds, some ten seconds
// apart; then the time from one to the next doubles, up to the interval: what came to others a
// little later is heard of soon, too. A new part is asked at once. That is as long as somebody wants to know: who has no
// value himself, nor wants the sum, asks only for what he is asked for (want.go).
//
//	want.go     what is asked for, as long as it is wanted
//	parts.go    the parts, and who is asked for each
//	round.go    when they are asked, and asked again
//	answer.go   what is answered: the value, or that it is what the asker has
//	believe.go  which values count
//
// The last value of a part is kept until nobody has confirmed it for some intervals. A lost
// answer, or a contact that died and was replaced, thus changes nothing. Who is asked for a
// slot is asked again as long as it lives: other members of the slot have the same sum, but
// added up in another order, and at other times.
//
// # What a liar can do
//
// A member that lies can claim any value for itself, and for the part of the network for
// which it is asked: by one in sixteen of all others for a sixteenth of the network. What
// the Adder refuses does not count, and what lies far beside the rest of the row neither, where the row
// tells enough to say so: then the median of the row stands in its place, and
// somebody else is asked from then on, if the table knows anybody. A claim within that
// distance (tolerance) is believed.
//
// # How to use it
//
// A Sums is an overlay.Application for one goroutine, driven by Receive and Run. Set the own
// value; Rest is the sum of all others'. The wire specification is sumspb/sums.proto.
//
// The package leaves to the layer above what values mean, when they are out of date, and
// what is done with their sum.
package sums

//go:generate protoc --proto_path=sumspb --go_out=sumspb --go_opt=paths=source_relative sumspb/sums.proto
