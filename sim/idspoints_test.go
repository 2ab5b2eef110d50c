package sim

import (
	"testing"
	"time"

	"tidings/internal/wire"
	"tidings/overlay"
)

// A bootstrap node is known by its address before its id is known, which does not follow from its key in every network.
// It is recognised when it answers, so that what it says is compared, and a liar among the bootstrap nodes is found out.
func TestEntryPointsAreKnownByTheirKeys(t *testing.T) {
	t.Parallel()
	for _, ids := range []string{wire.AddressIDs, wire.CertificateIDs} {
		s := idSwarm(3, ids)
		s.Grow(30, 300*time.Millisecond)
		s.World.Run(5 * time.Minute)
		p := s.Add(true, s.members[4], s.members[9])
		client := s.Add(false, s.members[4], s.members[9])
		p.Start()
		client.Start()
		s.World.Run(15 * time.Minute)
		for _, n := range []*Peer{p, client} {
			if e := n.entryPoints(); e.Doubtful() || e.Answering != 2 || e.Known != 2 {
				t.Errorf("%s ids: host %d (%v) honest entry points: %+v", ids, n.Index(), n.node.Overlay.State(), e)
			}
		}
		if p.node.Overlay.State() != overlay.Active || p.node.Overlay.ID() != p.id {
			t.Errorf("%s ids: %v", ids, p.node.Overlay.State())
		}

		if ids == wire.CertificateIDs {
			continue // no authority admits the liars
		}
		l := s.addLiars(5)
		s.World.Run(2 * time.Minute)
		p = s.Add(true, l.members[0], s.members[9])
		p.Start()
		s.World.Run(15 * time.Minute)
		if e := p.entryPoints(); !e.Doubtful() || e.Apart != 1 || e.Answering != 2 || !e.Bootstrap {
			t.Errorf("%s ids: a liar: %+v", ids, e)
		}
	}
}
