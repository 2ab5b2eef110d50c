package page

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html"

	"tidings/internal/markup"
)

const (
	// maxPath is how many names of enclosing containers precede a line of data.
	maxPath = 3
	// maxAround bounds how far out these names, and the starts of ending elements, are searched.
	maxAround = 24
	// maxName is the maximum length of such a name in bytes.
	maxName = 64
)

// Text returns the core of plain text: its lines.
func Text(doc []byte) Core {
	var c collector
	for line := range bytes.Lines(doc) {
		if c.add("", string(line)); c.full() {
			break
		}
	}
	return Core{Lines: c.lines}
}

// JSON returns the core of data: a line for each value, after the names of its containers. Indexes of lists are
// left out, since an insertion at the front would change all of them. Invalid JSON is read as text.
func JSON(doc []byte) Core {
	dec := json.NewDecoder(bytes.NewReader(doc))
	dec.UseNumber()
	var c collector
	var open []container
	for !c.full() {
		token, err := dec.Token()
		if err == io.EOF && len(open) == 0 {
			break
		}
		if err != nil || len(open) > maxOpen {
			return Text(doc)
		}
		top := len(open) - 1
		switch t := token.(type) {
		case json.Delim:
			if t == '{' || t == '[' {
				open = append(open, container{object: t == '{'})
				continue
			}
			open = open[:top]
			top--
		case string:
			if top >= 0 && open[top].object && !open[top].named {
				open[top].name, open[top].named = t, true
				continue
			}
			c.add(path(open), t)
		case json.Number:
			c.add(path(open), t.String())
		case bool:
			c.add(path(open), map[bool]string{true: "true", false: "false"}[t])
		case nil: // null has no line
		}
		if top >= 0 {
			open[top].named = false // the value has come
		}
	}
	return Core{Lines: c.lines, complete: true}
}

// A container is an open object or list of JSON, or an open element of XML.
type container struct {
	object bool
	name   string // the last name in it
	named  bool   // the value of name is still to come
}

// path returns the start of a line: the names of a value's containers, the innermost last.
func path(open []container) string {
	var names []string
	for _, o := range slices.Backward(open[max(0, len(open)-maxAround):]) {
		if o.named && len(names) < maxPath {
			names = append(names, shortName(o.name))
		}
	}
	slices.Reverse(names)
	return strings.Join(names, ".")
}

// shortName returns a name, shortened to maxName.
func shortName(name string) string {
	if len(name) > maxName {
		name = strings.ToValidUTF8(name[:maxName], "")
	}
	return name
}

// volatileNames are the names of values that change by themselves, without punctuation.
var volatileNames = map[string]bool{
	"nonce": true, "token": true, "csrf": true, "csrftoken": true, "sessionid": true, "requestid": true, "traceid": true, "timestamp": true,
	"servertime": true, "now": true, "generated": true, "generatedat": true, "generatedon": true, "lastbuilddate": true, "cachekey": true, "etag": true,
	"elapsed": true, "took": true, "durationms": true, "views": true, "viewcount": true,
}

// plainName returns a name in lower case without punctuation.
func plainName(name string) string {
	return strings.Map(func(c rune) rune {
		switch {
		case 'A' <= c && c <= 'Z':
			return c | 0x20
		case c == '_', c == '-', c == '.', c == ' ':
			return -1
		}
		return c
	}, name)
}

// XML returns the core of data: a line for the text of each element, after its name and those of its
// containers, and one for its attributes. It accepts every document.
func XML(doc []byte) Core {
	tokens := markup.NewTokenizer(doc, true)
	var c collector
	var open []container
	var text []byte
	flush := func() {
		if len(text) > 0 {
			c.add(path(open), string(text))
			text = text[:0]
		}
	}
	for !c.full() {
		switch token := tokens.Next(); token {
		case html.ErrorToken: // the input is in memory, so this is the end
			flush()
			return Core{Lines: c.lines, complete: len(open) == 0}
		case html.TextToken:
			text = append(text, tokens.Text()...)
		case html.StartTagToken, html.SelfClosingTagToken:
			flush()
			name, more := tokens.TagName()
			open = append(open, container{name: shortName(string(name)), named: true})
			if more {
				c.add(path(open), attributesOf(tokens))
			}
			tokens.NextIsNotRawText() // only HTML has raw text
			if token == html.SelfClosingTagToken || len(open) > maxOpen {
				open = open[:len(open)-1]
			}
		case html.EndTagToken:
			flush()
			raw, _ := tokens.TagName()
			name := shortName(string(raw))
			for i := len(open) - 1; i >= max(0, len(open)-maxAround); i-- {
				if open[i].name == name {
					open = open[:i]
					break
				}
			}
		}
	}
	return Core{Lines: c.lines}
}

// attributesOf returns the attributes of an element, sorted.
func attributesOf(tokens *markup.Tokenizer) string {
	var attrs []string
	for more := true; more; {
		var key, value []byte
		key, value, more = tokens.TagAttr()
		name := string(key)
		if name != "" && name != "xmlns" && !strings.HasPrefix(name, "xmlns:") && !volatileNames[plainName(name)] {
			attrs = append(attrs, shortName(name)+"="+string(value))
		}
	}
	slices.Sort(attrs)
	return strings.Join(attrs, " ")
}

// A collector makes lines of values.
type collector struct {
	calm  volatileFilter
	lines []string
	size  int // of the lines, in bytes
}

// full reports whether no more lines are needed, because the core is already larger than a channel allows.
func (c *collector) full() bool { return len(c.lines) == maxLines || c.size > 2*MaxText }

// add adds a value as lines without repeated blanks, none of them longer than maxLine.
func (c *collector) add(name, value string) {
	last := name[strings.LastIndexByte(name, '.')+1:]
	value = tidy(value)
	if value == "" || name != "" && volatileNames[plainName(last)] {
		return
	}
	if name = tidy(name); name != "" {
		name += ": "
	}
	for value != "" && !c.full() {
		part := value
		if len(part) > maxLine {
			part = part[:maxLine]
			for !utf8.RuneStart(value[len(part)]) {
				part = part[:len(part)-1]
			}
		}
		value = value[len(part):]
		if part = strings.TrimSpace(c.calm.strip(normalise(name + part))); part != "" {
			c.lines = append(c.lines, part)
			c.size += len(part) + 1
		}
	}
}

// tidy returns a text without repeated blanks.
func tidy(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	var b strings.Builder
	b.Grow(len(text))
	blank := false
	for _, c := range text {
		if isBlank(c) {
			blank = true
			continue
		} else if isNothing(c) {
			continue
		}
		if blank && b.Len() > 0 {
			b.WriteByte(' ')
		}
		blank = false
		b.WriteRune(c)
	}
	return b.String()
}
