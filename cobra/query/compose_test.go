package query

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestCompose(t *testing.T) {
	for want, f := range map[string][4]string{
		"":      {" ", "", "\t", `""`},
		"solar": {"solar", "", "", ""},
		`solar battery "heat pump" (wind OR water) NOT advert NOT "press release"`: {"solar battery", "wind water", `advert "press release"`, " heat  pump "},
		"wind":                 {"", " wind ", "", ""},
		"turbine* NOT sale*":   {"turbine*", "", "sale*", ""},
		`"AND" or "-x" "a(b)"`: {`AND or -x a(b)`, "", "", ""},
		`"title:sun"`:          {"title:sun", "", "", ""},
		`"say hi"`:             {"", "", "", `say "hi"`},
		"太陽 OR 風":              {"", "太陽 風", "", ""},
	} {
		got := Compose(f[0], f[1], f[2], f[3])
		if got != want {
			t.Errorf("%q: %s, want %s", f, got, want)
		}
		if got == "" {
			continue
		}
		if e, err := Parse(got); err != nil || e.String() != got {
			t.Errorf("%s is read as %v, %v", got, e, err)
		}
	}
}

// Whatever a person types, the query is read as it was composed, or the error is not about its syntax.
func TestComposedQueriesAreRead(t *testing.T) {
	words := rapid.StringMatching(`([a-zA-Z()":*~-]{0,6} ?){0,5}`)
	rapid.Check(t, func(t *rapid.T) {
		got := Compose(words.Draw(t, "all"), words.Draw(t, "any"), words.Draw(t, "none"), words.Draw(t, "phrase"))
		if got == "" {
			return
		}
		if e, err := Parse(got); err == nil && e.String() != got {
			t.Fatalf("%s is read as %s", got, e)
		} else if err != nil {
			for _, syntax := range []string{"quotation mark", "parenthes", "no word before A", "no word before O", "not expected"} {
				if strings.Contains(err.Error(), syntax) {
					t.Fatalf("%s: %v", got, err)
				}
			}
		}
	})
}

func TestMarks(t *testing.T) {
	for _, c := range []struct{ query, field, text, want string }{
		{"solar OR wind", "", "Solar power, and so\u00adlar; WIND.", "[Solar] power, and [so\u00adlar]; [WIND]."},
		{`"heat pump" NOT advert`, "", "A heat pump, a pump, an advert", "A [heat pump], a pump, an advert"},
		{"turbine* ~running", "", "Turbines run", "[Turbines] [run]"},
		{"title:sun author:ann moon", "title", "Ann, sun and moon", "Ann, [sun] and [moon]"},
		{"title:sun moon", "", "sun and moon", "sun and [moon]"},
		{"cafe", "", "The café l'cafe’s", "The [café] [l'cafe’s]"},
		{"太陽", "", "新太陽光", "新[太陽]光"},
		{"太陽", "", "太\u00ad陽光", "[太\u00ad陽]光"},
		{"site:example.org -x", "", "site example.org x", "site example.org x"},
		{"a", "", "", ""},
	} {
		e, err := Parse(c.query)
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		at := 0
		for _, m := range e.Marks(fieldOf(c.field), c.text) {
			b.WriteString(c.text[at:m.Start] + "[" + c.text[m.Start:m.End] + "]")
			at = m.End
		}
		if b.WriteString(c.text[at:]); b.String() != c.want {
			t.Errorf("%s: %s, want %s", c.query, b.String(), c.want)
		}
	}
}
