package page

import (
	"bytes"
	"unicode/utf8"

	"golang.org/x/net/html/atom"
)

// part is a set of properties of an element.
type part uint8

const (
	inline      part = 0
	block       part = 1 << iota // starts and ends a line
	void                         // has no end tag
	neverShown                   // is never text
	maybeNoise                   // may be noise
	sectional                    // headers and footers inside are content
	ignoreClass                  // its class is ignored: it contains the page, or words of it
)

// parts are the elements with properties.
var parts = map[atom.Atom]part{}

func init() {
	for _, e := range []struct {
		part  part
		atoms []atom.Atom
	}{
		{block, []atom.Atom{
			atom.P, atom.Div, atom.Li, atom.Ul, atom.Ol, atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6, atom.Table, atom.Tr, atom.Td, atom.Th,
			atom.Caption, atom.Section, atom.Article, atom.Header, atom.Footer, atom.Nav, atom.Main, atom.Br, atom.Blockquote, atom.Pre, atom.Form, atom.Dl,
			atom.Dt, atom.Dd, atom.Aside, atom.Title, atom.Button, atom.Label, atom.Option, atom.Figure, atom.Figcaption, atom.Hr, atom.Body,
			atom.Details, atom.Summary, atom.Address, atom.Fieldset, atom.Legend, atom.Dialog, atom.Menu, atom.Head, atom.Html,
		}},
		{void, []atom.Atom{
			atom.Area, atom.Base, atom.Br, atom.Col, atom.Embed, atom.Hr, atom.Img, atom.Input, atom.Link, atom.Meta, atom.Source, atom.Track, atom.Wbr, atom.Param,
		}},
		{neverShown, []atom.Atom{
			atom.Script, atom.Style, atom.Noscript, atom.Template, atom.Svg, atom.Math, atom.Iframe, atom.Head, atom.Button, atom.Select, atom.Datalist,
			atom.Textarea, atom.Object, atom.Canvas, atom.Video, atom.Audio,
		}},
		{maybeNoise, []atom.Atom{atom.Nav, atom.Footer, atom.Header, atom.Form, atom.Dialog, atom.Menu, atom.Aside}},
		{sectional, []atom.Atom{atom.Article, atom.Main}},
		{ignoreClass, []atom.Atom{atom.Html, atom.Body, atom.Main, atom.Article, atom.A, atom.P, atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6}},
	} {
		for _, a := range e.atoms {
			parts[a] |= e.part
		}
	}
}

// heads are the elements that a head can contain.
var heads = map[atom.Atom]bool{
	atom.Base: true, atom.Link: true, atom.Meta: true, atom.Title: true, atom.Script: true, atom.Style: true, atom.Noscript: true, atom.Template: true, atom.Head: true,
	atom.Html: true,
}

// neverText are the elements that are never text.
var neverText = map[atom.Atom]bool{
	atom.Head: true, atom.Script: true, atom.Style: true, atom.Template: true, atom.Iframe: true, atom.Textarea: true, atom.Select: true, atom.Datalist: true,
}

// A hint is what the attributes of an element say about it.
type hint uint8

const (
	plain      hint = iota
	navigation      // a word for navigation, or for the frame of a page
	intrusive       // a word or a role for overlays, and for advertisements and the like
	invisible       // the element is hidden
)

// noiseRoles are the roles of WAI-ARIA 1.2 for parts around the content. Alerts and states are not among them:
// pages use them for their news.
var noiseRoles = map[string]bool{
	"navigation": true, "banner": true, "contentinfo": true, "search": true, "dialog": true, "alertdialog": true,
	"menu": true, "menubar": true, "complementary": true, "timer": true, "toolbar": true,
}

// hintWords are the words that authors use for parts around the content.
var hintWords = map[string]hint{
	"nav": navigation, "navbar": navigation, "navigation": navigation, "menu": navigation, "submenu": navigation, "megamenu": navigation, "dropdown": navigation,
	"footer": navigation, "breadcrumb": navigation, "breadcrumbs": navigation, "sidebar": navigation, "banner": navigation, "masthead": navigation, "topbar": navigation,
	"toolbar": navigation, "social": navigation, "share": navigation, "sharing": navigation, "skip": navigation, "pagination": navigation, "pager": navigation,
	"toc": navigation, "related": navigation,
	"cookie": intrusive, "cookies": intrusive, "consent": intrusive, "gdpr": intrusive, "ad": intrusive, "ads": intrusive, "advert": intrusive,
	"advertisement": intrusive, "newsletter": intrusive, "popup": intrusive, "modal": intrusive, "copyright": intrusive,
}

// longestWord is the length of the longest hint word.
const longestWord = 13

// shortWord is the length of the longest hint word that random letters often make.
const shortWord = 3

// maxSlot bounds the digits of a number after a short hint word, as in "ad2" or "ad-slot-ads12".
const maxSlot = 3

// hintOf returns the strongest hint in a class or id. Words end where letters do, and where a capital follows a
// small letter. A short word beside digits may be a part of a random identifier, see byChance.
func hintOf(value []byte) (best hint) {
	apart := func(c rune) bool { return c >= utf8.RuneSelf || !isJoined(byte(c)) }
	for identifier := range bytes.FieldsFuncSeq(value, apart) {
		all := countDigits(identifier)
		for part := range bytes.SplitSeq(identifier, []byte("-")) {
			best = max(best, hintIn(part, countDigits(part), all))
		}
	}
	return best
}

// hintIn returns the strongest hint in a part of an identifier with dashes. own and all are the numbers of digits in the
// part and in the identifier.
func hintIn(part []byte, own, all int) (best hint) {
	var word [longestWord]byte
	n := 0
	flush := func(end int) {
		if n > 1 && n <= longestWord {
			if found := hintWords[string(word[:n])]; found > best && (n > shortWord || own == 0 || !byChance(part, end-n, end, all > own)) {
				best = found
			}
		}
		n = 0
	}
	last := other
	for i, c := range part {
		kind := kindOf(c)
		if kind == digit || kind == capital && last == small {
			flush(i)
		}
		if last = kind; kind != digit {
			if n < longestWord {
				word[n] = c | 0x20
			}
			n++
		}
	}
	flush(len(part))
	return best
}

// byChance reports whether a word beside digits is probably a part of a random identifier, such as a UUID. It is a
// word only if a short number follows it and nothing precedes it, and if the parts around it, between dashes, have
// no digits.
func byChance(part []byte, begin, end int, digitsAround bool) bool {
	number := part[end:]
	return begin > 0 || len(number) > maxSlot || countDigits(number) < len(number) || digitsAround
}

// isJoined reports whether a character belongs to an identifier with dashes.
func isJoined(c byte) bool { return c == '-' || kindOf(c) != other }

func countDigits(text []byte) (n int) {
	for _, c := range text {
		if kindOf(c) == digit {
			n++
		}
	}
	return n
}

// hides reports whether a style hides its element.
func hides(style []byte) bool {
	for i, c := range style {
		if c > ' ' && (hasDeclaration(style[i:], "display:none") || hasDeclaration(style[i:], "visibility:hidden")) {
			return true
		}
	}
	return false
}

// hasDeclaration reports whether a style begins with a declaration, ignoring blanks and case.
func hasDeclaration(style []byte, what string) bool {
	for _, c := range style {
		switch {
		case c <= ' ':
			continue
		case what[0] != c && ('A' > c || c > 'Z' || what[0] != c|0x20):
			return false
		}
		if what = what[1:]; what == "" {
			return true
		}
	}
	return false
}
