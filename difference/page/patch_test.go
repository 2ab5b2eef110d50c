package page

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tidings/internal/check/checktest"
	"tidings/internal/longtest"
)

func core(lines ...string) *Core { return &Core{Lines: lines} }

// Diff returns the patch from one core to another. Without hunks the cores are equal.
func Diff(old, now *Core) Patch {
	_, p := replace(old, now, changes(old.Lines, now.Lines))
	return p
}

// The text of a patch is that of POSIX diff.
func TestPatchText(t *testing.T) {
	old := core("a", "b", "c", "d")
	for _, c := range []struct {
		new  *Core
		text string
	}{
		{core("a", "b", "c", "d"), ""},
		{core("x", "a", "b", "c", "d"), "0a1\n> x\n"},
		{core("a", "b", "c", "d", "x", "y"), "4a5,6\n> x\n> y\n"},
		{core("a", "d"), "2,3d1\n< b\n< c\n"},
		{core("a", "x", "c", "d"), "2c2\n< b\n---\n> x\n"},
		{core("x", "y", "a", "b", "d"), "0a1,2\n> x\n> y\n3d4\n< c\n"},
		{core(), "1,4d0\n< a\n< b\n< c\n< d\n"},
	} {
		p := Diff(old, c.new)
		if got := p.Text(old); got != c.text {
			t.Errorf("%v: %q, want %q", c.new.Lines, got, c.text)
		}
	}
}

// cores generates cores of few different lines, so that many are equal.
var cores = rapid.Custom(func(t *rapid.T) *Core {
	return &Core{Lines: rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "< c", "---", "1d0", "."}), 0, 30).Draw(t, "lines")}
})

// A patch leads from its old core to its new one, and applies to no other.
func TestPatchesLeadToTheirNewCore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, other := cores.Draw(t, "a"), cores.Draw(t, "b"), cores.Draw(t, "other")
		p := Diff(a, b)
		got, err := p.Apply(a)
		if err != nil || !slices.Equal(got.Lines, b.Lines) {
			t.Fatalf("%v: %q, want %q", err, got.Lines, b.Lines)
		}
		if same := slices.Equal(a.Lines, b.Lines); same != (len(p.Hunks) == 0) {
			t.Fatalf("%d hunks", len(p.Hunks))
		}
		if _, err := p.Apply(other); !slices.Equal(other.Lines, a.Lines) && !errors.Is(err, ErrBase) {
			t.Fatalf("applied to another: %v", err)
		}
	})
}

func TestInvalidPatchesAreRefused(t *testing.T) {
	old := core("a", "b")
	for what, p := range map[string]Patch{
		"behind the end":     {Old: old.Hash(), Hunks: []Hunk{{At: 3}}},
		"omits too many":     {Old: old.Hash(), Hunks: []Hunk{{At: 1, Omit: 2}}},
		"omits none":         {Old: old.Hash(), Hunks: []Hunk{{At: 1, Omit: -1}}},
		"goes back":          {Old: old.Hash(), Hunks: []Hunk{{At: 1, Omit: 1}, {At: 0}}},
		"is before all":      {Old: old.Hash(), Hunks: []Hunk{{At: -1}}},
		"leads elsewhere":    {Old: old.Hash(), Hunks: []Hunk{{At: 0, Add: []string{"x"}}}},
		"is for another":     {Hunks: []Hunk{{At: 0}}},
		"a number too large": {Old: old.Hash(), Hunks: []Hunk{{At: 1, Omit: int(^uint(0) >> 1)}}},
	} {
		if _, err := p.Apply(old); !errors.Is(err, ErrBase) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// GNU patch applies the text of a patch.
func TestGNUPatchApplies(t *testing.T) {
	gnu := checktest.Tool(t, "patch", "GNU patch applies the text in this test")
	dir := t.TempDir()
	for i, c := range [][2]*Core{
		{core("a", "b", "c"), core("a", "x", "c", "d")}, {core("a"), core("b")}, {core("a", "b", "a", "b"), core("b", "a", "b", "---", "< a")}, {core("---", "> a"), core("1d0")},
	} {
		p := Diff(c[0], c[1])
		file := filepath.Join(dir, string(rune('a'+i)))
		if err := os.WriteFile(file, []byte(c[0].Text()), 0o600); err != nil {
			t.Fatal(err)
		}
		run := exec.Command(gnu, "-n", "-s", file)
		run.Stdin = strings.NewReader(p.Text(c[0]))
		if out, err := run.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if got, err := os.ReadFile(file); err != nil || string(got) != c[1].Text() {
			t.Errorf("%v: %q, want %q", err, got, c[1].Text())
		}
	}
}

// Two versions of a page cannot make their comparison slow. The worst cases of diff are few different lines in
// another order.
func TestHostileDiffsAreCheap(t *testing.T) {
	for _, lines := range []int{manyLines / 2, maxLines} {
		testDiffsMadeToHurt(t, lines)
	}
}

func testDiffsMadeToHurt(t *testing.T, lines int) {
	of := func(line func(i int) string) *Core {
		c := new(Core)
		for i := range lines {
			c.Lines = append(c.Lines, line(i))
		}
		return c
	}
	dice := rand.New(rand.NewPCG(1, 2))
	letter := func(n int) func(int) string {
		return func(int) string { return string(rune('a' + dice.IntN(n))) }
	}
	for what, c := range map[string][2]*Core{
		"two letters":    {of(letter(2)), of(letter(2))},
		"twenty letters": {of(letter(20)), of(letter(20))},
		"turned around":  {of(strconv.Itoa), of(func(i int) string { return strconv.Itoa(lines - i) })},
		"by turns":       {of(func(i int) string { return string(rune('a' + i%2)) }), of(func(i int) string { return string(rune('a' + i%3)) })},
		"shuffled":       {of(strconv.Itoa), of(func(i int) string { return strconv.Itoa(i * 7919 % lines) })},
	} {
		t.Run(fmt.Sprintf("%d lines, %s", lines, what), func(t *testing.T) {
			var p Patch
			longtest.Bounded(t, func() { p = Diff(c[0], c[1]) })
			if got, err := p.Apply(c[0]); err != nil || got.Hash() != c[1].Hash() {
				t.Error(err)
			}
			var m Tracker
			for i := range 4 {
				longtest.Bounded(t, func() { m.Check(*c[i%2], time.Unix(int64(i)*7200, 0)) })
			}
		})
	}
}

// A patch leads to its new text after encoding and decoding, and none leads from a text to itself.
func FuzzDiff(f *testing.F) {
	f.Add("a\nb\nc", "a\nx\nc\nd")
	f.Add("", "---\n> a")
	f.Fuzz(func(t *testing.T, a, b string) {
		old, now := Text([]byte(a)), Text([]byte(b))
		if p := Diff(&old, &old); len(p.Hunks) > 0 {
			t.Fatalf("%+v from a text to itself", p)
		}
		p := Diff(&old, &now)
		wire, err := p.Encode(&old)
		if err != nil {
			t.Fatal(err)
		}
		sent, err := Decode(wire, &old)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := sent.Apply(&old); err != nil || !slices.Equal(got.Lines, now.Lines) {
			t.Fatalf("%v: %q, want %q", err, got.Lines, now.Lines)
		}
		if _, err := sent.Apply(&now); old.Hash() != now.Hash() && !errors.Is(err, ErrBase) {
			t.Fatalf("applied to another: %v", err)
		}
	})
}
