package overlay

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay/overlaypb"
)

// newRecord signs a record in a network of key ids.
func newRecord(network string, s *wire.Signer, addrs []string, issued time.Time, member bool) *Contact {
	return identitiesOf(network, nil).newRecord(s, addrs, issued, member, place{})
}

// openRecord opens a record in a network of key ids.
func openRecord(network string, v wire.Verifier, raw []byte) (*Contact, error) {
	return identitiesOf(network, v).openRecord(raw)
}

func identitiesOf(network string, v wire.Verifier) *identities {
	in := newIdentities(wire.DefaultNetwork(network), v)
	return &in
}

// at returns a multiaddr in binary form: IP address and UDP port.
func at(ip string) string {
	a := netip.MustParseAddr(ip)
	code := byte(0x04)
	if a.Is6() {
		code = 0x29
	}
	return string([]byte{code}) + string(a.AsSlice()) + "\x91\x02\x12\xc1"
}

// kindOf returns the ids of a network of a kind, with an authority for certificates, and a node's signer.
func kindOf(kind string) (in *identities, authority, node *wire.Signer) {
	key := func(b byte) ed25519.PrivateKey {
		return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{b}, ed25519.SeedSize))
	}
	n := wire.DefaultNetwork("kinds")
	if n.IDs = kind; kind == wire.CertificateIDs {
		n.Authorities = wire.JoinAuthorities(key(1).Public().(ed25519.PublicKey), key(2).Public().(ed25519.PublicKey))
	}
	hash := wire.HashOf(n.Descriptor())
	of := newIdentities(n, wire.NewVerifier(hash))
	return &of, wire.NewSigner(key(1), hash), wire.NewSigner(key(3), hash)
}

var today = time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC)

func TestBlocksOfAddresses(t *testing.T) {
	for ip, want := range map[string]string{
		"203.0.113.7":        "203.0.113.0/24 203.0.0.0/16",
		"::ffff:203.0.113.7": "203.0.113.0/24 203.0.0.0/16",
		"2001:db8:1:2::7":    "2001:db8:1::/48 2001:db8::/32",
	} {
		b := BlockOf(netip.MustParseAddr(ip))
		if got := b.String() + " " + providerOf(b).String(); got != want {
			t.Errorf("%s: %s, want %s", ip, got, want)
		}
	}
	for _, bad := range []string{"", "\x04", "\x04\x01\x02\x03", "\x29short", "sim\x00\x00", "\x36\x04host"} {
		if a := addressOf(bad); a.IsValid() {
			t.Errorf("%q has address %v", bad, a)
		}
	}
}

func TestANodeKeepsItsBlock(t *testing.T) {
	home, v6, lan, loop := at("203.0.113.7"), at("2001:db8:1:2::7"), at("192.168.1.7"), at("127.0.0.1")
	block := func(s string) netip.Prefix { return netip.MustParsePrefix(s) }
	for _, c := range []struct {
		name    string
		addrs   []string
		present netip.Prefix
		want    netip.Prefix
		within  int
	}{
		{"public before private", []string{lan, home}, netip.Prefix{}, block("203.0.113.0/24"), 1},
		{"IPv4 before IPv6", []string{v6, home}, netip.Prefix{}, block("203.0.113.0/24"), 1},
		{"public IPv6 before private IPv4", []string{lan, v6}, netip.Prefix{}, block("2001:db8:1::/48"), 1},
		{"the present one before all", []string{home, v6}, block("2001:db8:1::/48"), block("2001:db8:1::/48"), 1},
		{"two addresses of a block", []string{home, at("203.0.113.9"), v6}, netip.Prefix{}, block("203.0.113.0/24"), 2},
		{"the present one is lost", []string{home}, block("2001:db8:1::/48"), block("203.0.113.0/24"), 1},
		{"a laboratory", []string{loop}, netip.Prefix{}, block("127.0.0.0/24"), 1},
		{"none", nil, block("203.0.113.0/24"), netip.Prefix{}, 0},
	} {
		got, within := chooseBlock(c.addrs, c.present)
		if got != c.want || len(within) != c.within {
			t.Errorf("%s: %v and %d addresses, want %v and %d", c.name, got, len(within), c.want, c.within)
		}
	}
}

