package feed

import (
	"bytes"
	"errors"
)

// nearlyComplete reports whether a document that ended too early lacks only the end of the end tags around its
// items. After the beginning of such a tag no item can be lost.
func (t *tidier) nearlyComplete() bool {
	if !errors.Is(t.err, ErrTruncated) || len(t.open) > 2 {
		return false
	}
	for i := range t.open {
		if i == 1 && !(isNamed(localOf(t.open[0].name), "rss") && isNamed(localOf(t.open[1].name), "channel")) {
			return false
		}
	}
	last := t.open[len(t.open)-1].name
	rest, ok := bytes.CutPrefix(t.doc[t.latest.start:], []byte("</"))
	rest = bytes.TrimRight(rest, " \t\r\n")
	return ok && bytes.HasPrefix(last, rest) || len(t.open) == 1 && t.closedChannel && len(rest) == 0
}

// complete returns the tidy document with the end tags of all open elements.
func (t *tidier) complete() []byte {
	t.replace(t.latest.start, len(t.doc), "", lostEnd)
	for len(t.open) > 0 {
		t.out = append(t.out, "</"+string(t.open[len(t.open)-1].name)+">"...)
		t.pop()
	}
	return t.out
}

// localOf returns a name without its prefix.
func localOf(name []byte) []byte {
	_, local, _ := split(name)
	return local
}
