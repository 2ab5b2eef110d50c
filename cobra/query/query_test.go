package query

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for _, test := range []struct{ text, printed string }{
		{"solar", "solar"},
		{"  solar   battery ", "solar battery"},
		{"solar AND battery", "solar battery"},
		{"(solar AND battery) NOT advert", "solar battery NOT advert"},
		{"solar -advert", "solar NOT advert"},
		{"solar NOT NOT battery", "solar battery"},
		{"a OR b c OR d", "a OR b c OR d"},
		{"(a OR b) c", "(a OR b) c"},
		{"NOT (a b) c", "NOT (a b) c"},
		{"((a) OR ((b)))", "a OR b"},
		{"(a OR b) OR c", "a OR b OR c"},
		{`"heat pump"`, `"heat pump"`},
		{`"solar"`, "solar"},
		{`"AND" x`, `"AND" x`},
		{`"-5" x`, `"-5" x`},
		{"photo*", "photo*"},
		{`"heat pum*"`, `"heat pum*"`},
		{"~running", "~running"},
		{`~"solar panels"`, `~"solar panels"`},
		{"title:solar", "title:solar"},
		{"TITLE:solar", "title:solar"},
		{"title:(a OR b) c", "(title:a OR title:b) c"},
		{`author:"Jane Doe"`, `author:"Jane Doe"`},
		{`"title:solar"`, `"title:solar"`},
		{"http://x.org/", "http://x.org/"},
		{"feed:https://example.org/f lang:pt-BR site:example.org", "feed:https://example.org/f lang:pt-BR site:example.org"},
		{"and or not", "and or not"},
		{"東京都 OR 京都", "東京都 OR 京都"},
		{"state-of-the-art", "state-of-the-art"},
		{"titel:sun \u202esolar\ufeff", "titel:sun solar"},
		{"“heat pump” „sea wind‟ «sun»", `"heat pump" "sea wind" sun`},
		{"（title：solar OR ～wind） －advert　photo＊", "(title:solar OR ~wind) NOT advert photo*"},
		{"hy\u00addro N\u2060OT Hawai\u02bbi", "hydro NOT Hawai'i"},
		{`title:"~sun" ~"wind" "~sea"`, `title:"~sun" ~wind "~sea"`},
		{"mailto:x@example.org", "mailto:x@example.org"},
		{`"*lar" title:"so*lar"`, "*lar title:so*lar"},
	} {
		e, err := Parse(test.text)
		if err != nil {
			t.Errorf("%s: %v", test.text, err)
			continue
		}
		if e.String() != test.printed {
			t.Errorf("%s: printed as %s, not as %s", test.text, e, test.printed)
		}
	}
}

func TestErrorsSayWhereAndWhatToWrite(t *testing.T) {
	for _, test := range []struct {
		text string
		at   int
		what string
	}{
		{"", 0, "empty"},
		{"\u00ad\u200b", 0, "empty"},
		{"solar AND", 9, "a word is missing at the end"},
		{"OR solar", 0, "no word before OR"},
		{"solar OR OR wind", 9, "no word before OR"},
		{"(solar", 0, "not closed"},
		{"solar)", 5, ")"},
		{"()", 1, "parentheses are empty"},
		{"title:( )", 8, "parentheses are empty"},
		{"*", 0, "no word before *"},
		{`solar "heat pump`, 6, "quotation mark is not closed"},
		{"so*", 0, "too short"},
		{"solar ++", 6, "no word"},
		{"solar && wind", 6, "is not an operator"},
		{"solar | wind", 6, "is not an operator"},
		{"title:", 0, "a word is missing"},
		{"title: solar", 0, "a word is missing"},
		{"title:(a author:b)", 9, "cannot be used inside title:"},
		{"feed:nothing", 0, "is not valid"},
		{"lang:e", 0, "is not valid"},
		{"lang:en*", 0, "* and ~ do not work with lang:"},
		{"~run*", 0, "both ~ and *"},
		{"NOT solar", 0, "only says what to exclude"},
		{"solar OR -wind", 0, "only says what to exclude"},
		{"a\xff", 0, "UTF-8"},
		{"author:(" + strings.Repeat("wordsoften ", 250) + ")", 0, "the query has 4499 bytes"},
		{strings.Repeat("ж", 70), 0, "is too long"},
	} {
		_, err := Parse(test.text)
		var e *Error
		if !errors.As(err, &e) {
			t.Errorf("%q: %v", test.text, err)
			continue
		}
		if e.At != test.at || !strings.Contains(e.What, test.what) {
			t.Errorf("%q: at %d: %s; not at %d: %s", test.text, e.At, e.What, test.at, test.what)
		}
	}
}

