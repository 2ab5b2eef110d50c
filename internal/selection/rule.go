// Package selection reads what counts on a page: the parameters in the fragment of a page's address.
//
//	Rule      the parameters, and their canonical form     rule.go
//	Selector  the elements that a CSS selector matches     selector.go
//
// Decision 020 has the syntax and the bounds.
package selection

import (
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A Rule says what counts on a page. The zero value is the content of the page.
type Rule struct {
	Select *Selector // only these elements; nil: no such choice
	Omit   *Selector // without these elements; nil: without none
	Number *Selector // the first number in the first of these elements; nil: text is read
	If     Condition // with Number: when the number is told
	Added  bool      // changes that only remove lines are not told

	address string // the canonical form
}

// Names of the parameters.
const (
	selectName = "select"
	omitName   = "omit"
	onlyName   = "only"
	numberName = "number"
	added      = "added" // the only value of onlyName
)

// A Condition is a comparison with a number. The zero value is no condition.
type Condition struct {
	Op    string // "<", "<=", ">", ">=" or "="; "": none
	Value float64
}

// Holds reports whether a number satisfies the condition.
func (c Condition) Holds(n float64) bool {
	switch c.Op {
	case "<":
		return n < c.Value
	case "<=":
		return n <= c.Value
	case ">":
		return n > c.Value
	case ">=":
		return n >= c.Value
	case "=":
		return n == c.Value
	}
	return true
}

// Reads reports whether a selector of the rule may test an attribute of elements.
func (r *Rule) Reads(attribute string) bool {
	for _, s := range []*Selector{r.Select, r.Omit, r.Number} {
		if s != nil && s.Reads(attribute) {
			return true
		}
	}
	return false
}

// IsZero reports whether a rule says nothing.
func (r *Rule) IsZero() bool { return r.address == "" }

// String returns the canonical form, a fragment without its #.
func (r *Rule) String() string { return r.address }

// Parse reads a fragment without its #. A fragment that has none of the parameters is the zero rule.
func Parse(fragment string) (Rule, error) {
	var r Rule
	values, unknown := map[string]string{}, ""
	for part := range strings.SplitSeq(fragment, "&") {
		name, raw, _ := strings.Cut(part, "=")
		switch name {
		case selectName, omitName, onlyName, numberName:
		default:
			unknown = part
			continue
		}
		value, err := url.PathUnescape(raw)
		switch _, twice := values[name]; {
		case twice:
			return r, fmt.Errorf("the address has %s= twice: join selectors with a comma", name)
		case err != nil || !utf8.ValidString(value):
			return r, fmt.Errorf("%s= in the address is not percent-encoded text: write %%25 for a percent sign", name)
		}
		if value = strings.TrimSpace(value); value == "" {
			return r, fmt.Errorf("%s= in the address is empty: give it a value or leave it out", name)
		}
		values[name] = value
	}
	if len(values) == 0 {
		return r, nil
	}
	if unknown != "" {
		return r, fmt.Errorf("the address has the unknown parameter %q behind its #: select, omit, only and number are known, and & within a value is written %%26", unknown)
	}
	return r, r.set(values)
}

// set takes the values of the parameters.
func (r *Rule) set(values map[string]string) (err error) {
	if v, ok := values[onlyName]; ok && v != added {
		return fmt.Errorf("only=%s in the address is unknown: only=added is known", v)
	}
	_, r.Added = values[onlyName]
	if v, ok := values[numberName]; ok {
		if r.Added || values[selectName] != "" {
			return fmt.Errorf("the address has number= beside select= or only=: number= goes with omit= only")
		}
		css := v
		if m := condition.FindStringSubmatch(v); m != nil {
			css, r.If.Op = m[1], m[2]
			if r.If.Value, err = strconv.ParseFloat(strings.Replace(m[3], ",", ".", 1), 64); err != nil {
				return fmt.Errorf("number=%s in the address: %s is not a number: write it like 49.90", v, m[3])
			}
			r.If.Value += 0 // which turns -0 into 0
			values[numberName] = css + r.If.Op + strconv.FormatFloat(r.If.Value, 'f', -1, 64)
		}
		if r.Number, err = compileNamed(numberName, css); err != nil {
			return err
		}
	}
	if v, ok := values[selectName]; ok {
		if r.Select, err = compileNamed(selectName, v); err != nil {
			return err
		}
	}
	if v, ok := values[omitName]; ok {
		if r.Omit, err = compileNamed(omitName, v); err != nil {
			return err
		}
	}
	for _, name := range []string{numberName, omitName, onlyName, selectName} {
		if v, ok := values[name]; ok {
			if r.address != "" {
				r.address += "&"
			}
			r.address += name + "=" + strings.ReplaceAll(url.QueryEscape(v), "+", "%20")
		}
	}
	return nil
}

// condition matches a selector with a condition. A selector never ends with a sign and a number.
var condition = regexp.MustCompile(`(?s)^(.*?)\s*(<=|>=|<|>|=)\s*([-+]?\d{1,15}(?:[.,]\d{1,9})?)$`)

// compileNamed compiles the selector of a parameter.
func compileNamed(name, css string) (*Selector, error) {
	s, err := Compile(css)
	if err != nil {
		return nil, fmt.Errorf("%s=%s in the address is not a selector that can be used: %w", name, css, err)
	}
	return s, nil
}
