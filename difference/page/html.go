package page

import (
	"bytes"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"tidings/internal/markup"
)

// coreOf returns the core of the page at a location, in UTF-8. It accepts every input; without tags, the core is the
// whole text. In a strict page, which is XML, every element can be self-closing. If there is text but no content, all
// text is content. The errors are those of a rule that says what counts; see scopeOf.
func coreOf(doc []byte, strict bool, at *Location) (Core, error) {
	s, err := scopeOf(doc, strict, &at.What)
	if err != nil {
		return Core{}, err
	}
	read := func(lenient bool) *reader {
		r := newReader(doc, strict, at)
		r.scope, r.lenient = s, lenient
		r.read()
		return r
	}
	r := read(false)
	if at.What.Number != nil {
		return figureOf(r, &at.What)
	}
	c := content(r.lines, r.regions, s.selects)
	c.Title, c.hasPassword, c.sheet = r.title, r.hasPassword, r.sheet
	if s.selects && len(c.Lines) == 0 {
		return Core{}, nothing("select", &at.What, "elements without text")
	}
	if len(c.Lines) > 0 {
		return c, nil
	}
	c.all = nil // it has all or none of its passages
	if len(r.lines) == 0 && r.hidden {
		r = read(true)
	}
	for i := range r.lines {
		c.Lines, c.rows = append(c.Lines, r.lines[i].text), append(c.rows, r.lines[i].row)
	}
	c.sheet = r.sheet
	return c, nil
}

// An element is an open element.
type element struct {
	name   atom.Atom // 0: unknown, and all unknown elements end each other
	part   part
	region int // region of its content
	list   int // list of its items, if it is an unordered list; none: it is no such list
	row    int // row of its content
	hidden int // the reader's hiddenDepth around it
	scoped     // what the channel's rule says of it
}

// A reader makes lines from the tokens of a page.
type reader struct {
	tokens  *markup.Tokenizer
	open    []element
	count   map[atom.Atom]int // of open elements, by name
	regions []region
	lines   []line
	sheet   sheet
	title   string

	region      int // current region
	hiddenDepth int // open elements that are never text
	sections    int // open articles and mains
	inTitle     bool
	strict      bool // the page is XML
	size        int  // of the lines, in bytes
	hidden      bool // text that may be content was left out
	lenient     bool // all text is content, except what is never text
	hasPassword bool // there is a field for a password

	linkBase
	scope
	current currentLine
}

// A linkBase is what links of a page are relative to.
type linkBase struct {
	base     *url.URL // base of links; nil: the page's address
	baseSeen bool     // a <base> was read
	host     string   // host of the page; "": unknown
}

// A currentLine is the line that is being read.
type currentLine struct {
	text          []byte
	blank         bool // a blank precedes the next character
	plain, linked int
	link          int // start of the open link in text; none: no link is open
	target        string
	isLink        bool // the last <a> is a link
	inPage        bool // the last link leads to a place of the page
}

func newReader(doc []byte, strict bool, at *Location) *reader {
	return &reader{tokens: markup.NewTokenizer(doc, false), count: map[atom.Atom]int{}, region: none, strict: strict, linkBase: linkBase{base: at.base(), host: at.host()}}
}

func (r *reader) read() {
	r.current.link = none
	for len(r.lines) < maxLines && r.size <= maxRead {
		switch r.tokens.Next() {
		case html.ErrorToken: // the input is in memory, so this is the end
			r.endLine()
			return
		case html.TextToken:
			if r.inTitle && r.title == "" {
				r.title = shortTitle(bytes.Join(bytes.Fields(r.tokens.Text()), []byte(" ")))
			} else if !r.counts() {
				continue
			} else if r.hiddenDepth == 0 {
				r.write(r.tokens.Text())
			} else if !r.hidden && !neverText[r.open[len(r.open)-1].name] {
				r.hidden = len(bytes.TrimSpace(r.tokens.Text())) > 0
			}
		case html.StartTagToken:
			r.startElement(false)
		case html.SelfClosingTagToken:
			r.startElement(true)
		case html.EndTagToken:
			name, _ := r.tokens.TagName()
			r.endElement(atom.Lookup(name))
		}
	}
}

// shortTitle returns a text, shortened to maxTitle.
func shortTitle(text []byte) string {
	if len(text) > maxTitle {
		text = text[:maxTitle]
	}
	return strings.ToValidUTF8(string(text), "")
}

