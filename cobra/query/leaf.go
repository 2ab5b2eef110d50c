package query

import (
	"fmt"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"tidings/cobra/words"
	"tidings/internal/feed"
)

// MinPrefix is how many letters a prefix has at least.
const MinPrefix = 3

// inspect returns how many words a leaf has, or what is wrong with it.
func (e *Expr) inspect() (terms int, err *Error) {
	if e.Field.Scope() {
		if e.Prefix || e.Stem {
			return 0, &Error{What: fieldNames[e.Field] + ": takes a whole value", Hint: "remove * and ~"}
		}
		if _, hint := e.scopeValue(); hint != "" {
			what := fmt.Sprintf("%q cannot be a value of %s:", e.Text, fieldNames[e.Field])
			if e.Text == "" {
				what = fieldNames[e.Field] + ": has no value"
			}
			return 0, &Error{What: what, Hint: hint}
		}
		return 1, nil
	}
	ws, pairs := wordsOf(e.Text)
	switch {
	case len(ws) == 0 && e.Text == "" && e.Prefix:
		return 0, &Error{What: "there is no word before *", Hint: fmt.Sprintf("write %d letters or more before it", MinPrefix)}
	case len(ws) == 0 && e.Text == "":
		return 0, &Error{What: "a word is missing", Hint: fmt.Sprintf("write one, as in %s:solar", fieldNames[max(e.Field, Title)])}
	case len(ws) == 0 && len(e.Text) > words.MaxWord && strings.ContainsFunc(e.Text, unicode.IsLetter):
		return 0, &Error{What: fmt.Sprintf("there is no word in %.40q…", e.Text), Hint: fmt.Sprintf("a word has up to %d bytes", words.MaxWord)}
	case len(ws) == 0:
		return 0, &Error{What: fmt.Sprintf("there is no word in %q", e.Text), Hint: "searches find letters and digits, and no other signs"}
	case e.Prefix && !pairs && utf8.RuneCountInString(ws[len(ws)-1]) < MinPrefix:
		return 0, &Error{What: fmt.Sprintf("%s* is too short", ws[len(ws)-1]), Hint: fmt.Sprintf("write %d letters or more before *", MinPrefix)}
	case e.Prefix && e.Stem:
		return 0, &Error{What: "a word has both ~ and *", Hint: "remove one of them"}
	}
	return len(ws), nil
}

// scopeValue returns what a scope's article term is to be, or a hint at how to write it.
func (e *Expr) scopeValue() (value, hint string) {
	text := strings.TrimSpace(e.Text)
	switch e.Field {
	case Feed:
		if u, err := feed.Canonical(text); err == nil {
			return u, ""
		}
		return "", "write the feed's address, as in feed:https://example.org/feed.xml"
	case Site:
		if site := SiteOf(text); site != "" {
			return site, ""
		}
		return "", "write a site's name, as in site:example.org"
	default:
		if tag := strings.ToLower(strings.ReplaceAll(text, "_", "-")); len(words.Language(tag)) >= 2 {
			return tag, ""
		}
		return "", "write a language's tag, as in lang:en or lang:pt-BR"
	}
}

// SiteOf returns the name of the site of an address, or of a site's name: without
// "www." and port, in small letters, in ASCII; "" if there is none.
func SiteOf(address string) string {
	if !strings.Contains(address, "://") {
		address = "https://" + address
	}
	canonical, err := feed.Canonical(address)
	if err != nil {
		return ""
	}
	u, err := url.Parse(canonical)
	if err != nil {
		return ""
	}
	return strings.TrimPrefix(u.Hostname(), "www.")
}

// wordsOf returns what to look for to find a text: its words, or pairs of
// letters, in order; and whether the last of them is of letters of a script
// without blanks.
func wordsOf(text string) (ws []string, pairs bool) {
	type piece struct {
		text string
		form words.Form
		at   int
	}
	var c words.Cutter
	var all []piece
	c.Cut(text, func(form []byte, at int, f words.Form) {
		if f != words.Second {
			all = append(all, piece{string(form), f, at})
		}
	})
	for i, p := range all {
		// A letter whose place has a pair too is found by that, and the last one of a
		// text by the pair before; within a text it keeps its place.
		if p.form == words.Letter {
			begins := i+1 < len(all) && all[i+1].form == words.Pair && all[i+1].at == p.at
			ends := i == len(all)-1 && i > 0 && all[i-1].form == words.Pair && all[i-1].at == p.at-1
			if begins || ends {
				pairs = true
				continue
			}
		}
		ws, pairs = append(ws, p.text), p.form != words.Word
	}
	return ws, pairs
}
