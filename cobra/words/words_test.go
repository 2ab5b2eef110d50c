package words

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// tokens formats the tokens of a text, by position.
func tokens(text string) string {
	var b strings.Builder
	last := -1
	var c Tokenizer
	c.Tokenize(text, func(form []byte, at int, f TokenKind) {
		if at != last {
			fmt.Fprintf(&b, " %d", at)
		}
		last = at
		fmt.Fprintf(&b, " %c%s", "ws.:"[f], form)
	})
	return strings.TrimSpace(b.String())
}

func TestTokenize(t *testing.T) {
	for text, want := range map[string]string{
		"Solar, battery!":                       "0 wsolar 1 wbattery",
		"ＳＯＬＡＲ ﬁne":                             "0 wsolar 1 wfine",
		"Café":                                  "0 wcafé scafe",
		"Cafe\u0301":                            "0 wcafé scafe",
		"STRASSE Straße":                        "0 wstrasse 1 wstrasse",
		"Øresund Łódź":                          "0 wøresund soresund 1 włódź slodz",
		"İSTANBUL ıstanbul Istanbul":            "0 wistanbul 1 wistanbul 2 wistanbul",
		"ΟΔΟΣ οδός":                             "0 wοδοσ 1 wοδόσ sοδοσ",
		"hydro\u00adpower\u2060plant, o\u200bk": "0 whydropowerplant 1 wok",
		"\u202bعـــربي\u202c ❤\ufe0f":           "0 wعربي 1 w❤",
		"sold\u00a0out ㅤ a\u2800b":              "0 wsold 1 wout 2 wa 3 wb",
		"Oʻahu O‘ahu O`ahu":                     "0 wo'ahu sahu 1 wo'ahu sahu 2 wo 3 wahu",
		"צה״ל צה\"ל":                            "0 wצה״ל 1 wצה״ל",
		"l'avion l’avion":                       "0 wl'avion savion 1 wl'avion savion",
		"Obama's don't O'Neil":                  "0 wobama's sobama 1 wdon't sdon 2 wo'neil sneil",
		"l'été":                                 "0 wl'été sété sl'ete sete",
		"state-of-the-art":                      "0 wstate 1 wof 2 wthe 3 wart",
		"3.14 1,000 example.om":                 "0 w3.14 1 w1,000 2 wexample.om",
		"_emphasis_ snake_case":                 "0 wemphasis 1 wsnake_case",
		"東京都":                                   "0 .東 :東京 1 .京 :京都 2 .都",
		"東 京":                                   "0 .東 1 .京",
		"iPhoneを買う":                             "0 wiphone 1 .を :を買 2 .買 :買う 3 .う",
		"データ":                                   "0 .デ :デー 1 .ー :ータ 2 .タ",
		"ｶﾞｽ":                                   "0 .ガ :ガス 1 .ス",
		"한국어 텍스트":                               "0 w한국어 1 w텍스트",
		"हिन्दी":                                "0 wहिन्दी",
		"Привет Ёлка":                           "0 wпривет 1 wёлка sелка",
		"a 🚀 b":                                 "0 wa 1 w🚀 2 wb",
		"... -- (!)":                            "",
		"":                                      "",
	} {
		if got := tokens(text); got != want {
			t.Errorf("%q: %s, not %s", text, got, want)
		}
	}
}

// Thai has no blanks; marks stay with their letters.
func TestThaiBecomesUnigramsAndBigrams(t *testing.T) {
	if got, want := tokens("ภาษาไทย"), "0 .ภ :ภา 1 .า :าษ 2 .ษ :ษา 3 .า :าไ 4 .ไ :ไท 5 .ท :ทย 6 .ย"; got != want {
		t.Errorf("%s, not %s", got, want)
	}
	if got, want := tokens("กี่"), "0 .กี่"; got != want {
		t.Errorf("%s, not %s", got, want)
	}
}

// A long word cannot be found, but a phrase does not match across it.
func TestLongWordsOccupyAPosition(t *testing.T) {
	if got, want := tokens("a "+strings.Repeat("x", MaxWord+1)+" b"), "0 wa 2 wb"; got != want {
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
	if HasStemmer("zh") || !HasStemmer(Language("pt-BR")) || Language("EN_us") != "en" {
		t.Error("languages are not recognised by their tags")
	}
}

// FuzzTokenize: tokens are normalised and not empty, positions ascend and are counted, and a
// word splits into itself.
func FuzzSpans(f *testing.F) {
	f.Add("Solar l’été 東京都 กี่ so\u00adlar")
	f.Add("太\u00ad\xe3\x82")
	f.Fuzz(func(t *testing.T, text string) {
		at := 0
		for _, s := range Spans(text) {
			if s.Start < at || s.End <= s.Start || s.End > len(text) {
				t.Fatalf("%q: %+v behind %d, of %d bytes", text, s, at, len(text))
			}
			at = s.End
		}
	})
}

func FuzzTokenize(f *testing.F) {
	for _, s := range []string{"Solar l’été 東京都 ｶﾞｽ İ ß 3.14", "a\xffb", "กี่ a\u0301\u0301", "\u3099か゛", "Ⅷ ﬃ ™", "don''t ''' _'_", "ı\u0301 i\u00ad\u0307", "´ʼ"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var c, again Tokenizer
		last := 0
		places := c.Tokenize(text, func(form []byte, at int, kind TokenKind) {
			if at < last || len(form) == 0 || len(form) > MaxWord || !utf8.Valid(form) && utf8.ValidString(text) {
				t.Fatalf("%q: %q at %d behind %d", text, form, at, last)
			}
			last = at
			if kind == Word && utf8.ValidString(text) {
				if !norm.NFKC.IsNormal(form) {
					t.Fatalf("%q: %q is not normal", text, form)
				}
				// A word finds itself.
				found := false
				word := string(form)
				again.Tokenize(word, func(form []byte, _ int, kind TokenKind) { found = found || kind == Word && string(form) == word })
				if !found {
					t.Fatalf("%q: %q is split into %s", text, word, tokens(word))
				}
			}
		})
		if places < last {
			t.Fatalf("%q has %d positions, and a token at %d", text, places, last)
		}
	})
}
