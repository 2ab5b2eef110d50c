package owner

import "testing"

func TestEpochsAreKnownByStatementAndSignatures(t *testing.T) {
	p := NewEpochCache(2)
	e := someEpoch(2)
	one, two, three := e.envelopes()[0], e.envelopes()[1], someEpoch(3).envelopes()[2]
	p.add(e)
	for what, signatures := range map[string][][]byte{
		"none":          nil,
		"fewer":         {one},
		"others":        {one, three},
		"another order": {two, one},
		"more":          {one, two, three},
	} {
		if p.find(e.Hash, signatures) != nil {
			t.Errorf("known by its statement with %s", what)
		}
	}
	again := [][]byte{one, two}
	if p.find(e.Hash, again) != e {
		t.Error("not known")
	}
	for i := range 4 {
		p.add(someEpoch(3 + i))
	}
	if p.find(e.Hash, again) != nil {
		t.Error("known for ever")
	}
	var none *EpochCache
	if none.add(e); none.find(e.Hash, again) != nil {
		t.Error("known to nobody")
	}
}
