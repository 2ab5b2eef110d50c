package feed

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// declaration begins every document. The source's own declaration and stylesheets are dropped: they name
// another charset, and files that are not here.
const declaration = `<?xml version="1.0" encoding="UTF-8"?>` + "\n"

func (d *Document) writeXML(head *Head) []byte {
	w := xmlWriter{d: d, head: head}
	before, after := w.splitHead()
	out := append([]byte(declaration), before...)
	for i := range d.Entries {
		out = append(out, '\n')
		out = w.appendEntry(out, &d.Entries[i])
	}
	out = append(out, '\n')
	out = append(out, after...)
	return append(absoluteXML(out, nil, d.Base), '\n')
}

type xmlWriter struct {
	d    *Document
	head *Head
	base string // in force where items go
	uri  string // namespace of the root
}

// An edit replaces a part of a head.
type edit struct {
	start, end int
	text       string
}

// splitHead returns the edited head before its items, and the part after them.
func (w *xmlWriter) splitHead() (before, after []byte) {
	var (
		h        = w.head
		edits    []edit
		has      = map[string]bool{}
		list     = 0 // where RSS 1.0's list of items goes
		from     = 0
		drop     = 0 // depth of the element that is dropped
		outer    = 1
		link     = 0 // depth of the link whose text is read
		linkText strings.Builder
		date     = 0 // depth of the date that is read
		dateText strings.Builder
		layout   string
	)
	w.base = h.scope.base()
	for v := walk(h.Raw, nil); v.step(); {
		switch {
		case v.starts() && v.depth() == 1:
			w.uri = v.uri
			if _, has := v.attr("xml:base"); w.base == "" && w.d.Base != "" && !has { // the attribute may be present and empty
				at := 1 + len(v.latest.name)
				edits = append(edits, edit{at, at, Binding{"xml:base", w.d.Base}.sanitised().attribute()})
			}
		case v.starts() && v.depth() == 2 && h.Format != Atom && v.container():
			outer = 2
		case v.starts() && v.depth() == 2 && outer == 2 && drop == 0 && isPublisher(v): // outside the channel
			drop, from = v.depth(), v.latest.start
		case v.starts() && v.depth() == outer+1 && drop == 0:
			has[string(v.local)] = true
			claim := isPublisher(v)
			isLink := string(v.local) == "link"
			if layout = dateLayout(v); layout != "" && w.d.URL != "" {
				dateText.Reset()
				date, from = v.depth(), v.pos
			} else if rel := v.value("rel"); w.d.URL != "" && (claim || string(v.local) == "cloud" || isLink && (isSelfOrHub(rel) || !isSafeLink(v.value("href")))) {
				drop, from = v.depth(), v.latest.start
			} else if isLink {
				linkText.Reset()
				link, from = v.depth(), v.latest.start
			}
		case link > 0 && v.depth() == link && !v.ends() && !v.starts():
			linkText.WriteString(v.text())
		case v.ends() && link > 0 && v.depth() == link: // of RSS, with the address as its text
			if w.d.URL != "" && !isSafeLink(linkText.String()) {
				edits = append(edits, edit{from, v.pos, ""})
			}
			link = 0
		case date > 0 && v.depth() == date && !v.ends():
			dateText.WriteString(v.text())
		case date > 0 && v.depth() == date: // the log does not repeat a head for its date alone
			at := parseDate(dateText.String())
			if latest := w.latestChange(); !at.IsZero() && at.Before(latest) {
				edits = append(edits, edit{from, v.latest.start, latest.Format(layout)})
			}
			date = 0
		case v.ends() && v.depth() == drop:
			edits = append(edits, edit{from, v.pos, ""})
			drop = 0
		case v.ends() && v.depth() == 2 && outer == 2 && list == 0:
			list = v.latest.start
		}
	}
	if h.Format == RDF && list > 0 {
		edits = append(edits, edit{list, list, w.itemList()})
	}
	at := h.ItemsAt
	if h.Format == RDF && list > 0 { // the channel ends before the items
		at = list
	}
	edits = append(edits, edit{at, at, w.missingElements(has)})
	slices.SortStableFunc(edits, func(a, b edit) int { return cmp.Compare(a.start, b.start) })
	var out []byte
	done, behind := 0, false
	split := func() {
		before, out = append(out, h.Raw[done:h.ItemsAt]...), nil
		done, behind = h.ItemsAt, true
	}
	for _, e := range edits {
		if e.start > h.ItemsAt && !behind {
			split()
		}
		if e.start >= done {
			out = append(append(out, h.Raw[done:e.start]...), e.text...)
			done = e.end
		}
	}
	if !behind {
		split()
	}
	return before, append(out, h.Raw[done:]...)
}

