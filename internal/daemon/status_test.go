package daemon

import (
	"crypto/ed25519"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"tidings/corona/coronapb"
	"tidings/feedtree"
	"tidings/internal/feed"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/libp2p"
	"tidings/proxy"
)

func TestReadersFindingShowsAReachableAddress(t *testing.T) {
	for _, c := range []struct {
		address, base, want string
		refuses             bool // readers on other machines
	}{
		{"127.0.0.1:8190", "", "http://127.0.0.1:8190/", false},
		{"[::1]:8190", "", "http://[::1]:8190/", false},
		{"[::]:8190", "", "http://127.0.0.1:8190/", true},
		{"0.0.0.0:8190", "", "http://127.0.0.1:8190/", true},
		{"10.0.0.7:8190", "", "http://10.0.0.7:8190/", true},
		{"[::]:8190", "http://nas.example:8190", "http://nas.example:8190/", false},
	} {
		f := readersFinding(c.address, c.base)
		if f.What.String() != "feed readers are served at "+c.want || strings.Contains(f.Do.String(), "--base-url") != c.refuses {
			t.Errorf("%+v", f)
		}
	}
}

// The remedy names the command to stop following a feed, unless waiting helps.
func TestRemedyNamesTheWayToStopFollowing(t *testing.T) {
	const url = "https://x.example/feed"
	for kind, stops := range map[coronapb.State_Kind]bool{
		coronapb.State_GONE: true, coronapb.State_MISSING: true, coronapb.State_NOT_A_FEED: true, coronapb.State_BROKEN: true,
		coronapb.State_TOO_LARGE: true, coronapb.State_REFUSED: true, coronapb.State_LIMITED: false, coronapb.State_UNREACHABLE: false, coronapb.State_FAILING: false,
	} {
		for _, private := range []bool{false, true} {
			for _, channel := range []string{url, feed.PageChannel(url)} {
				do := remedy(channel, kindName(kind), private)
				if strings.HasSuffix(do, "; or stop following it: tidings unsubscribe "+channel) != stops {
					t.Errorf("%v: %s", kind, do)
				}
			}
		}
	}
}

// Each trouble of a node has its finding, and a node in good order has none that is a problem.
func TestFindingsNameTheTrouble(t *testing.T) {
	since := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	good := Snapshot{Contact: Contact{Network: "n", Size: 5, State: overlay.Active}, IDs: wire.KeyIDs}
	for want, change := range map[string]func(*status, *Snapshot){
		"the node is a member of network \"n\"": func(*status, *Snapshot) {},
		"ids of members are made of keys":       func(*status, *Snapshot) {},
		"ids of members are made of addresses":  func(_ *status, s *Snapshot) { s.IDs = wire.AddressIDs },
		"this node has no certificate": func(_ *status, s *Snapshot) {
			s.IDs, s.State, s.Reachable = wire.CertificateIDs, overlay.Attached, true
		},
		"an authority has revoked the certificate": func(_ *status, s *Snapshot) {
			s.IDs, s.State, s.Reachable, s.Revoked = wire.CertificateIDs, overlay.Attached, true, true
		},
		"this node of an authority was revoked": func(st *status, s *Snapshot) {
			s.IDs, s.State, s.Size, s.Revoked = wire.CertificateIDs, overlay.Alone, 0, true
			st.config.Authority = damagedAuthority{}
		},
		"members: a file is damaged": func(st *status, _ *Snapshot) { st.config.Authority = damagedAuthority{} },
		"other nodes have all places of this": func(_ *status, s *Snapshot) {
			s.IDs, s.State, s.Reachable = wire.AddressIDs, overlay.Attached, true
		},
		"the node has not found its network yet":  func(_ *status, s *Snapshot) { s.Network = "" },
		"no other node of the network":            func(_ *status, s *Snapshot) { s.CutOff = &feedtree.CutOff{Since: since} },
		"the network that this node meets may be": func(_ *status, s *Snapshot) { s.EntryPoints.NoPlace = true },
		"the store cannot be written: no space":   func(_ *status, s *Snapshot) { s.Store.Failing = "no space" },
		"the store was damaged":                   func(st *status, _ *Snapshot) { st.damage.repaired = true },
		"the node has a new id":                   func(st *status, _ *Snapshot) { st.dataDir.identityReplaced = true },
		"this filter receives nothing":            func(st *status, s *Snapshot) { st.config.Filter, s.Firehose.SilentShards = true, 1 },
		"other nodes cannot connect to this node": func(_ *status, s *Snapshot) { s.State = overlay.Attached },
		"this data directory belongs to another": func(_ *status, s *Snapshot) {
			s.Size, s.Refusals = 1, []libp2p.Refusal{{Network: true, Bootstrap: true}}
		},
		"since the start, damage was found in 2 re": func(_ *status, s *Snapshot) { s.Store.Damaged = 2 },
	} {
		st, snap := &status{dataDir: &dataDir{}, damage: &storeDamage{}, hosting: &hosting{}}, good
		change(st, &snap)
		if found := st.findings(snap); !slices.ContainsFunc(found, func(f proxy.Finding) bool { return strings.HasPrefix(f.What.String(), want) }) {
			t.Errorf("no %q in %+v", want, found)
		}
	}
}

// A damagedAuthority has members whose files cannot be read.
type damagedAuthority struct{}

var errDamagedMembers = errors.New("members: a file is damaged")

func (damagedAuthority) Check() error { return errDamagedMembers }

func (damagedAuthority) Signing(wire.Network, wire.Hash, ed25519.PublicKey, *slog.Logger) (overlay.Authority, error) {
	return nil, errDamagedMembers
}
