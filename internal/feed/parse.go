package feed

import (
	"cmp"
	"errors"
	"fmt"
	"mime"
	"slices"
	"strings"

	"github.com/gabriel-vasile/mimetype"
)

// Parse parses a document from its origin. contentType is the HTTP header of that name, or "" if there was
// none.
func Parse(doc []byte, contentType string) (*Feed, error) { return read(doc, contentType, false) }

// read parses a document, or the first part of one.
func read(doc []byte, contentType string, isStart bool) (*Feed, error) {
	raw := doc
	doc, bad, err := decode(raw, contentType)
	if err == nil && isStart {
		doc, err = completed(doc)
	}
	if err != nil {
		return nil, fmt.Errorf("read feed: %w", withMediaType(err, raw, raw, contentType))
	}
	var (
		f    Feed
		more repairs
		lost omissions
	)
	if at := spaceLen(doc); at < len(doc) && (doc[at] == '{' || doc[at] == '[') {
		f.Head, f.Items, more, lost, err = sliceJSON(doc)
	} else {
		f.Head, f.Items, more, lost, err = readXML(doc)
	}
	if err != nil {
		return nil, fmt.Errorf("read feed: %w", withMediaType(err, raw, doc, contentType))
	}
	f.Hints, f.Links = f.Head.hints()
	all := make([]facts, len(f.Items))
	for i := range f.Items {
		all[i] = f.Items[i].facts()
	}
	var duplicates repairs
	f.Items, duplicates = identify(f.Items, all)
	// The part that made an item too large may have been all of its content.
	bad |= more | duplicates
	if bad&emptyItems != 0 && lost.parts+lost.large == 0 && len(f.Items) == 0 {
		return nil, fmt.Errorf("read feed: %w: none of its items says anything", ErrBroken)
	}
	lost.rest = isStart
	f.Omitted = lost.String()
	f.Repaired = strings.Join(slices.DeleteFunc([]string{bad.String(), f.Omitted}, func(s string) bool { return s == "" }), "; ")
	return &f, nil
}

// withMediaType adds the media type to the error of a document that is not written in one of the languages of
// feeds. A fragment of HTML is a web page if the origin says so. text is the document in UTF-8, if it could be
// converted.
func withMediaType(err error, doc, text []byte, contentType string) error {
	media, _, _ := mime.ParseMediaType(contentType)
	isPage := media == "text/html" || media == "application/xhtml+xml"
	text = text[spaceLen(text):]
	switch {
	case isPage && errors.Is(err, ErrNotFeed):
		return fmt.Errorf("a web page, %w", ErrNotFeed)
	case isPage || errors.Is(err, ErrLimit) || len(text) == 0 || text[0] == '<' || text[0] == '{' || text[0] == '[':
		return err
	case media == "" || media == "application/octet-stream" || media == "text/plain":
		media, _, _ = strings.Cut(mimetype.Detect(doc).String(), ";")
	}
	if strings.HasPrefix(media, "text/") || strings.HasSuffix(media, "xml") || strings.HasSuffix(media, "json") {
		return err
	}
	return fmt.Errorf("%w: %s", ErrNotFeed, clipBytes([]byte(media)))
}

func readXML(doc []byte) (Head, []Item, repairs, omissions, error) {
	doc, bad, err := tidy(doc, nil, checkRoot)
	if err != nil {
		return Head{}, nil, bad, omissions{}, err
	}
	head, items, more, lost, err := sliceXML(doc)
	return head, items, bad | more, lost, err
}

// checkRoot checks that a document's root is one of a feed.
func checkRoot(local []byte, uri string) error {
	_, err := formatOfRoot(local, uri)
	return err
}

// ReadItem reads an item by itself, from an untrusted source. It accepts nothing that needs a repair, and
// computes the same identity and hash as Parse.
func ReadItem(format Format, raw []byte, outer []Binding, qualifiers uint8) (Item, error) {
	it := Item{Format: format, Qualifiers: qualifiers, Raw: raw, Scope: outer}
	if err := it.check(); err != nil {
		return Item{}, fmt.Errorf("read item: %w", err)
	}
	f := it.facts()
	if f.empty() {
		return Item{}, fmt.Errorf("read item: %w: it says nothing", ErrBroken)
	}
	it.Hash = f.hash()
	it.ID = f.identity(it.Hash, qualifiers)
	return it, nil
}

