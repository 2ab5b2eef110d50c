package owner

import (
	"testing"

	"tidings/internal/env"
)

// An owner promises one candidate a number, and no lower number afterwards, whatever branch the epoch in force has.
func TestAPromiseRulesOthersOut(t *testing.T) {
	a, b := env.PeerID("a"), env.PeerID("b")
	for _, c := range []struct {
		name    string
		inForce *Epoch
		branch  uint64
		number  uint32
		from    env.PeerID
		refused uint32
	}{
		{"nothing is known", nil, 2, 1, b, 0},
		{"the same candidate asks again", nil, 1, 5, a, 0},
		{"another candidate asks for the number", nil, 1, 5, b, 5},
		{"a lower number", nil, 1, 4, a, 5},
		{"a higher number", nil, 1, 6, b, 0},
		{"far too high a number", nil, 1, 6 + maxAhead, b, 5},
		{"the number in force", &Epoch{Branch: 1, Number: 7}, 1, 7, b, 7},
		{"the next number", &Epoch{Branch: 1, Number: 7}, 1, 8, b, 0},
		{"another branch is in force", &Epoch{Branch: 3, Number: 7}, 1, 6, b, 0},
	} {
		v := &ballot{epoch: c.inForce}
		v.promise(1, 5, a)
		if got := v.conflict(c.from, c.branch, c.number); got != c.refused {
			t.Errorf("%s: refused for %d, not %d", c.name, got, c.refused)
		}
	}
}

// A signature is sent when it is durable, and only if no other one has taken its place. A signed epoch stays undecided
// until a later one that does not name it is signed, or one is in force.
func TestASignatureIsKeptUntilItIsDecided(t *testing.T) {
	v := &ballot{epoch: &Epoch{Branch: 1, Number: 1}}
	second, other := &Epoch{Branch: 1, Number: 2, Hash: Hash{2}}, &Epoch{Branch: 1, Number: 2, Hash: Hash{3}}
	v.sign(second, "a")
	if v.signed.in(1).durable || !v.promisedAway() {
		t.Error("the signature counts before it is stored, or does not rule the epoch in force out")
	}
	if v.stored(other) || !v.stored(second) || !v.signed.in(1).durable {
		t.Error("another signature than the stored one is durable")
	}
	third := &Epoch{Branch: 1, Number: 3, Hash: Hash{4}, Concurrent: []Hash{second.Hash}}
	v.sign(third, "b")
	if len(v.undecided) != 2 {
		t.Errorf("%d epochs are undecided, of two that may be in force", len(v.undecided))
	}
	fourth := &Epoch{Branch: 1, Number: 4, Hash: Hash{5}, Concurrent: []Hash{third.Hash}}
	v.sign(fourth, "a")
	if len(v.undecided) != 2 || v.undecided[0] != third {
		t.Errorf("%v are undecided after the candidate has ruled one out", v.undecided)
	}
	v.epoch = third
	if v.settle(); len(v.undecided) != 1 || v.undecided[0] != fourth {
		t.Errorf("%v are undecided in the third epoch", v.undecided)
	}
}
