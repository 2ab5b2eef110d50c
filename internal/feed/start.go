package feed

import (
	"bytes"
	"errors"
	"fmt"
	"unicode/utf8"
)

// ParseStart parses the first part of a document that is larger than anybody wants to fetch. It reads the items
// that end within this part, which are the newest in most feeds, and says in Omitted that there are more.
func ParseStart(doc []byte, contentType string) (*Feed, error) {
	doc = trimStart(doc[:min(len(doc), MaxDocument)])
	f, err := read(doc, contentType, true)
	for errors.Is(err, errDecoded) { // the part grows when it is converted to UTF-8
		doc = trimStart(doc[:len(doc)/2])
		f, err = read(doc, contentType, true)
	}
	return f, err
}

// trimStart cuts the first part of a document behind a whole character. Half a character would make the charset
// look wrong.
func trimStart(doc []byte) []byte {
	head := doc[:min(len(doc), 4)]
	switch {
	case bytes.HasPrefix(head, []byte("\xfe\xff")), bytes.HasPrefix(head, []byte("\xff\xfe")), bytes.IndexByte(head, 0) >= 0: // UTF-16 or UTF-32
		return doc[:len(doc)&^3]
	case bytes.HasPrefix(doc[spaceLen(doc):], []byte("{")): // JSON is in UTF-8
		for i := 1; i <= utf8.UTFMax && i <= len(doc); i++ {
			if utf8.RuneStart(doc[len(doc)-i]) {
				return doc[:len(doc)-i]
			}
		}
		return doc
	}
	return doc[:bytes.LastIndexByte(doc, '>')+1]
}

// completed returns the first part of a document, in UTF-8, up to its last whole item, with the ends of what is
// open there.
func completed(doc []byte) ([]byte, error) {
	var end int
	var closing []byte
	if at := spaceLen(doc); at < len(doc) && doc[at] == '{' {
		end, closing = lastObject(doc), []byte("]}")
	} else {
		t := tidier{lexer: lexer{doc: doc}, checkRoot: checkRoot}
		switch _, _, err := t.tidy(); {
		case err == nil:
			return doc, nil // what follows its end is not important
		case !errors.Is(err, ErrTruncated):
			return nil, err
		}
		end = t.itemEnd
		for i := len(t.around) - 1; i >= 0; i-- {
			closing = fmt.Appendf(closing, "</%s>", t.around[i])
		}
	}
	if end == 0 {
		return nil, fmt.Errorf("%w: none of its items ends within the first %d MiB", ErrLimit, MaxDocument>>20)
	}
	return append(bytes.Clone(doc[:end]), closing...), nil
}

// lastObject returns the end of the last whole object in a list of the object at the start of doc, or 0.
func lastObject(doc []byte) (end int) {
	var open []byte
	quoted := false
	for i := 0; i < len(doc); i++ {
		switch c := doc[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			if len(open) == maxDepth {
				return end
			}
			open = append(open, c)
		case (c == '}' || c == ']') && len(open) > 0:
			if open = open[:len(open)-1]; c == '}' && string(open) == "{[" {
				end = i + 1
			}
		}
	}
	return end
}
