package page

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"google.golang.org/protobuf/encoding/protowire"
	"pgregory.net/rapid"
)

func TestPatchesSurviveEncoding(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := cores.Draw(t, "a"), cores.Draw(t, "b")
		p := Diff(a, b)
		wire, err := p.Encode(a)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Decode(wire, a)
		if err != nil || got.Old != p.Old || got.New != p.New || len(got.Hunks) != len(p.Hunks) {
			t.Fatalf("%v: %v, want %v", err, got, p)
		}
		for i := range p.Hunks {
			if h, g := p.Hunks[i], got.Hunks[i]; h.At != g.At || h.Omit != g.Omit || len(h.Add) != len(g.Add) || len(h.Add) > 0 && !reflect.DeepEqual(h.Add, g.Add) {
				t.Fatalf("%v, want %v", g, h)
			}
		}
	})
}

// article returns a core of random sentences.
func article(dice *rand.Rand, lines int) *Core {
	c := &Core{}
	for range lines {
		var words []string
		for range 12 {
			words = append(words, fmt.Sprintf("%x", dice.Uint32()))
		}
		c.Lines = append(c.Lines, strings.Join(words, " "))
	}
	return c
}

// A changed word, and a moved paragraph, take almost no space, however badly the page compresses.
func TestPatchesAreSmall(t *testing.T) {
	old := article(rand.New(rand.NewPCG(1, 2)), 400)
	moved := append(append(append([]string{}, old.Lines[50:]...), "A new line."), old.Lines[:50]...)
	moved[7] = strings.Replace(moved[7], " ", " word ", 1)
	now := core(moved...)
	p := Diff(old, now)
	wire, err := p.Encode(old)
	if err != nil {
		t.Fatal(err)
	}
	enc, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = enc.Close() }()
	if whole := len(enc.EncodeAll([]byte(now.Text()), nil)); len(wire) > whole/50 {
		t.Errorf("%d bytes, of %d", len(wire), whole)
	}
}

func TestPatchesNeedTheirBase(t *testing.T) {
	dice := rand.New(rand.NewPCG(3, 4))
	old, other := article(dice, 40), article(dice, 40)
	now := core(append(append([]string{}, old.Lines[20:]...), old.Lines[:20]...)...)
	p := Diff(old, now)
	wire, err := p.Encode(old)
	if err != nil {
		t.Fatal(err)
	}
	for what, base := range map[string]*Core{"another": other, "none": core(), "shorter": core(old.Lines[:39]...)} {
		got, err := Decode(wire, base)
		if err == nil {
			_, err = got.Apply(base)
		}
		if !errors.Is(err, ErrPatch) && !errors.Is(err, ErrBase) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// An empty hunk or line takes two bytes in a message. There must be no more of them than a core has lines.
func TestEmptyHunksAreBounded(t *testing.T) {
	old := core("a")
	hash := old.Hash()
	head := append(append([]byte{1<<3 | 2, byte(len(hash))}, hash[:]...), append([]byte{2<<3 | 2, byte(len(hash))}, hash[:]...)...)
	lines := bytes.Repeat([]byte{3<<3 | 2, 0}, 7<<20)
	for name, raw := range map[string][]byte{
		"hunks": append(slices.Clone(head), lines...),
		"lines": append(protowire.AppendVarint(append(slices.Clone(head), 3<<3|2), uint64(len(lines))), lines...),
	} {
		enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
		if err != nil {
			t.Fatal(err)
		}
		wire := enc.EncodeAll(raw, nil)
		before := memory()
		if _, err := Decode(wire, old); !errors.Is(err, ErrPatch) {
			t.Errorf("%s: %v", name, err)
		}
		if used := memory() - before; used > 64<<20 {
			t.Errorf("%s: %d MiB for %d bytes", name, used>>20, len(wire))
		}
	}
}

// Encoding a small change takes little memory, because each node that finds a change encodes it.
func TestEncodingTakesLittleMemory(t *testing.T) {
	old := article(rand.New(rand.NewPCG(5, 6)), 40)
	now := core(append(slices.Clone(old.Lines), "One more line")...)
	p := Diff(old, now)
	before := memory()
	if _, err := p.Encode(old); err != nil {
		t.Fatal(err)
	}
	if used := memory() - before; used > 16<<20 {
		t.Errorf("%d MiB", used>>20)
	}
}

// memory returns how many bytes have been allocated so far.
func memory() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

func FuzzDecode(f *testing.F) {
	old := core("a", "b", "c")
	p := Diff(old, core("a", "x", "c", "d"))
	wire, err := p.Encode(old)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(wire)
	f.Add([]byte("\x28\xb5\x2f\xfd\x00\x00\x01\x00\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := Decode(b, old)
		if err != nil {
			return
		}
		if now, err := p.Apply(old); err == nil && now.Hash() != p.New {
			t.Error("leads elsewhere")
		}
	})
}
