package feed

import (
	"cmp"
	"slices"
	"strings"
)

// AbsoluteMeaning parses an item for documents other than its own. All addresses are absolute, also those within
// its content, because no base follows them there. base is the address of its document.
func (it *Item) AbsoluteMeaning(base string) (Meaning, error) {
	own := *it
	if it.Format == JSON {
		own.Raw = absoluteJSON("", it.Raw, base)
		return own.Meaning("")
	}
	own.Raw = withoutBases(absoluteXML(it.Raw, scopeOf(it.Scope), base), scopeOf(it.Scope))
	own.Scope = slices.DeleteFunc(slices.Clone(it.Scope), func(b Binding) bool { return b.Prefix == "xml:base" })
	m, err := own.Meaning("")
	m.Link = cmp.Or(m.Link, own.permalink())
	return m, err
}

// withoutBases returns an item without bases, and with XHTML that has no prefixes, as HTML has none.
func withoutBases(raw []byte, outer scope) []byte {
	var edits []edit
	for w := walk(raw, outer); w.step(); {
		tag := w.latest.start + 1
		if w.ends() {
			tag++
		}
		prefix, _, _ := split(w.latest.name)
		isTag := w.starts() || w.ends() && raw[tag-1] == '/'
		if isTag && w.uri == nsXHTML && prefix != nil {
			edits = append(edits, edit{tag, tag + len(prefix) + 1, ""})
		}
		if w.starts() {
			for _, a := range w.attrs {
				if string(a.name) == "xml:base" {
					edits = append(edits, edit{offset(raw, a.name), offset(raw, a.value) + len(a.value) + 1, ""})
				}
			}
		}
	}
	return edited(raw, edits)
}

// permalink returns the id of an item of RSS if it is the address of its page, and otherwise "".
func (it *Item) permalink() string {
	isID := false
	var id strings.Builder
	for w := walk(it.Raw, scopeOf(it.Scope)); w.step(); {
		switch {
		case w.starts():
			isID = w.depth() == 2 && string(w.local) == "guid" && w.value("isPermaLink") != "false"
		case w.ends():
			isID = false
		case isID:
			id.WriteString(w.text())
		}
	}
	if s := strings.TrimSpace(id.String()); isOnWeb(s) {
		return s
	}
	return ""
}

// authors returns the names of an entry's authors. The meaning has them in one text.
func (e *Entry) authors(m *Meaning) []string {
	var names []string
	switch {
	case m.Author == "":
		return nil
	case e.Meaning != nil:
	case e.Item.Format == JSON:
		names = authorsOf(membersOf(e.Item.Raw))
	default:
		var text strings.Builder
		for w := walk(e.Item.Raw, scopeOf(e.Item.Scope)); w.step(); {
			switch local := string(w.local); {
			case w.starts():
				text.Reset()
			case w.ends():
				if local == "author" || local == "creator" || local == "name" && string(w.open[1].local) == "author" {
					if name := strings.TrimSpace(text.String()); name != "" {
						names = append(names, name)
					}
				}
				text.Reset()
			default:
				text.WriteString(w.text())
			}
		}
	}
	if strings.Join(names, authorSeparator) == m.Author {
		return names
	}
	return []string{m.Author}
}

// authorSeparator is between the authors of a meaning.
const authorSeparator = ", "

// AbsoluteLink returns the page of a feed as an absolute address. base is the address of its document.
func AbsoluteLink(base, link string) string {
	if s, ok := absolute(base, link); ok {
		return s
	}
	return link
}