// The place of a member follows from its block and slot, and nothing that it chooses moves it.
func TestAddressIDs(t *testing.T) {
	in, _, node := kindOf(wire.AddressIDs)
	other := wire.NewSigner(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{9}, 32)), wire.Hash{})
	c := in.newRecord(node, []string{at("203.0.113.7")}, today, true, place{slot: 2})
	got, err := in.openRecord(c.Raw)
	if err != nil || got.ID != c.ID || !got.Member || got.Block != netip.MustParsePrefix("203.0.113.0/24") {
		t.Fatalf("%+v, %v", got, err)
	}
	if same := AddressID("kinds", c.Block, 2, other.PeerID()); !samePlace(c.ID, same) {
		t.Errorf("another key at %s has another place: %s", c.ID, same)
	}
	for slot := range 2 {
		if o := AddressID("kinds", c.Block, slot, node.PeerID()); o.Common(c.ID) > 40 {
			t.Errorf("slot %d is at the place of slot 2", slot)
		}
	}
	for name, m := range map[string]*overlaypb.Record{
		"no address":         {Member: true},
		"a fifth slot":       {Member: true, Slot: slots, Addresses: [][]byte{[]byte(at("203.0.113.7"))}},
		"two blocks":         {Member: true, Addresses: [][]byte{[]byte(at("203.0.113.7")), []byte(at("203.0.114.7"))}},
		"not an IP address":  {Member: true, Addresses: [][]byte{[]byte("\x36\x04host")}},
		"a certificate, too": {Member: true, Certificate: []byte("x"), Addresses: [][]byte{[]byte(at("203.0.113.7"))}},
		"a client's slot":    {Slot: 1, Addresses: [][]byte{[]byte(at("203.0.113.7"))}},
	} {
		raw := node.Sign(wire.DomainRecord, wire.Encode(m)).Raw
		if c, err := in.openRecord(raw); !errors.Is(err, ErrRecord) {
			t.Errorf("%s: %+v, %v", name, c, err)
		}
	}
	if c := in.newRecord(node, nil, today, true, place{}); c.Member {
		t.Error("a member without an address")
	}
}

func TestCertificateIDs(t *testing.T) {
	in, authority, node := kindOf(wire.CertificateIDs)
	cert := Certificate{Peer: node.PeerID(), ID: ID{1, 2, 3}, NotBefore: today, NotAfter: today.Add(time.Hour)}
	sign := func(c Certificate, by *wire.Signer) []byte {
		raw, err := c.Sign(by)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	good := sign(cert, authority)
	if len(good) > maxCertificate {
		t.Errorf("a certificate has %d bytes, the bound is %d", len(good), maxCertificate)
	}
	c := in.newRecord(node, []string{at("203.0.113.7"), at("2001:db8:1:2::7")}, today, true, place{certificate: good})
	got, err := in.openRecord(c.Raw)
	if err != nil || got.ID != cert.ID || !got.Member || got.certificate.NotAfter != cert.NotAfter || got.Block.IsValid() {
		t.Fatalf("%+v, %v", got, err)
	}
	if len(c.Raw) > MaxRecord {
		t.Errorf("a record with a certificate has %d bytes", len(c.Raw))
	}
	elsewhere := wire.NewSigner(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, 32)), wire.Hash{1})
	for name, raw := range map[string][]byte{
		"none":                 nil,
		"of another node":      sign(Certificate{Peer: authority.PeerID(), ID: cert.ID, NotAfter: cert.NotAfter, NotBefore: cert.NotBefore}, authority),
		"by no authority":      sign(cert, node),
		"for another network":  sign(cert, elsewhere),
		"cut short":            good[:len(good)-1],
		"too long":             append(bytes.Clone(good), make([]byte, maxCertificate)...),
		"a list in its place":  mustList(t, authority, Revocations{Number: 1}),
		"of no possible dates": authority.Sign(wire.DomainCertificate, wire.Encode(&overlaypb.Certificate{Node: node.Public(), Id: cert.ID[:], NotAfterMs: wire.MaxMillis + 1})).Raw,
	} {
		m := &overlaypb.Record{Member: true, Certificate: raw}
		if c, err := in.openRecord(node.Sign(wire.DomainRecord, wire.Encode(m)).Raw); !errors.Is(err, ErrRecord) {
			t.Errorf("%s: %+v, %v", name, c, err)
		}
	}
	for at, want := range map[time.Duration]bool{
		-maxAhead - time.Millisecond: false, -maxAhead: true, 0: true, time.Hour - 1: true, time.Hour: false,
	} {
		if got := cert.validAt(today.Add(at)); got != want {
			t.Errorf("valid after %v: %v, want %v", at, got, want)
		}
	}
}

