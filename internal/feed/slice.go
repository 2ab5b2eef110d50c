package feed

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// formatOfRoot returns the format of a document by its root element.
func formatOfRoot(local []byte, uri string) (Format, error) {
	switch name := string(local); {
	case strings.EqualFold(name, "rss"):
		return RSS, nil
	case name == "RDF" && uri == nsRDF:
		return RDF, nil
	case name == "feed" && isNearlyAtom(uri):
		return Atom, nil
	case strings.EqualFold(name, "html"):
		return 0, fmt.Errorf("a web page, %w", ErrNotFeed)
	default:
		return 0, fmt.Errorf("%w: a document of <%s>", ErrNotFeed, clipBytes(local))
	}
}

// isAtom reports whether uri is a namespace of Atom: that of 1.0, of 0.3, or of a draft between them.
func isAtom(uri string) bool {
	return uri == nsAtom || strings.HasPrefix(uri, nsAtom03) || strings.HasPrefix(uri, "http://purl.org/atom/")
}

// isNearlyAtom reports whether a feed or an entry of a namespace is one of Atom, although its publisher may have
// forgotten the namespace or mistyped its capital letter.
func isNearlyAtom(uri string) bool { return uri == "" || isAtom(uri) || strings.EqualFold(uri, nsAtom) }

// sliceXML splits a tidy document into its items, with their bytes and scope, and its head.
func sliceXML(doc []byte) (Head, []Item, repairs, omissions, error) {
	var (
		s    = slicer{walker: walk(doc, nil)}
		item = 0 // depth of the open item, or of RDF's list of items
	)
	for s.step() {
		switch {
		case item != 0 && s.depth() > item && s.starts():
			s.hasContent = s.hasContent || len(s.attrs) > 0
		case item != 0 && !s.starts() && !s.ends():
			s.hasContent = s.hasContent || s.hasText()
		case item == 0 && s.starts():
			if err := s.outside(); err != nil {
				return Head{}, nil, s.bad, s.lost, err
			}
			if s.atItem() {
				item = s.depth()
				s.beginItem()
			} else if s.atList() {
				item = s.depth()
				s.copyHead()
			}
		case item == s.depth() && s.ends():
			if s.atItem() {
				s.finishItem()
			}
			s.copied = s.pos
			item = 0
		}
	}
	s.head = append(s.head, doc[s.copied:]...)
	head, err := readHeadXML(s.format, s.head)
	if err == nil && len(s.head) > MaxHead {
		s.bad |= largeHead
		head, err = minimalHead(head)
	}
	return head, s.items, s.bad, s.lost, err
}

type slicer struct {
	*walker
	format     Format
	items      []Item
	head       []byte
	copied     int  // offset up to which the document was copied to the head or skipped
	itemStart  int  // offset of the open item
	hasContent bool // the open item has a text or an attribute
	bad        repairs
	lost       omissions
}

// outside handles an element that may contain items.
func (s *slicer) outside() (err error) {
	if s.depth() == 1 {
		s.format, err = formatOfRoot(s.local, s.uri)
	}
	if s.latest.empty && s.container() {
		// Give it an end tag, before which items can go.
		s.head = append(s.head, s.doc[s.copied:s.latest.end-len("/>")]...)
		s.head = append(s.head, "></"...)
		s.head = append(s.head, s.latest.name...)
		s.head = append(s.head, '>')
		s.copied = s.latest.end
	}
	return err
}

// container reports whether the element that starts or ends can contain items.
func (w *walker) container() bool {
	return w.depth() == 1 || w.depth() == 2 && isNamed(w.local, "channel")
}

func isNamed(local []byte, name string) bool { return bytes.EqualFold(local, []byte(name)) }

// atItem reports whether an item starts or ends.
func (s *slicer) atItem() bool {
	if s.format == Atom {
		return s.depth() == 2 && s.uri == s.open[0].uri && isItem(Atom, s.local, s.uri)
	}
	return s.inContainer() && isItem(s.format, s.local, s.uri)
}

// isItem reports whether an element is an item of a format.
func isItem(f Format, local []byte, uri string) bool {
	switch f {
	case Atom:
		return string(local) == "entry" && isNearlyAtom(uri)
	case RDF:
		return isNamed(local, "item") && uri != nsRDF
	}
	return isNamed(local, "item") // some have a namespace that their publisher invented
}

func (s *slicer) inContainer() bool {
	return s.depth() == 2 || s.depth() == 3 && isNamed(s.open[1].local, "channel")
}

// atList reports whether RSS 1.0's list of the document's items starts.
func (s *slicer) atList() bool {
	return s.format == RDF && s.depth() == 3 && s.inContainer() && string(s.local) == "items"
}

func (s *slicer) beginItem() {
	s.copyHead()
	s.itemStart, s.hasContent = s.latest.start, len(s.attrs) > 0
	s.used, s.usesNoDefault = [maxBindings]bool{}, false
	for _, a := range s.attrs { // step has already looked them up
		if p, _, _ := split(a.name); p != nil && string(p) != "xmlns" {
			s.lookup(p)
		}
	}
	prefix, _, _ := split(s.latest.name)
	s.lookup(prefix)
}

// copyHead copies the part of the head before the element that starts, without trailing white space.
func (s *slicer) copyHead() {
	s.head = append(s.head, bytes.TrimRight(s.doc[s.copied:s.latest.start], " \t\r\n")...)
}

func (s *slicer) finishItem() {
	switch {
	case !s.hasContent: // a million of them would leave no room for others
		s.bad |= emptyItems
		return
	case len(s.items) == MaxItems:
		s.lost.beyond++
		return
	}
	it := Item{Format: s.format, Raw: s.doc[s.itemStart:s.pos:s.pos], Scope: s.usedBindings(s.open[s.depth()-1].scope)}
	large := len(it.Raw) > MaxItem
	if large {
		it.Raw = shorten(it.Raw)
	}
	switch {
	case it.Raw == nil || !isScopeSmall(it.Scope):
		s.lost.large++
		return
	case large:
		s.lost.parts++
	}
	s.items = append(s.items, it)
}

// shorten returns an item without its largest children, so that it fits into MaxItem. It returns nil if that is
// not possible.
func shorten(raw []byte) []byte {
	type span struct{ start, end int }
	var (
		children []span
		from     int
		w        = walk(raw, nil)
	)
	for w.step() {
		switch {
		case w.depth() == 2 && w.starts():
			from = w.latest.start
		case w.depth() == 2 && w.ends():
			children = append(children, span{from, w.pos})
		}
	}
	bySize := slices.Clone(children)
	slices.SortStableFunc(bySize, func(a, b span) int { return cmp.Compare(b.end-b.start, a.end-a.start) })
	size, dropped := len(raw), map[int]bool{}
	for _, c := range bySize {
		if size <= MaxItem {
			break
		}
		size -= c.end - c.start
		dropped[c.start] = true
	}
	if size > MaxItem {
		return nil
	}
	out, done := make([]byte, 0, size), 0
	for _, c := range children {
		if dropped[c.start] {
			out = append(out, raw[done:c.start]...)
			done = c.end
		}
	}
	return append(out, raw[done:]...)
}
