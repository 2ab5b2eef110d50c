package feed

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	atomSpace  = "http://www.w3.org/2005/Atom"
	xhtmlSpace = "http://www.w3.org/1999/xhtml"
)

// An atomElement is an element of an XML document.
type atomElement struct {
	name     xml.Name
	attr     map[xml.Name]string
	children []*atomElement
	text     string
}

func parseAtom(doc []byte) (*atomElement, error) {
	d := xml.NewDecoder(bytes.NewReader(doc))
	top := &atomElement{}
	open := []*atomElement{top}
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			if len(top.children) != 1 {
				return nil, fmt.Errorf("%d root elements", len(top.children))
			}
			return top.children[0], nil
		}
		if err != nil {
			return nil, err
		}
		last := open[len(open)-1]
		switch x := token.(type) {
		case xml.StartElement:
			e := &atomElement{name: x.Name, attr: map[xml.Name]string{}}
			for _, a := range x.Attr {
				if a.Name.Space != "xmlns" && a.Name.Local != "xmlns" {
					e.attr[a.Name] = a.Value
				}
			}
			last.children = append(last.children, e)
			open = append(open, e)
		case xml.EndElement:
			open = open[:len(open)-1]
		case xml.CharData:
			last.text += string(x)
		}
	}
}

// all returns the children with an Atom name.
func (e *atomElement) all(name string) (of []*atomElement) {
	for _, c := range e.children {
		if c.name == (xml.Name{Space: atomSpace, Local: name}) {
			of = append(of, c)
		}
	}
	return of
}

func (e *atomElement) get(attr string) string { return e.attr[xml.Name{Local: attr}] }

// An allowance is what RFC 4287 allows in an element: attributes without a namespace, and children with the
// number of their occurrences ("1" once, "?" at most once, "*" any number).
type allowance struct{ attributes, children string }

// atomGrammar is section 4 of RFC 4287.
var atomGrammar = map[string]allowance{
	"feed":        {"", "author* category* contributor* generator? icon? id1 link* logo? rights? subtitle? title1 updated1 entry*"},
	"entry":       {"", "author* category* content? contributor* id1 link* published? rights? source? summary? title1 updated1"},
	"source":      {"", "author* category* contributor* generator? icon? id? link* logo? rights? subtitle? title? updated?"},
	"author":      {"", "name1 uri? email?"},
	"contributor": {"", "name1 uri? email?"},
	"category":    {"term scheme label", ""},
	"generator":   {"uri version", ""},
	"link":        {"href rel type hreflang title length", ""},
	"content":     {"type src", ""},
	"title":       {"type", ""},
	"subtitle":    {"type", ""},
	"summary":     {"type", ""},
	"rights":      {"type", ""},
	"id":          {}, "icon": {}, "logo": {}, "updated": {}, "published": {}, "name": {}, "uri": {}, "email": {},
}

var (
	mediaType = regexp.MustCompile(`^[^/\s]+/[^/\s]+$`)
	email     = regexp.MustCompile(`^.+@.+$`)
)

// atomFaults returns the violations of RFC 4287 in an Atom document. An author, and a link or content, may be
// missing in a publisher's own entries, which are copied unchanged.
func atomFaults(doc []byte) (faults []string) {
	root, err := parseAtom(doc)
	switch {
	case err != nil:
		return []string{err.Error()}
	case root.name != (xml.Name{Space: atomSpace, Local: "feed"}):
		return []string{"the root is " + root.name.Local}
	}
	root.check("feed", func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) })
	return faults
}

func (e *atomElement) check(at string, fault func(string, ...any)) {
	may, known := atomGrammar[e.name.Local]
	if !known {
		fault("%s: no element of Atom", at)
		return
	}
	for a := range e.attr {
		if a.Space == "" && !slices.Contains(strings.Fields(may.attributes), a.Local) {
			fault("%s: attribute %s", at, a.Local)
		}
	}
	if !strings.Contains("title subtitle summary rights content", e.name.Local) {
		e.checkChildren(at, may.children, fault)
	}
	e.checkValue(at, fault)
}

func (e *atomElement) checkChildren(at, may string, fault func(string, ...any)) {
	allowed := map[string]bool{}
	for m := range strings.FieldsSeq(may) {
		name, times := m[:len(m)-1], m[len(m)-1]
		allowed[name] = true
		if n := len(e.all(name)); times == '1' && n != 1 || times == '?' && n > 1 {
			fault("%s: %d × %s", at, n, name)
		}
	}
	for i, c := range e.children {
		switch within := fmt.Sprintf("%s/%s[%d]", at, c.name.Local, i); {
		case c.name.Space != atomSpace: // an extension (section 6)
		case !allowed[c.name.Local]:
			fault("%s: not allowed here", within)
		default:
			c.check(within, fault)
		}
	}
}

