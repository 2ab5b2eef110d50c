// Package libp2p carries the overlay's frames between real machines. It is the
// only package that knows go-libp2p, its kad-dht and its GossipSub.
//
//	Host      an env.Network            New, Join, Run, Send, Blame
//	link      one peer and class, out   queue, dial, handshake, write
//	inbound   one peer and class, in    handshake, read, limits
//	idle      connections of no use     closed after a while
//	topics    a few fat groups          GossipSub; the node judges each frame
//	ledger    what peers did            budgets, faults, refusals, gates
//	discover  first peers               bootstrap, known peers, kad-dht, mDNS
//	reach     can others dial us        asks peers to dial back
//
// # Links
//
// A link is one long-lived stream for each direction and class, over QUIC or
// TCP; the protocol id tells the class. Its first sender opens it with a Hello
// of package wire and sends frames after a Welcome; nothing comes back on it.
// It is closed after three minutes without a frame. Frames wait in a bounded
// queue, oldest dropped first, and those that are urgent in one of their own, which
// goes first; nothing blocks the sender, and nobody says what was lost except
// [Host.Stats]. A link sends half of what its peer takes (ledger.go);
// what is sent beyond that is read when its turn comes, and is held against nobody.
// A connection that has carried no link for long is closed too (idle.go).
//
//	/tidings/overlay/1/control    Hello, Frame...
//	/tidings/overlay/1/bulk       Hello, Frame...
//	/tidings/dialback/1           libp2ppb.DialBack, its reply
//	/tidings/dialback-nonce/1     libp2ppb.Nonce
//	/tidings/<network>/kad/1.0.0  kad-dht, for rendezvous only
//
// # Members and clients
//
// A host can be a member of the overlay when a peer dialled one of its addresses
// back. It asks its neighbours for that itself instead of using AutoNAT: only
// peers of this network count, private addresses count where the network allows
// them, and there is one notion of reachability, which kad-dht is told too.
// There are no relays and no hole punching: who cannot be dialled is a client,
// which dials its members and needs neither. A router is asked for a port.
//
// # Use
//
//	h, err := libp2p.New(config)
//	if config.Descriptor == nil {
//		descriptor, err = h.Join(ctx) // from the first peer that welcomes us
//	}
//	err = h.Run(ctx, libp2p.Events{...}) // until ctx ends; then the host is closed
//
// The package leaves to others what frames mean, who should be a neighbour, and
// which peers are kept for the next start.
package libp2p

//go:generate protoc --proto_path=libp2ppb --go_out=libp2ppb --go_opt=paths=source_relative libp2ppb/dialback.proto
