package authority

import (
	"bytes"
	"crypto/ed25519"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/libp2p"
)

var now = time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)

// node returns the peer id of a node.
func node(i int) env.PeerID {
	seed := bytes.Repeat([]byte{byte(i), byte(i >> 8)}, ed25519.SeedSize/2)
	return wire.PeerIDOf(ed25519.NewKeyFromSeed(seed).Public().(ed25519.PublicKey))
}

func create(t *testing.T) (*Dir, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "authority")
	d, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	return d, path
}

func revoke(d *Dir, peer env.PeerID, now time.Time) (bool, error) {
	_, done, err := d.Revoke(peer, now)
	return done, err
}

func TestMembersAreAdmittedAndRevoked(t *testing.T) {
	d, path := create(t)
	again, err := Open(path)
	if err != nil || !again.Public().Equal(d.Public()) {
		t.Fatalf("opened: %v", err)
	}
	if info, err := os.Stat(filepath.Join(path, keyFile)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key's file: %v, %v", info.Mode(), err)
	}
	for i, step := range []struct {
		do   func() (bool, error)
		want bool
	}{
		{func() (bool, error) { return revoke(d, node(1), now) }, true}, // of another authority
		{func() (bool, error) { return d.Admit(node(1), "one", now) }, true},
		{func() (bool, error) { return again.Admit(node(1), "again", now) }, false},
		{func() (bool, error) { return again.Admit(node(2), "two", now.Add(time.Minute)) }, true},
		{func() (bool, error) { return revoke(d, node(1), now.Add(time.Hour)) }, true},
		{func() (bool, error) { return revoke(d, node(1), now.Add(time.Hour)) }, false},
	} {
		if got, err := step.do(); err != nil || got != step.want {
			t.Errorf("step %d: %v, %v", i, got, err)
		}
	}
	members, err := d.Members()
	if err != nil || len(members) != 2 || members[0].Name != "one" || members[0].Revoked.IsZero() || members[1].Peer != node(2) || !members[1].Revoked.IsZero() {
		t.Fatalf("%+v, %v", members, err)
	}
	if done, err := d.Admit(node(1), "one again", now.Add(2*time.Hour)); !done || err != nil {
		t.Errorf("a revoked node was not admitted again: %v", err)
	}
	later, err := d.Members()
	if err != nil || later[1].ID == members[0].ID {
		t.Errorf("a node that was admitted again has its old id: %v", err)
	}
}

