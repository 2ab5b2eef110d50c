package selection

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/andybalholm/cascadia"
	"golang.org/x/net/html"
)

const (
	// MaxSelector bounds a selector in bytes. Browsers copy selectors of about 100 bytes.
	MaxSelector = 256
	// maxSteps bounds the compound selectors of one selector: each is tested on each element.
	maxSteps = 16
	// maxTests bounds the classes, ids, attributes and pseudo-classes of one selector, and the commas within brackets:
	// each reads a text of each element.
	maxTests = 32
)

// A Selector is a list of alternatives.
type Selector struct {
	css          string
	alternatives [][]step
}

// A step is a compound selector, such as li.new, with the combinator before it.
type step struct {
	combinator byte                   // ' ', '>', '+' or '~'; 0: it is the first
	compound   cascadia.Sel           // without its :has
	has        cascadia.SelectorGroup // an element within matches it; nil: there is no :has
}

// newStep reads a compound selector.
func newStep(combinator byte, css, masked string) (st step, err error) {
	st.combinator = combinator
	if st.compound, err = cascadia.Parse(css); err != nil {
		return st, err
	}
	if at := hasClass.FindStringSubmatchIndex(masked); at != nil {
		if st.has, err = cascadia.ParseGroup(css[at[2]:at[3]]); err == nil {
			st.compound, err = cascadia.Parse(cmp.Or(css[:at[0]]+css[at[1]:], "*"))
		}
	}
	return st, err
}

// hasClass matches the :has of a masked compound selector.
var hasClass = regexp.MustCompile(`(?i):has\(([^()]*)\)`)

// Reads reports whether the selector may test an attribute.
func (s *Selector) Reads(attribute string) bool {
	return attribute == "class" || attribute == "id" || strings.ContainsRune(s.css, '\\') || strings.Contains(strings.ToLower(s.css), attribute)
}

// Compile reads a CSS selector. Its errors say what to write instead.
func Compile(css string) (*Selector, error) {
	css = strings.Trim(css, blanks)
	if len(css) > MaxSelector {
		return nil, fmt.Errorf("it has %d bytes, more than %d: choose a nearer id or class", len(css), MaxSelector)
	}
	masked, err := mask(css)
	if err == nil {
		err = checkPseudoClasses(masked)
	}
	if err != nil {
		return nil, err
	}
	s, steps := &Selector{css: css, alternatives: [][]step{nil}}, 0
	for combinator := byte(0); ; {
		length := compoundLength(masked)
		if length == 0 {
			return nil, errors.New("there is no element beside one of its commas, or of its signs >, + and ~: name one there")
		}
		st, err := newStep(combinator, css[:length], masked[:length])
		if err != nil {
			return nil, fmt.Errorf("%w: try it with document.querySelectorAll in a browser", err)
		}
		if steps++; steps > maxSteps {
			return nil, fmt.Errorf("it names more than %d elements: choose a nearer id or class", maxSteps)
		}
		last := &s.alternatives[len(s.alternatives)-1]
		*last = append(*last, st)
		css, masked = css[length:], masked[length:]
		trimmed := strings.TrimLeft(masked, blanks)
		if trimmed == "" {
			return s, nil
		}
		switch combinator = trimmed[0]; combinator {
		case ',':
			s.alternatives, combinator = append(s.alternatives, nil), 0
			trimmed = strings.TrimLeft(trimmed[1:], blanks)
		case '>', '+', '~':
			trimmed = strings.TrimLeft(trimmed[1:], blanks)
		default:
			combinator = ' '
		}
		css, masked = css[len(masked)-len(trimmed):], trimmed
	}
}

const (
	blanks      = " \t\r\n\f" // the blanks of CSS
	combinators = blanks + ">+~"
)

// compoundLength returns the length of the first compound selector of a masked selector.
func compoundLength(masked string) int {
	inside := false
	for i := range len(masked) {
		switch c := masked[i]; {
		case c == '(' || c == ')':
			inside = c == '('
		case !inside && strings.IndexByte(combinators+",", c) >= 0:
			return i
		}
	}
	return len(masked)
}

// mask returns a selector in which strings, escapes, and all of attributes but their [ are replaced by as many x.
func mask(css string) (string, error) {
	masked := []byte(css)
	var quote byte // the open quote; 0: none
	inside := false
	for i := 0; i < len(css); i++ {
		c := css[i]
		if quote != 0 || inside || c == '"' || c == '\'' || c == '\\' {
			masked[i] = 'x'
		}
		switch {
		case c == '\\':
			if i++; i < len(css) {
				masked[i] = 'x'
			}
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case c == '[':
			inside = true
		case c == ']':
			inside = false
		case c == '#' && inside: // #= would match by a regular expression, which CSS does not have
			return "", errors.New("a # in its brackets [] is not within quotes: write it within quotes")
		}
	}
	if quote != 0 || inside {
		return "", errors.New("a quote or a bracket [ is not closed: close it")
	}
	return string(masked), nil
}