// write adds text to the line, without repeated blanks.
func (r *reader) write(text []byte) {
	for len(text) > 0 {
		c, size := utf8.DecodeRune(text)
		if c == utf8.RuneError && size == 1 {
			c = '\uFFFD'
		}
		if text = text[size:]; c == '\n' && r.count[atom.Pre] > 0 {
			r.endLine() // in <pre>, line ends count
			continue
		} else if isBlank(c) {
			r.current.blank = true
			continue
		} else if isNothing(c) {
			continue
		}
		if r.current.blank && len(r.current.text) > 0 && r.current.link != len(r.current.text)-1 {
			r.current.text = append(r.current.text, ' ')
		}
		r.current.blank = false
		r.current.text = utf8.AppendRune(r.current.text, c)
		if r.current.link == none {
			r.current.plain += size
		} else {
			r.current.linked += size
		}
		if len(r.current.text) >= maxLine {
			r.endLine()
		}
	}
}

// isNothing reports whether a character only marks a place where a line may be broken.
func isNothing(c rune) bool { return c == 0xad || c == 0x200b || c == 0x2060 || c == 0xfeff }

// isBlank reports whether a character is white space.
func isBlank(c rune) bool {
	switch {
	case c <= ' ', c == 0x7f, c == 0xa0, c == 0x1680, 0x2000 <= c && c <= 0x200a, c == 0x2028, c == 0x2029, c == 0x202f, c == 0x205f, c == 0x3000:
		return true
	}
	return false
}

// endLine ends the line and its open link: a link over several lines is not an entry of a menu. A link without
// text continues in the next line.
func (r *reader) endLine() {
	if r.current.link != none {
		if len(r.current.text) == r.current.link+1 {
			defer r.openLink()
		}
		r.closeLink()
	}
	if r.current.plain+r.current.linked > 0 && len(r.lines) < maxLines {
		at := r.region
		if at != none && r.regions[at].header && r.current.linked == 0 && r.count[atom.H1] > 0 {
			at = r.regions[at].up
		}
		r.lines = append(r.lines, line{text: normalise(string(bytes.TrimSpace(r.current.text))), plain: r.current.plain, linked: r.current.linked, inPage: r.current.inPage, region: at, row: r.row()})
		r.size += len(r.current.text)
	}
	r.current.text, r.current.blank, r.current.plain, r.current.linked = r.current.text[:0], false, 0, 0
}

// startElement handles a start tag.
func (r *reader) startElement(closed bool) {
	raw, more := r.tokens.TagName()
	name := atom.Lookup(raw)
	p, found := parts[name], r.found()
	if found.selected && !neverText[name] {
		p &^= neverShown
	}
	if r.lenient && !neverText[name] {
		p &^= neverShown | maybeNoise
	}
	r.imply(name, p)
	if p&block != 0 {
		r.endLine()
	}
	if closed && (r.strict || name == atom.Svg || name == atom.Math) {
		r.tokens.NextIsNotRawText()
		return
	}
	if p&void != 0 || len(r.open) >= maxOpen {
		if name == atom.Input && more {
			r.hasPassword = r.hasPassword || r.isPasswordField()
		} else if name == atom.Base && more {
			r.readBase()
		}
		return
	}
	if closed && (name == 0 || p&block == 0 && name != atom.A && p&neverShown == 0) {
		return // this is foreign content; HTML has no other self-closing tags
	}
	if name == atom.A && r.current.link != none {
		r.closeLink() // links cannot be nested
	}
	strongest, address := r.attributes(name, more)
	e := element{name: name, part: p, region: r.region, list: none, row: r.row(), hidden: r.hiddenDepth}
	r.enterList(&e)
	r.enterScope(&e, found)
	switch {
	case e.omitted:
		r.hiddenDepth++
	case p&neverShown != 0:
		r.hiddenDepth++
		r.inTitle = false
	case r.selects:
		if strongest == invisible && !found.selected {
			r.hiddenDepth++
		}
	case p&maybeNoise != 0 && (r.sections == 0 || name != atom.Header && name != atom.Footer && name != atom.Aside && name != atom.Form):
		e.region = r.enterRegion(region{header: name == atom.Header && strongest <= navigation})
	case r.lenient:
	case strongest == invisible || strongest == intrusive || strongest == navigation && p&ignoreClass == 0:
		e.region = r.enterRegion(region{named: strongest == navigation || strongest == intrusive && r.sections > 0})
	}
	if p&sectional != 0 {
		r.sections++
	}
	if name == atom.Title && r.title == "" {
		r.inTitle = true
	}
	if name == atom.A && r.hiddenDepth == 0 && r.current.isLink {
		r.openLink()
	}
	if address != "" && r.hiddenDepth == 0 && e.part&neverShown == 0 {
		if e.selected || !r.selects {
			r.write([]byte(address)) // in the place of the element's text
		}
		r.hiddenDepth++
	}
	r.open = append(r.open, e)
	r.count[name]++
	r.region = e.region
}

