package libp2p

import (
	"net/netip"
	"testing"
)

func TestPrivateAddressesInAllSpellings(t *testing.T) {
	for _, s := range []string{
		"0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "100.127.255.255", "127.0.0.1", "127.255.0.1",
		"169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.8", "192.0.2.1", "192.168.1.1",
		"198.18.0.1", "198.19.255.255", "198.51.100.7", "203.0.113.9", "224.0.0.1", "240.0.0.1",
		"255.255.255.255", "168.63.129.16",
		"::", "::1", "::127.0.0.1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1",
		"64:ff9b:1::1", "100::1", "2001::1", "2001:db8::1", "2002:7f00:1::", "fc00::1", "fd12::1",
		"fe80::1", "fe80::1%eth0", "fec0::1", "ff02::1",
	} {
		if isPublic(netip.MustParseAddr(s)) {
			t.Errorf("%s is called public", s)
		}
	}
	for _, s := range []string{"1.1.1.1", "8.8.8.8", "100.63.255.255", "172.32.0.1", "193.0.0.1", "2a00:1450::1", "2606:4700::1111", "::ffff:8.8.8.8"} {
		if !isPublic(netip.MustParseAddr(s)) {
			t.Errorf("%s is called private", s)
		}
	}
	if isPublic(netip.Addr{}) {
		t.Error("no address is called public")
	}
}