// checkValue checks the rules for single elements.
func (e *atomElement) checkValue(at string, fault func(string, ...any)) {
	text := strings.TrimSpace(e.text)
	switch e.name.Local {
	case "feed", "entry":
		e.checkAlternates(at, fault)
	case "updated", "published":
		if _, err := time.Parse(time.RFC3339, text); err != nil {
			fault("%s: %v (3.3)", at, err)
		}
	case "id":
		if u, err := url.Parse(text); err != nil || !u.IsAbs() {
			fault("%s: %q is no absolute IRI (4.2.6)", at, text)
		}
	case "icon", "logo", "uri":
		if _, err := url.Parse(text); err != nil || text == "" {
			fault("%s: %q is no IRI", at, text)
		}
	case "email":
		if !email.MatchString(text) {
			fault("%s: %q is no address (3.2.3)", at, text)
		}
	case "category":
		if e.get("term") == "" {
			fault("%s: no term (4.2.2)", at)
		}
	case "link":
		if _, err := url.Parse(e.get("href")); err != nil || e.get("href") == "" {
			fault("%s: href %q (4.2.7)", at, e.get("href"))
		}
		if t := e.get("type"); t != "" && !mediaType.MatchString(t) {
			fault("%s: type %q (4.2.7)", at, t)
		}
	case "title", "subtitle", "summary", "rights", "content":
		e.checkText(at, fault)
	}
}

// checkAlternates checks the alternate links.
func (e *atomElement) checkAlternates(at string, fault func(string, ...any)) {
	seen := map[string]bool{}
	for _, l := range e.all("link") {
		if rel := l.get("rel"); rel != "" && rel != "alternate" {
			continue
		}
		kind := l.get("type") + " " + l.get("hreflang")
		if seen[kind] {
			fault("%s: two alternate links of one kind, %q (4.1)", at, kind)
		}
		seen[kind] = true
	}
}

// checkText checks a text (3.1), or the content of an entry (4.1.3).
func (e *atomElement) checkText(at string, fault func(string, ...any)) {
	kind := e.get("type")
	switch {
	case kind == "xhtml":
		if len(e.children) != 1 || e.children[0].name != (xml.Name{Space: xhtmlSpace, Local: "div"}) || strings.TrimSpace(e.text) != "" {
			fault("%s: not one div of XHTML (3.1.1.3)", at)
		}
	case e.name.Local == "content" && e.attr[xml.Name{Local: "src"}] != "":
		if len(e.children) > 0 || strings.TrimSpace(e.text) != "" {
			fault("%s: content beside src (4.1.3.2)", at)
		}
	case kind == "" || kind == "text" || kind == "html":
		if len(e.children) > 0 {
			fault("%s: elements in text (3.1.1)", at)
		}
	case e.name.Local != "content" || !mediaType.MatchString(kind):
		fault("%s: type %q (3.1.1)", at, kind)
	}
}

func TestWrittenAtomConformsToRFC4287(t *testing.T) {
	n := 0
	for name, doc := range written(t) {
		if !strings.HasSuffix(name, "as atom") {
			continue
		}
		n++
		for _, fault := range atomFaults(doc) {
			t.Errorf("%s: %s\n%s", name, fault, doc)
		}
	}
	if n == 0 {
		t.Error("nothing was written as Atom")
	}
}

// The checks find violations.
func TestAtomFaults(t *testing.T) {
	const good = `<feed xmlns="http://www.w3.org/2005/Atom" xml:lang="en"><title type="html">T</title><id>tag:e,2026:f</id><updated>2026-11-01T10:00:00Z</updated>` +
		`<author><name>Ann</name></author><entry><title>One</title><id>tag:e,2026:1</id><updated>2026-11-01T10:00:00Z</updated><link href="1"/>` +
		`<content type="xhtml"><div xmlns="http://www.w3.org/1999/xhtml"><p>Hello</p></div></content></entry></feed>`
	if f := atomFaults([]byte(good)); len(f) > 0 {
		t.Fatalf("a good document: %q", f)
	}
	for _, c := range []struct{ old, by, want string }{
		{"<title>One</title>", "", "0 × title"},
		{"<title>One</title>", "<title>One</title><title>Two</title>", "2 × title"},
		{"<title>One</title>", "<title>O<b/></title>", "elements in text"},
		{"<title>One</title>", `<title type="text/plain">One</title>`, "type"},
		{"<title>One</title>", "<title>One</title><subtitle>S</subtitle>", "not allowed here"},
		{"<title>One</title>", `<title class="x">One</title>`, "attribute class"},
		{"<title>One</title>", `<title>One</title><link href="2"/>`, "two alternate links"},
		{"<title>One</title>", `<title>One</title><category/>`, "no term"},
		{"2026-11-01T10:00:00Z", "Sun, 01 Nov 2026 10:00:00 GMT", "3.3"},
		{"tag:e,2026:1", "1", "no absolute IRI"},
		{"<name>Ann</name>", "Ann", "0 × name"},
		{` href="1"`, "", "href"},
		{`<div xmlns="http://www.w3.org/1999/xhtml"><p>Hello</p></div>`, "Hello", "not one div"},
		{`http://www.w3.org/2005/Atom`, "http://purl.org/atom/ns#", "the root"},
		{`</feed>`, "", "EOF"},
	} {
		doc := strings.Replace(good, c.old, c.by, 1)
		if f := strings.Join(atomFaults([]byte(doc)), "\n"); !strings.Contains(f, c.want) {
			t.Errorf("%q for %q: %q, and not %q", c.by, c.old, f, c.want)
		}
	}
}