// Members accept the certificates and lists that an authority signs.
func TestSigning(t *testing.T) {
	d, _ := create(t)
	n := wire.DefaultNetwork("club")
	n.IDs, n.Authorities = wire.CertificateIDs, wire.JoinAuthorities(d.Public())
	if err := d.SaveNetwork(n); err != nil {
		t.Fatal(err)
	}
	if got, ok, err := d.Network(); err != nil || !ok || got != n {
		t.Errorf("%+v, %v, %v", got, ok, err)
	}
	self := node(9)
	key, _ := wire.PublicKeyOf(self)
	a, err := d.Signing(n, wire.HashOf(n.Descriptor()), key, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if raw := a.Certify(self, now); raw == nil {
		t.Error("the authority's own node is not admitted")
	}
	if raw := a.Certify(node(1), now); raw != nil {
		t.Error("a stranger is certified")
	}
	first := a.Revocations(overlay.ID{1})
	if first == nil || !bytes.Equal(first, a.Revocations(overlay.ID{1})) {
		t.Error("an unchanged list is signed anew")
	}
	if _, err := d.Admit(node(1), "", now); err != nil {
		t.Fatal(err)
	}
	if raw := a.Certify(node(1), now); raw == nil {
		t.Error("an admitted node is not certified")
	}
	if !bytes.Equal(first, a.Revocations(overlay.ID{1})) {
		t.Error("the list is signed anew because a node was admitted")
	}
	if _, err := revoke(d, node(1), time.Now()); err != nil {
		t.Fatal(err)
	}
	if a.Certify(node(1), now) != nil || bytes.Equal(first, a.Revocations(overlay.ID{1})) {
		t.Error("a revoked node is certified, or not on the list")
	}
	other := wire.DefaultNetwork("other")
	if was, _, err := d.Revoke(self, time.Now()); err != nil || !was.Signs {
		t.Errorf("the authority's own node is not known as one: %+v, %v", was, err)
	}
	if err := d.SaveNetwork(other); err != nil {
		t.Fatal(err)
	}
	if _, _, err := d.Network(); err == nil || !strings.Contains(err.Error(), "restore it from a backup") {
		t.Errorf("the file of another network: %v", err)
	}
	if _, err := d.Signing(other, wire.HashOf(other.Descriptor()), key, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "leave --authority out") {
		t.Errorf("an authority of another network: %v", err)
	}
}

// A list has room for MaxRevoked nodes. One more is refused, until certificates expire.
func TestTheListIsBounded(t *testing.T) {
	d, _ := create(t)
	for i := range overlay.MaxRevoked {
		text := fmt.Sprintf(`{"id":"%064x","admitted":%q,"revoked":%q}`, i, now.Format(time.RFC3339), now.Format(time.RFC3339))
		if err := os.WriteFile(d.file(node(i)), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.save(Member{Peer: node(5000), Admitted: now}); err != nil {
		t.Fatal(err)
	}
	if _, err := revoke(d, node(5000), now.Add(time.Hour)); err == nil || !strings.Contains(err.Error(), "wait until certificates expire") {
		t.Errorf("over the limit: %v", err)
	}
	if done, err := revoke(d, node(5000), now.Add(Lifetime)); !done || err != nil {
		t.Errorf("after a lifetime: %v", err)
	}
	if _, err := d.Admit(node(5001), strings.Repeat("x", maxName+1), now); err == nil {
		t.Error("a name over the limit is taken")
	}
}

// A damaged file of a member stops nothing but its own node, which counts as revoked until the operator has decided: the file may
// be that of a revoked member.
func TestOneDamagedFileDoesNotStopTheAuthority(t *testing.T) {
	d, _ := create(t)
	n := wire.DefaultNetwork("club")
	n.IDs, n.Authorities = wire.CertificateIDs, wire.JoinAuthorities(d.Public())
	key, _ := wire.PublicKeyOf(node(9))
	var log bytes.Buffer
	a, err := d.Signing(n, wire.HashOf(n.Descriptor()), key, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	listed := func(want ...env.PeerID) {
		t.Helper()
		a.Revocations(overlay.ID{1})
		got := a.(*signing).of.Revoked
		if slices.Sort(want); !slices.Equal(slices.Sorted(slices.Values(got)), want) {
			t.Errorf("the list has %d nodes, want %d", len(got), len(want))
		}
	}
	for i := 1; i <= 3; i++ {
		if _, err := d.Admit(node(i), "", now); err != nil {
			t.Fatal(err)
		}
	}
	listed()
	intact, err := os.ReadFile(d.file(node(1)))
	if err != nil {
		t.Fatal(err)
	}
	write := func(content []byte) {
		t.Helper()
		if err := os.WriteFile(d.file(node(1)), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write([]byte("{"))
	if done, err := revoke(d, node(2), time.Now()); !done || err != nil {
		t.Fatalf("another member cannot be revoked: %v", err)
	}
	listed(node(1), node(2))
	listed(node(1), node(2))
	if strings.Count(log.String(), "is damaged") != 1 {
		t.Errorf("the log: %s", log.String())
	}
	write(intact) // in place
	listed(node(2))
	write(nil)
	if done, err := revoke(d, node(1), time.Now()); !done || err != nil || d.Check() != nil {
		t.Errorf("revoked: %v, %v, %v", done, err, d.Check())
	}
	listed(node(1), node(2))
	write(nil)
	if done, err := d.Admit(node(1), "again", time.Now()); !done || err != nil || d.Check() != nil {
		t.Errorf("admitted: %v, %v, %v", done, err, d.Check())
	}
	listed(node(2))
}

func TestDamagedFiles(t *testing.T) {
	d, path := create(t)
	if _, err := Create(path); err == nil || !strings.Contains(err.Error(), "choose another directory") {
		t.Errorf("created twice: %v", err)
	}
	if _, ok, err := d.Network(); ok || err != nil {
		t.Errorf("a network that was not created here: %v", err)
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(path, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, text := range []string{"", "{", `{"id":"zz"}`, `{"id":"00"}`} {
		write(filepath.Join(membersFolder, libp2p.PeerIDString(node(1))), text)
		if m, err := d.Members(); err != nil || len(m) != 1 || !m[0].Damaged || m[0].Revoked.IsZero() {
			t.Errorf("%q: %+v, %v", text, m, err)
		}
		if err := d.Check(); err == nil || !strings.Contains(err.Error(), "restore it from a backup") {
			t.Errorf("%q: %v", text, err)
		}
	}
	write(filepath.Join(membersFolder, libp2p.PeerIDString(node(1))), fmt.Sprintf(`{"id":"%064x"}`, 1))
	write(filepath.Join(membersFolder, "notes.txt"), "of the operator")
	if m, err := d.Members(); err != nil || len(m) != 1 {
		t.Errorf("%v, %v", m, err)
	}
	for _, text := range []string{"", "not base64!", "AAAA"} {
		write(networkFile, text)
		if _, _, err := d.Network(); err == nil || !strings.Contains(err.Error(), "restore it from a backup") {
			t.Errorf("network %q: %v", text, err)
		}
	}
	if err := os.Chmod(filepath.Join(path, keyFile), 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path); runtime.GOOS != "windows" && (err == nil || !strings.Contains(err.Error(), "run chmod 600")) {
		t.Errorf("a key that others may read: %v", err)
	}
	if err := os.Chmod(filepath.Join(path, keyFile), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"} {
		write(keyFile, text)
		if _, err := Open(path); err == nil || !strings.Contains(err.Error(), "is damaged") {
			t.Errorf("key %q: %v", text, err)
		}
	}
}
