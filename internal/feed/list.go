package feed

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// A List is a file of subscriptions that another program wrote.
type List struct {
	Kind     ListKind
	Outlines []Outline // the XMLURL of a bookmark is the address of a page, and its Type is TypeLink
	Unread   []Unread
}

// A ListKind is the kind of a List.
type ListKind int

// Kinds of lists.
const (
	ListOPML      ListKind = iota // of most readers, Liferea and Miniflux among them
	ListBookmarks                 // of browsers, in the format of Netscape
	ListAddresses                 // a text with an address in each line, such as the file urls of newsboat
)

// maxBookmarkName bounds the name of a bookmark or folder in bytes if tags are in it. The text behind further tags is left out.
// Browsers write names without tags.
const maxBookmarkName = 1 << 10

// onlyNewsboat lists the schemes of newsboat's lists that no other program can read.
var onlyNewsboat = []string{"query", "exec", "filter", "file"}

// TypeLink is the type of an outline that leads to a page and not to a feed.
const TypeLink = "link"

var (
	errDatabase = errors.New("the file is a database, which may change while it is read; import the list of which it was made: " +
		"of newsboat the file urls, of Liferea the file feedlist.opml, of other programs what they export as OPML")
	errNoList = errors.New("the file is no list of subscriptions: neither OPML, nor bookmarks, nor a text with an address in each line")
)

// ParseList reads a list of any kind. Its content tells which. The limits are those of [ParseOPML].
func ParseList(doc []byte) (l List, err error) {
	start := bytes.TrimSpace(bytes.TrimPrefix(doc, []byte("\ufeff")))
	switch {
	case bytes.HasPrefix(doc, []byte("SQLite format 3\x00")):
		return l, errDatabase
	case len(start) > 0 && len(doc) > maxOPML:
		return l, fmt.Errorf("read the list: longer than %d MiB", maxOPML>>20)
	case hasPrefixFold(start, "<!doctype netscape-bookmark-file-1"):
		l.Kind = ListBookmarks
		l.Outlines, err = parseBookmarks(start)
	case len(start) == 0 || start[0] == '<' || bytes.IndexByte(doc, 0) >= 0: // NUL: perhaps OPML in UTF-16
		l.Outlines, l.Unread, err = ParseOPML(doc)
	default:
		l.Kind = ListAddresses
		l.Outlines, l.Unread, err = parseAddresses(doc)
	}
	if errors.Is(err, errNoOPML) {
		err = errNoList
	}
	return l, err
}

func hasPrefixFold(s []byte, prefix string) bool {
	return len(s) >= len(prefix) && strings.EqualFold(string(s[:len(prefix)]), prefix)
}

// parseBookmarks reads the bookmarks of a browser. Those that do not lead to the Web are left out, such as scripts.
func parseBookmarks(doc []byte) ([]Outline, error) {
	var root Outline
	open, count := []*Outline{&root}, 0 // the folders around the place, the innermost last; bookmarks and folders
	add := func(o Outline) *Outline {
		count++
		in := open[len(open)-1]
		in.Outlines = append(in.Outlines, o)
		return &in.Outlines[len(in.Outlines)-1]
	}
	z := html.NewTokenizer(bytes.NewReader(doc))
	var named *Outline // whose name the tokens have now
	var folder string  // the name of the folder that begins next
	var heading bool
	for count <= maxOutlines {
		switch z.Next() {
		case html.ErrorToken:
			return root.Outlines, nil // the document is in memory, so this is its end
		case html.TextToken:
			text := strings.TrimSpace(string(z.Text()))
			switch {
			case heading && len(folder) < maxBookmarkName:
				folder += text
			case !heading && named != nil && len(named.Text) < maxBookmarkName:
				named.Text += text
			}
		case html.StartTagToken:
			t := z.Token()
			switch t.DataAtom {
			case atom.H3:
				folder, heading = "", true
			case atom.Dl: // the folder's pointer stays valid, because nothing is added beside it before it ends
				in := open[len(open)-1]
				if folder != "" && len(open) <= maxOPMLDepth {
					in = add(Outline{Text: folder})
				}
				folder = ""
				open = append(open, in)
			case atom.A:
				o := newBookmark(t.Attr)
				if named = nil; o.XMLURL != "" {
					named = add(o)
				}
			}
		case html.EndTagToken:
			switch t := z.Token(); t.DataAtom {
			case atom.H3:
				heading = false
			case atom.A:
				if named != nil && named.Text == "" {
					named.Text = named.XMLURL
				}
				named = nil
			case atom.Dl:
				open = open[:max(1, len(open)-1)]
			}
		}
	}
	return nil, fmt.Errorf("read bookmarks: more than %d of them and their folders; export a folder of them by itself", maxOutlines)
}

