// Package libp2p carries the overlay's frames between real machines. It is the only package that imports go-libp2p,
// its kad-dht and its GossipSub.
//
//	Host          an env.Network          New, Join, Run, Send, Blame
//	link          one peer and class, out  queue, dial, handshake, write
//	inbound       one peer and class, in   handshake, read, limits
//	idle          idle connections         closed after a while
//	slots         too many connections     evicts useless inbound ones
//	topics        a few large groups       GossipSub; the node validates each frame
//	reputation    how peers behaved        rate limits, violations, refusals, blocked peers
//	discover      first peers              bootstrap, known peers, kad-dht, mDNS
//	reachability  can others dial us       asks peers to dial back
//	addresses     the machine moved        closes connections from lost addresses
//
// # Links
//
// A link is one long-lived stream for one direction and class, over QUIC or TCP. The protocol id names the class.
// The peer that opens the stream sends a Hello of package wire, and sends frames after a Welcome; nothing is sent
// in the other direction after that. A link is closed after three minutes without a frame. Frames wait in a bounded
// queue, from which the oldest is dropped first. Urgent frames wait in a queue of their own and are sent first.
// Sending never blocks, and lost frames are reported only in [Host.Stats]. A link sends at most half of what its
// peer accepts (reputation.go). If a peer sends more than this host accepts, the host reads it later, and does not
// hold that against the peer. A connection that has carried no link for long is closed, too (idle.go).
//
//	/tidings/overlay/1/control    Hello, Frame...
//	/tidings/overlay/1/bulk       Hello, Frame...
//	/tidings/dialback/1           libp2ppb.DialBack, its reply
//	/tidings/dialback-nonce/1     libp2ppb.Nonce
//	/tidings/<network>/kad/1.0.0  kad-dht, for rendezvous only
//
// # Members and clients
//
// A host can be a member of the overlay after a peer has dialled one of its addresses back. The host asks its
// neighbours for that instead of using AutoNAT. Thus only peers of this network count, private addresses count
// where the network allows them, and there is one notion of reachability, which kad-dht is told, too. There are no
// relays and no hole punching: a node that cannot be dialled is a client, which dials its members and needs
// neither. The router is asked to forward a port.
//
// # Use
//
//	h, err := libp2p.New(config)
//	if config.Descriptor == nil {
//		descriptor, err = h.Join(ctx) // from the first peer that welcomes us
//	}
//	err = h.Run(ctx, libp2p.Events{...}) // until ctx ends; then the host is closed
//
// The package does not decide what frames mean, which peers should be neighbours, or which peers are kept for the
// next start.
package libp2p

//go:generate protoc --proto_path=libp2ppb --go_out=libp2ppb --go_opt=paths=source_relative libp2ppb/dialback.proto
