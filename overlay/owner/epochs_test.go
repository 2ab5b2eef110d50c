package owner

import "testing"

func TestEpochsAreKnownByStatementAndSignatures(t *testing.T) {
	p := NewEpochCache(2)
	e := someEpoch(1)
	e.signatures = [][]byte{[]byte("one"), []byte("two")}
	p.add(e)
	for what, signatures := range map[string][][]byte{
		"none":          nil,
		"fewer":         {[]byte("one")},
		"others":        {[]byte("one"), []byte("2")},
		"another order": {[]byte("two"), []byte("one")},
		"more":          {[]byte("one"), []byte("two"), []byte("three")},
	} {
		if p.find(e.Hash, signatures) != nil {
			t.Errorf("known by its statement with %s", what)
		}
	}
	again := [][]byte{[]byte("one"), []byte("two")}
	if p.find(e.Hash, again) != e {
		t.Error("not known")
	}
	for i := range 4 {
		p.add(someEpoch(2 + i))
	}
	if p.find(e.Hash, again) != nil {
		t.Error("known for ever")
	}
	var none *EpochCache
	if none.add(e); none.find(e.Hash, again) != nil {
		t.Error("known to nobody")
	}
}
