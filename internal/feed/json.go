package feed

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// JSON is sliced by hand, so that items keep their bytes and a million items cost little. encoding/json has
// checked before that the document is valid.

// checkJSON checks that doc is one JSON value.
func checkJSON(doc []byte) error {
	depth, quoted := 0, false
	for i := 0; i < len(doc); i++ {
		switch c := doc[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			if depth++; depth > maxDepth {
				return fmt.Errorf("%w: more than %d values within each other", ErrLimit, maxDepth)
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	if json.Valid(doc) {
		return nil
	}
	var value json.RawMessage
	err := json.Unmarshal(doc, &value)
	if depth > 0 || quoted {
		return fmt.Errorf("%w: inside JSON", ErrTruncated)
	}
	if wrong := (*json.SyntaxError)(nil); errors.As(err, &wrong) {
		return fmt.Errorf("%w: JSON, at %s: %w", ErrBroken, place(doc, wrong.Offset), err)
	}
	return fmt.Errorf("%w: JSON: %w", ErrBroken, err)
}

// place describes an offset in a document for people.
func place(doc []byte, offset int64) string {
	before := doc[:min(int64(len(doc)), max(offset-1, 0))]
	line := bytes.LastIndexByte(before, '\n') + 1
	return fmt.Sprintf("line %d, column %d", bytes.Count(before, []byte("\n"))+1, utf8.RuneCount(before[line:])+1)
}

// mendJSON returns a document without the two mistakes that programs make which write JSON by hand: control
// characters in strings, and a comma after the last element. It returns nil if there is none.
func mendJSON(doc []byte) []byte {
	var (
		out    []byte
		done   int
		quoted bool
		comma  = -1 // offset of a comma after a value, if nothing has come since
		latest byte // last byte outside of strings and white space
	)
	replace := func(i int, s string) {
		if out == nil {
			out = make([]byte, 0, len(doc)+len(doc)/8)
		}
		out = append(append(out, doc[done:i]...), s...)
		done = i + 1
	}
	for i := 0; i < len(doc) && len(out) <= MaxDocument; i++ { // larger output is refused
		switch c := doc[i]; {
		case quoted && c == '\\':
			i++
		case quoted && c < ' ':
			replace(i, fmt.Sprintf(`\u%04x`, c))
		case c == '"':
			quoted, comma, latest = !quoted, -1, c
		case quoted || isSpace(c):
		case c == ',' && strings.IndexByte("[{,:", latest) < 0:
			comma, latest = i, c
		case (c == '}' || c == ']') && comma >= 0:
			replace(comma, "")
			out = append(out, doc[done:i]...)
			done, comma, latest = i, -1, c
		default:
			comma, latest = -1, c
		}
	}
	if out == nil {
		return nil
	}
	return append(out, doc[done:]...)
}

// A member is a member of an object, by its offsets in the document.
type member struct {
	name              string
	start, value, end int // offsets of the name, the value, and the end of the value
}

// members calls each for the members of the object at the start of doc.
func members(doc []byte, each func(member)) {
	i := jsonSpace(doc, 1)
	for doc[i] != '}' {
		m := member{start: i}
		i = skipValue(doc, i)
		m.name = stringOf(doc[m.start:i])
		i = jsonSpace(doc, i) + 1 // :
		m.value = jsonSpace(doc, i)
		m.end = skipValue(doc, m.value)
		i = jsonSpace(doc, m.end)
		if doc[i] == ',' {
			i++
		}
		each(m)
		i = jsonSpace(doc, i)
	}
}

// elements calls each for the elements of the array at the start of doc.
func elements(doc []byte, each func(value []byte)) {
	i := jsonSpace(doc, 1)
	for doc[i] != ']' {
		after := skipValue(doc, i)
		each(doc[i:after])
		i = jsonSpace(doc, after)
		if doc[i] == ',' {
			i = jsonSpace(doc, i+1)
		}
	}
}

func jsonSpace(doc []byte, i int) int { return i + spaceLen(doc[i:]) }

// skipValue returns the end of the value at i.
func skipValue(doc []byte, i int) int {
	depth := 0
	for {
		switch doc[i] {
		case '"':
			for i++; doc[i] != '"'; i++ {
				if doc[i] == '\\' {
					i++
				}
			}
			i++
		case '{', '[':
			depth++
			i++
		case '}', ']':
			depth--
			i++
		case ',', ':', ' ', '\t', '\n', '\r':
			i++
		default:
			for i < len(doc) && !strings.ContainsRune(",:]} \t\r\n", rune(doc[i])) {
				i++
			}
		}
		if depth == 0 {
			return i
		}
	}
}

var errNoJSONFeed = fmt.Errorf("%w: JSON, but no JSON Feed", ErrNotFeed)

// sliceJSON splits a JSON Feed into its items and its head.
func sliceJSON(doc []byte) (Head, []Item, repairs, omissions, error) {
	var bad repairs
	var lost omissions
	doc = bytes.TrimSpace(doc)
	if mended := mendJSON(doc); mended != nil {
		doc, bad = mended, badJSON
		if len(doc) > MaxDocument {
			return Head{}, nil, bad, lost, fmt.Errorf("%w: more than %d bytes once it is mended", ErrLimit, MaxDocument)
		}
	}
	if err := checkJSON(doc); err != nil {
		return Head{}, nil, bad, lost, err
	}
	if doc[0] != '{' {
		return Head{}, nil, bad, lost, fmt.Errorf("%w: JSON, but no object", ErrNotFeed)
	}
	var list *member
	members(doc, func(m member) {
		if m.name == "items" {
			list = &m
		}
	})
	if list == nil || doc[list.value] != '[' {
		return Head{}, nil, bad, lost, errNoJSONFeed
	}
	var items []Item
	elements(doc[list.value:list.end], func(raw []byte) {
		switch {
		case raw[0] != '{':
			bad |= notItems
			return
		case bytes.IndexByte(raw, '"') < 0: // an object without members
			bad |= emptyItems
			return
		case len(items) == MaxItems:
			lost.beyond++
			return
		case len(raw) > MaxItem:
			if raw = shortenJSON(raw); raw == nil {
				lost.large++
				return
			}
			lost.parts++
		}
		items = append(items, Item{Format: JSON, Raw: slices.Clip(raw)})
	})
	raw := make([]byte, 0, len(doc)-(list.end-list.value)+len("[]"))
	raw = append(raw, doc[:list.value]...)
	raw = append(raw, "[]"...)
	raw = append(raw, doc[list.end:]...)
	head, err := readHeadJSON(raw)
	if err == nil && len(raw) > MaxHead {
		bad |= largeHead
		head, err = minimalHead(head)
	}
	return head, items, bad, lost, err
}

// selectMembers returns an object with the members for which keep returns true.
func selectMembers(raw []byte, keep func(member) bool) []byte {
	out := []byte{'{'}
	members(raw, func(m member) {
		if !keep(m) {
			return
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(out, raw[m.start:m.end]...)
	})
	return append(out, '}')
}

// shortenJSON returns an item without its largest members, or nil if it is still too large.
func shortenJSON(raw []byte) []byte {
	out := selectMembers(raw, func(m member) bool { return m.end-m.start <= MaxItem/8 })
	if len(out) > MaxItem {
		return nil
	}
	return out
}

// factsOfJSON reads an item.
func factsOfJSON(raw []byte) facts {
	var f facts
	get := membersOf(raw)
	text := func(name string) string { return strings.TrimSpace(stringOf(get[name])) }
	f.id, f.link, f.title, f.date = text("id"), text("url"), text("title"), text("date_published")
	f.summary = appendVisible(nil, text("summary"))
	f.content = appendVisible(nil, text("content_html"))
	if len(f.content) == 0 {
		f.content = appendNonSpace(nil, text("content_text"))
	}
	for _, a := range authorsOf(get) {
		f.author = appendField(f.author, appendNonSpace(nil, a))
	}
	for _, a := range objectsOf(get["attachments"]) {
		f.addMedia(stringOf(a["url"]), stringOf(a["mime_type"]))
	}
	for name := range get {
		switch name {
		case "id", "url", "title", "summary", "content_html", "content_text", "attachments",
			"date_published", "date_modified", "author", "authors":
		default:
			f.other = true
		}
	}
	return f
}

// authorsOf returns the names of the authors of an item or a feed, in JSON Feed 1.1 or 1.0.
func authorsOf(get map[string][]byte) (names []string) {
	list := objectsOf(get["authors"])
	if len(list) == 0 && len(get["author"]) > 0 && get["author"][0] == '{' {
		list = append(list, membersOf(get["author"]))
	}
	for _, a := range list {
		if name := stringOf(a["name"]); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// membersOf returns the values of an object's members. Of several members with one name the last counts.
func membersOf(raw []byte) map[string][]byte {
	get := map[string][]byte{}
	members(raw, func(m member) { get[m.name] = raw[m.value:m.end] })
	return get
}

// objectsOf returns the objects in an array, or nil if raw is not an array.
func objectsOf(raw []byte) (list []map[string][]byte) {
	if len(raw) > 0 && raw[0] == '[' {
		elements(raw, func(value []byte) {
			if value[0] == '{' && len(list) < maxObjects {
				list = append(list, membersOf(value))
			}
		})
	}
	return list
}

// stringOf returns a string, or a number as text, which JSON Feed asks of readers for ids. A whole number is
// written without a fraction, because a program may write 4 as 4.0 the next time. It returns "" for other values.
func stringOf(raw []byte) string {
	if len(raw) == 0 {
		return ""
	}
	switch c := raw[0]; {
	case c == '"' && bytes.IndexByte(raw, '\\') < 0:
		return string(raw[1 : len(raw)-1])
	case c == '"':
		var s string
		_ = json.Unmarshal(raw, &s) // the document was checked before
		return s
	case c == '-' || '0' <= c && c <= '9':
		const exact = 1 << 53 // whole numbers below it are exact
		if n, err := strconv.ParseFloat(string(raw), 64); err == nil && n == math.Trunc(n) && math.Abs(n) < exact {
			return strconv.FormatInt(int64(n), 10)
		}
		return string(raw)
	}
	return ""
}
