package feed

import "strings"

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
func AbsoluteLink(base, link string) string { return absolute(base, link) }
