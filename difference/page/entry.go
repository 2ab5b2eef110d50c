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
	// maxEntry bounds the HTML of an entry, in bytes.
	maxEntry = 64 << 10
	// maxHeadline bounds a headline, in characters.
	maxHeadline = 100
)

// Entry returns the item that shows readers the change of a page at an address: an Atom entry with the removed
// and added lines in their order. Its id identifies the version and the page. Two nodes that find the same
// change give it the same id, and a page that changes back has a new id.
func (f *Result) Entry(address string) []byte {
	var b strings.Builder
	b.WriteString(`<entry xmlns="http://www.w3.org/2005/Atom" xml:base="` + escapeXML(address) + `"><id>` +
		escapeXML(fmt.Sprintf("urn:tidings:page:%x:%d", f.Patch.New, f.Number)) + `</id><title>` + escapeXML(f.headline()) +
		`</title><link rel="alternate" href="` + escapeXML(address) + `"/><content type="html">` + escapeXML(f.contentHTML()) + `</content></entry>`)
	return []byte(b.String())
}

// escapeXML escapes a text for XML, without characters that XML forbids.
func escapeXML(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // writing to a builder cannot fail
	return b.String()
}

// headline returns the first added line, or else the first removed one. A line without words, such as numbers
// in a table, follows the line before it. If the page is a single number, the headline has the old and the new one.
func (f *Result) headline() string {
	if _, ok := figure(f.Core.Lines); ok && len(f.Before.Lines) == 1 {
		return strings.TrimPrefix(truncate(f.Core.Title)+": ", ": ") + f.Before.Lines[0] + " → " + f.Core.Lines[0]
	}
	omitted := ""
	for _, h := range f.Patch.Hunks {
		text := func(l string) string {
			if _, ok := skeleton(l); !ok && h.At > 0 {
				l = f.Before.Lines[h.At-1] + ": " + l
			}
			return truncate(withoutTargets(l))
		}
		if len(h.Add) > 0 {
			return text(h.Add[0])
		}
		if omitted == "" && h.Omit > 0 {
			omitted = text(f.Before.Lines[h.At])
		}
	}
	return "Removed: " + omitted
}

// truncate returns the beginning of a long line, up to the end of a word if possible.
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

// contentHTML returns the change in HTML. The line before a hunk shows its place. A sign before each line
// repeats what <ins> and <del> say, because not all feed readers show these elements.
func (f *Result) contentHTML() string {
	var b strings.Builder
	omitted, budget := 0, maxEntry
	line := func(begin, l, end string) {
		shown := "<p>" + begin + lineHTML(l) + end + "</p>\n"
		if budget -= len(shown); budget < 0 {
			omitted++
			return
		}
		b.WriteString(shown)
	}
	for i, h := range f.Patch.Hunks {
		if i > 0 && budget >= 0 {
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
	case omitted == 1:
		b.WriteString("<p>… and 1 more line</p>\n")
	case omitted > 1:
		fmt.Fprintf(&b, "<p>… and %d more lines</p>\n", omitted)
	}
	return b.String()
}

// links matches links in the lines of a core. The text of a link may have brackets, as around footnotes, nested
// up to deepBrackets.
var links = regexp.MustCompile(`\[((?:[^\[\]]|\[(?:[^\[\]]|\[[^\[\]]*\])*\])*)\]\(([^()\s]*)\)`)

// withoutTargets returns a line without the targets of its links.
func withoutTargets(l string) string { return links.ReplaceAllString(l, "$1") }

// lineHTML returns a line in HTML. A shortened target is not linked, and neither is one that isLinkTarget
// refuses, because text may look like a link by accident.
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

// isLinkTarget reports whether a target is a document or a mail address.
func isLinkTarget(target string) bool {
	u, err := url.Parse(target)
	return err == nil && (u.Scheme == "" || u.Scheme == "http" || u.Scheme == "https" || u.Scheme == "mailto")
}
