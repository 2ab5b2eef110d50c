package fetch

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"

	"code.dny.dev/ssrf"
)

var (
	// azure is the address at which virtual machines of that cloud get their secrets. It looks public,
	// and no registry lists it.
	azure = netip.MustParsePrefix("168.63.129.16/32")

	// metadata are the addresses at which machines get their secrets without a password: the link-local
	// ones, and those of Azure, Alibaba and Amazon elsewhere. No feed is there, so no setting allows
	// them.
	metadata = []netip.Prefix{
		netip.MustParsePrefix("169.254.0.0/16"),
		netip.MustParsePrefix("fe80::/10"),
		azure,
		netip.MustParsePrefix("100.100.100.200/32"),
		netip.MustParsePrefix("fd00:ec2::254/128"),
	}

	// nat64 contains IPv4 addresses as networks without IPv4 write them.
	nat64 = netip.MustParsePrefix("64:ff9b::/96")
)

// embeddings are the ways in which an IPv6 address may contain an IPv4 address, and the positions of
// its bytes. The kernel, or a gateway on the way, may extract it.
var embeddings = []struct {
	prefix netip.Prefix
	at     [4]int
	flip   byte // the bytes are XORed with it
}{
	{netip.MustParsePrefix("::/96"), [4]int{12, 13, 14, 15}, 0},           // IPv4-compatible (RFC 4291)
	{netip.MustParsePrefix("::ffff:0:0/96"), [4]int{12, 13, 14, 15}, 0},   // IPv4-mapped (RFC 4291)
	{netip.MustParsePrefix("::ffff:0:0:0/96"), [4]int{12, 13, 14, 15}, 0}, // IPv4-translated (RFC 2765)
	{nat64, [4]int{12, 13, 14, 15}, 0},                                    // NAT64 (RFC 6052)
	{netip.MustParsePrefix("64:ff9b:1::/48"), [4]int{12, 13, 14, 15}, 0},  // NAT64 with a local prefix, /96 (RFC 8215)
	{netip.MustParsePrefix("64:ff9b:1::/48"), [4]int{9, 10, 11, 12}, 0},   // the same, /64 (RFC 6052, 2.2)
	{netip.MustParsePrefix("64:ff9b:1::/48"), [4]int{7, 9, 10, 11}, 0},    // the same, /56
	{netip.MustParsePrefix("64:ff9b:1::/48"), [4]int{6, 7, 9, 10}, 0},     // the same, /48
	{netip.MustParsePrefix("2002::/16"), [4]int{2, 3, 4, 5}, 0},           // 6to4 (RFC 3056)
	{netip.MustParsePrefix("2001::/32"), [4]int{12, 13, 14, 15}, 0xff},    // Teredo (RFC 4380)
}

// embeddedIPv4 returns the IPv4 addresses that an address may contain.
func embeddedIPv4(ip netip.Addr) (addrs []netip.Addr) {
	b := ip.As16()
	for _, w := range embeddings {
		if ip.Is6() && w.prefix.Contains(ip) {
			addrs = append(addrs, netip.AddrFrom4([4]byte{b[w.at[0]] ^ w.flip, b[w.at[1]] ^ w.flip, b[w.at[2]] ^ w.flip, b[w.at[3]] ^ w.flip}))
		}
	}
	return addrs
}

// A guard decides which addresses may be dialled. It is called after names have been resolved, with the
// address to which the kernel will connect. Neither a name that changes its address nor an unusual
// spelling gets past it.
type guard struct {
	private bool // private addresses may be dialled
	own     func() []netip.Addr
	special *ssrf.Guardian // knows the registries of special addresses
}

// A refusal says that the guard refused an address.
type refusal struct {
	addr netip.AddrPort
	why  string
}

func (r refusal) Error() string { return fmt.Sprintf("%s %s", r.addr, r.why) }

func newGuard(private bool, own func() []netip.Addr) guard {
	return guard{private, own, ssrf.New(ssrf.WithDeniedV4Prefixes(azure))}
}

// DialControl returns the Control function of a net.Dialer that refuses what a client refuses to dial, but allows every port of
// public addresses. It is for connections to hosts that the node's user has named. own returns the node's addresses.
func DialControl(allowPrivate bool, own func() []netip.Addr) func(network, address string, conn syscall.RawConn) error {
	return newGuard(allowPrivate, own).anyPort
}

func (g guard) anyPort(_, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	switch {
	case err != nil:
		return err
	case isMetadata(to.Addr()):
		return refusal{to, "is a link-local address, or one of a cloud's metadata service"}
	case !g.private && !g.isPublic(to.Addr()):
		return refusal{to, "is not a public address"}
	}
	return nil
}

// control implements the Control function of a net.Dialer.
func (g guard) control(network, address string, conn syscall.RawConn) error {
	if err := g.anyPort(network, address, conn); err != nil {
		return err
	}
	to, err := netip.ParseAddrPort(address)
	if err == nil && to.Port() != 80 && to.Port() != 443 && g.isPublic(to.Addr()) {
		return refusal{to, "has another port than 80 and 443, and public web servers are polled only there"}
	}
	return err
}

// isPublic reports whether an address is public and not one of this machine.
func (g guard) isPublic(ip netip.Addr) bool {
	ip = unwrap(ip)
	return g.special.SafeAddr(ip) == nil && !g.isOwn(ip)
}

// isMetadata reports whether an address is, or may contain, one that is never dialled.
func isMetadata(ip netip.Addr) bool {
	ip = ip.WithZone("")
	return slices.ContainsFunc(append(embeddedIPv4(ip), ip.Unmap()), func(ip netip.Addr) bool {
		return slices.ContainsFunc(metadata, func(p netip.Prefix) bool { return p.Contains(ip) })
	})
}

// unwrap returns the IPv4 address that an address contains, or the address itself.
func unwrap(ip netip.Addr) netip.Addr {
	ip = ip.Unmap().WithZone("")
	if nat64.Contains(ip) {
		b := ip.As16()
		ip = netip.AddrFrom4([4]byte(b[12:]))
	}
	return ip
}

// isOwn reports whether an address is one of this machine, behind whose firewall private services may
// answer.
func (g guard) isOwn(ip netip.Addr) bool {
	if g.own != nil {
		for _, own := range g.own() {
			if own.Unmap().WithZone("") == ip {
				return true
			}
		}
	}
	interfaces, err := net.InterfaceAddrs()
	if err != nil {
		return false // the registries of special addresses still apply
	}
	for _, a := range interfaces {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Unmap() == ip {
			return true
		}
	}
	return false
}
