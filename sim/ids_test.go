package sim

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay"
)

// addressSwarm starts members of a network of address ids, each with the IP address that ip gives it.
func addressSwarm(seed uint64, members int, ip func(i int) netip.Addr) *Swarm {
	n := wire.DefaultNetwork("sim")
	n.PollInterval, n.MaintenanceInterval, n.IDs = time.Minute, time.Minute, wire.AddressIDs
	s := NewSwarm(SwarmConfig{World: Config{Seed: seed}, Network: n})
	for i := range members {
		var via []*Peer
		if i > 0 {
			via = s.members[:1]
		}
		s.After(time.Duration(i)*100*time.Millisecond, s.AddHost(HostConfig{Open: true, IP: ip(i)}, via...).Start)
	}
	s.World.Run(time.Duration(members)*100*time.Millisecond + 30*time.Second)
	return s
}

// ip4 returns an IPv4 address.
func ip4(a, b, c, d int) netip.Addr {
	return netip.AddrFrom4([4]byte{byte(a), byte(b), byte(c), byte(d)})
}

// Of five owners at most one is of each provider, however many blocks of two providers an attacker has rented. Items
// come and are witnessed as in other networks.
func TestOwnersAreOfDifferentProviders(t *testing.T) {
	t.Parallel()
	s := addressSwarm(1, 64, func(i int) netip.Addr {
		if i%2 == 0 {
			return ip4(77, i%4, i, 1) // 32 blocks of two providers
		}
		return ip4(1+i, 1, 1, 1)
	})
	for _, p := range s.members {
		if !p.Active() || p.node.Overlay.ID() != p.id {
			t.Fatalf("host %d: %v, id %s, want %s", p.Index(), p.node.Overlay.State(), p.node.Overlay.ID().Short(), p.id.Short())
		}
	}
	for _, url := range s.serveFeeds(20, 10*time.Minute, 12) {
		s.members[1].SubscribeFeed(url)
	}
	s.World.Run(time.Hour)
	for url, f := range s.feeds.byURL {
		owners, rented := s.ownersOf(s.Key(url)), 0
		for _, id := range owners {
			if p := s.World.byID[id]; p.IP().As4()[0] == 77 {
				rented++
			}
		}
		if len(owners) != 5 || rented > 2 {
			t.Errorf("%s: %d of %d owners are of two providers", url, rented, len(owners))
		}
		if f.Polls == 0 {
			t.Errorf("%s: never polled", url)
		}
	}
	for _, of := range s.members[1].provenances(s.feeds.urls[0]) {
		if of == "" {
			t.Error("an item of nobody")
		}
	}
	s.CheckQuiet()
	report(t, s)
}

// A member that announces an address of others is not reached there, so it gets no place.
func TestAddressesAreProven(t *testing.T) {
	t.Parallel()
	s := addressSwarm(2, 16, func(i int) netip.Addr { return ip4(1+i, 1, 1, 1) })
	liar := s.AddHost(HostConfig{Open: true, IP: ip4(99, 1, 1, 1)}, s.members[0])
	liar.open = false // it is told of no dial-back but the one that it invents
	liar.Start()
	liar.open = true
	liar.Do(func() { liar.node.Reachable([]string{addrOf(liar.Index(), ip4(50, 5, 5, 5))}) })
	s.World.Run(5 * time.Minute)
	unproven := uint64(0)
	for _, p := range s.members[:16] {
		if slices.ContainsFunc(p.node.Overlay.Leaf().Members(), func(c *overlay.Contact) bool { return c.Peer.ID == liar.ID() }) {
			t.Errorf("host %d has the liar in its leaf", p.Index())
		}
		unproven += p.node.Overlay.Stats().Unproven
	}
	if unproven == 0 {
		t.Error("nobody has tried to reach the liar")
	}
}

// A block of addresses has four places. Further nodes of it are clients, and take a place that becomes free.
func TestABlockHasFourPlaces(t *testing.T) {
	t.Parallel()
	s := addressSwarm(3, 16, func(i int) netip.Addr {
		if i < 8 {
			return ip4(1+i, 1, 1, 1)
		}
		return ip4(50, 1, 1, i)
	})
	s.World.Run(2 * time.Minute)
	count := func() (members, clients int) {
		for _, p := range s.members[8:] {
			switch {
			case !p.Up():
			case p.node.Overlay.State() == overlay.Active:
				members++
			case p.node.Overlay.State() == overlay.Attached:
				clients++
			}
		}
		return members, clients
	}
	if members, clients := count(); members != 4 || clients != 4 {
		t.Errorf("%d members and %d clients of one block, want 4 and 4", members, clients)
	}
	for _, p := range s.members[8:] {
		if p.Active() {
			p.Crash(true)
			break
		}
	}
	s.World.Run(2 * time.Hour)
	if members, clients := count(); members != 4 || clients != 3 {
		t.Errorf("after one has died: %d members and %d clients of one block, want 4 and 3", members, clients)
	}
}

