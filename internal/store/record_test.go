package store

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"
)

func FuzzRecord(f *testing.F) {
	f.Add([]byte("key"), encode(kindInline, []byte("key"), []byte("value")))
	f.Add([]byte("key"), place{1, 2, 3, 4}.encode([]byte("key")))
	f.Add(headKey, (&head{headVersion, 1, 2, 3, 4, true, "lost"}).encode())
	f.Add([]byte{}, []byte{})
	f.Fuzz(func(t *testing.T, key, encoded []byte) {
		if r, ok := parseRecord(key, encoded); ok {
			again := encode(kindInline, key, r.value)
			if r.external {
				again = r.place.encode(key)
			}
			if !bytes.Equal(again, encoded) {
				t.Errorf("read %x, wrote %x", encoded, again)
			}
		}
		if h, ok := parseHead(encoded); ok && h.version == headVersion && !bytes.Equal(h.encode(), encoded) {
			t.Errorf("read %x, wrote %x", encoded, h.encode())
		}
	})
}

func TestDamagedRecordIsNoRecord(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.SliceOfN(rapid.Byte(), 1, 20).Draw(t, "key")
		good := encode(kindInline, key, rapid.SliceOf(rapid.Byte()).Draw(t, "value"))
		if rapid.Bool().Draw(t, "outside") {
			good = place{rapid.Uint32().Draw(t, "segment"), 1, 2, 3}.encode(key)
		}
		if _, ok := parseRecord(key, good); !ok {
			t.Fatal("refused")
		}
		bad := bytes.Clone(good)
		bad[rapid.IntRange(0, len(bad)-1).Draw(t, "at")] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		other := bytes.Clone(key)
		other[0] ^= 1
		for name, ok := range map[string]bool{
			"flipped":     whole(key, bad),
			"cut":         whole(key, good[:rapid.IntRange(0, len(good)-1).Draw(t, "cut")]),
			"longer":      whole(key, append(bytes.Clone(good), 0)),
			"another key": whole(other, good),
			"moved":       whole(append(bytes.Clone(key), good[0]), good[1:]),
		} {
			if ok {
				t.Errorf("%s: taken for whole", name)
			}
		}
	})
}

func whole(key, encoded []byte) bool {
	_, ok := parseRecord(key, encoded)
	return ok
}
