// Package relay carries the frames of a reader who is not to be seen by the members that know what it reads.
//
// A quiet follower is a client of the network with a key of its own, made for one subscription (internal/node). All
// that it sends and receives goes through a circuit of two members:
//
//	reader ◄── sealed ──► middle ◄── sealed ──► exit ◄── frames ──► any member
//
// The middle knows the reader and the exit, and passes on sealed frames of a few sizes. The exit opens them. It knows
// the middle, the guest (the key made for the subscription) and what the guest says; it does not know the reader. To
// all other members the guest is a client, whose link leads to the exit. So no member knows both the reader and the
// feed, unless middle and exit are one attacker's.
//
// # Keys
//
// The reader and the exit agree on keys by HPKE (RFC 9180): the exit makes an X25519 key for each circuit, signs it with
// its identity, and sends it through the middle, which cannot replace it. A guest signs a voucher that names the exit and a
// secret of the circuit, which only the two ends know until then. Members believe an exit only with it, and the exit believes it
// only in that circuit, since all members that the guest talks to have a copy.
//
// # Failures
//
// Frames may be lost, as on every link. A reader that hears nothing from the exit for tunnelSilence opens another
// circuit, through other members, with the same guest. Each member bounds its circuits and their bytes; one that has no
// room refuses, and the reader tries others.
//
// # How to use it
//
// A Relay belongs to one goroutine. It stands between the layers of a node and its network: what a layer sends to a
// guest goes to the guest's exit. Open returns a Tunnel, which is the network of one guest. The wire specification is
// relaypb/relay.proto.
package relay

//go:generate protoc --proto_path=relaypb --go_out=relaypb --go_opt=paths=source_relative relaypb/relay.proto