// Valid queries with probable mistakes get hints.
func TestHints(t *testing.T) {
	for text, want := range map[string]int{
		"sun wind": 0, "sun and wind": 1, "sun or wind or sea not ice": 2, "title:and sun": 0, "sun AND wind": 0,
		"titel:sun": 1, "inurl:sun": 1, "before:2024": 1, "!advert sun": 1, "sun!": 0, "tiitle:sun": 1, "tite:sun": 1, "tag :sun": 1, "headline:sun": 1, "12:30 star:trek": 0, "https://x.org/": 0, "host://x": 0,
		"*lar": 1, "title:so*lar": 1, "feed:https://x.org/*/f": 0, "sol*": 0,
		"C++": 1, "[Ad]": 1, "C# sun": 1, ".NET": 1, "AT&T": 1, "$100": 1, "author:@me": 1, "a+b -[x]": 2, `"100% of"`: 1, "feed:https://x.org/?a=b": 0,
		"state-of-the-art": 0, "what?": 0, "don't": 0, "3.14": 0, "snake_case": 0, "🚀": 0, "東京、京都": 0, `"and, or"`: 0,
		"x NOT x": 1, `x "a b" -(c OR "A B")`: 1, `"a b" NOT a`: 1, "a NOT a OR b": 0, `"a b" NOT "b a"`: 0,
	} {
		e, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if hints := e.Hints(); len(hints) != want {
			t.Errorf("%s: %q", text, hints)
		}
	}
}

func TestClauses(t *testing.T) {
	for text, want := range map[string]string{
		"b a b":                 "w0a w0b",
		"a OR b":                "w0a | w0b",
		"(a OR b) (a OR c)":     "w0a | w0a w0c | w0a w0b | w0b w0c",
		"a NOT (b OR c)":        "w0a !w0b !w0c",
		"a NOT (b c)":           "w0a !w0b | w0a !w0c",
		`"a b" c`:               "w0a w0b w0c [w0a w0b]",
		`title:"a b*"`:          "",
		"tag:x pho* ~running":   "p0pho s0en:run w3x",
		"lang:de ~läufer":       "c6de s0de:lauf",
		"site:example.org:8080": "c5example.org",
		"site:www.Example.org":  "c5example.org",
		"feed:HTTPS://Ex.org/f": "c4https://ex.org/f",
		"東京都":                   "w0京都 w0東京 [w0東京 w0京都]",
		`"東京都 x"`:               "w0x w0京都 w0東京 w0都 [w0東京 w0京都 w0都 w0x]",
	} {
		e, err := Parse(text)
		if err != nil {
			if want != "" {
				t.Errorf("%s: %v", text, err)
			}
			continue
		}
		var got []string
		for _, c := range e.Clauses() {
			s := strings.Join(c.Terms, " ")
			for _, k := range c.Checks {
				switch k.Op {
				case Not:
					s += " !" + strings.Join(k.Args[0].Keys, " ")
				default:
					s += " [" + strings.Join(k.Keys, " ") + "]"
				}
			}
			got = append(got, s)
		}
		if g := strings.Join(got, " | "); g != want {
			t.Errorf("%s: %s, not %s", text, g, want)
		}
	}
}

// TestQueryWithManyCombinationsBecomesOneCheck: a query with more than 64 conjunctions is found
// by a few of its words.
func TestQueryWithManyCombinationsBecomesOneCheck(t *testing.T) {
	e, err := Parse("(a1 OR a2 OR a3 OR a4) (b1 OR b2 OR b3 OR b4) (c1 OR c2 OR c3 OR c4) (rarities OR exceptions)")
	if err != nil {
		t.Fatal(err)
	}
	clauses := e.Clauses()
	if len(clauses) != 2 || clauses[0].Terms[0] != "w0exceptions" || clauses[1].Terms[0] != "w0rarities" {
		t.Fatalf("%v", clauses)
	}
	if !reflect.DeepEqual(clauses[0].Checks, clauses[1].Checks) || clauses[0].Checks[0].Op != And {
		t.Errorf("%v", clauses)
	}
}

