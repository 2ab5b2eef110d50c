package feed

import (
	"slices"
	"strings"
)

// A walker goes through a tidy document element by element.
type walker struct {
	lexer
	scope scope
	outer int // bindings that came from outside
	open  []openElement

	// The element whose start or end was met last.
	uri   string
	local []byte

	used          [maxBindings]bool // bindings that were looked up, since someone cleared it
	usesNoDefault bool              // an element without prefix was met where no default is bound
}

// A place is an element that is open.
type openElement struct {
	uri   string
	local []byte
	scope int
}

func walk(doc []byte, outer scope) *walker {
	return &walker{lexer: lexer{doc: doc}, scope: outer, outer: len(outer)}
}

// depth is how many elements are open; at a start and an end, the element itself
// is among them.
func (w *walker) depth() int { return len(w.open) }

// step moves to the next start, end or piece of text. An empty element has a start
// and an end.
func (w *walker) step() bool {
	if w.latest.kind == end { // leave what ended with the last step
		last := w.open[len(w.open)-1]
		w.open, w.scope = w.open[:len(w.open)-1], w.scope[:last.scope]
	}
	if w.latest.kind == start && w.latest.empty {
		w.latest.kind = end
		return true
	}
	for {
		if !w.next() || w.latest.kind == end && len(w.open) == 0 {
			w.latest = token{}
			return false
		}
		switch w.latest.kind {
		case text, cdata:
			return true
		case end:
			last := w.open[len(w.open)-1]
			w.uri, w.local = last.uri, last.local
			return true
		case start:
			before := len(w.scope)
			w.scope = w.scope.push(w.attrs)
			prefix, local, _ := split(w.latest.name)
			w.uri, w.local = w.lookup(prefix), local
			for _, a := range w.attrs {
				if p, _, _ := split(a.name); p != nil && string(p) != "xmlns" {
					w.lookup(p)
				}
			}
			w.open = append(w.open, openElement{w.uri, w.local, before})
			return true
		}
	}
}

// lookup returns the namespace of a prefix and notes that it is used.
func (w *walker) lookup(prefix []byte) string {
	if string(prefix) == "xml" {
		return xmlSpace
	}
	i := w.scope.find(prefix)
	if i < 0 {
		w.usesNoDefault = true
		return ""
	}
	if i < len(w.used) {
		w.used[i] = true
	}
	return w.scope[i].URI
}

// starts tells whether the last step met the start of an element; its attributes
// can be asked for.
func (w *walker) starts() bool { return w.latest.kind == start }

// ends tells whether the last step met the end of an element.
func (w *walker) ends() bool { return w.latest.kind == end }

// says tells whether the text the last step met is more than white space.
func (w *walker) hasText() bool {
	b := w.doc[w.latest.start:w.latest.end]
	return w.latest.kind == cdata || spaceLen(b) < len(b)
}

// text returns the text the last step met, as it is meant.
func (w *walker) text() string {
	b := w.doc[w.latest.start:w.latest.end]
	if w.latest.kind == cdata {
		return string(b[len("<![CDATA[") : len(b)-len("]]>")])
	}
	return unescape(b)
}

// value returns an attribute of the last start, as it is meant. Its name has no
// prefix, or one that is always the same.
func (w *walker) value(name string) string {
	v, _ := w.attr(name)
	return unescape(v)
}

// taken returns what the item that was just walked takes from the bindings below
// base: namespaces it uses, and the base and language that hold there.
func (w *walker) usedBindings(base int) []Binding {
	var list []Binding
	for i, b := range w.scope[:base] {
		special := b.Prefix == "xml:base" || b.Prefix == "xml:lang"
		if special && w.scope[:base].find([]byte(b.Prefix)) == i || !special && w.used[i] {
			list = append(list, Binding{b.Prefix, b.URI})
		}
	}
	slices.SortFunc(list, func(a, b Binding) int { return strings.Compare(a.Prefix, b.Prefix) })
	return list
}