var (
	pseudoClass  = regexp.MustCompile(`:([a-zA-Z-]*)`)
	withArgument = regexp.MustCompile(`:([a-zA-Z-]+)\(([^()]*)\)`)
	severalSteps = regexp.MustCompile(`[>+~]|[^\s,]\s+[^\s,]`)
)

// checkPseudoClasses refuses pseudo-classes in a masked selector that could take long on some pages.
func checkPseudoClasses(masked string) error {
	looks, counts := 0, 0 // those that look at an element's content, and those that count its siblings
	for _, m := range pseudoClass.FindAllStringSubmatch(masked, -1) {
		switch name := strings.ToLower(m[1]); {
		case !slices.Contains(allowed, name):
			return fmt.Errorf(":%s cannot be used here: these can: %s", name, strings.Join(allowed, ", "))
		case name == "has" || name == "contains":
			looks++
		case strings.HasPrefix(name, "nth-") || strings.HasSuffix(name, "-of-type"): // the others look at one sibling
			counts++
		}
	}
	for _, m := range withArgument.FindAllStringSubmatch(masked, -1) {
		if name := strings.ToLower(m[1]); !strings.HasPrefix(name, "nth-") && severalSteps.MatchString(strings.Trim(m[2], blanks)) {
			return fmt.Errorf("the brackets of :%s name an element within or beside another one: name one element alone there", name)
		}
	}
	tests := 0
	for _, c := range masked {
		if strings.ContainsRune(".#[:,", c) {
			tests++
		}
	}
	switch {
	case tests > maxTests:
		return fmt.Errorf("it has more than %d classes, attributes and the like: leave some out", maxTests)
	case looks > 1 || counts > 1:
		return errors.New("it has more than one of :has and :contains, or more than one :nth-… and :…-of-type: leave out all but one of each")
	case strings.ContainsAny(withArgument.ReplaceAllString(masked, ""), "()"):
		return errors.New("it has brackets within brackets, or one that is not closed: write it with one pair at a time")
	case strings.Contains(masked, "/*"):
		return errors.New("it has a comment: leave it out")
	}
	return nil
}

// allowed are the pseudo-classes that a selector may have. Others say nothing of a document at rest, or may take
// long.
var allowed = []string{
	"contains", "empty", "first-child", "first-of-type", "has", "last-child", "last-of-type", "not",
	"nth-child", "nth-last-child", "nth-last-of-type", "nth-of-type", "only-child", "only-of-type", "root",
}

// Match reports which of the elements of a document match. The elements are all of the document, each before those
// in it.
func (s *Selector) Match(elements []*html.Node) []bool {
	matched := make([]bool, len(elements))
	index := make(map[*html.Node]int, len(elements))
	for i, e := range elements {
		index[e] = i
	}
	for _, steps := range s.alternatives {
		inside := make([][]bool, len(steps))
		for k, st := range steps {
			if st.has != nil {
				inside[k] = matchWithin(elements, index, st.has)
			}
		}
		// For each element, bit k says that the first k+1 steps match it, an element around it, or one before it.
		own, around, before := make([]uint32, len(elements)), make([]uint32, len(elements)), make([]uint32, len(elements))
		for i, e := range elements {
			var parent, above, previous, earlier uint32
			if p, ok := index[e.Parent]; ok {
				parent, above = own[p], own[p]|around[p]
			}
			if p, ok := index[previousElement(e)]; ok {
				previous, earlier = own[p], own[p]|before[p]
			}
			around[i], before[i] = above, earlier
			for k, st := range steps {
				reached := true
				switch bit := uint32(1) << max(k-1, 0); st.combinator {
				case ' ':
					reached = above&bit != 0
				case '>':
					reached = parent&bit != 0
				case '+':
					reached = previous&bit != 0
				case '~':
					reached = earlier&bit != 0
				}
				if reached && (inside[k] == nil || inside[k][i]) && st.compound.Match(e) {
					own[i] |= 1 << k
				}
			}
			matched[i] = matched[i] || own[i]&(1<<(len(steps)-1)) != 0
		}
	}
	return matched
}

// matchWithin reports which elements have a matching one within.
func matchWithin(elements []*html.Node, index map[*html.Node]int, group cascadia.SelectorGroup) []bool {
	within := make([]bool, len(elements))
	for i, e := range slices.Backward(elements) {
		if p, ok := index[e.Parent]; ok && !within[p] {
			within[p] = within[i] || group.Match(e)
		}
	}
	return within
}

// previousElement returns the element before an element, or nil.
func previousElement(e *html.Node) *html.Node {
	for e = e.PrevSibling; e != nil && e.Type != html.ElementNode; e = e.PrevSibling {
	}
	return e
}
