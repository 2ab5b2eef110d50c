package page

import (
	"errors"
	"fmt"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"tidings/internal/selection"
)

// A channel may select elements of its page, or leave some out (decision 020). A first pass over the tokens makes a tree, without
// text but that of :contains and :empty, and finds the elements that match. The reader then reads the page as
// usual, and knows the elements by their numbers.

const (
	// maxElements bounds the elements of a page on which elements are selected. Pages of people have some thousands.
	maxElements = 1 << 15
	// maxSiblings bounds the elements beside each other if all are in one place, and the sum of their squares if they are in
	// several: for :nth-child, those before each element are counted.
	maxSiblings = 1 << 13
	// maxNested is how deep elements can be nested in the tree. Deeper ones are beside each other.
	maxNested = 256
	// maxAttributes is how many attributes of an element are compared with a selector.
	maxAttributes = 32
	// maxValue is how much of an attribute is compared, in bytes. Longer ones are pictures and programs.
	maxValue = 1 << 10
	// maxCompared bounds the attributes of a page that are compared, in bytes: each test of a selector may read all of them.
	maxCompared = 2 << 20
	// maxContained bounds the text of a page on which elements are selected, in bytes: :contains reads it once for each
	// element around it.
	maxContained = 32 << 20
	// maxFound bounds the elements that a selector may find. More of them are a whole page.
	maxFound = 1 << 12
)

// ErrNothing says that what the channel asks for is not on the page.
var ErrNothing = errors.New("nothing on the page counts")

// nothing returns an error for a parameter of a rule that finds nothing to read.
func nothing(name string, rule *selection.Rule, found string) error {
	return fmt.Errorf("%w: %s in #%s finds %s: compare it with the page in a browser", ErrNothing, name, rule.String(), found)
}

// scoped is what a rule says of an element.
type scoped struct {
	selected bool // it counts, or an element around it does
	omitted  bool // the same for elements that are left out
}

// A scope is what a rule says of the elements of a page. The zero value says nothing of any.
type scope struct {
	elements []scoped // by the number of their start tags
	next     int      // number of the next start tag
	selects  bool     // only selected elements count
}

// scopeOf finds the elements of a page of which a rule speaks.
func scopeOf(doc []byte, strict bool, rule *selection.Rule) (s scope, err error) {
	if rule.Select == nil && rule.Omit == nil && rule.Number == nil {
		return s, nil
	}
	t := treeReader{reader: newReader(doc, strict, &Location{}), rule: rule}
	if err := t.read(); err != nil {
		return s, err
	}
	s.elements = make([]scoped, t.tags)
	omitted := map[*html.Node]bool{}
	if rule.Omit != nil {
		for i, ok := range rule.Omit.Match(t.nodes) {
			if at := t.numbers[i]; ok && at != none {
				s.elements[at].omitted, omitted[t.nodes[i]] = true, true
			}
		}
	}
	name, chosen := "select", rule.Select
	if rule.Number != nil {
		name, chosen = "number", rule.Number
	}
	if chosen == nil {
		return s, nil
	}
	s.selects = true
	found := 0
	for i, ok := range chosen.Match(t.nodes) {
		at := t.numbers[i]
		if !ok || at == none || within(t.nodes[i], omitted) || rule.Number != nil && found > 0 {
			continue
		}
		s.elements[at].selected = true
		found++
	}
	switch {
	case found == 0:
		return s, nothing(name, rule, "no element")
	case found > maxFound:
		return s, fmt.Errorf("%w: select= finds %d elements, more than %d: select the element around them", ErrNothing, found, maxFound)
	}
	return s, nil
}

// found returns what the rule says of the element whose start tag is read.
func (s *scope) found() (f scoped) {
	if s.next < len(s.elements) {
		f = s.elements[s.next]
	}
	s.next++
	return f
}

// counts reports whether text in the innermost element counts.
func (r *reader) counts() bool {
	return !r.selects || len(r.open) > 0 && r.open[len(r.open)-1].selected
}

// enterScope takes over what the rule says of a new element and of those around it. A selected element begins a
// line, and is read wherever it stands, unless it is omitted.
func (r *reader) enterScope(e *element, found scoped) {
	e.scoped = found
	around := scoped{}
	if len(r.open) > 0 {
		around = r.open[len(r.open)-1].scoped
	}
	e.selected, e.omitted = e.selected || around.selected, e.omitted || around.omitted
	if found.selected && !around.selected {
		r.endLine()
		r.hiddenDepth = 0
	}
}

// A treeReader makes the tree of a page. It ends elements as the reader does, and adds those that browsers add.
type treeReader struct {
	*reader
	nodes   []*html.Node
	numbers []int        // of their start tags; none: a browser adds the element
	stack   []*html.Node // the nodes of the open elements
	root    html.Node
	rule    *selection.Rule
	text    []byte // of the innermost element, not yet in the tree
	tags    int    // start tags so far
	size    int    // of the texts in the tree, in bytes, each counted once for each element around it
	compare int    // size of the attributes in the tree, in bytes
}