// imply ends the elements that a start tag ends implicitly (HTML, 13.1.2.4), if they are innermost: the head at
// an element that cannot be in it, a paragraph at the next block, and an item of a list or a table at the next
// one.
func (r *reader) imply(name atom.Atom, p part) {
	for len(r.open) > 0 {
		switch last := r.open[len(r.open)-1].name; {
		case last == atom.Head && !heads[name],
			last == atom.P && p&block != 0 && name != atom.Br && name != atom.Button && name != atom.Label,
			last == atom.Li && name == atom.Li,
			(last == atom.Dt || last == atom.Dd) && (name == atom.Dt || name == atom.Dd),
			(last == atom.Td || last == atom.Th) && (name == atom.Td || name == atom.Th || name == atom.Tr),
			last == atom.Tr && name == atom.Tr,
			last == atom.Option && name == atom.Option:
			r.endElement(last)
		default:
			return
		}
	}
}

// row returns the current row of a list, or none.
func (r *reader) row() int {
	if len(r.open) == 0 {
		return none
	}
	return r.open[len(r.open)-1].row
}

// enterList begins an unordered list, or the next row of the innermost list if that is one.
func (r *reader) enterList(e *element) {
	switch e.name {
	case atom.Ul, atom.Menu:
		if r.sheet.lists < maxLines {
			e.list = r.sheet.lists
			r.sheet.lists++
		}
	case atom.Li:
		for i := len(r.open) - 1; i >= max(0, len(r.open)-maxAround); i-- {
			switch o := &r.open[i]; o.name {
			case atom.Ul, atom.Menu:
				if o.list != none {
					e.row = r.sheet.begin(o.list, o.row)
				}
				return
			case atom.Ol, atom.Li:
				return
			}
		}
	}
}

// enterRegion begins a region that may be noise.
func (r *reader) enterRegion(added region) int {
	if len(r.regions) == maxRegions {
		return r.region
	}
	r.endLine()
	added.up = r.region
	r.regions = append(r.regions, added)
	return len(r.regions) - 1
}

// attributes reads the attributes of an element, and returns the strongest hint and an encoded mail address.
func (r *reader) attributes(name atom.Atom, more bool) (strongest hint, address string) {
	if name == atom.A {
		r.current.target, r.current.isLink = "", false
	}
	steadily := parts[name]&ignoreClass != 0
	for more {
		var key, value []byte
		key, value, more = r.tokens.TagAttr()
		switch string(key) {
		case "href":
			if name == atom.A {
				r.current.target, r.current.isLink = target(r.absolute(decodeAddress(string(value)))), true
			}
		case "data-cfemail":
			address, _ = decodeXOR(string(value))
			if name == atom.A && address != "" && strings.HasSuffix(r.current.target, protectedPath) {
				r.current.target = target("mailto:" + address)
			}
		case "hidden":
			strongest = invisible
		case "style":
			if hides(value) {
				strongest = invisible
			}
		case "role":
			if noiseRoles[string(value)] {
				strongest = max(strongest, intrusive)
			}
		case "class", "id":
			if !steadily {
				strongest = max(strongest, hintOf(value))
			}
		}
	}
	return strongest, address
}

// endElement handles an end tag. It also ends the open elements inside.
func (r *reader) endElement(name atom.Atom) {
	if r.count[name] == 0 {
		return // so the loop below always finds an element to end
	}
	for i := len(r.open) - 1; i >= 0; i-- {
		if r.open[i].name != name {
			continue
		}
		around, selected := none, false
		if i > 0 {
			around, selected = r.open[i-1].region, r.open[i-1].selected
		}
		if parts[name]&block != 0 || around != r.region || selected != r.open[len(r.open)-1].selected {
			r.endLine()
		}
		r.hiddenDepth = r.open[i].hidden
		for _, e := range r.open[i:] {
			r.count[e.name]--
			if e.part&sectional != 0 {
				r.sections--
			}
			if e.name == atom.A && r.current.link != none {
				r.closeLink()
			}
		}
		r.open, r.region = r.open[:i], around
		r.inTitle = r.inTitle && name != atom.Title
		return
	}
}

func (r *reader) openLink() {
	if r.current.blank && len(r.current.text) > 0 {
		r.current.text = append(r.current.text, ' ')
	}
	r.current.blank = false
	r.current.link, r.current.inPage = len(r.current.text), strings.HasPrefix(r.current.target, "#")
	r.current.text = append(r.current.text, '[')
}

// closeLink ends a link. A link without text is removed.
func (r *reader) closeLink() {
	switch {
	case len(r.current.text) == r.current.link+1:
		r.current.text = r.current.text[:r.current.link]
	case r.current.target == "":
		r.current.text = slices.Delete(r.current.text, r.current.link, r.current.link+1)
	default:
		r.escapeBrackets()
		r.current.text = append(r.current.text, "]("...)
		r.current.text = append(r.current.text, r.current.target...)
		r.current.text = append(r.current.text, ')')
	}
	r.current.link = none
}
