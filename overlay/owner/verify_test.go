package owner_test

import (
	"crypto/ed25519"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"tidings/internal/wire"
	"tidings/overlay/owner"
	"tidings/overlay/owner/ownerpb"
	"tidings/sim"
)

// The signatures of a key's owners tell a distant member who they are; epochs that others have forged do not.
func TestOwnersOutsideTheLeafAreVerified(t *testing.T) {
	t.Parallel()
	w := newWorld(t, sim.Config{Seed: 3}, 10*time.Minute)
	w.grow(96)
	w.Run(3 * time.Minute)
	w.want(1)
	w.Run(time.Minute)
	key := w.key(w.urls[0])
	v, ok := w.nearest(key)[0].owners.View(key)
	if !ok || v.Epoch == nil {
		t.Fatal("nobody owns the key")
	}
	vouched := func(m *member, e *owner.Epoch) (ok bool) {
		called := false
		m.Do(func() { m.owners.VerifyOwners(e, func(yes bool) { called, ok = true, yes }) })
		w.Run(time.Minute)
		if !called {
			t.Error("no answer")
		}
		return ok
	}
	var far, near *member
	for _, m := range w.members {
		switch {
		case !m.overlay.Leaf().Covers(key):
			far = m
		case !slices.Contains(w.nearest(key), m):
			near = m
		}
	}
	for what, m := range map[string]*member{"in the leaf": near, "an owner": w.nearest(key)[1], "far": far} {
		if m == nil {
			t.Fatal("all members are in one leaf")
		}
		e, err := m.owners.OpenEpoch(v.Epoch.Bytes())
		if err != nil || e.Hash != v.Epoch.Hash || len(e.Owners) != 5 || e.Quorum() != 3 {
			t.Errorf("%s: %v", what, err)
			continue
		}
		if !vouched(m, e) {
			t.Errorf("%s: the owners are not vouched for", what)
		}
		made := *e
		made.Owners = slices.Clone(e.Owners)
		for i := range 3 {
			signer := wire.NewSigner(ed25519.NewKeyFromSeed(slices.Repeat([]byte{byte(i)}, ed25519.SeedSize)), w.hash)
			made.Owners[i] = signer.PeerID()
		}
		if vouched(m, &made) {
			t.Errorf("%s: owners that are made up are vouched for", what)
		}
	}
	for what, b := range map[string][]byte{
		"nothing":       nil,
		"no signatures": unsigned(t, v.Epoch),
		"half of it":    v.Epoch.Bytes()[:len(v.Epoch.Bytes())/2],
	} {
		if _, err := far.owners.OpenEpoch(b); err == nil {
			t.Errorf("%s is an epoch", what)
		}
	}
}

// unsigned returns an epoch as it is sent, without its signatures.
func unsigned(t *testing.T, e *owner.Epoch) []byte {
	m := new(ownerpb.Epoch)
	if err := proto.Unmarshal(e.Bytes(), m); err != nil {
		t.Fatal(err)
	}
	m.Signatures = nil
	return wire.Encode(m)
}
