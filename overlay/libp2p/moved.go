package libp2p

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	manet "github.com/multiformats/go-multiaddr/net"
)

// addressEvery is how often a host looks whether its machine's addresses have changed: a laptop in another
// network, a new lease. The system tells nothing to what only listens, and a connection from an address that is
// gone looks alive until its peer has been silent for long.
const addressEvery = 5 * time.Second

// watchAddresses looks for changes of the machine's addresses until ctx ends.
func (h *Host) watchAddresses(ctx context.Context) {
	before := machineAddresses()
	tick := time.NewTicker(addressEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := machineAddresses()
		if now == nil || slices.Equal(before, now) {
			continue
		}
		var lost []netip.Addr
		for _, a := range before {
			if !slices.Contains(now, a) {
				lost = append(lost, a)
			}
		}
		before = now
		h.moved(lost)
	}
}

// machineAddresses returns the addresses of the machine's interfaces in order; nil if they are not known now.
func machineAddresses() []netip.Addr {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil
	}
	of := []netip.Addr{}
	for _, a := range all {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			of = append(of, p.Addr().Unmap())
		}
	}
	slices.SortFunc(of, netip.Addr.Compare)
	return slices.Compact(of)
}

// moved closes the connections that began at addresses which are gone, so that their links dial anew from where
// the machine is now, and has the host proven reachable at its new addresses.
func (h *Host) moved(lost []netip.Addr) {
	closed := 0
	if len(lost) > 0 {
		h.movedAt.Store(time.Now().UnixNano())
		var closing sync.WaitGroup
		for _, c := range h.host.Network().Conns() {
			if strandedAt(c, lost) {
				closed++
				closing.Go(func() { _ = c.Close() }) // it is dead already
			}
		}
		closing.Wait()
		h.reach.leave(lost)
	}
	h.log.Info("this machine's addresses changed", "lost", len(lost), "closed", closed)
	h.links.wakeAll()
	select {
	case h.movedOn <- struct{}{}:
	default: // it is noted already
	}
	if e := h.events.Load(); e != nil && e.Moved != nil {
		e.Moved()
	}
}

// hasMoved says whether connections that end now do so because the machine has other addresses: the peers live.
func (h *Host) hasMoved() bool {
	return time.Since(time.Unix(0, h.movedAt.Load())) < addressEvery
}

// strandedAt says whether a connection began at one of some addresses. QUIC does not say where one began if its
// socket is bound to all addresses: such a connection may be one of them, and is made anew in a moment.
func strandedAt(c network.Conn, lost []netip.Addr) bool {
	ip, err := manet.ToIP(c.LocalMultiaddr())
	if err != nil {
		return false
	}
	a, ok := netip.AddrFromSlice(ip)
	return ok && (slices.Contains(lost, a.Unmap()) || a.IsUnspecified())
}

// leaveBehind closes a connection to a peer that has begun to speak from another address in its place. The older one
// is most likely dead, and takes for long what is sent on it.
func (h *Host) leaveBehind(older, newer network.Conn) {
	was, err := manet.ToIP(older.RemoteMultiaddr())
	if err != nil {
		return
	}
	if is, err := manet.ToIP(newer.RemoteMultiaddr()); err == nil && !is.Equal(was) {
		h.aside(func() { _ = older.Close() }) // it is dead already
	}
}