// facts reads an item that has been checked.
func (it *Item) facts() facts {
	if it.Format == JSON {
		return factsOfJSON(it.Raw)
	}
	return factsOfXML(it.Raw, it.Scope)
}

// check checks that Parse could have produced the item.
func (it *Item) check() error {
	switch {
	case it.Format < RSS || it.Format > JSON:
		return fmt.Errorf("%w: format %d", ErrBroken, it.Format)
	case len(it.Raw) > MaxItem:
		return fmt.Errorf("%w: %d bytes", ErrLimit, len(it.Raw))
	case it.Qualifiers > maxQualifiers:
		return fmt.Errorf("%w: %d facts beyond an id", ErrBroken, it.Qualifiers)
	case !isScopeSmall(it.Scope):
		return fmt.Errorf("%w: %d bindings from outside", ErrLimit, len(it.Scope))
	}
	for i, b := range it.Scope {
		if len(b.Prefix) > maxField || len(b.URI) > maxField || i > 0 && b.Prefix <= it.Scope[i-1].Prefix {
			return fmt.Errorf("%w: bindings from outside", ErrBroken)
		}
		if err := b.check(); err != nil {
			return err
		}
	}
	if it.Format == JSON {
		switch err := checkJSON(it.Raw); {
		case err != nil:
			return err
		case it.Raw[0] != '{' || it.Raw[len(it.Raw)-1] != '}':
			return fmt.Errorf("%w: no object", ErrBroken)
		case len(it.Scope) > 0:
			return fmt.Errorf("%w: JSON with namespaces", ErrBroken)
		}
		return checkCharacters(it.Raw)
	}
	return checkElement(it.Raw, scopeOf(it.Scope), func(local []byte, uri string) error {
		if !isItem(it.Format, local, uri) {
			return fmt.Errorf("%w: <%s>", ErrBroken, clipBytes(local))
		}
		return nil
	})
}

// isScopeSmall reports whether an item may have these bindings.
func isScopeSmall(bindings []Binding) bool {
	size := 0
	for _, b := range bindings {
		size += len(b.Prefix) + len(b.URI)
	}
	return len(bindings) <= MaxScope && size <= maxScopeSize
}

// check checks that a binding can stand in a start tag.
func (b Binding) check() error {
	if b.Prefix == "xml:base" || b.Prefix == "xml:lang" {
		return checkCharacters([]byte(b.URI))
	}
	a := attribute{[]byte("xmlns"), []byte(escape(b.URI))}
	if b.Prefix != "" {
		a.name = []byte("xmlns:" + b.Prefix)
	}
	_, sloppy := tidyDeclarations([]attribute{a})
	if sloppy || nameLen([]byte(b.Prefix)) != len(b.Prefix) || strings.Contains(b.Prefix, ":") {
		return fmt.Errorf("%w: a prefix that cannot be bound", ErrBroken)
	}
	return checkCharacters([]byte(b.URI))
}

func checkCharacters(b []byte) error {
	if _, dropped := dropInvalid(b); dropped {
		return fmt.Errorf("%w: impossible characters", ErrBroken)
	}
	return nil
}

// checkElement checks that raw is one element that needs no repair.
func checkElement(raw []byte, outer scope, rooted func(local []byte, uri string) error) error {
	if err := checkCharacters(raw); err != nil {
		return err
	}
	inner := len(outer)
	t := tidier{lexer: lexer{doc: raw}, scope: outer[:inner:inner], checkRoot: rooted}
	tidied, bad, err := t.tidy()
	switch {
	case err != nil:
		return err
	case bad != 0:
		return fmt.Errorf("%w: %s", ErrBroken, cmp.Or(t.fault, bad.String()))
	case len(tidied) != len(raw):
		return fmt.Errorf("%w: more than one element", ErrBroken)
	}
	return nil
}
