package overlay

import (
	"encoding/hex"
	"testing"

	"pgregory.net/rapid"
)

func drawID(t *rapid.T, name string) ID {
	var id ID
	copy(id[:], rapid.SliceOfN(rapid.Byte(), len(id), len(id)).Draw(t, name))
	return id
}

// XOR is a metric, and a node that shares a longer prefix with a key is nearer to it, so each
// hop that lengthens the prefix shortens the distance too.
func TestLongerPrefixIsNearer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key, a, b := drawID(t, "key"), drawID(t, "a"), drawID(t, "b")
		if n := rapid.IntRange(0, 31).Draw(t, "shared"); n > 0 {
			copy(a[:n], key[:n])
		}
		if a.Common(key) > b.Common(key) && !Nearer(key, a, b) {
			t.Fatalf("%v shares %d bits with the key, %v shares %d, yet is not nearer", a, a.Common(key), b, b.Common(key))
		}
		if a != b && Nearer(key, a, b) == Nearer(key, b, a) {
			t.Fatal("two ids are equally near")
		}
		if Nearer(key, a, a) {
			t.Fatal("an id is nearer than itself")
		}
	})
}

func TestDigitsAndBitsSpellTheID(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := drawID(t, "a")
		var byDigit, byBit ID
		for i := range Digits {
			byDigit[i/2] |= byte(a.Digit(i)) << (4 * (1 - i%2))
		}
		for i := range Bits {
			byBit[i/8] |= byte(a.Bit(i)) << (7 - i%8)
		}
		parsed, err := hex.DecodeString(a.String())
		if byDigit != a || byBit != a || ID(parsed) != a || err != nil {
			t.Fatalf("%v: digits %v, bits %v, parsed %x (%v)", a, byDigit, byBit, parsed, err)
		}
	})
}

func TestIDsOfTwoNetworksDiffer(t *testing.T) {
	if Key("a", "http://x/") == Key("b", "http://x/") || NodeID("a", "peer-id") == NodeID("b", "peer-id") {
		t.Error("the network's name does not enter the id")
	}
	if Key("a", "b") == NodeID("a", "__b") {
		t.Error("a key can be a node's id")
	}
}
