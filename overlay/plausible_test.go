package overlay

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// Sets of honest members pass; most of those that leave out nine members in ten, and of
// those that somebody has searched keys for, do not.
func TestPlausible(t *testing.T) {
	t.Parallel()
	const want, rounds = 5, 2000
	l := newLab(t)
	n := l.member()
	dice := rand.New(rand.NewPCG(1, 2))
	id := func() (id ID) {
		for i := range id {
			id[i] = byte(dice.Uint32())
		}
		return id
	}
	nearest := func(key ID, of []ID) (c []*Contact) {
		of = slices.Clone(of)
		slices.SortFunc(of, func(a, b ID) int {
			if Nearer(key, a, b) {
				return -1
			}
			return 1
		})
		for _, id := range of[:min(want, len(of))] {
			c = append(c, &Contact{ID: id})
		}
		return c
	}
	var honest []ID
	for range 1024 {
		honest = append(honest, id())
	}
	for _, id := range honest[1:] { // one large leaf, so that the node knows how many there are
		n.leaf.members = append(n.leaf.members, &Contact{ID: id})
	}
	refused, hiding := 0, 0
	for range rounds {
		key := id()
		if !n.plausible(key, nearest(key, honest), want) {
			refused++
		}
		if n.plausible(key, nearest(key, honest[:102]), want) {
			hiding++
		}
	}
	key := id()
	var searched []ID // five keys, each the nearest of 20,000: twenty networks
	for range want {
		best := id()
		for range 20_000 {
			if other := id(); Nearer(key, other, best) {
				best = other
			}
		}
		searched = append(searched, best)
	}
	if n.plausible(key, nearest(key, searched), want) {
		t.Error("keys that were searched for pass")
	}
	t.Logf("of %d: %d honest sets refused, %d passed that hide nine of ten", rounds, refused, hiding)
	if refused > rounds/200 || hiding > rounds/8 {
		t.Error("not as often as it should be")
	}
	if n.plausible(id(), nil, want) || !n.plausible(honest[0], nearest(honest[0], honest), want) {
		t.Error("nobody is plausible, or the members are not")
	}
}
