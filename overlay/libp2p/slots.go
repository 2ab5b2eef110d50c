package libp2p

import (
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"

	"tidings/internal/env"
)

// Anybody can hold some of the few connections that a host has. So that no attacker can fill a host, the last
// newcomerSlots of them are kept free. When more are in use, the host closes the inbound connections that are least
// useful. The node says which peers are useful. Frames alone do not prove that, because a probe costs its sender
// nothing. Among the others, connections from the fullest address blocks are closed first, as in Bitcoin Core, and
// then those that have been silent for longest.

const (
	// newcomerSlots is how many connections are kept free for new peers: as many as may arrive while the node is
	// asked which of the others are useful.
	newcomerSlots = 64
	evictAbove    = maxConns - newcomerSlots

	// blockShare is how many connections an address block (IPv4 /24, IPv6 /48) may keep when slots are scarce, even
	// if all of them are useful. A host with free slots does not apply it, because the nodes of a test network
	// share one address. Private and loopback blocks are no exception.
	blockShare = maxConns / 8

	// newcomerGrace is how long a connection may take to become useful. A join takes some seconds.
	newcomerGrace = 15 * time.Second

	// usefulTimeout is how long the node may take to say which peers are useful. After that its previous answer
	// counts, so that a peer that floods the node cannot get the others closed.
	usefulTimeout = 2 * time.Second

	// blockHandshakes is how many of the maxHandshakes one address block may have in progress. pendingHandshakeTime
	// is how long a handshake is counted if its end is not noticed, as when the peer gives up.
	blockHandshakes      = maxHandshakes * 3 / 4
	pendingHandshakeTime = 15 * time.Second
	// maxPendingHandshakes bounds the handshakes that are remembered. At the bound all are forgotten: at most
	// maxHandshakes are really in progress, so most of the others were given up.
	maxPendingHandshakes = 1024
)

// blockOf returns the address block of an address.
func blockOf(a ma.Multiaddr) netip.Prefix {
	ip, ok := ipOf(a)
	if !ok {
		return netip.Prefix{}
	}
	bits := 24
	if ip.Is6() {
		bits = 48
	}
	block, err := ip.WithZone("").Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return block
}

// An inboundConn is a connection that a peer opened.
type inboundConn struct {
	peer      peer.ID
	block     netip.Prefix
	since     time.Time
	lastFrame time.Time // when the node last accepted a frame from the peer; zero if never
	useful    bool      // the node's last answer
}

// evictionRank returns how soon a connection may be evicted, 0 first. ok is false if the connection stays.
func (c inboundConn) rank(inBlock int, now time.Time) (rank int, ok bool) {
	isNew := now.Sub(c.since) < newcomerGrace
	switch {
	case !c.useful && (!isNew || inBlock > blockShare):
		return 0, true
	case inBlock > blockShare:
		return 1, true
	case !c.useful:
		return 2, true
	}
	return 0, false
}

// before reports whether a connection is evicted before another of the same rank.
func (c inboundConn) before(other inboundConn, inBlock, inOther int) bool {
	switch {
	case inBlock != inOther:
		return inBlock > inOther
	case c.useful != other.useful:
		return other.useful
	case c.useful:
		return c.since.After(other.since) // the connection that has been useful for longer stays
	case !c.lastFrame.Equal(other.lastFrame):
		return c.lastFrame.Before(other.lastFrame)
	}
	return c.since.Before(other.since)
}

// evict chooses up to n connections, and returns their indices.
func evict(conns []inboundConn, n int, now time.Time) (out []int) {
	blocks := map[netip.Prefix]int{}
	for _, c := range conns {
		blocks[c.block]++
	}
	chosen := make([]bool, len(conns))
	for range n {
		worst, worstRank := -1, 0
		for i, c := range conns {
			rank, ok := c.rank(blocks[c.block], now)
			if chosen[i] || !ok {
				continue
			}
			if worst < 0 || rank < worstRank || rank == worstRank && c.before(conns[worst], blocks[c.block], blocks[conns[worst].block]) {
				worst, worstRank = i, rank
			}
		}
		if worst < 0 {
			break
		}
		chosen[worst] = true
		blocks[conns[worst].block]--
		out = append(out, worst)
	}
	return out
}

// slots holds the connections of a host.
type slots struct {
	mu        sync.Mutex
	all       map[network.Conn]netip.Addr   // in both directions, with the local address of each
	inbound   map[network.Conn]*inboundConn // connections that peers opened
	lastFrame map[peer.ID]time.Time         // when the node last accepted a frame from the peer
	evicting  bool                          // an eviction is in progress
}

func (s *slots) init() {
	s.all = map[network.Conn]netip.Addr{}
	s.inbound, s.lastFrame = map[network.Conn]*inboundConn{}, map[peer.ID]time.Time{}
}

// watchSlots keeps track of connections, and makes room for newcomers.
func (h *Host) watchSlots() {
	h.host.Network().Notify(&network.NotifyBundle{
		ConnectedF: func(_ network.Network, c network.Conn) {
			h.gater.pending.done(c.RemoteMultiaddr())
			h.slots.add(c, localAddress(c), time.Now())
			h.reviewInbound(evictAbove + 1)
		},
		DisconnectedF: func(n network.Network, c network.Conn) {
			h.slots.remove(c, n.Connectedness(c.RemotePeer()) == network.Connected)
		},
	})
}

