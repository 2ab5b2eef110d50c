package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"tidings/internal/longtest"
	"tidings/proxy"
)

// TestAnAuthorityAdmitsNodes founds a network of certificates with real processes. A node is a client until it is admitted,
// and again after it was revoked; it reads at all times.
func TestAnAuthorityAdmitsNodes(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "authority")
	o := newTestOrigin(t)
	o.Play("/feed", growingFeed("feed", 3, 1))
	try := func(args ...string) (string, error) {
		var out strings.Builder
		err := command(t.Context(), append([]string{"network"}, args...), strings.NewReader(""), &out, &out)
		return out.String(), err
	}
	network := func(args ...string) string {
		t.Helper()
		out, err := try(args...)
		if err != nil {
			t.Fatalf("network %v: %s, %v", args, out, err)
		}
		return out
	}
	if _, err := try("create", "", "--authority", dir); err == nil || !strings.Contains(err.Error(), "the name is empty") {
		t.Errorf("a network without a name: %v", err)
	}
	if out := network("create", "club", "--authority", dir, "--allow-private-origins", "--poll-interval", "1s", "--maintenance-interval", "1s"); !strings.Contains(out, "club") {
		t.Errorf("create: %s", out)
	}
	founder := startNode(t, "--allow-private-origins", "--authority", dir)
	other := startNode(t, "--allow-private-origins", "--bootstrap", founder.peer)
	state := func(want string) {
		t.Helper()
		eventually(t, 3*timeout, "the node to be "+want, func() error {
			found, err := askJSON[proxy.DoctorResponse](other, "doctor")
			if err == nil && (len(found.Findings) == 0 || !strings.Contains(found.Findings[0].What.String(), want)) {
				err = fmt.Errorf("%+v", found.Findings)
			}
			return err
		})
	}
	state("no certificate")
	address := other.subscribe(o.url + "/feed")
	reads := func() {
		t.Helper()
		eventually(t, 2*timeout, "the reader to have an item", func() error {
			f, _, err := readFeed(address)
			if err == nil && len(f.Items) == 0 {
				err = errors.New("no items")
			}
			return err
		})
	}
	reads()
	peer := other.status().PeerID
	network("admit", "--authority", dir, "--name", "the other one", peer)
	state("a member of network")
	if out := network("admit", "--authority", dir, peer); !strings.Contains(out, "already") {
		t.Errorf("admitted twice: %s", out)
	}
	other.kill()
	other.restart()
	state("a member of network") // it has kept its certificate
	network("revoke", "--authority", dir, peer)
	state("an authority has revoked")
	reads()
	if out := network("list", "--authority", dir); strings.Count(out, "\n") != 3 || !strings.Contains(out, "the other one") {
		t.Errorf("list: %s", out)
	}
	if out, err := try("revoke", "--authority", dir, peer); err == nil || !strings.Contains(err.Error(), "revoked already") {
		t.Errorf("revoked twice: %s, %v", out, err)
	}
	if longtest.Long() { // takes two more minutes; sim.TestCertificatesAdmit does the same
		network("admit", "--authority", dir, "--name", "the other one", peer)
		state("a member of network")
	}
	if out := network("revoke", "--authority", dir, founder.status().PeerID); !strings.Contains(out, "the node of this authority") {
		t.Errorf("the authority's own node is revoked without a warning: %s", out)
	}
	eventually(t, 3*timeout, "the authority's node to say that it was revoked", func() error {
		found, err := askJSON[proxy.DoctorResponse](founder, "doctor")
		if err == nil && !strings.Contains(fmt.Sprint(found.Findings), "this node of an authority was revoked itself") {
			err = fmt.Errorf("%+v", found.Findings)
		}
		return err
	})
}