// dateLayout returns the layout of the date when a document last changed, if that is what starts; otherwise "".
func dateLayout(v *walker) string {
	switch name := string(v.local); {
	case v.uri == nsAtom && name == "updated", v.uri == nsDC && name == "date":
		return time.RFC3339
	case name == "lastBuildDate":
		return time.RFC1123Z
	}
	return ""
}

// isPublisher reports whether an element names the publisher of the feed.
func isPublisher(v *walker) bool { return v.uri == Namespace && string(v.local) == publisherElement }

// sanitised returns a binding without characters that XML forbids.
func (b Binding) sanitised() Binding {
	clean, _ := dropInvalid([]byte(b.URI))
	return Binding{b.Prefix, string(clean)}
}

// missingElements returns the elements that a head requires and lacks, or that were dropped.
func (w *xmlWriter) missingElements(has map[string]bool) string {
	var b strings.Builder
	if w.d.URL != "" {
		b.WriteString(w.ownLinks())
		if w.d.Publisher != nil {
			b.WriteString(w.d.Publisher.Metadata(w.head.Format))
		}
	}
	if w.uri != nsAtom {
		return b.String()
	}
	element := func(name, s string) {
		b.WriteString("<" + name + Binding{"", nsAtom}.attribute() + ">" + escapeAny(s) + "</" + name + ">")
	}
	if !has["title"] {
		element("title", w.d.Head.Title)
	}
	if !has["id"] {
		id := w.d.Head.Link
		for _, s := range []string{w.d.Base, w.d.URL} {
			if isAbsolute(s) {
				id = s
				break
			}
		}
		if !isAbsolute(id) {
			id = ID(digest("", w.head.Raw)).URN()
		}
		element("id", id)
	}
	if !has["updated"] {
		element("updated", w.latestChange().Format(time.RFC3339))
	}
	return b.String()
}

// latestChange returns the time of the last change of the document or of any entry, as far as known.
func (w *xmlWriter) latestChange() time.Time {
	latest := firstDate(w.d.Changed)
	for i := range w.d.Entries {
		e := &w.d.Entries[i]
		if m := e.meaning(""); e.date(&m).After(latest) {
			latest = e.date(&m)
		}
	}
	return latest
}

// ownLinks returns the links of a document to itself and to its hub. In Atom they have no prefix, because some readers
// compare names without regard to namespaces. For the same reason RSS 1.0 has none: they would take them for the address
// of the site.
func (w *xmlWriter) ownLinks() string {
	if w.head.Format == RDF {
		return ""
	}
	start := "<atom:link" + Binding{"atom", nsAtom}.attribute()
	if w.uri == nsAtom {
		start = "<link" + Binding{"", nsAtom}.attribute()
	}
	links := start + ` rel="self" href="` + escapeAny(w.d.URL) + `"/>`
	if w.d.Hub != "" {
		links += "\n" + start + ` rel="hub" href="` + escapeAny(w.d.Hub) + `"/>`
	}
	return links
}

// itemList returns RSS 1.0's list of a document's items.
func (w *xmlWriter) itemList() string {
	var b strings.Builder
	b.WriteString("<items" + Binding{"", nsRSS10}.attribute() + Binding{"rdf", nsRDF}.attribute() + "><rdf:Seq>")
	for i := range w.d.Entries {
		b.WriteString(`<rdf:li rdf:resource="` + escapeAny(w.about(&w.d.Entries[i])) + `"/>`)
	}
	b.WriteString("</rdf:Seq></items>")
	return b.String()
}

// about returns the name of an item in an RSS 1.0 document.
func (w *xmlWriter) about(e *Entry) string {
	if e.Meaning != nil {
		return e.id(e.Meaning)
	}
	f := e.Item.facts()
	return cmp.Or(f.id, f.link, e.Item.ID.URN())
}

func (w *xmlWriter) appendEntry(out []byte, e *Entry) []byte {
	if e.Item.Format == w.head.Format {
		v := walk(e.Item.Raw, scopeOf(e.Item.Scope))
		if v.step() && (w.head.Format != Atom || v.uri == w.uri) {
			return w.appendVerbatim(out, e, v)
		}
	}
	own := Entry{Item: Item{Format: w.head.Format, Raw: w.converted(e)}, Provenance: e.Provenance, Withdrawn: e.Withdrawn}
	v := walk(own.Item.Raw, nil)
	v.step()
	return w.appendVerbatim(out, &own, v)
}

