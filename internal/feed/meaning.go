package feed

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Meaning is the parsed content of an item, for programs that show or search it. Content and Summary are HTML
// from an untrusted source.
type Meaning struct {
	GUID, Title, Link  string
	Authors            []string
	Summary, Content   string
	Published, Updated time.Time // zero if not given
	Categories         []string
	Enclosures         []Enclosure
}

// Author returns the authors in one text.
func (m *Meaning) Author() string { return strings.Join(m.Authors, ", ") }

// AuthorNamed returns the authors of an item that has at most one.
func AuthorNamed(name string) []string {
	if name == "" {
		return nil
	}
	return []string{name}
}

// An Enclosure is a file that comes with an item.
type Enclosure struct {
	URL, Type, Length string
}

// mediaType returns the media type of an enclosure, or a default.
func (e Enclosure) mediaType() string {
	if major, minor, ok := strings.Cut(e.Type, "/"); !ok || major == "" || minor == "" {
		return "application/octet-stream"
	}
	return e.Type
}

// Meaning parses an item. It resolves addresses, also those within its content, relative to the innermost base
// of the item, or else to base, the address of its document.
//
// Several elements may give a field of an item, for example title, dc:title and media:title. An element of the
// item's own format takes precedence over one of Atom or Dublin Core, and that over one for podcasts or media. Of
// two with equal precedence, the first that is not empty is taken.
func (it *Item) Meaning(base string) (Meaning, error) {
	if it.Format == JSON {
		return it.meaningOfJSON(base), nil
	}
	r := meaningReader{walker: walk(it.Raw, scopeOf(it.Scope)), format: it.Format}
	r.addresses = resolver{document: base, spare: len(it.Raw) + maxGrowth}
	if r.read(); r.err != nil {
		return r.m, fmt.Errorf("read item: %w", r.err)
	}
	return r.m, nil
}

// Dates returns the dates of Meaning in less time.
func (it *Item) Dates() (published, updated time.Time) {
	if it.Format == JSON {
		m := datesOfJSON(membersOf(it.Raw))
		return m.Published, m.Updated
	}
	r := meaningReader{walker: walk(it.Raw, scopeOf(it.Scope)), format: it.Format, datesOnly: true}
	r.read()
	return r.m.Published, r.m.Updated
}

// A meaningReader reads the content of one item of XML.
type meaningReader struct {
	*walker
	addresses resolver
	format    Format
	datesOnly bool
	m         Meaning
	ranks     map[any]rank // of the fields that are set, by their addresses
}

// read reads the item.
func (r *meaningReader) read() {
	for r.step() {
		switch {
		case !r.starts():
		case r.depth() == 1:
			r.about(r.rdfAbout())
		case r.depth() == 2 || !slices.ContainsFunc(r.open[1:], func(e openElement) bool { return !isMedia(e.uri) }):
			r.child()
		}
	}
}

// rank says how much an element counts for its field.
type rank uint8

const (
	ownRank     rank = iota + 1 // elements of the item's format
	atomRank                    // elements of Atom
	coreRank                    // elements of Dublin Core and others that any format may have
	podcastRank                 // elements of podcasts
	mediaRank                   // elements of media
)

// take reports whether a value of a rank replaces the one that a field has.
func (r *meaningReader) take(field any, of rank) bool {
	if old := r.ranks[field]; old != 0 && old <= of {
		return false
	}
	if r.ranks == nil {
		r.ranks = map[any]rank{}
	}
	r.ranks[field] = of
	return true
}

func (r *meaningReader) setString(field *string, s string, of rank) {
	if s != "" && r.take(field, of) {
		*field = s
	}
}

func (r *meaningReader) setDate(field *time.Time, s string, of rank) {
	if t := parseDate(s); !t.IsZero() && r.take(field, of) {
		*field = t
	}
}

// here returns the resolver of the addresses in the element that started or ended last.
func (r *meaningReader) here() *resolver {
	r.addresses.enter(r.scope)
	return &r.addresses
}

// about takes the name that RDF gives to an item.
func (r *meaningReader) about(name string) {
	r.setString(&r.m.GUID, name, mediaRank)
	if isOnWeb(name) {
		r.setString(&r.m.Link, name, mediaRank)
	}
}

