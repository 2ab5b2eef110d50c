package owner

import (
	"testing"

	"tidings/internal/env"
)

// An owner that has lost its disk cannot report what it signed. So an epoch that it may have helped to certify stays
// undecided for ever, and the owners of that epoch may never sign another. Found in a world of public feeds, seed 31:
// all five owners had promised, and the log stood still until the end.
func TestOnlyAnUndecidedEpochBlocksACandidacy(t *testing.T) {
	id := func(i int) env.PeerID { return signer(byte(i)).PeerID() }
	for _, c := range []struct {
		name       string
		signed     int // number of new owners that have signed, from the first on
		old, owner []env.PeerID
		want       bool
	}{
		{"all have signed", 5, []env.PeerID{id(0), id(1), id(2)}, []env.PeerID{id(2), id(3), id(4)}, true},
		{"a quorum of both", 3, []env.PeerID{id(0), id(1), id(2)}, []env.PeerID{id(1), id(2), id(4)}, true},
		{"those of old have not", 2, []env.PeerID{id(2), id(3), id(4)}, []env.PeerID{id(0), id(1), id(2)}, false},
		{"those to be have not", 2, []env.PeerID{id(0), id(1), id(2)}, []env.PeerID{id(2), id(3), id(4)}, false},
	} {
		b := &candidacy{oldOwners: c.old, newOwners: c.owner, proposal: someEpoch(c.signed)}
		if b.blocked() != c.want {
			t.Errorf("%s: blocked %v", c.name, !c.want)
		}
	}
}