func (s *slots) add(c network.Conn, local netip.Addr, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all[c] = local
	if c.Stat().Direction == network.DirInbound {
		s.inbound[c] = &inboundConn{peer: c.RemotePeer(), block: blockOf(c.RemoteMultiaddr()), since: now}
	}
}

func (s *slots) remove(c network.Conn, hasOthers bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, c)
	delete(s.inbound, c)
	if !hasOthers {
		delete(s.lastFrame, c.RemotePeer())
	}
}

// withLocalAddr returns those of the connections whose local address is in addrs.
func (s *slots) withLocalAddr(conns []network.Conn, addrs []netip.Addr) (found []network.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range conns {
		if local, ok := s.all[c]; ok && slices.Contains(addrs, local) {
			found = append(found, c)
		}
	}
	return found
}

// noteFrame records that the node has accepted a frame from a peer.
func (s *slots) noteFrame(p peer.ID, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastFrame[p] = now
}

// reviewInbound asks the node which peers are useful, if there are at least so many connections, and closes the
// excess. It works in the background.
func (h *Host) reviewInbound(atLeast int) {
	s := &h.slots
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.all) < atLeast || s.evicting {
		return
	}
	s.evicting = true
	h.background(func() {
		for h.evictExcess() {
		}
	})
}

// evictExcess closes the connections above the limit, the least useful first. It reports whether more arrived while
// the node was asked.
func (h *Host) evictExcess() (again bool) {
	conns, ids := h.slots.inboundPeers()
	useful := h.askUseful(ids)
	out, again := h.slots.evict(conns, useful, time.Now())
	for _, c := range out {
		h.count.evicted.Add(1)
		h.log.Debug("connection closed to make room", "peer", c.RemotePeer(), "addr", c.RemoteMultiaddr())
		// The connection manager may be closing the same connection, which takes up to 10 s if the peer reads
		// nothing. The next pass must not wait for that.
		h.background(func() { _ = c.Close() })
	}
	return again
}

// inboundPeers returns the connections that peers opened, and the ids of these peers.
func (s *slots) inboundPeers() (conns []network.Conn, ids []env.PeerID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c, inbound := range s.inbound {
		conns, ids = append(conns, c), append(ids, env.PeerID(inbound.peer))
	}
	return conns, ids
}

// evict chooses the connections to close among those that the node was asked about, and forgets them. useful is nil
// if the node did not answer. again reports that there are still too many connections, because others have arrived.
func (s *slots) evict(conns []network.Conn, useful []bool, now time.Time) (out []network.Conn, again bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	candidates := make([]inboundConn, 0, len(conns))
	candidateConns := make([]network.Conn, 0, len(conns))
	for i, c := range conns {
		if inbound := s.inbound[c]; inbound != nil {
			if i < len(useful) {
				inbound.useful = useful[i]
			}
			candidate := *inbound
			candidate.lastFrame = s.lastFrame[inbound.peer]
			candidates, candidateConns = append(candidates, candidate), append(candidateConns, c)
		}
	}
	asked := len(candidates)
	for _, i := range evict(candidates, len(s.all)-evictAbove, now) {
		out = append(out, candidateConns[i])
		delete(s.all, candidateConns[i])
		delete(s.inbound, candidateConns[i])
	}
	s.evicting = len(s.all) > evictAbove && len(s.inbound) > asked-len(out)
	return out, s.evicting
}

// askUseful asks the node which peers are useful. It returns nil if the node does not answer.
func (h *Host) askUseful(ids []env.PeerID) []bool {
	e := h.events.Load()
	if e == nil || e.Useful == nil {
		return nil
	}
	answer := make(chan []bool, 1)
	if !e.Useful(ids, func(useful []bool) { answer <- useful }) {
		return nil
	}
	timer := time.NewTimer(usefulTimeout)
	defer timer.Stop()
	select {
	case useful := <-answer:
		return useful
	case <-timer.C:
	case <-h.ctx.Done():
	}
	return nil
}

// pendingHandshakes holds the handshakes of inbound connections in progress, by remote address.
type pendingHandshakes struct {
	mu     sync.Mutex
	byAddr map[string]pendingHandshake
}

type pendingHandshake struct {
	block netip.Prefix
	since time.Time
}

// begin records a handshake, and reports whether it may proceed. An address block may have only blockHandshakes.
func (p *pendingHandshakes) begin(a ma.Multiaddr, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	block, inBlock := blockOf(a), 0
	for key, h := range p.byAddr {
		switch {
		case now.Sub(h.since) > pendingHandshakeTime:
			delete(p.byAddr, key)
		case h.block == block:
			inBlock++
		}
	}
	if inBlock >= blockHandshakes {
		return false
	}
	if p.byAddr == nil || len(p.byAddr) >= maxPendingHandshakes {
		p.byAddr = map[string]pendingHandshake{}
	}
	p.byAddr[a.String()] = pendingHandshake{block, now}
	return true
}

// done records that a handshake has ended.
func (p *pendingHandshakes) done(a ma.Multiaddr) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.byAddr, a.String())
}