func TestPlainTermsEqualParsedTerms(t *testing.T) {
	long := strings.Repeat("x", 128)
	for _, test := range []struct {
		text  string
		plain bool
	}{
		{"solar", true},
		{" wind  solar 2024 3g wind ", true},
		{"and or not", true},
		{long, true},
		{strings.Repeat("a ", MaxTerms), true},
		{"", false},
		{"  ", false},
		{"Solar", false},
		{"solar OR wind", false},
		{"solar\twind", false},
		{"sol*", false},
		{"-wind", false},
		{"l'avion", false},
		{"café", false},
		{"x_y", false},
		{"solar " + long + "x", false},
		{strings.Repeat("a ", MaxTerms+1), false},
		{strings.Repeat(" ", MaxText) + "a", false},
	} {
		if got := plainTerms(test.text) != nil; got != test.plain {
			t.Errorf("%.40q has plain terms: %v", test.text, got)
		}
		var want []Clause
		e, wrong := Parse(test.text)
		if wrong == nil {
			want = e.Clauses()
		}
		got, err := Clauses(test.text)
		if !reflect.DeepEqual(got, want) || fmt.Sprint(err) != fmt.Sprint(wrong) {
			t.Errorf("%.40q: %q, %v; parsed: %q, %v", test.text, got, err, want, wrong)
		}
	}
}

// Case, order and repetition do not change a query; everything that changes its matches does.
func TestCanonical(t *testing.T) {
	for _, same := range [][]string{
		{"solar battery", "battery solar", "Solar AND (BATTERY solar)", "solar -(-battery)"},
		{"a OR b", "B OR (a) OR b"},
		{`title:"sea wind" -x`, `-X title:"Sea WIND"`},
		{"or", "Or"},
	} {
		for _, text := range same {
			want, err := Canonical(same[0])
			if got, other := Canonical(text); err != nil || other != nil || got != want {
				t.Errorf("%q means %q, %v; %q %q, %v", same[0], want, err, text, got, other)
			}
		}
	}
	seen := map[string]string{}
	for _, text := range []string{"a b", "a OR b", `"a b"`, `"b a"`, "a -b", "abc*", "abc", "title:abc", "title:abc*", "~running", "naive", "naïve", "a or b", "lang:de a", "site:a.example a"} {
		got, err := Canonical(text)
		if err != nil || seen[got] != "" {
			t.Errorf("%q and %q have the same canonical form; %v", text, seen[got], err)
		}
		seen[got] = text
	}
	if _, err := Canonical("(a"); err == nil {
		t.Error("a query with an open parenthesis has a canonical form")
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"a OR b c -d", `title:("a b" OR ~x) NOT (y* z)`, "feed:https://x.org/ lang:en", `"-" AND "AND"`, "東京 café l'avion", "a:b:c ~\"x y\" -(-z)"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		e, err := Parse(text)
		if err != nil {
			return
		}
		again, err := Parse(e.String())
		if err != nil {
			t.Fatalf("%q is printed as %q: %v", text, e, err)
		}
		if !reflect.DeepEqual(e, again) {
			t.Fatalf("%q is printed as %q, which is %q", text, e, again)
		}
		for _, c := range e.Clauses() {
			if len(c.Terms) == 0 {
				t.Fatalf("%q has a clause without a term", text)
			}
		}
		if means, err := Canonical(text); err != nil || means != canonicalOf(e.String()) {
			t.Fatalf("%q has the canonical form %q, %v, but not when it is printed: %q", text, means, err, e)
		}
		if short, err := Clauses(text); err != nil || !reflect.DeepEqual(short, e.Clauses()) {
			t.Fatalf("%q is expanded to %q, %v, and to %q when it is parsed", text, short, err, e.Clauses())
		}
	})
}

func canonicalOf(text string) string {
	of, _ := Canonical(text)
	return of
}