func mustList(t testing.TB, by *wire.Signer, r Revocations) []byte {
	t.Helper()
	raw, err := r.Sign(by)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestListsOfRevocations(t *testing.T) {
	in, authority, node := kindOf(wire.CertificateIDs)
	full := Revocations{Number: 7, Renewers: make([]ID, maxRenewers)}
	for range MaxRevoked {
		full.Revoked = append(full.Revoked, node.PeerID())
	}
	raw := mustList(t, authority, full)
	if len(raw) > maxRevocations {
		t.Errorf("the longest list has %d bytes, the bound is %d", len(raw), maxRevocations)
	}
	r, err := in.openRevocations(raw)
	if err != nil || r.Number != 7 || len(r.Revoked) != MaxRevoked || len(r.Renewers) != maxRenewers {
		t.Fatalf("%v", err)
	}
	full.Revoked = append(full.Revoked, node.PeerID())
	if _, err := full.Sign(authority); err == nil || !strings.Contains(err.Error(), "1025 nodes") {
		t.Errorf("a list over the limit: %v", err)
	}
	for name, raw := range map[string][]byte{
		"empty": nil, "by no authority": mustList(t, node, Revocations{Number: 9}),
		"a short key":     authority.Sign(wire.DomainRevocations, wire.Encode(&overlaypb.Revocations{Revoked: [][]byte{{1}}})).Raw,
		"a short id":      authority.Sign(wire.DomainRevocations, wire.Encode(&overlaypb.Revocations{Renewers: [][]byte{{1}}})).Raw,
		"over the limits": authority.Sign(wire.DomainRevocations, wire.Encode(&overlaypb.Revocations{Renewers: make([][]byte, maxRenewers+1)})).Raw,
	} {
		if _, err := in.openRevocations(raw); !errors.Is(err, ErrCertificate) {
			t.Errorf("%s: %v", name, err)
		}
	}

	var l revocationLists
	two := &Revocations{Number: 2, Revoked: []env.PeerID{"a"}, authority: 0}
	if !l.add(two) || l.add(two) || l.add(&Revocations{Number: 1, authority: 0}) || !l.revoked["a"] {
		t.Error("an older list, or the same one again, counts")
	}
	digest := l.digest
	if !l.add(&Revocations{Number: 1, Revoked: []env.PeerID{"b"}, authority: 1}) || !l.revoked["a"] || !l.revoked["b"] || l.digest == digest {
		t.Error("the lists of two authorities do not add up")
	}
	if !l.add(&Revocations{Number: 3, authority: 0}) || l.revoked["a"] {
		t.Error("a node that left the list is revoked still")
	}
}

// Owners are the nearest members of different providers, unless there is only one provider.
func TestDiverse(t *testing.T) {
	member := func(i byte, ip string) *Contact {
		return &Contact{ID: ID{i}, Block: BlockOf(netip.MustParseAddr(ip))}
	}
	ids := func(cs []*Contact) (out []byte) {
		for _, c := range cs {
			out = append(out, c.ID[0])
		}
		return out
	}
	many := []*Contact{member(1, "1.1.1.1"), member(2, "1.1.2.1"), member(3, "2.1.1.1"), member(4, "1.1.3.1"), member(5, "2001:db8::1"), member(6, "2001:db8:5::1"), member(7, "3.1.1.1")}
	if got := ids(Diverse(many, 3)); !slices.Equal(got, []byte{1, 3, 5}) {
		t.Errorf("three of many: %v", got)
	}
	if got := ids(Diverse(many, 5)); !slices.Equal(got, []byte{1, 3, 5, 7}) {
		t.Errorf("five of many: %v", got)
	}
	if got := ids(Diverse(many[:2], 5)); !slices.Equal(got, []byte{1, 2}) {
		t.Errorf("of one provider: %v", got)
	}
	if got := ids(Diverse([]*Contact{{ID: ID{1}}, {ID: ID{2}}, {ID: ID{3}}}, 2)); !slices.Equal(got, []byte{1, 2}) {
		t.Errorf("without blocks: %v", got)
	}
}

// Whoever claims an id to a layer above has to be a member: the id of a client is the hash of a key, and keys cost nothing.
func TestAClientHasNoIDThatCosts(t *testing.T) {
	for _, kind := range []string{wire.KeyIDs, wire.AddressIDs, wire.CertificateIDs} {
		in, authority, node := kindOf(kind)
		of := place{}
		if kind == wire.CertificateIDs {
			cert, err := Certificate{Peer: node.PeerID(), ID: ID{1}, NotBefore: today, NotAfter: today.Add(time.Hour)}.Sign(authority)
			if err != nil {
				t.Fatal(err)
			}
			of.certificate = cert
		}
		b := &base{records: &Records{identities: *in, limit: 8, young: map[string]*Contact{}}, clock: fixed(today)}
		b.cfg.Network.IDs, b.cfg.Network.Name = kind, in.network
		client := in.newRecord(node, []string{at("203.0.113.7")}, today, false, place{})
		member := in.newRecord(node, []string{at("203.0.113.7")}, today, true, of)
		if c, err := b.OpenMember(client.Raw); !errors.Is(err, ErrRecord) {
			t.Errorf("%s: a client is a member: %+v, %v", kind, c, err)
		}
		if id, err := b.IDWith(node.PeerID(), member.Raw); err != nil || id != member.ID {
			t.Errorf("%s: id %s, %v", kind, id, err)
		}
		for what, proof := range map[string][]byte{"nothing": nil, "a client's record": client.Raw} {
			if id, err := b.IDWith(node.PeerID(), proof); err == nil && kind != wire.KeyIDs {
				t.Errorf("%s: %s proves id %s", kind, what, id)
			}
		}
	}
}

// fixed is a clock that stands still.
type fixed time.Time

func (c fixed) Now() time.Time { return time.Time(c) }

// FuzzIdentity opens records, certificates and lists of strangers in all kinds of networks. A record that opens is the same
// after it was signed again.
func FuzzIdentity(f *testing.F) {
	kinds := []string{wire.KeyIDs, wire.AddressIDs, wire.CertificateIDs}
	_, authority, node := kindOf(wire.CertificateIDs)
	cert, err := Certificate{Peer: node.PeerID(), ID: ID{1}, NotBefore: today, NotAfter: today.Add(time.Hour)}.Sign(authority)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(uint8(1), []byte(at("203.0.113.7")), uint8(3), []byte(nil))
	f.Add(uint8(2), []byte(at("2001:db8::1")), uint8(0), cert)
	f.Add(uint8(2), []byte{}, uint8(0), mustList(f, authority, Revocations{Number: 1, Revoked: []env.PeerID{node.PeerID()}}))
	f.Fuzz(func(t *testing.T, kind uint8, addr []byte, slot uint8, certificate []byte) {
		in, authority, node := kindOf(kinds[int(kind)%len(kinds)])
		_, _ = in.openCertificate(certificate)
		_, _ = in.openRevocations(certificate)
		_, _ = in.openCertificate(authority.Sign(wire.DomainCertificate, certificate).Raw)
		_, _ = in.openRevocations(authority.Sign(wire.DomainRevocations, certificate).Raw)
		m := &overlaypb.Record{Member: true, Addresses: [][]byte{addr}, Slot: uint32(slot), Certificate: certificate}
		c, err := in.openRecord(node.Sign(wire.DomainRecord, wire.Encode(m)).Raw)
		if err != nil {
			return
		}
		again := in.newRecord(node, c.Peer.Addrs, today, c.Member, place{block: c.Block, slot: int(slot), certificate: certificate})
		if again.ID != c.ID || again.Member != c.Member {
			t.Errorf("%+v is %+v", c, again)
		}
	})
}