// A member whose address changes leaves its place and has another one. Nothing is lost.
func TestAMemberMoves(t *testing.T) {
	t.Parallel()
	s := addressSwarm(4, 24, func(i int) netip.Addr { return ip4(1+i, 1, 1, 1) })
	url := s.serveFeeds(1, 5*time.Minute, 12)[0]
	s.members[3].SubscribeFeed(url)
	s.World.Run(10 * time.Minute)
	p := s.World.byID[s.ownersOf(s.Key(url))[0]]
	var mover *Peer
	for _, m := range s.members {
		if m.Host == p {
			mover = m
		}
	}
	was := mover.node.Overlay.ID()
	s.move(mover, ip4(200, 1, 1, 1))
	s.World.Run(2 * time.Minute)
	if id := mover.node.Overlay.ID(); id == was || id != mover.id || !mover.Active() {
		t.Errorf("moved from %s to %s, want %s; %v", was.Short(), id.Short(), mover.id.Short(), mover.node.Overlay.State())
	}
	for _, o := range s.members {
		if o != mover && o.node.Overlay.Leaf().Has(was) != nil {
			t.Errorf("host %d has the moved member at its old place", o.Index())
		}
	}
	s.World.Run(30 * time.Minute)
	s.CheckQuiet()
	report(t, s)
}

// Only nodes that the authority admits are members. Certificates are renewed; a revoked member is out within a minute.
func TestCertificatesAdmit(t *testing.T) {
	t.Parallel()
	c := SwarmConfig{World: Config{Seed: 5}, Network: wire.DefaultNetwork("sim")}
	c.Network.PollInterval, c.Network.MaintenanceInterval = time.Minute, time.Minute
	c.Certify(time.Hour)
	s := NewSwarm(c)
	s.Grow(20, 100*time.Millisecond)
	stranger := s.members[7].ID()
	c.Authority.Refused[stranger] = true
	s.World.Run(5 * time.Minute)
	states := func(want func(p *Peer) overlay.State) {
		t.Helper()
		for _, p := range s.members {
			if got := p.node.Overlay.State(); got != want(p) {
				t.Errorf("%v: host %d: %v, want %v", s.Now(), p.Index(), got, want(p))
			}
		}
	}
	refused := func(ids ...env.PeerID) func(*Peer) overlay.State {
		return func(p *Peer) overlay.State {
			if slices.Contains(ids, p.ID()) {
				return overlay.Attached
			}
			return overlay.Active
		}
	}
	states(refused(stranger))
	url := s.serveFeeds(1, 5*time.Minute, 12)[0]
	s.members[7].SubscribeFeed(url) // a client reads like others
	s.World.Run(3 * time.Hour)      // three lifetimes
	states(refused(stranger))
	revoked := s.members[9]
	c.Authority.Refused[revoked.ID()] = true
	c.Authority.Number++
	s.World.Run(time.Minute)
	for _, p := range s.members {
		if p != revoked && p.node.Overlay.Leaf().Has(revoked.id) != nil {
			t.Errorf("host %d has the revoked member in its leaf", p.Index())
		}
	}
	s.World.Run(5 * time.Minute)
	states(refused(stranger, revoked.ID()))
	delete(c.Authority.Refused, revoked.ID()) // admitted again
	c.Authority.Number++
	s.World.Run(3 * time.Minute)
	states(refused(stranger))
	s.members[0].Kill(true) // without the authority, the network goes on until certificates expire
	s.World.Run(10 * time.Minute)
	for _, p := range s.members[1:] {
		if p.ID() != stranger && !p.Active() {
			t.Errorf("host %d: %v while the authority is away", p.Index(), p.node.Overlay.State())
		}
	}
	s.members[0].Start()
	s.World.Run(10 * time.Minute)
	if got := s.members[7].provenances(url); len(got) == 0 {
		t.Error("the client has no item")
	}
	s.CheckQuiet()
	report(t, s)
}

