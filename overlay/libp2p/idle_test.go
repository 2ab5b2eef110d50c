package libp2p

import (
	"slices"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"

	"tidings/internal/env"
)

func TestIdleConnectionsAreFound(t *testing.T) {
	t.Parallel()
	s := idleTracker{conns: map[peer.ID]idleState{}}
	begin := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	const kad, talker, neighbour = peer.ID("kad"), peer.ID("talker"), peer.ID("neighbour")
	for _, step := range []struct {
		at        time.Duration
		connected map[peer.ID]bool // true: with a link
		idle      []peer.ID
	}{
		{0, map[peer.ID]bool{kad: false, talker: true, neighbour: true}, nil},
		{connUnused - 1, map[peer.ID]bool{kad: false, talker: false, neighbour: true}, nil},
		{connUnused, map[peer.ID]bool{kad: false, talker: false, neighbour: true}, []peer.ID{kad}},
		{connUnused + 1, map[peer.ID]bool{talker: false, neighbour: true}, nil},
		{connIdle, map[peer.ID]bool{talker: false, neighbour: true}, nil},
		{connUnused + connIdle, map[peer.ID]bool{kad: false, talker: false, neighbour: true}, []peer.ID{talker}},
		{connUnused + connIdle + 1, map[peer.ID]bool{kad: true, talker: true, neighbour: true}, nil}, // they have links again
		{3 * connIdle, map[peer.ID]bool{kad: false, talker: false, neighbour: true}, nil},
	} {
		if got := s.update(step.connected, begin.Add(step.at)); !slices.Equal(got, step.idle) {
			t.Errorf("at %v: idle are %q, want %q", step.at, got, step.idle)
		}
	}
}

// The end of a connection is a sign that the peer died, unless the connection was idle.
func TestTheEndOfAnIdleConnectionDoesNotCountAsADeath(t *testing.T) {
	t.Parallel()
	begin := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		what   string
		linked []bool // at begin, and directly after it
		after  time.Duration
		idle   bool
	}{
		{"it was never checked", nil, 0, false},
		{"a link is open", []bool{true}, connIdle, false},
		{"a link was open a while ago", []bool{true, false}, connUnused, false},
		{"a link was open long ago", []bool{true, false}, connIdle, true},
		{"the other side checked a little earlier", []bool{true, false}, connIdle - idleCheckInterval, true},
		{"no link was ever open", []bool{false}, connUnused, true},
		{"it has just begun", []bool{false}, idleCheckInterval, false},
	} {
		s := idleTracker{conns: map[peer.ID]idleState{}}
		for _, linked := range c.linked {
			s.update(map[peer.ID]bool{"p": linked}, begin)
		}
		if got := s.removed("p", begin.Add(c.after)); got != c.idle {
			t.Errorf("%s: idle %v, want %v", c.what, got, c.idle)
		}
		if s.removed("p", begin.Add(c.after)) {
			t.Errorf("%s: it is removed twice", c.what)
		}
	}
}

func TestConnectionsWithoutALinkAreClosed(t *testing.T) {
	t.Parallel()
	a, asked, neighbour := newTestHost(t, nil), newTestHost(t, nil), startTestHost(t, nil)
	if err := a.host.Connect(t.Context(), peer.AddrInfo{ID: asked.host.ID(), Addrs: asked.host.Addrs()}); err != nil {
		t.Fatal(err)
	}
	a.Send(neighbour.Peer(), env.Control, []byte("hello"))
	next(t, "a frame", neighbour.frames)
	s := idleTracker{conns: map[peer.ID]idleState{}}
	a.closeIdle(&s, time.Now())
	a.closeIdle(&s, time.Now().Add(connUnused))
	wait(t, "the end of the idle connection", func() bool {
		return a.host.Network().Connectedness(asked.host.ID()) != network.Connected
	})
	if a.host.Network().Connectedness(neighbour.host.ID()) != network.Connected {
		t.Error("the connection of a neighbour is closed, too")
	}
}