// appendVerbatim appends an item unchanged; v stands at its start.
func (w *xmlWriter) appendVerbatim(out []byte, e *Entry, v *walker) []byte {
	raw := e.Item.Raw
	first := v.latest
	_, hasBase := v.attr("xml:base")
	_, hasLang := v.attr("xml:lang")
	has := map[string]bool{}
	var kept []byte // content after the start tag
	from := first.end
	for v.step() {
		switch isProvenance := v.depth() == 2 && v.uri == Namespace && string(v.local) == provenanceElement; {
		case isProvenance && v.starts():
			kept = append(kept, raw[from:v.latest.start]...)
			from = len(raw) // an incomplete element is dropped whole
		case isProvenance && v.ends():
			from = v.pos
		case v.starts() && v.depth() == 2 && v.uri == nsAtom:
			has[string(v.local)] = true
		}
	}
	var tagged strings.Builder // attributes that the start tag lacks here
	outside := w.head.scope
	for i, b := range e.Item.Scope {
		switch {
		case b.Prefix == "xml:base" || b.Prefix == "xml:lang":
		case v.used[i] && (outside.find([]byte(b.Prefix)) < 0 || outside.value(b.Prefix) != b.URI):
			tagged.WriteString(b.attribute())
		}
	}
	if v.usesNoDefault && outside.value("") != "" {
		tagged.WriteString(Binding{}.attribute())
	}
	inner := scopeOf(e.Item.Scope)
	if want := cmp.Or(inner.base(), w.d.Base); want != "" && want != cmp.Or(w.base, w.d.Base) && !hasBase {
		tagged.WriteString(Binding{"xml:base", want}.sanitised().attribute())
	}
	if want := inner.value("xml:lang"); want != "" && want != outside.value("xml:lang") && !hasLang {
		tagged.WriteString(Binding{"xml:lang", want}.attribute())
	}
	children := w.addedElements(e, has)

	name := 1 + len(first.name)
	out = append(out, raw[:name]...)
	out = append(out, tagged.String()...)
	if first.empty && children != "" {
		out = append(out, bytes.TrimRight(raw[name:first.end-len("/>")], " \t\r\n")...)
		out = append(out, '>')
		out = append(out, children...)
		out = append(out, "</"...)
		out = append(out, first.name...)
		return append(out, '>')
	}
	out = append(out, raw[name:first.end]...)
	out = append(out, children...)
	out = append(out, kept...)
	return append(out, raw[from:]...)
}

// addedElements returns the elements that an item gains: its provenance, and those that Atom requires and it
// lacks.
func (w *xmlWriter) addedElements(e *Entry, has map[string]bool) string {
	var b strings.Builder
	if said := e.said(); said != "" {
		b.WriteString("<tidings:" + provenanceElement + Binding{"tidings", Namespace}.attribute() + ">" + escapeAny(said) + "</tidings:" + provenanceElement + ">")
	}
	if w.uri != nsAtom || w.head.Format != Atom || has["id"] && has["title"] && has["updated"] {
		return b.String()
	}
	m := e.meaning(w.d.Base)
	for _, c := range []struct{ name, text string }{
		{"id", e.guid(&m)}, {"title", m.Title}, {"updated", e.date(&m).Format(time.RFC3339)},
	} {
		if !has[c.name] {
			b.WriteString("<" + c.name + Binding{"", nsAtom}.attribute() + ">" + escapeAny(c.text) + "</" + c.name + ">")
		}
	}
	return b.String()
}

// lengthAttribute returns the length of an enclosure as an attribute, if it is a number.
func (e Enclosure) lengthAttribute() string {
	if _, err := strconv.ParseUint(e.Length, 10, 63); err != nil {
		return ""
	}
	return ` length="` + e.Length + `"`
}