var errElements = fmt.Errorf("%w: the page has more than %d elements, %d within one, %d MiB of attributes, or long texts deep within it, too many to select from: subscribe to the address without its #",
	ErrLarge, maxElements, maxSiblings, maxCompared>>20)

func (t *treeReader) read() error {
	t.root.Type, t.current.link = html.DocumentNode, none
	for {
		switch t.tokens.Next() {
		case html.ErrorToken:
			t.addText()
			return t.check()
		case html.TextToken:
			if len(t.stack) > 0 && !neverText[t.innermost()] {
				t.text = append(t.text, t.tokens.Text()...)
			}
		case html.StartTagToken:
			t.start(false)
		case html.SelfClosingTagToken:
			t.start(true)
		case html.EndTagToken:
			name, _ := t.tokens.TagName()
			t.end(atom.Lookup(name))
		}
		if len(t.nodes) > maxElements || t.compare > maxCompared || t.size > maxContained {
			return errElements
		}
	}
}

// check refuses a page with too many elements beside each other, or with too much text at its end.
func (t *treeReader) check() error {
	children, squares := map[*html.Node]int{}, 0
	for _, n := range t.nodes {
		squares += 2*children[n.Parent] + 1
		children[n.Parent]++
	}
	if squares > maxSiblings*maxSiblings || t.size > maxContained {
		return errElements
	}
	return nil
}

// addText adds the text since the last tag to the innermost element, as one node: each node beside an element takes time
// for :nth-child.
func (t *treeReader) addText() {
	if len(t.text) == 0 {
		return
	}
	t.size += len(t.text) * len(t.stack)
	t.stack[len(t.stack)-1].AppendChild(&html.Node{Type: html.TextNode, Data: string(t.text)})
	t.text = t.text[:0]
}

// end ends an element and those in it.
func (t *treeReader) end(name atom.Atom) {
	if t.count[name] > 0 {
		t.addText()
	}
	t.endElement(name)
	t.stack = t.stack[:len(t.open)]
}

// innermost returns the name of the innermost element.
func (t *treeReader) innermost() atom.Atom {
	if len(t.open) == 0 {
		return 0
	}
	return t.open[len(t.open)-1].name
}

func (t *treeReader) start(closed bool) {
	t.addText()
	number := t.tags
	t.tags++
	raw, more := t.tokens.TagName()
	name := atom.Lookup(raw)
	p := parts[name]
	node := &html.Node{Type: html.ElementNode, Data: string(raw), DataAtom: name}
	for more {
		var key, value []byte
		if key, value, more = t.tokens.TagAttr(); len(node.Attr) < maxAttributes && t.rule.Reads(string(key)) {
			value = value[:min(len(value), maxValue)]
			node.Attr = append(node.Attr, html.Attribute{Key: string(key), Val: string(value)})
			t.compare += len(value)
		}
	}
	t.imply(name, p)
	t.stack = t.stack[:len(t.open)]
	t.complete(name)
	t.add(node, number)
	switch {
	case closed && (t.strict || name == atom.Svg || name == atom.Math):
		t.tokens.NextIsNotRawText()
	case p&void != 0, len(t.open) >= maxNested, closed && (name == 0 || p&block == 0 && name != atom.A && p&neverShown == 0):
	default:
		t.push(node)
	}
}

// complete ends and begins the elements around a new one that browsers end and begin, and authors omit.
func (t *treeReader) complete(name atom.Atom) {
	begin := func(name atom.Atom) {
		node := &html.Node{Type: html.ElementNode, Data: name.String(), DataAtom: name}
		t.add(node, none)
		t.push(node)
	}
	if len(t.open) == 0 && name != atom.Html {
		begin(atom.Html)
	}
	if t.innermost() == atom.Html && name != atom.Body && name != atom.Frameset && !heads[name] {
		begin(atom.Body)
	}
	switch name {
	case atom.Tbody, atom.Thead, atom.Tfoot:
		for last := t.innermost(); last == atom.Tr || last == atom.Td || last == atom.Th || last == atom.Tbody || last == atom.Thead || last == atom.Tfoot; last = t.innermost() {
			t.end(last)
		}
	case atom.Tr:
		if t.innermost() == atom.Table {
			begin(atom.Tbody)
		}
	}
}

// add adds an element to the tree.
func (t *treeReader) add(node *html.Node, number int) {
	parent := &t.root
	if len(t.stack) > 0 {
		parent = t.stack[len(t.stack)-1]
	}
	parent.AppendChild(node)
	t.nodes, t.numbers = append(t.nodes, node), append(t.numbers, number)
}

// push opens an element that was added.
func (t *treeReader) push(node *html.Node) {
	t.open = append(t.open, element{name: node.DataAtom, region: none, list: none, row: none})
	t.count[node.DataAtom]++
	t.stack = append(t.stack, node)
}

// within reports whether a node is one of some, or within one.
func within(n *html.Node, some map[*html.Node]bool) bool {
	for ; n != nil && len(some) > 0; n = n.Parent {
		if some[n] {
			return true
		}
	}
	return false
}