// newBookmark returns the outline of a bookmark, without an XMLURL if it does not lead to the Web. Earlier versions of
// Firefox kept feeds among their bookmarks, with the addresses of the pages.
func newBookmark(attrs []html.Attribute) (o Outline) {
	for _, a := range attrs {
		u := strings.TrimSpace(a.Val)
		isWeb := hasPrefixFold([]byte(u), "https://") || hasPrefixFold([]byte(u), "http://")
		switch {
		case !isWeb:
		case a.Key == "href":
			o.HTMLURL = u
		case a.Key == "feedurl":
			o.XMLURL = u
		}
	}
	if o.XMLURL == "" {
		o.XMLURL, o.HTMLURL, o.Type = o.HTMLURL, "", TypeLink
	}
	return o
}

// parseAddresses reads a text with an address in each line, and behind it, as newsboat has it, tags and a title that
// begins with "~". Lines that begin with "#" are comments.
func parseAddresses(doc []byte) (outlines []Outline, unread []Unread, err error) {
	text, _, err := decode(doc, "")
	if err != nil {
		text, _ = dropInvalid(doc)
	}
	folders := map[string]int{} // places of the folders in outlines
	found, count := false, 0
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		words := splitQuoted(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		o, tags := Outline{XMLURL: words[0]}, []string{}
		for _, word := range words[1:] {
			switch {
			case strings.HasPrefix(word, "~"):
				o.Text = word[1:]
			case word != "" && word != "!": // "!" hides the feed
				tags = append(tags, word)
			}
		}
		scheme, _, _ := strings.Cut(o.XMLURL, ":")
		switch {
		case slices.Contains(onlyNewsboat, scheme):
			unread = append(unread, Unread{n, "only newsboat can read what begins with " + scheme + ":"})
			found = true
			continue
		case !strings.Contains(o.XMLURL, "://"):
			unread = append(unread, Unread{n, "the line does not begin with an address, such as https://example.org/feed.xml"})
			continue
		}
		found = true
		if o.Text == "" {
			o.Text = o.XMLURL
		}
		for _, tag := range tags {
			at, ok := folders[tag]
			if !ok {
				at = len(outlines)
				folders[tag] = at
				outlines = append(outlines, Outline{Text: tag})
			}
			outlines[at].Outlines = append(outlines[at].Outlines, o)
		}
		if len(tags) == 0 {
			outlines = append(outlines, o)
		}
		if count += max(1, len(tags)); count > maxOutlines {
			return nil, nil, fmt.Errorf("read the list: more than %d addresses", maxOutlines)
		}
	}
	switch {
	case !found:
		return nil, nil, errNoList
	case len(unread) > maxUnread:
		return nil, nil, fmt.Errorf("read the list: more than %d lines that cannot be read", maxUnread)
	}
	return outlines, unread, nil
}

// splitQuoted splits a line at spaces that are not between quotation marks. A backslash takes the meaning of the
// character behind it away.
func splitQuoted(line string) (words []string) {
	var word []byte
	in, quoted := false, false
	end := func() {
		if in {
			words = append(words, string(word))
		}
		word, in = nil, false
	}
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == '\\' && quoted && i+1 < len(line):
			i++
			word = append(word, line[i])
		case c == '"':
			in, quoted = true, !quoted
		case !quoted && strings.IndexByte(" \t\r\n", c) >= 0:
			end()
		default:
			word, in = append(word, c), true
		}
	}
	end()
	return words
}
