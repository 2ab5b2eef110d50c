package words

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// cut writes the forms of a text: each place in brackets.
func cut(text string) string {
	var b strings.Builder
	last := -1
	var c Cutter
	c.Cut(text, func(form []byte, at int, f Form) {
		if at != last {
			fmt.Fprintf(&b, " %d", at)
		}
		last = at
		fmt.Fprintf(&b, " %c%s", "ws.:"[f], form)
	})
	return strings.TrimSpace(b.String())
}

func TestCut(t *testing.T) {
	for text, want := range map[string]string{
		"Solar, battery!":       "0 wsolar 1 wbattery",
		"ＳＯＬＡＲ ﬁne":             "0 wsolar 1 wfine",
		"Café":                  "0 wcafé scafe",
		"Cafe\u0301":            "0 wcafé scafe",
		"STRASSE Straße":        "0 wstrasse 1 wstrasse",
		"Øresund Łódź":          "0 wøresund soresund 1 włódź slodz",
		"İstanbul":              "0 wi̇stanbul sistanbul",
		"l'avion l’avion":       "0 wl'avion savion 1 wl'avion savion",
		"Obama's don't O'Neil":  "0 wobama's sobama 1 wdon't sdon 2 wo'neil sneil",
		"l'été":                 "0 wl'été sété sl'ete sete",
		"state-of-the-art":      "0 wstate 1 wof 2 wthe 3 wart",
		"3.14 1,000 example.om": "0 w3.14 1 w1,000 2 wexample.om",
		"_emphasis_ snake_case": "0 wemphasis 1 wsnake_case",
		"東京都":                   "0 .東 :東京 1 .京 :京都 2 .都",
		"東 京":                   "0 .東 1 .京",
		"iPhoneを買う":             "0 wiphone 1 .を :を買 2 .買 :買う 3 .う",
		"データ":                   "0 .デ :デー 1 .ー :ータ 2 .タ",
		"ｶﾞｽ":                   "0 .ガ :ガス 1 .ス",
		"한국어 텍스트":               "0 w한국어 1 w텍스트",
		"हिन्दी":                "0 wहिन्दी",
		"Привет Ёлка":           "0 wпривет 1 wёлка sелка",
		"a 🚀 b":                 "0 wa 1 w🚀 2 wb",
		"... -- (!)":            "",
		"":                      "",
	} {
		if got := cut(text); got != want {
			t.Errorf("%q: %s, not %s", text, got, want)
		}
	}
}

// TestThaiIsCutIntoLetters: it has no blanks; marks stay with their letters.
func TestThaiIsCutIntoLetters(t *testing.T) {
	if got, want := cut("ภาษาไทย"), "0 .ภ :ภา 1 .า :าษ 2 .ษ :ษา 3 .า :าไ 4 .ไ :ไท 5 .ท :ทย 6 .ย"; got != want {
		t.Errorf("%s, not %s", got, want)
	}
	if got, want := cut("กี่"), "0 .กี่"; got != want {
		t.Errorf("%s, not %s", got, want)
	}
}

// TestLongWordsTakeAPlace: nobody looks for them, but a phrase around one is none.
func TestLongWordsTakeAPlace(t *testing.T) {
	if got, want := cut("a "+strings.Repeat("x", MaxWord+1)+" b"), "0 wa 2 wb"; got != want {
		t.Errorf("%s, not %s", got, want)
	}
}

func TestStem(t *testing.T) {
	for _, test := range []struct{ language, word, stem string }{
		{"en", "running", "run"}, {"en", "batteries", "batteri"}, {"de", "läufer", "lauf"}, {"fr", "continuellement", "continuel"}, {"ru", "книги", "книг"},
	} {
		if got := Stem(test.language, test.word); got != test.stem {
			t.Errorf("%s %s: %s, not %s", test.language, test.word, got, test.stem)
		}
	}
	if Stems("zh") || !Stems(Language("pt-BR")) || Language("EN_us") != "en" {
		t.Error("languages are not known by their tags")
	}
}

// FuzzCut: forms are normal and not empty, places rise and are counted, and what
// was cut once is cut in the same way again.
func FuzzCut(f *testing.F) {
	for _, s := range []string{"Solar l’été 東京都 ｶﾞｽ İ ß 3.14", "a\xffb", "กี่ a\u0301\u0301", "\u3099か゛", "Ⅷ ﬃ ™", "don''t ''' _'_"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var c, again Cutter
		last := 0
		places := c.Cut(text, func(form []byte, at int, kind Form) {
			if at < last || len(form) == 0 || len(form) > MaxWord || !utf8.Valid(form) && utf8.ValidString(text) {
				t.Fatalf("%q: %q at %d behind %d", text, form, at, last)
			}
			last = at
			if kind == Word && utf8.ValidString(text) {
				if !norm.NFKC.IsNormal(form) {
					t.Fatalf("%q: %q is not normal", text, form)
				}
				// A word is found by itself.
				found := false
				word := string(form)
				again.Cut(word, func(form []byte, _ int, kind Form) { found = found || kind == Word && string(form) == word })
				if !found {
					t.Fatalf("%q: %q is cut into %s", text, word, cut(word))
				}
			}
		})
		if places < last {
			t.Fatalf("%q has %d places, and one at %d", text, places, last)
		}
	})
}
