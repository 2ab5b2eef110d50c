package libp2p

import (
	"fmt"
	"net/netip"

	ma "github.com/multiformats/go-multiaddr"
)

// An endpoint is an address at which a host can be dialled: an IP address and a port of TCP or QUIC. The
// unspecified IP address stands for the address at which the peer sees the sender.
type endpoint struct {
	ip   netip.Addr
	port uint16 // never 0
	quic bool
}

// parseEndpoint parses a binary multiaddr. It returns false if the multiaddr is not an endpoint.
func parseEndpoint(b []byte) (endpoint, bool) {
	a, err := ma.NewMultiaddrBytes(b)
	if err != nil {
		return endpoint{}, false
	}
	return endpointOf(a)
}

func endpointOf(a ma.Multiaddr) (endpoint, bool) {
	quic := len(a) == 3 && a[1].Code() == ma.P_UDP && a[2].Code() == ma.P_QUIC_V1
	tcp := len(a) == 2 && a[1].Code() == ma.P_TCP
	if !quic && !tcp || a[0].Code() != ma.P_IP4 && a[0].Code() != ma.P_IP6 {
		return endpoint{}, false
	}
	ip, ok := netip.AddrFromSlice(a[0].RawValue())
	port := a[1].RawValue()
	if !ok || len(port) != 2 {
		return endpoint{}, false
	}
	e := endpoint{ip.Unmap(), uint16(port[0])<<8 | uint16(port[1]), quic}
	return e, e.port > 0
}

// withoutIP returns the endpoint with the unspecified IP address.
func (e endpoint) withoutIP() endpoint {
	if e.ip.Is4() {
		e.ip = netip.IPv4Unspecified()
	} else {
		e.ip = netip.IPv6Unspecified()
	}
	return e
}

// matches reports whether f may be the endpoint e as seen from outside.
func (e endpoint) matches(f endpoint) bool {
	return e == f || e.ip.IsUnspecified() && e == f.withoutIP()
}

func (e endpoint) multiaddr() ma.Multiaddr {
	family, rest := "ip6", "tcp/%d"
	if e.ip.Is4() {
		family = "ip4"
	}
	if e.quic {
		rest = "udp/%d/quic-v1"
	}
	a, err := ma.NewMultiaddr(fmt.Sprintf("/%s/%v/"+rest, family, e.ip, e.port))
	if err != nil {
		panic(fmt.Sprintf("libp2p: endpoint %v: %v", e, err)) // e.ip has no zone because it was made from 4 or 16 bytes
	}
	return a
}
