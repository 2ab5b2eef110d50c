package overlay

import (
	"net/netip"
	"testing"
	"time"

	"tidings/internal/env"
	"tidings/internal/wire"
)

// silence is a prover whose peers do not answer.
type silence struct{ asked []env.PeerID }

func (s *silence) Prove(p env.Peer, _ func(addr string)) { s.asked = append(s.asked, p.ID) }

// Many members that nobody can reach keep other strangers waiting, but not the members that were reached before.
func TestUnreachableLiarsDoNotKeepMembersOut(t *testing.T) {
	l := newLab(t)
	l.network.IDs = wire.AddressIDs
	prover, block := &silence{}, netip.MustParsePrefix("203.0.113.0/24")
	member := &Contact{Peer: env.Peer{ID: "member"}, Member: true, Block: block}
	ps := &proofs{
		base: l.boot().base, prover: prover, proving: map[env.PeerID][]byte{},
		young: map[env.PeerID]proof{"member": {block, l.now}},
	}
	l.now = l.now.Add(proofTime + time.Second)
	for n := range maxProving + 10 {
		liar := &Contact{Peer: env.Peer{ID: l.actor(n).id()}, Member: true, Block: block}
		ps.prove(liar, nil, nil)
	}
	if len(prover.asked) != maxProving {
		t.Errorf("%d members are dialled at a time, want %d", len(prover.asked), maxProving)
	}
	if !ps.needed(member) {
		t.Error("a proof counts for ever")
	}
	if ps.prove(member, nil, nil); prover.asked[len(prover.asked)-1] != member.Peer.ID {
		t.Error("a member of the leaf is not asked for its proof again")
	}
	member.Block = netip.MustParsePrefix("198.51.100.0/24")
	if delete(ps.proving, member.Peer.ID); len(prover.asked) != maxProving+1 {
		t.Fatal(len(prover.asked))
	}
	if ps.prove(member, nil, nil); len(prover.asked) != maxProving+1 {
		t.Error("a member that moves is not bounded")
	}
}

// A member keeps its place while it has an address in its block, even if the place that it tried first is free again.
func TestAMemberKeepsItsPlace(t *testing.T) {
	l := newLab(t)
	l.network.IDs = wire.AddressIDs
	n := l.boot()
	n.takenUntil[FirstSlot(n.self.Peer.ID)] = l.now.Add(slotRetry)
	n.place.block = BlockOf(netip.MustParseAddr("203.0.113.7"))
	n.Reachable([]string{at("203.0.113.7")})
	l.run()
	was := n.self.ID
	if n.State() != Active || !n.self.Member {
		t.Fatalf("the founder is %v", n.State())
	}
	l.pass(2 * slotRetry)
	n.Reachable([]string{at("203.0.113.7"), at("203.0.113.8")})
	if l.run(); n.self.ID != was || n.State() != Active || len(n.self.Peer.Addrs) != 2 {
		t.Errorf("with another address: %v, id %s, was %s", n.State(), n.self.ID.Short(), was.Short())
	}
}
