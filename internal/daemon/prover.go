package daemon

import (
	"tidings/internal/env"
	"tidings/internal/loop"
	"tidings/overlay/libp2p"
)

// prover implements [env.Prover]: results come to the node's loop.
type prover struct {
	host *libp2p.Host
	loop *loop.Loop
}

var _ env.Prover = prover{}

// Prove finds out whether a peer is at one of its addresses.
func (p prover) Prove(peer env.Peer, done func(addr string)) {
	p.host.Prove(peer, func(addr string) { p.loop.Deliver(func() { done(addr) }) })
}