// child reads the child that starts.
func (r *meaningReader) child() {
	name, of := r.vocabulary()
	switch {
	case of == 0 || r.date(name, of):
		return
	case r.datesOnly:
		if of == mediaRank {
			r.textConstruct(of) // skips its children: dates among them are not those of the item
		}
		return
	}
	switch name {
	case "title":
		r.setString(&r.m.Title, r.textConstruct(of).plain(), of)
	case "link":
		r.link(of)
	case "guid", "id":
		r.guid(name, of)
	case "description", "summary", "subtitle", "abstract":
		if of == podcastRank && name == "subtitle" {
			of = mediaRank
		}
		r.setString(&r.m.Summary, r.textConstruct(of).html(r.here()), of)
	case "content", "encoded", "body", "fullitem":
		r.setString(&r.m.Content, r.textConstruct(of).html(r.here()), of)
	case "author", "creator":
		r.author(of)
	case "category", "subject":
		term := strings.TrimSpace(r.value("term"))
		r.m.Categories = appendNew(r.m.Categories, cmp.Or(term, strings.TrimSpace(r.textConstruct(of).text)))
	case "enclosure":
		r.enclosure(r.value("url"))
	}
}

// date reads the child that starts if it is a date.
func (r *meaningReader) date(name string, of rank) bool {
	field := &r.m.Published
	switch name {
	case "pubdate", "published", "issued", "date":
	case "created": // perhaps long before it was published
		of = mediaRank
	case "updated", "modified":
		field = &r.m.Updated
	default:
		return false
	}
	r.setDate(field, r.textConstruct(of).text, of)
	return true
}

func (r *meaningReader) enclosure(address string) {
	if address = strings.TrimSpace(address); address != "" && len(r.m.Enclosures) < maxObjects {
		r.m.Enclosures = append(r.m.Enclosures, Enclosure{r.here().absolute(address), r.value("type"), r.value("length")})
	}
}

// link reads a link. Of pages in several forms a reader wants the one in HTML.
func (r *meaningReader) link(of rank) {
	rel, media := r.value("rel"), strings.ToLower(r.value("type"))
	href, isAtomLink := r.attr("href")
	address := unescape(href)
	if !isAtomLink {
		address = r.textConstruct(of).text
	}
	switch address = strings.TrimSpace(address); rel {
	case "enclosure":
		r.enclosure(address)
	case "", "alternate":
		if media != "" && !strings.Contains(media, "html") {
			of = mediaRank
		}
		r.setString(&r.m.Link, r.here().absolute(address), of)
	}
}

// guid reads the id of an item. In RSS 2.0 it is the item's page, too, unless the item denies it.
func (r *meaningReader) guid(name string, of rank) {
	permalink := strings.ToLower(strings.TrimSpace(r.value("isPermaLink")))
	id := strings.TrimSpace(r.textConstruct(of).text)
	r.setString(&r.m.GUID, id, of)
	if name != "guid" || permalink == "false" || strings.ContainsAny(id, " \t\r\n") {
		return
	}
	if permalink == "true" && id != "" {
		id = r.here().absolute(id)
	}
	if isOnWeb(id) {
		r.setString(&r.m.Link, id, podcastRank)
	}
}

// author reads one of the authors, of which all of the highest rank count.
func (r *meaningReader) author(of rank) {
	var names [2]strings.Builder // name and address in elements
	depth, text := r.depth(), strings.Builder{}
	for at := -1; r.step() && (!r.ends() || r.depth() > depth); {
		switch {
		case r.starts():
			at = slices.Index([]string{"name", "email"}, string(r.local))
		case r.ends():
			at = -1
		case r.depth() == depth:
			text.WriteString(r.text())
		case at >= 0:
			names[at].WriteString(r.text())
		}
	}
	name := cmp.Or(strings.TrimSpace(names[0].String()), strings.TrimSpace(names[1].String()), authorName(text.String()))
	name = strings.Join(strings.Fields(name), " ")
	switch {
	case name == "":
	case r.take(&r.m.Authors, of):
		r.m.Authors = []string{name}
	case r.ranks[&r.m.Authors] == of:
		r.m.Authors = appendNew(r.m.Authors, name)
	}
}

// appendNew appends a text that a list lacks. The list has at most maxObjects of them, and no empty one.
func appendNew(list []string, s string) []string {
	if s == "" || len(list) == maxObjects || slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}

// authorName returns the name in an author of RSS, such as "address (name)", "name (address)" or "name <address>".
func authorName(s string) string {
	s = strings.TrimSpace(s)
	before, inner, ok := strings.Cut(strings.TrimSuffix(s, ")"), "(")
	before, inner = strings.TrimSpace(before), strings.TrimSpace(inner)
	switch {
	case ok && strings.Contains(before, "@"):
		return cmp.Or(inner, before)
	case ok && strings.Contains(inner, "@"):
		return cmp.Or(before, inner)
	}
	if name, address, ok := strings.Cut(s, "<"); ok && strings.Contains(address, "@") {
		return cmp.Or(strings.TrimSpace(name), strings.Trim(address, "<> "))
	}
	return s
}

