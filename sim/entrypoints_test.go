package sim

import (
	"bytes"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"tidings/internal/env"
	"tidings/internal/longtest"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/overlaypb"
)

// seekers adds n hosts whose ids share some bits with that of a victim, by making keys until there are
// enough.
func (s *Swarm) seekers(n, bits int, victim *Peer, via *Peer) (found []*Peer) {
	for len(found) < n {
		if p := s.Add(true, via); p.id.Common(victim.id) >= bits {
			found = append(found, p)
		}
	}
	return found
}

// addLiars adds a false network of the same name: members that name only one another.
func (s *Swarm) addLiars(n int) *Liars {
	l := &Liars{swarm: s, lies: Lies{Rows: true, Leaves: true}, index: map[*Peer]int{}, rng: rand.New(rand.NewPCG(s.Seed(), 0x11e))}
	for range n {
		p := s.Add(true, l.members[:min(len(l.members), 1)]...)
		l.add(p)
	}
	return l
}

// add adds a host to the liars, and starts it.
func (l *Liars) add(p *Peer) {
	l.index[p] = len(l.members)
	l.members = append(l.members, p)
	l.swarm.After(time.Duration(len(l.members))*time.Second, func() { l.start(p) })
}

// claimDepth lets liars say that the leaf of whoever asks has a depth, and that there are as many
// members below each prefix as fit to it.
func (l *Liars) claimDepth(depth uint32) {
	for _, p := range l.members {
		p.filterOutgoing = func(_ env.Peer, frame []byte) []byte {
			layer, body, err := wire.ParseFrame(frame)
			m := new(overlaypb.Message)
			if err != nil || layer != wire.Overlay || proto.Unmarshal(body, m) != nil {
				return frame
			}
			decided := uint64(l.swarm.Now().Add(decisionLead).UnixMilli())
			switch b := m.Body.(type) {
			case *overlaypb.Message_Probe:
				b.Probe.Depth, b.Probe.Decided = depth, decided
			case *overlaypb.Message_Leaf:
				b.Leaf.Depth, b.Leaf.Decided = depth, decided
			case *overlaypb.Message_Nearby:
				b.Nearby.Depth, b.Nearby.Decided = depth, decided
			case *overlaypb.Message_RowReply:
				b.RowReply.Count = 16 << depth >> (4 * b.RowReply.Row)
			}
			return wire.AppendFrame(nil, wire.Overlay, m)
		}
	}
}

func (p *Peer) entryPoints() overlay.EntryPoints { return p.node.Overlay.EntryPoints() }

// A network of liars that a newcomer meets is noticed by what other entry points know, by members
// that the newcomer remembers, or by the size that the liars claim.
func TestAFalseNetworkIsNoticed(t *testing.T) {
	t.Parallel()
	const honest, liars = 30, 5
	remembers := func(s *Swarm, l *Liars) *Peer {
		p := s.members[honest-1]
		p.Kill(false)
		p.bootstrap = l.members[:1]
		p.Start()
		return p
	}
	for _, c := range []struct {
		name    string
		join    func(s *Swarm, l *Liars) *Peer
		noticed func(e overlay.EntryPoints) bool
		finds   bool // the newcomer ends up in the honest network
	}{
		{"a liar, and members of an earlier life", remembers,
			func(e overlay.EntryPoints) bool { return e.Apart == 1 && e.Answering >= 3 }, true},
		{"a liar, and members of an earlier life that are gone", func(s *Swarm, l *Liars) *Peer {
			for _, p := range s.members[:honest-1] {
				p.Kill(false)
			}
			return remembers(s, l)
		}, func(e overlay.EntryPoints) bool { return e.Forgotten && e.Apart == 0 && e.Claimed == 0 }, false},
		{"a liar and an honest member", func(s *Swarm, l *Liars) *Peer {
			p := s.Add(true, l.members[0], s.members[0])
			p.Start()
			return p
		}, func(e overlay.EntryPoints) bool { return e.Apart == 1 && e.Answering == 2 && e.Known == 2 }, true},
		{"a client, with a liar and an honest member", func(s *Swarm, l *Liars) *Peer {
			p := s.Add(false, l.members[0], s.members[0])
			p.Start()
			return p
		}, func(e overlay.EntryPoints) bool { return e.Apart == 1 && e.Answering == 2 && e.Known == 2 }, false},
		{"only liars, who claim a thousand members, and none of whom is near the newcomer", func(s *Swarm, l *Liars) *Peer {
			l.claimDepth(6)
			p := s.Add(true, l.members[0])
			p.Start()
			return p
		}, func(e overlay.EntryPoints) bool { return e.NoPlace || e.Claimed >= 700 }, false},
		{"only liars, who claim a thousand members, and have made ids near the newcomer", func(s *Swarm, l *Liars) *Peer {
			p := s.Add(true, l.members[0])
			for _, q := range s.seekers(12, 6, p, l.members[0]) {
				l.add(q)
			}
			s.World.Run(time.Minute)
			l.claimDepth(6)
			p.Start()
			return p
		}, func(e overlay.EntryPoints) bool {
			return e.Claimed >= 700 && e.Likely <= e.Claimed/10 && e.Apart == 0 && e.Known == 1
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(longtest.Pick(1, 6)) {
				var log bytes.Buffer
				s := NewSwarm(SwarmConfig{World: Config{Seed: seed, Log: slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn})}})
				s.Grow(honest, 300*time.Millisecond)
				l := s.addLiars(liars)
				s.World.Run(5 * time.Minute)
				p := c.join(s, l)
				s.World.Run(15 * time.Minute)
				e := p.entryPoints()
				if !e.Doubtful() || !c.noticed(e) {
					t.Errorf("seed %d: %+v", seed, e)
				}
				if n := strings.Count(log.String(), fmt.Sprintf("may be a false one\" host=%d ", p.Index())); n != 1 {
					t.Errorf("seed %d: %d warnings in the newcomer's log", seed, n)
				}
				met := 0
				for _, o := range p.node.Overlay.Leaf().Members() {
					if q := s.byID[o.ID]; q != p && !l.Has(q) {
						met++
					}
				}
				if (met > 0) != c.finds {
					t.Errorf("seed %d: %d honest members in the leaf", seed, met)
				}
				for _, o := range s.Live() {
					if o != p && !l.Has(o) && o.entryPoints().Doubtful() {
						t.Errorf("seed %d: member %d, which met no liar on its way, says %+v", seed, o.Index(), o.entryPoints())
					}
				}
			}
		})
	}
}

