package libp2p

import (
	"fmt"
	"net/netip"

	ma "github.com/multiformats/go-multiaddr"
)

// An endpoint is a place a host can be dialled at: an IP address and a port of
// TCP or QUIC. The unspecified IP address means: where you see me.
type endpoint struct {
	ip   netip.Addr
	port uint16 // not 0
	quic bool
}

// parseEndpoint reads a binary multiaddr; false if it is anything else.
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

// anywhere returns the endpoint with the unspecified IP address.
func (e endpoint) withoutIP() endpoint {
	if e.ip.Is4() {
		e.ip = netip.IPv4Unspecified()
	} else {
		e.ip = netip.IPv6Unspecified()
	}
	return e
}

// is says whether e, seen from outside, may be the endpoint f.
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
		panic(fmt.Sprintf("libp2p: endpoint %v: %v", e, err)) // it has no zone: it came from four or sixteen bytes
	}
	return a
}
