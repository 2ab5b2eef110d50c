package sim

import (
	"fmt"
	"testing"
	"time"

	"tidings/overlay"
)

// Frames that are duplicated, late or out of order change nothing.
func TestRepeatedAndLateFramesChangeNothing(t *testing.T) {
	seeds(t, 1, 3, func(t *testing.T, seed uint64) {
		s := grown(seed, 40)
		s.SetNetworkFaults(NetworkFaults{Loss: 0.02, Duplicate: 0.1, Reorder: 0.1, Late: 5 * time.Second})
		var groups []overlay.ID
		for i := range 10 {
			groups = append(groups, s.Key(fmt.Sprintf("http://feed%d.example/", i)))
			for j := range 40 {
				if (i*j)%3 != 1 {
					s.Peers()[j].JoinGroup(groups[i], 1)
				}
			}
		}
		s.World.Run(3 * time.Minute)
		for i := range 600 {
			s.After(time.Duration(i)*time.Second, func() {
				s.Publish(s.Peers()[i%40], groups[i%10], 300)
				s.Route(s.Peers()[i%37], s.Key(fmt.Sprint("key", i)))
			})
		}
		s.World.Run(15 * time.Minute)
		s.SetNetworkFaults(NetworkFaults{})
		s.World.Run(30 * time.Minute)
		s.CheckQuiet()
		report(t, s)
		if m := s.MulticastStats(); m.Delivered != m.Expected || m.Published != 600 {
			t.Errorf("multicast %+v", m)
		}
	})
}

// A member that leaves in good order costs nothing: its leaf forgets it at once, its children have
// other parents within seconds, and no message is lost.
func TestLeaveInGoodOrder(t *testing.T) {
	t.Parallel()
	s := grown(11, 40)
	g := s.Key("http://popular.example/")
	for _, p := range s.Peers() {
		p.JoinGroup(g, 1)
	}
	s.World.Run(3 * time.Minute)
	for i := range 60 {
		s.After(time.Duration(i)*time.Second, func() { s.Publish(s.Peers()[i%3], g, 100) })
	}
	leavers := []*Peer{s.Root(g)} // the root leaves first
	for _, p := range s.Peers()[3:] {
		if p != leavers[0] && len(leavers) < 10 {
			leavers = append(leavers, p)
		}
	}
	for i, p := range leavers {
		s.After(time.Duration(5+5*i)*time.Second, func() {
			p.Do(p.Layers().Overlay.Leave)
			s.After(time.Second, func() {
				for _, q := range s.Live() {
					if q.Layers().Overlay.Leaf().Has(p.OverlayID()) != nil {
						t.Errorf("a second after host %d left, host %d has it in its leaf", p.Index(), q.Index())
					}
				}
			})
			s.After(3*time.Second, func() { p.LeaveGroup(g); p.Kill(true) })
		})
	}
	s.World.Run(5 * time.Minute)
	got, want := 0, 0
	for _, p := range s.Live() {
		for _, l := range s.multicasts.messages {
			want++
			if s.multicasts.has(p, l) {
				got++
			} else {
				t.Logf("host %d lacks a message sent at %v by host %d (root has it: %v)", p.Index(), l.sentAt.Format("15:04:05.000"), l.from.Index(), l.atRoot)
			}
		}
	}
	if got != want || want != 30*60 {
		t.Errorf("the remaining members got %d of %d messages", got, want)
	}
	s.World.Run(30 * time.Minute)
	s.CheckQuiet()
	report(t, s)
}

// When all nodes of a network restart at once, none can admit the others. They ask each other at
// intervals that grow to five seconds, until some of them start alone after half a minute.
func TestANetworkThatStartsAgainAsksInPauses(t *testing.T) {
	t.Parallel()
	s := grown(5, 12)
	s.World.Run(5 * time.Minute)
	for _, p := range s.Peers() {
		p.bootstrap = nil
		p.Kill(false)
	}
	s.World.Run(time.Minute)
	for _, p := range s.Peers() {
		p.Start()
	}
	s.World.Run(25 * time.Second)
	for i, p := range s.Peers() {
		if sent := p.node.Overlay.Stats().Sent; sent > 300 { // about ten questions to each of eight peers, and as many answers
			t.Errorf("node %d sent %d messages while it waited", i, sent)
		}
	}
	if !s.RunUntil(func() bool { return len(s.Live()) == 12 }, time.Second, time.Minute) {
		t.Fatalf("%d of 12 are active", len(s.Live()))
	}
	s.World.Run(10 * time.Minute)
	s.CheckQuiet()
	report(t, s)
}

// A node finds its network again after a restart by the peers it remembers.
func TestRestartFindsTheNetworkAgain(t *testing.T) {
	t.Parallel()
	s := grown(5, 30)
	s.World.Run(5 * time.Minute) // until they remember the others, the founder included
	for _, p := range s.Peers()[:3] {
		p.bootstrap = nil // without bootstrap peers, only those on the disk are known
		p.Kill(false)
	}
	s.World.Run(2 * time.Minute)
	for _, p := range s.Peers()[:3] {
		p.Start()
	}
	if !s.RunUntil(func() bool { return len(s.Live()) == 30 }, time.Second, time.Minute) {
		t.Fatalf("%d of 30 are active a minute after the restart", len(s.Live()))
	}
	s.World.Run(30 * time.Minute)
	s.CheckQuiet()
	report(t, s)
}