// An operator who revokes the node of the authority by mistake admits it again.
func TestAnAuthorityRevokesItsOwnNode(t *testing.T) {
	t.Parallel()
	c := SwarmConfig{World: Config{Seed: 6}, Network: wire.DefaultNetwork("sim")}
	c.Certify(time.Hour)
	s := NewSwarm(c)
	s.Grow(6, 100*time.Millisecond)
	s.World.Run(5 * time.Minute)
	founder := s.members[0]
	for i, want := range []overlay.State{overlay.Attached, overlay.Active} {
		c.Authority.Refused[founder.ID()] = true
		if i > 0 {
			delete(c.Authority.Refused, founder.ID())
			founder.Kill(true)
			founder.Start()
		}
		c.Authority.Number++
		s.World.Run(5 * time.Minute)
		if got := founder.node.Overlay.State(); got != want {
			t.Errorf("step %d: the node of the authority is %v, want %v", i, got, want)
		}
	}
	s.CheckQuiet()
	report(t, s)
}

// Clients that attach while the network has one member find a second host once there are others.
func TestFirstClientsFindASecondHost(t *testing.T) {
	t.Parallel()
	c := SwarmConfig{World: Config{Seed: 9}, Network: wire.DefaultNetwork("sim")}
	c.Certify(time.Hour)
	s := NewSwarm(c)
	s.Grow(8, 100*time.Millisecond)
	for _, p := range s.members[1:] {
		c.Authority.Refused[p.ID()] = true
	}
	s.World.Run(5 * time.Minute)
	clients := s.members[6:]
	for _, p := range s.members[1:] {
		if hosts := p.node.Overlay.Hosts(); len(hosts) != 1 {
			t.Fatalf("host %d: %v with %d hosts", p.Index(), p.node.Overlay.State(), len(hosts))
		}
	}
	for _, p := range s.members[1:6] {
		delete(c.Authority.Refused, p.ID())
	}
	c.Authority.Number++
	s.World.Run(5 * time.Minute)
	for _, p := range clients {
		if hosts := p.node.Overlay.Hosts(); p.node.Overlay.State() != overlay.Attached || len(hosts) != 2 {
			t.Errorf("host %d: %v with %d hosts", p.Index(), p.node.Overlay.State(), len(hosts))
		}
	}
	s.CheckQuiet()
	report(t, s)
}

// A newcomer joins through whomever it knows, also through a node that waits to be admitted.
func TestANewcomerJoinsThroughAClient(t *testing.T) {
	t.Parallel()
	c := SwarmConfig{World: Config{Seed: 7}, Network: wire.DefaultNetwork("sim")}
	c.Certify(time.Hour)
	s := NewSwarm(c)
	s.Grow(6, 100*time.Millisecond)
	client := s.members[5]
	c.Authority.Refused[client.ID()] = true
	s.World.Run(5 * time.Minute)
	if got := client.node.Overlay.State(); got != overlay.Attached {
		t.Fatalf("the entry point is %v", got)
	}
	newcomer := s.AddHost(HostConfig{Open: true}, client)
	newcomer.Start()
	s.World.Run(5 * time.Minute)
	if !newcomer.Active() {
		t.Errorf("the newcomer is %v", newcomer.node.Overlay.State())
	}
	s.CheckQuiet()
	report(t, s)
}

// A node whose clock is hours behind that of the authority is admitted, and believes certificates of others.
func TestAClockBehindTheAuthority(t *testing.T) {
	t.Parallel()
	c := SwarmConfig{World: Config{Seed: 8}, Network: wire.DefaultNetwork("sim")}
	c.Certify(90 * 24 * time.Hour)
	s := NewSwarm(c)
	s.Grow(6, 100*time.Millisecond)
	late := s.AddHost(HostConfig{Open: true, ClockOffset: -3 * time.Hour}, s.members[0])
	late.Start()
	s.World.Run(5 * time.Minute)
	if got := late.node.Overlay.Leaf().Len(); !late.Active() || got != 7 {
		t.Errorf("the node with the wrong clock is %v, and knows %d members of 7", late.node.Overlay.State(), got)
	}
	s.CheckQuiet()
	report(t, s)
}

// idSwarm returns a swarm whose ids are of a kind, and whose feeds are polled every minute.
func idSwarm(seed uint64, ids string) *Swarm {
	c := SwarmConfig{World: Config{Seed: seed}, Network: wire.DefaultNetwork("sim")}
	c.Network.PollInterval, c.Network.IDs = time.Minute, ids
	if ids == wire.CertificateIDs {
		c.Certify(24 * time.Hour)
	}
	return NewSwarm(c)
}