// Honest networks of any size raise no alarm while members come, die and return.
func TestAnHonestNetworkIsNotDoubted(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 2, 5, 30, 200} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(longtest.Pick(1, 2)) {
				s := NewSwarm(SwarmConfig{World: Config{Seed: seed, NetworkFaults: NetworkFaults{Loss: 0.01}}})
				s.Grow(n, 300*time.Millisecond)
				s.World.Run(5 * time.Minute)
				rng := rand.New(rand.NewPCG(seed, 1))
				checked := 0
				for range longtest.Pick(30, 150) { // every two minutes a member dies for good, for a while or not at all
					s.World.Run(2 * time.Minute)
					p := s.members[rng.IntN(len(s.members))]
					switch {
					case p.Up() && n > 1:
						p.Kill(rng.IntN(2) == 0)
					case !p.Up():
						p.Start()
					}
					if rng.IntN(4) == 0 && len(s.Live()) > 0 {
						s.Add(rng.IntN(8) > 0, s.Live()[0]).Start()
					}
					for _, p := range s.members {
						if p.Up() {
							if e := p.entryPoints(); e.Doubtful() {
								t.Fatalf("seed %d, %v: member %d of %d: %+v", seed, s.Now(), p.Index(), len(s.Live()), e)
							} else if !e.CheckedAt.IsZero() {
								checked++
							}
						}
					}
				}
				if checked == 0 {
					t.Errorf("seed %d: no node has checked anything", seed)
				}
			}
		})
	}
}

// A node that knows a member of each of two honest networks of the same name joins both, and they
// become one. Nobody doubts it then.
func TestEntryPointsOfTwoNetworksMakeThemOne(t *testing.T) {
	t.Parallel()
	for seed := range uint64(longtest.Pick(1, 6)) {
		s := NewSwarm(SwarmConfig{World: Config{Seed: seed}})
		var founders []*Peer
		for range 2 {
			f := s.Add(true)
			f.Start()
			founders = append(founders, f)
			for range 7 {
				s.Add(true, f).Start()
			}
		}
		s.World.Run(5 * time.Minute)
		s.Add(true, founders...).Start()
		s.World.Run(30 * time.Minute)
		for _, p := range s.Live() {
			if n := p.node.Overlay.Stats().EstimatedN; n != 17 {
				t.Errorf("seed %d: member %d counts %d members", seed, p.Index(), n)
			}
			if e := p.entryPoints(); e.Doubtful() {
				t.Errorf("seed %d: member %d says %+v", seed, p.Index(), e)
			}
		}
	}
}
