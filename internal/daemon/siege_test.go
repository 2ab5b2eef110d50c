package daemon

import (
	"fmt"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"

	"tidings/feedtree/feedtreepb"
	"tidings/internal/wire"
	"tidings/overlay/libp2p/attacker"
)

// An attacker holds 800 connections to a member from one address block, and makes the member answer on each,
// so that links lead back. A new node still joins through that member, and the members that it knew before
// stay.
func TestNewNodeJoinsThroughAMemberUnderAttack(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has all of 127.0.0.0/8 as its own addresses")
	}
	at := func(address string) []string { return []string{"/ip4/" + address + "/tcp/0"} }
	c := founding(t, "siege")
	c.Listen = at("127.0.0.1")
	m := running(t, c)
	first := m.awaitMembers(t, 1)
	friend := running(t, Config{Dir: t.TempDir(), Bootstrap: first.Addrs, Listen: at("127.9.9.9")})
	friend.awaitMembers(t, 2)
	m.awaitMembers(t, 2)

	s, err := attacker.New(first.Addrs[0], wire.Side{Name: c.Found.Name, Descriptor: c.Found.Descriptor()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	ask := wire.AppendFrame(nil, wire.Feed, &feedtreepb.Message{Body: &feedtreepb.Message_Heads{Heads: &feedtreepb.Heads{
		Heads: []*feedtreepb.Head{{Key: make([]byte, 32)}},
	}}})
	attack := func(connections int) {
		s.OpenMany(t.Context(), connections, func(i int) netip.Addr { return netip.AddrFrom4([4]byte{127, 3, 3, byte(1 + i%250)}) }, ask)
	}
	attack(800)
	if held := s.OpenCount(); held < 500 {
		t.Errorf("the attacker holds %d connections: this is no attack", held)
	}

	began := time.Now()
	newcomer := running(t, Config{Dir: t.TempDir(), Bootstrap: first.Addrs, Listen: at("127.4.4.4")})
	newcomer.awaitMembers(t, 3)
	t.Logf("a newcomer joined after %v", time.Since(began))
	m.awaitMembers(t, 3)
	friend.awaitMembers(t, 3)
	within(t, awaitTimeout, "evicted connections in the metrics", func() error {
		text := m.host.Stats()
		if text.Evicted > 0 {
			return nil
		}
		attack(100) // a machine that is busy with other things takes connections so slowly that most are closed meanwhile
		return fmt.Errorf("%+v", text)
	})
	if strings.Contains(m.log.String(), "frame dropped") {
		t.Error("the attacker's frames are no frames")
	}
}