// vocabulary returns the name of the element that starts, in lower case, and how much it counts. The rank is 0 if
// nobody reads the element.
func (r *meaningReader) vocabulary() (name string, of rank) {
	name = strings.ToLower(string(r.local))
	switch uri := strings.ToLower(r.uri); {
	case isMedia(r.uri):
		if name == "title" || name == "description" {
			return name, mediaRank
		}
	case isPodcast(r.uri):
		switch name {
		case "title", "subtitle", "summary", "author":
			return name, podcastRank
		}
	case strings.HasPrefix(uri, "http://purl.org/dc/elements/"), strings.HasPrefix(uri, "http://purl.org/dc/terms"):
		return name, coreRank
	case r.uri == nsContent && name == "encoded", r.uri == nsXHTML && name == "body", name == "encoded":
		return name, coreRank
	case r.format == Atom && (isAtom(r.uri) || r.uri == "" || r.uri == r.open[0].uri):
		if name != "subtitle" && name != "description" {
			return name, ownRank
		}
	case isAtom(r.uri):
		return name, atomRank
	case r.uri == "" || r.uri == r.open[0].uri || isRSS(uri):
		return name, ownRank
	}
	return "", 0
}

// isMedia reports whether uri is a namespace of Media RSS.
func isMedia(uri string) bool {
	uri = strings.TrimSuffix(uri, "/")
	return uri == "http://search.yahoo.com/mrss" || uri == "http://www.rssboard.org/media-rss"
}

// isPodcast reports whether uri is a namespace of Apple's elements for podcasts.
func isPodcast(uri string) bool {
	return strings.HasPrefix(strings.ToLower(uri), "http://www.itunes.com/dtds/")
}

// isRSS reports whether uri, in lower case, is a namespace that documents give to elements of RSS.
func isRSS(uri string) bool {
	for _, prefix := range []string{
		"http://purl.org/rss/1.0/", "http://purl.org/rss/2.0/", "http://purl.org/net/rss1.1", "http://backend.userland.com/rss",
		"http://blogs.law.harvard.edu/tech/rss", "http://cyber.law.harvard.edu/rss", "http://my.netscape.com/", "http://channel.netscape.com/",
	} {
		if rest, ok := strings.CutPrefix(uri, prefix); ok && !strings.HasPrefix(rest, "modules") {
			return true
		}
	}
	return false
}

// attribute returns a binding as an attribute of a start tag.
func (b Binding) attribute() string {
	name := "xmlns"
	switch b.Prefix {
	case "":
	case "xml:base", "xml:lang":
		name = b.Prefix
	default:
		name += ":" + b.Prefix
	}
	return " " + name + `="` + escape(b.URI) + `"`
}

// datesOfJSON returns the dates of an item, given its members.
func datesOfJSON(members map[string][]byte) (m Meaning) {
	m.Published, m.Updated = parseDate(textOf(members, "date_published")), parseDate(textOf(members, "date_modified"))
	return m
}

func textOf(members map[string][]byte, name string) string {
	return withoutControls(strings.TrimSpace(stringOf(members[name])))
}

func (it *Item) meaningOfJSON(base string) Meaning {
	get := membersOf(it.Raw)
	text := func(name string) string { return textOf(get, name) }
	addresses := resolver{document: base, spare: len(it.Raw) + maxGrowth}
	m := datesOfJSON(get)
	m.GUID, m.Title, m.Link, m.Authors = text("id"), text("title"), addresses.absolute(text("url")), authorsOf(get)
	m.Summary, m.Content = escape(text("summary")), addresses.html(text("content_html"))
	if m.Content == "" {
		m.Content = strings.ReplaceAll(escape(text("content_text")), "\n", "<br>\n")
	}
	if tags := get["tags"]; len(tags) > 0 && tags[0] == '[' {
		elements(tags, func(value []byte) {
			m.Categories = appendNew(m.Categories, stringOf(value))
		})
	}
	for _, a := range objectsOf(get["attachments"]) {
		m.Enclosures = append(m.Enclosures, Enclosure{addresses.absolute(stringOf(a["url"])), stringOf(a["mime_type"]), stringOf(a["size_in_bytes"])})
	}
	return m
}
