package longtest

import (
	"bytes"
	"strings"
	"testing"
)

func TestSwitch(t *testing.T) {
	for _, c := range []struct {
		value  string
		size   int
		skips  bool
		prefix string
	}{
		{"", 2, true, ""},
		{"long", 20, false, "TIDINGS_TESTS=long "},
	} {
		t.Setenv(Switch, c.value)
		if size := Pick(2, 20); size != c.size {
			t.Errorf("%s=%q picks the size %d, want %d", Switch, c.value, size, c.size)
		}
		if prefix := Prefix(); prefix != c.prefix {
			t.Errorf("%s=%q is written %q on a command line, want %q", Switch, c.value, prefix, c.prefix)
		}
		skips := true
		t.Run("only", func(t *testing.T) {
			defer func() { skips = t.Skipped() }()
			Only(t, "a measurement")
		})
		if skips != c.skips {
			t.Errorf("%s=%q skips a long test: %v, want %v", Switch, c.value, skips, c.skips)
		}
	}
}

// A misspelt value does not run the fast tier in silence.
func TestUnknownTierIsRefused(t *testing.T) {
	t.Setenv(Switch, "lang")
	defer func() {
		err, _ := recover().(error)
		if err == nil || !strings.Contains(err.Error(), `TIDINGS_TESTS: "lang" is no tier; set it to "long"`) {
			t.Errorf("TIDINGS_TESTS=lang: %v", err)
		}
	}()
	Long()
}

// Memory that is held and memory that is garbage both count.
func TestCost(t *testing.T) {
	const size = 32 << 20
	var held []byte
	_, peak := cost(t, func() { held = make([]byte, size) })
	if took, _ := cost(t, func() { _ = bytes.Count(held, []byte{0}) }); took < 0 || took > MaxTime {
		t.Errorf("counting bytes took %v", took)
	}
	if peak < size || peak > 2*size {
		t.Errorf("%d bytes make a peak of %d", size, peak)
	}
}
