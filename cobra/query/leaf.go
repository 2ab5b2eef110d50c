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

// MinPrefix is the least number of letters of a prefix.
const MinPrefix = 3

// foreignOperators maps operators of other search languages to those of this one.
var foreignOperators = map[string]string{"&": "AND", "&&": "AND", "+": "AND", "|": "OR", "||": "OR", "!": "NOT"}

// validate returns the number of a leaf's words, or an error.
func (e *Expr) validate() (count int, err *Error) {
	if e.Field.Scope() {
		if e.Prefix || e.Stem {
			return 0, &Error{What: "* and ~ do not work with " + fieldNames[e.Field] + ":", Hint: "remove them"}
		}
		if _, hint := e.scopeValue(); hint != "" {
			return 0, &Error{What: fmt.Sprintf("%s:%s is not valid", fieldNames[e.Field], e.Text), Hint: hint}
		}
		return 1, nil
	}
	terms, bigrams := queryTerms(e.Text)
	switch {
	case len(terms) == 0 && e.Text == "" && e.Prefix:
		return 0, &Error{What: "no word before *", Hint: fmt.Sprintf("write at least %d letters before it", MinPrefix)}
	case len(terms) == 0 && e.Text == "":
		return 0, &Error{What: "a word is missing", Hint: fmt.Sprintf("write one, such as %s:solar", fieldNames[max(e.Field, Title)])}
	case len(terms) == 0 && len(e.Text) > words.MaxWord && strings.ContainsFunc(e.Text, unicode.IsLetter):
		return 0, &Error{What: fmt.Sprintf("the word that begins with %.40q is too long", e.Text), Hint: fmt.Sprintf("a word has at most %d bytes", words.MaxWord)}
	case len(terms) == 0 && foreignOperators[e.Text] != "":
		return 0, &Error{What: fmt.Sprintf("%q is not an operator", e.Text), Hint: "write " + foreignOperators[e.Text]}
	case len(terms) == 0:
		return 0, &Error{What: fmt.Sprintf("there is no word in %q", e.Text), Hint: "only letters and digits can be searched for"}
	case e.Prefix && !bigrams && utf8.RuneCountInString(terms[len(terms)-1]) < MinPrefix:
		return 0, &Error{What: fmt.Sprintf("%s* is too short", terms[len(terms)-1]), Hint: fmt.Sprintf("write at least %d letters before *", MinPrefix)}
	case e.Prefix && e.Stem:
		return 0, &Error{What: "a word cannot have both ~ and *", Hint: "remove one of them"}
	}
	return len(terms), nil
}

// scopeValue returns the value of a scope as articles have it, or a hint at the right syntax.
func (e *Expr) scopeValue() (value, hint string) {
	text := strings.TrimSpace(e.Text)
	switch e.Field {
	case Feed:
		if u, err := feed.Canonical(text); err == nil {
			return u, ""
		}
		return "", "write the address of a feed, such as feed:https://example.org/feed.xml"
	case Site:
		if site := SiteOf(text); site != "" {
			return site, ""
		}
		return "", "write the name of a site, such as site:example.org"
	default:
		if tag := strings.ToLower(strings.ReplaceAll(text, "_", "-")); len(words.Language(tag)) >= 2 {
			return tag, ""
		}
		return "", "write the tag of a language, such as lang:en or lang:pt-BR"
	}
}

// SiteOf returns the host name of an address, or of a host name: without "www." and port, in
// lower case and ASCII. It returns "" if there is none.
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

// queryTerms returns the terms that find a text, in order: its words, or bigrams for scripts
// without spaces. bigrams reports whether the last term is of such a script.
func queryTerms(text string) (terms []string, bigrams bool) {
	type piece struct {
		text string
		form words.TokenKind
		at   int
	}
	var c words.Tokenizer
	var all []piece
	c.Tokenize(text, func(form []byte, at int, f words.TokenKind) {
		if f != words.Variant {
			all = append(all, piece{string(form), f, at})
		}
	})
	for i, p := range all {
		// A unigram at whose position a bigram starts is covered by that bigram, and the last
		// unigram of a text by the bigram before it. Inside a text, the last unigram of a run
		// keeps its position.
		if p.form == words.Unigram {
			startsBigram := i+1 < len(all) && all[i+1].form == words.Bigram && all[i+1].at == p.at
			endsBigram := i == len(all)-1 && i > 0 && all[i-1].form == words.Bigram && all[i-1].at == p.at-1
			if startsBigram || endsBigram {
				bigrams = true
				continue
			}
		}
		terms, bigrams = append(terms, p.text), p.form != words.Word
	}
	return terms, bigrams
}
