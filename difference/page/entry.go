package page

import (
	"encoding/xml"
	"fmt"
	"html"
	"net/url"
	"regexp"
	"strings"
	"unicode/utf8"
)

const (
	// maxEntry is how much of a change is shown, in bytes of HTML.
	maxEntry = 64 << 10
	// maxHeadline is how much of a line is a headline, in characters.
	maxHeadline = 100
)

// Entry returns the item that tells readers what has changed of the page at an address: an Atom
// entry with the lines that were omitted and added, in their order. Its id says which version
// it is of which page: two who find the same change tell it under one id, and a page that is again
// what it was before the last change has changed again.
func (f *Result) Entry(address string) []byte {
	var b strings.Builder
	b.WriteString(`<entry xmlns="http://www.w3.org/2005/Atom" xml:base="` + escapeXML(address) + `"><id>` +
		escapeXML(fmt.Sprintf("urn:tidings:page:%x:%d", f.Patch.New, f.Number)) + `</id><title>` + escapeXML(f.headline()) +
		`</title><link rel="alternate" href="` + escapeXML(address) + `"/><content type="html">` + escapeXML(f.contentHTML()) + `</content></entry>`)
	return []byte(b.String())
}

// escaped is a text as XML has it; what XML cannot have is left out.
func escapeXML(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a builder takes all
	return b.String()
}

// headline is the first line that was added, or else omitted. One without words, as numbers in tables
// are, stands behind the line before it.
func (f *Result) headline() string {
	omitted := ""
	for _, h := range f.Patch.Hunks {
		said := func(l string) string {
			if _, ok := skeleton(l); !ok && h.At > 0 {
				l = f.Before.Lines[h.At-1] + ": " + l
			}
			return truncate(withoutTargets(l))
		}
		if len(h.Add) > 0 {
			return said(h.Add[0])
		}
		if omitted == "" && h.Omit > 0 {
			omitted = said(f.Before.Lines[h.At])
		}
	}
	return "Removed: " + omitted
}

// brief is the beginning of a line, to the end of a word if there is one.
func truncate(l string) string {
	if utf8.RuneCountInString(l) <= maxHeadline {
		return l
	}
	l = string([]rune(l)[:maxHeadline])
	if at := strings.LastIndexByte(l, ' '); at > len(l)/2 {
		l = l[:at]
	}
	return l + "…"
}

// shown is the change in HTML, each hunk behind the line before it, which says where it is. Not all
// readers of feeds show what is inserted and deleted as such: a sign before each line says it too.
func (f *Result) contentHTML() string {
	var b strings.Builder
	left, most := 0, maxEntry
	line := func(begin, l, end string) {
		shown := "<p>" + begin + lineHTML(l) + end + "</p>\n"
		if most -= len(shown); most < 0 {
			left++
			return
		}
		b.WriteString(shown)
	}
	for i, h := range f.Patch.Hunks {
		if i > 0 && most >= 0 {
			b.WriteString("<hr>\n")
		}
		if h.At > 0 {
			line("", truncate(withoutTargets(f.Before.Lines[h.At-1])), "")
		}
		for _, l := range f.Before.Lines[h.At : h.At+h.Omit] {
			line("− <del>", l, "</del>")
		}
		for _, l := range h.Add {
			line("+ <ins>", l, "</ins>")
		}
	}
	switch {
	case left == 1:
		b.WriteString("<p>… and 1 more line</p>\n")
	case left > 1:
		fmt.Fprintf(&b, "<p>… and %d more lines</p>\n", left)
	}
	return b.String()
}

// links are links as the lines of a core have them. Within one, as around the numbers of footnotes, there
// may be brackets, and brackets in those.
var links = regexp.MustCompile(`\[((?:[^\[\]]|\[(?:[^\[\]]|\[[^\[\]]*\])*\])*)\]\(([^()\s]*)\)`)

// bare is a line without the targets of its links.
func withoutTargets(l string) string { return links.ReplaceAllString(l, "$1") }

// linked is a line in HTML. A target that was shortened leads nowhere, and neither does one that
// is no place: a line may look like a link that was never one.
func lineHTML(l string) string {
	var b strings.Builder
	at := 0
	for _, m := range links.FindAllStringSubmatchIndex(l, -1) {
		b.WriteString(html.EscapeString(l[at:m[0]]))
		text, to := l[m[2]:m[3]], l[m[4]:m[5]]
		if to == "" || strings.Contains(to, "…") || !isLinkTarget(to) {
			b.WriteString(html.EscapeString(text))
		} else {
			b.WriteString(`<a href="` + html.EscapeString(to) + `">` + html.EscapeString(text) + "</a>")
		}
		at = m[1]
	}
	b.WriteString(html.EscapeString(l[at:]))
	return b.String()
}

// isPlace says whether a target is a document, or where to write to.
func isLinkTarget(target string) bool {
	u, err := url.Parse(target)
	return err == nil && (u.Scheme == "" || u.Scheme == "http" || u.Scheme == "https" || u.Scheme == "mailto")
}
