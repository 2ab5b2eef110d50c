package feed

import (
	"slices"
	"strings"
)

// A walker visits a tidy document element by element.
type walker struct {
	lexer
	scope scope
	open  []openElement

	// The element that started or ended last.
	uri   string
	local []byte

	used          [maxBindings]bool // bindings that were looked up since this was last cleared
	usesNoDefault bool              // an element without prefix occurred where no default namespace is bound
}

// An openElement is an element that has not ended.
type openElement struct {
	uri   string
	local []byte
	scope int
}

func walk(doc []byte, outer scope) *walker {
	return &walker{lexer: lexer{doc: doc}, scope: outer}
}

// depth returns the number of open elements. At a start and at an end, the element itself counts.
func (w *walker) depth() int { return len(w.open) }

// step moves to the next start, end or text. An empty element has a start and an end.
func (w *walker) step() bool {
	if w.latest.kind == end { // leave the element that ended with the last step
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

// lookup returns the namespace of a prefix and marks its binding as used.
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

// starts reports whether the last step was the start of an element, whose attributes are then available.
func (w *walker) starts() bool { return w.latest.kind == start }

// ends reports whether the last step was the end of an element.
func (w *walker) ends() bool { return w.latest.kind == end }

// hasText reports whether the text of the last step is more than white space.
func (w *walker) hasText() bool {
	b := w.doc[w.latest.start:w.latest.end]
	return w.latest.kind == cdata || spaceLen(b) < len(b)
}

// text returns the text of the last step, unescaped.
func (w *walker) text() string {
	b := w.doc[w.latest.start:w.latest.end]
	if w.latest.kind == cdata {
		return string(b[len("<![CDATA[") : len(b)-len("]]>")])
	}
	return unescape(b)
}

// value returns an attribute of the last start, unescaped. Its name must have no prefix, or a constant one.
func (w *walker) value(name string) string {
	v, _ := w.attr(name)
	return unescape(v)
}

// usedBindings returns the bindings that the last item uses of those below base: its namespaces, and the base
// and language in force.
func (w *walker) usedBindings(base int) []Binding {
	var list []Binding
	for i, b := range w.scope[:base] {
		special := b.Prefix == "xml:base" || b.Prefix == "xml:lang"
		if special && w.scope[:base].find([]byte(b.Prefix)) == i || !special && w.used[i] {
			if b.Prefix == "xml:base" {
				b.URI = w.scope[:base].base()
			}
			list = append(list, b)
		}
	}
	slices.SortFunc(list, func(a, b Binding) int { return strings.Compare(a.Prefix, b.Prefix) })
	return list
}
