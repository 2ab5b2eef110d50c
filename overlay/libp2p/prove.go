package libp2p

import (
	"context"
	"slices"

	"github.com/libp2p/go-libp2p/core/peer"

	"tidings/internal/env"
)

// maxProofs bounds the peers that are dialled at the same time to find out whether they are where they say. Further ones are
// not reached, and are tried again with their next message: peers that nobody can reach must not keep others waiting.
const maxProofs = 8

// Prove implements env.Prover, except that it calls done from a goroutine of its own. A connection from or to one of the
// peer's addresses is a proof: both transports make sure that the other end receives at the address it sends from.
// Without one, Prove dials the addresses, at most maxDialBackTries of them.
func (h *Host) Prove(p env.Peer, done func(addr string)) {
	h.background(func() { done(h.provenAddr(p)) })
}

func (h *Host) provenAddr(p env.Peer) string {
	id := peer.ID(p.ID)
	addrs := p.Addrs[:min(len(p.Addrs), maxDialBackTries)]
	for _, c := range h.host.Network().ConnsToPeer(id) {
		ip, ok := ipOf(c.RemoteMultiaddr())
		i := slices.IndexFunc(addrs, func(a string) bool {
			e, valid := parseEndpoint([]byte(a))
			return ok && valid && e.ip == ip
		})
		if i >= 0 {
			return addrs[i]
		}
	}
	select {
	case h.proofSlots <- struct{}{}:
		defer func() { <-h.proofSlots }()
	default:
		return ""
	}
	for _, a := range addrs {
		e, ok := parseEndpoint([]byte(a))
		if !ok || !h.gater.allowed(e.ip) {
			continue
		}
		ctx, cancel := context.WithTimeout(h.ctx, dialBackTime)
		d, err := connectAnew(ctx, id, e.multiaddr())
		cancel()
		if err == nil {
			_ = d.Close()
			return a
		}
		h.log.Debug("peer was not reached at an address of its id", "peer", id, "addr", e.multiaddr(), "err", err)
	}
	return ""
}