// converted returns an item of another format, written from its parsed content. It uses no bindings from
// outside.
func (w *xmlWriter) converted(e *Entry) []byte {
	m := w.d.sanitised(e)
	var b bytes.Buffer
	element := func(name, s string) {
		if s != "" {
			b.WriteString("\n" + tag(name, s))
		}
	}
	html := func(name, s string) {
		if s != "" {
			b.WriteString("\n<" + name + ">" + htmlText(s) + "</" + name + ">")
		}
	}
	date := e.date(&m)
	switch w.head.Format {
	case Atom:
		b.WriteString("<entry" + Binding{"", w.uri}.attribute() + ">")
		b.WriteString("\n" + tag("title", m.Title))
		element("id", e.guid(&m))
		element("updated", date.Format(time.RFC3339))
		if writable(m.Published) {
			element("published", m.Published.UTC().Format(time.RFC3339))
		}
		if len(m.Authors) == 0 {
			m.Authors = []string{cmp.Or(w.d.Head.Title, "unknown")} // Atom requires one
		}
		for _, name := range m.Authors {
			b.WriteString("\n<author>" + tag("name", name) + "</author>")
		}
		if m.Link != "" {
			b.WriteString("\n" + `<link rel="alternate" href="` + escapeAny(m.Link) + `"/>`)
		}
		for _, a := range m.Enclosures {
			b.WriteString("\n" + `<link rel="enclosure" href="` + escapeAny(a.URL) + `" type="` + escapeAny(a.mediaType()) + `"` + a.lengthAttribute() + `/>`)
		}
		for _, c := range m.Categories {
			b.WriteString("\n" + `<category term="` + escapeAny(c) + `"/>`)
		}
		if m.Link == "" && m.Content == "" { // Atom requires one of them
			m.Content, m.Summary = cmp.Or(m.Summary, escapeAny(m.Title)), ""
		}
		if m.Summary != "" {
			b.WriteString("\n" + `<summary type="html">` + htmlText(m.Summary) + "</summary>")
		}
		if m.Content != "" {
			b.WriteString("\n" + `<content type="html">` + htmlText(m.Content) + "</content>")
		}
		if s := e.Source; s != nil {
			b.WriteString("\n<source>" + tag("id", s.URL) + tag("title", cmp.Or(s.Title, s.URL)) + tag("updated", date.Format(time.RFC3339)))
			b.WriteString(`<link rel="self" href="` + escapeAny(s.URL) + `"/>`)
			if safeLink(s.Link) != "" {
				b.WriteString(`<link rel="alternate" href="` + escapeAny(s.Link) + `"/>`)
			}
			b.WriteString("</source>")
		}
		b.WriteString("\n</entry>")
	case RDF:
		b.WriteString("<item" + Binding{"", nsRSS10}.attribute() + Binding{"rdf", nsRDF}.attribute() + Binding{"dc", nsDC}.attribute() + Binding{"content", nsContent}.attribute())
		b.WriteString(` rdf:about="` + escapeAny(e.id(&m)) + `">`)
		b.WriteString("\n" + tag("title", m.Title) + "\n" + tag("link", m.Link))
		html("description", m.Summary)
		element("dc:date", e.published(&m).Format(time.RFC3339))
		for _, name := range m.Authors {
			element("dc:creator", name)
		}
		html("content:encoded", m.Content)
		if e.Source != nil {
			element("dc:source", e.Source.URL)
		}
		b.WriteString("\n</item>")
	default:
		b.WriteString("<item" + Binding{"dc", nsDC}.attribute() + Binding{"content", nsContent}.attribute() + ">")
		b.WriteString("\n" + tag("title", m.Title))
		element("link", m.Link)
		b.WriteString("\n" + `<guid isPermaLink="false">` + escapeAny(e.id(&m)) + "</guid>")
		element("pubDate", e.published(&m).Format(time.RFC1123Z))
		if !date.Equal(e.published(&m)) {
			b.WriteString("\n<atom:updated" + Binding{"atom", nsAtom}.attribute() + ">" + date.Format(time.RFC3339) + "</atom:updated>")
		}
		for _, name := range m.Authors {
			element("dc:creator", name)
		}
		for _, c := range m.Categories {
			element("category", c)
		}
		html("description", m.Summary)
		html("content:encoded", m.Content)
		for _, a := range m.Enclosures {
			b.WriteString("\n" + `<enclosure url="` + escapeAny(a.URL) + `" type="` + escapeAny(a.mediaType()) + `" length="` + escapeAny(cmp.Or(a.Length, "0")) + `"/>`)
		}
		if s := e.Source; s != nil {
			b.WriteString("\n" + `<source url="` + escapeAny(s.URL) + `">` + escapeAny(cmp.Or(s.Title, s.URL)) + "</source>")
		}

		b.WriteString("\n</item>")
	}
	return b.Bytes()
}
