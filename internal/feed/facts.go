package feed

import (
	"bytes"
	"path"
	"strings"
)

// field is the meaning of an item's child.
type field uint8

const (
	noField field = iota
	idField
	linkField
	titleField
	dateField
	authorField
	summaryField
	contentField
	enclosureField
)

// factsOfXML reads a tidy item.
func factsOfXML(raw []byte, outer []Binding) facts {
	var (
		f       facts
		w       = walk(raw, scopeOf(outer))
		current field
		content strings.Builder // of the open child
		visible []byte          // the visible content of the child, from its first element on
		about   string
		dated   bool // one of Atom's dates of change, which are not a field
		aside   asideText
	)
	for w.step() {
		aside.step(w)
		switch {
		case w.starts() && w.depth() == 1:
			about = w.rdfAbout()
		case w.starts() && w.depth() == 2:
			current = w.fieldOf()
			content.Reset()
			visible = nil
			w.attributesInto(&f, &current)
			f.other = f.other || current == noField && len(w.attrs) > 0
			dated = isAtom(w.uri) && (string(w.local) == "updated" || string(w.local) == "modified")
		case w.starts() && current != noField:
			// Inline markup, or the name, address and page of an Atom author.
			visible = appendVisible(visible, content.String())
			content.Reset()
			for _, name := range []string{"href", "src"} {
				if v, ok := w.attr(name); ok {
					visible = appendAddress(visible, name, unescape(v))
				}
			}
		case w.ends() && w.depth() == 3 && current == authorField && isAtom(w.open[1].uri):
			if string(w.local) == "name" {
				f.author = appendField(f.author, appendNonSpace(nil, content.String()))
			}
			content.Reset()
		case w.ends() && w.depth() == 2:
			if current != authorField || !isAtom(w.uri) {
				f.set(current, content.String(), visible)
			}
			current = noField
		case w.starts():
			f.other = f.other || len(w.attrs) > 0
		case w.ends():
		case current != noField:
			content.WriteString(w.text())
		default:
			f.other = f.other || !dated && w.hasText()
		}
	}
	if f.id == "" {
		f.id = about
	}
	if len(f.summary)+len(f.content) == 0 {
		f.summary = aside.value
	}
	return f
}

// asideText is what an item without summary and content says in the vocabularies of media and podcasts, at any
// depth: of video platforms, everything.
type asideText struct {
	depth int // of the open element; 0: none
	text  strings.Builder
	value []byte
}

func (a *asideText) step(w *walker) {
	switch {
	case a.value != nil || a.depth == 0 && !w.starts():
	case w.starts() && a.depth == 0:
		if name := string(w.local); isMedia(w.uri) && name == "description" || isPodcast(w.uri) && name == "summary" {
			a.depth = w.depth()
		}
	case w.ends() && w.depth() == a.depth:
		a.value, a.depth = appendVisible(nil, a.text.String()), 0
	case !w.starts() && !w.ends():
		a.text.WriteString(w.text())
	}
}

// fieldOf returns the field of the child that starts.
func (w *walker) fieldOf() field {
	name := string(w.local)
	switch own := w.open[0].uri; {
	case isAtom(w.uri):
		switch name {
		case "id":
			return idField
		case "link":
			return linkField
		case "title":
			return titleField
		case "published", "issued", "created":
			return dateField
		case "author":
			return authorField
		case "summary":
			return summaryField
		case "content":
			return contentField
		}
	case w.uri == nsContent && name == "encoded", w.uri == nsXHTML && name == "body":
		return contentField
	case w.uri == nsDC:
		switch name {
		case "title":
			return titleField
		case "date":
			return dateField
		case "creator":
			return authorField
		case "description":
			return summaryField
		}
	case w.uri == "" || w.uri == own:
		switch strings.ToLower(name) {
		case "link":
			return linkField
		case "title":
			return titleField
		case "author":
			return authorField
		}
		if string(w.open[0].local) == "entry" { // of an Atom feed without its namespace
			switch name {
			case "id":
				return idField
			case "published":
				return dateField
			case "summary":
				return summaryField
			case "content":
				return contentField
			}
			break
		}
		switch strings.ToLower(name) {
		case "guid":
			return idField
		case "pubdate":
			return dateField
		case "description":
			return summaryField
		case "enclosure":
			return enclosureField
		}
	}
	return noField
}

// attributesInto takes the facts that a child has in attributes.
func (w *walker) attributesInto(f *facts, current *field) {
	switch *current {
	case linkField:
		href, ok := w.attr("href")
		rel := w.value("rel")
		if ok || rel != "" && rel != "alternate" {
			*current = noField // the text is not the address
		}
		switch {
		case !ok:
		case rel == "enclosure":
			f.addMedia(unescape(href), w.value("type"))
		case f.link == "" && (rel == "" || rel == "alternate"):
			f.link = strings.TrimSpace(unescape(href))
		}
	case enclosureField:
		*current = noField
		f.addMedia(w.value("url"), w.value("type"))
	case contentField: // of an Atom entry with its content elsewhere
		if src, ok := w.attr("src"); ok {
			f.content = appendAddress(f.content, "href", unescape(src))
		}
	}
}

func (w *walker) rdfAbout() string {
	for _, a := range w.attrs {
		if prefix, local, _ := split(a.name); string(local) == "about" && prefix != nil && w.scope.uri(prefix) == nsRDF {
			return strings.TrimSpace(unescape(a.value))
		}
	}
	return ""
}

// set stores the value of a child. Of several children of one field the first non-empty one counts, except that
// there may be many authors.
func (f *facts) set(which field, s string, visible []byte) {
	first := func(p *string) {
		if *p == "" {
			*p = strings.TrimSpace(s)
			if visible != nil {
				*p = string(appendVisible(bytes.Clone(visible), s))
			}
		}
	}
	switch which {
	case idField:
		first(&f.id)
	case linkField:
		first(&f.link)
	case titleField:
		first(&f.title)
	case dateField:
		first(&f.date)
	case authorField:
		f.author = appendField(f.author, appendNonSpace(visible, s))
	case summaryField:
		if len(f.summary) == 0 {
			f.summary = appendVisible(visible, s)
		}
	case contentField:
		if len(f.content) == 0 {
			f.content = appendVisible(visible, s)
		}
	}
}

// addMedia adds an enclosure. It ignores queries, because the addresses of media are often signed anew. A picture
// makes an item that is otherwise empty worth showing, but its address is not content: publishers render the same
// picture again under another name.
func (f *facts) addMedia(address, mediaType string) {
	address, _, _ = strings.Cut(strings.TrimSpace(address), "?")
	if isPicture(address, mediaType) {
		f.other = true
		return
	}
	f.enclosures = appendField(f.enclosures, []byte(cleanAddress(address)))
}

// isPicture reports whether an enclosure is a picture, by its media type or else by its address. The endings are
// listed here because all nodes must agree on them.
func isPicture(address, mediaType string) bool {
	if mediaType != "" {
		return strings.HasPrefix(strings.ToLower(strings.TrimSpace(mediaType)), "image/")
	}
	switch strings.ToLower(path.Ext(address)) {
	case ".avif", ".gif", ".jpeg", ".jpg", ".png", ".svg", ".webp":
		return true
	}
	return false
}

// appendField appends one of several values.
func appendField(dst, value []byte) []byte {
	if len(value) == 0 {
		return dst
	}
	return append(append(dst, value...), 0)
}
