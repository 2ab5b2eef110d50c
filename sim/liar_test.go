package sim

import (
	"encoding/binary"
	"math"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/overlaypb"
)

// Liars that tell no lies are members like others.
func TestLiarsWithoutLiesAreHonest(t *testing.T) {
	t.Parallel()
	s := NewSwarm(SwarmConfig{World: Config{Seed: 1}})
	l := s.GrowWithLiars(40, 200*time.Millisecond, 1./4, Lies{})
	s.World.Run(40 * time.Minute)
	if len(l.members) != 10 || len(s.Live()) != 40 {
		t.Errorf("%d liars, %d live", len(l.members), len(s.Live()))
	}
	s.CheckQuiet()
	report(t, s)
}

// Each lie changes only the messages that it concerns.
func TestLies(t *testing.T) {
	t.Parallel()
	s := NewSwarm(SwarmConfig{World: Config{Seed: 1}})
	l := s.GrowWithLiars(48, 100*time.Millisecond, 1./4, Lies{})
	s.World.Run(2 * time.Minute)
	f := l.members[0].Host.node.(*liarNode)
	to := s.members[0].Peer()
	const nonce = 7
	said := []*overlaypb.Message{
		{Body: &overlaypb.Message_Probe{Probe: &overlaypb.Probe{Nonce: 1, Depth: 1, Digest: 2, Decided: 3}}},
		{Body: &overlaypb.Message_Leaf{Leaf: &overlaypb.Leaf{Depth: 1, Decided: 3, IdPrefixes: []uint64{4}}}},
		{Body: &overlaypb.Message_Nearby{Nearby: &overlaypb.Nearby{Nonce: nonce, Depth: 1, Decided: 3}}},
		{Body: &overlaypb.Message_RowReply{RowReply: &overlaypb.RowReply{Count: 9}}},
	}
	for _, c := range []struct {
		name    string
		lies    Lies
		changed string // of the four
	}{
		{"none", Lies{}, "...."},
		{"leaves", Lies{Leaves: true}, "xxx."},
		{"depths", Lies{Depths: true}, "xxx."},
		{"rows", Lies{Rows: true}, "...x"},
		{"counts", Lies{Counts: true}, "...x"},
		{"deaths, routes", Lies{Deaths: true, Routes: true}, "...."},
	} {
		l.lies = c.lies
		changed := ""
		for _, m := range said {
			f.lookupKeys[nonce] = s.members[0].id
			lie := proto.Clone(m).(*overlaypb.Message)
			f.falsify(to, lie)
			if proto.Equal(m, lie) {
				changed += "."
			} else {
				changed += "x"
			}
			checkLie(t, l, c.lies, lie)
		}
		if changed != c.changed {
			t.Errorf("%s: changes %s, want %s", c.name, changed, c.changed)
		}
	}
}

// checkLie checks that a message names only liars, and checks its other claims.
func checkLie(t *testing.T, l *Liars, lies Lies, m *overlaypb.Message) {
	t.Helper()
	heads := map[uint64]bool{}
	for _, p := range l.members {
		heads[binary.BigEndian.Uint64(p.id[:])] = true
	}
	for _, raw := range append(m.GetNearby().GetRecords(), append(m.GetLeaf().GetRecords(), m.GetRowReply().GetRecords()...)...) {
		signed, err := l.swarm.verify.Open(wire.DomainRecord, raw)
		if err != nil || !l.Has(l.swarm.byID[overlay.NodeID("sim", wire.PeerIDOf(signed.Key))]) {
			t.Errorf("%+v: names an honest member, or none (%v)", lies, err)
		}
	}
	for _, h := range m.GetLeaf().GetIdPrefixes() {
		if lies.Leaves && !heads[h] {
			t.Errorf("%+v: lists an honest member", lies)
		}
	}
	if lies.Leaves && m.GetNearby() != nil && (len(m.GetNearby().Records) == 0 || !m.GetNearby().Covers) {
		t.Errorf("%+v: does not lead to liars: %v", lies, m)
	}
	if count := m.GetRowReply().GetCount(); lies.Counts && m.GetRowReply() != nil && count != 0 && count != math.MaxUint32 {
		t.Errorf("%+v: counts %d", lies, count)
	}
	if at := m.GetProbe().GetDecided(); lies.Depths && m.GetProbe() != nil && time.UnixMilli(int64(at)).Sub(l.swarm.Now()) < 23*time.Hour {
		t.Errorf("%+v: decided at %v", lies, time.UnixMilli(int64(at)))
	}
}

// A message routed through a liar is lost or acknowledged in the name of a liar, and tried again.
func TestLiarsDropMessages(t *testing.T) {
	t.Parallel()
	s := NewSwarm(SwarmConfig{World: Config{Seed: 1}})
	l := s.GrowWithLiars(96, 200*time.Millisecond, 1./4, Lies{Routes: true})
	s.World.Run(40 * time.Second)
	right, wrong, lost := 0, 0, 0
	for i, p := range s.Live() {
		if l.Has(p) {
			continue
		}
		key := p.id
		key[0] += byte(1 + i)
		root := s.Root(key)
		lost++
		p.Do(func() {
			p.node.Overlay.Route(wire.Layer(254), key, nil, func(r overlay.Receipt, ok bool) {
				switch {
				case !ok:
				case r.Root == root.id:
					right++
					lost--
				case l.Has(s.byID[r.Root]):
					wrong++
					lost--
				}
			})
		})
	}
	s.World.Run(2 * time.Minute)
	if right < 36 || wrong < 1 || lost < 3 {
		t.Errorf("%d right, %d wrong, %d lost", right, wrong, lost)
	}
}

// Every second each liar claims that one live member is dead.
func TestLiarsAnnounceDeaths(t *testing.T) {
	t.Parallel()
	sent := func(lies Lies) (n uint64) {
		s := NewSwarm(SwarmConfig{World: Config{Seed: 1}})
		l := s.GrowWithLiars(24, 100*time.Millisecond, 1./4, lies)
		s.World.Run(time.Minute)
		for _, p := range l.members {
			n += p.Host.Stats().Sent[0].Frames
		}
		return n
	}
	// There are six liars, for most of a minute, in a leaf of 24. A liar that draws another liar
	// stays silent.
	if honest, lying := sent(Lies{}), sent(Lies{Deaths: true}); lying < honest+5*40*20 {
		t.Errorf("honest members sent %d frames, liars %d", honest, lying)
	}
}
