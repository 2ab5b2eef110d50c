package overlay

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// Sets of honest members are plausible. Most sets that hide nine members in ten are not, and
// neither are sets of keys that somebody searched for.
func TestPlausible(t *testing.T) {
	t.Parallel()
	const want, rounds = 5, 2000
	l := newLab(t)
	n := l.member()
	rng := rand.New(rand.NewPCG(1, 2))
	id := func() (id ID) {
		for i := range id {
			id[i] = byte(rng.Uint32())
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
	for _, id := range honest[1:] { // one large leaf, so that the node knows the size of the network
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
	var searched []ID // five keys, each the nearest of 20,000: the effort of twenty networks
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
		t.Error("a set of searched keys is plausible")
	}
	t.Logf("of %d: %d honest sets are implausible, %d that hide nine in ten are plausible", rounds, refused, hiding)
	if refused > rounds/200 || hiding > rounds/8 {
		t.Error("the rates are outside their bounds")
	}
	if n.plausible(id(), nil, want) || !n.plausible(honest[0], nearest(honest[0], honest), want) {
		t.Error("an empty set is plausible, or the real members are not")
	}
}
