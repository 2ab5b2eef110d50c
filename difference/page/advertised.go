package page

import (
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"tidings/internal/markup"
)

// A Link is a feed that a page advertises.
type Link struct {
	Target   string // as written: an address, or a relative reference
	Title    string
	Comments bool // the feed has comments, which few people look for
}

// maxAdvertised bounds the feeds of one page.
const maxAdvertised = 16

// Advertised returns the feeds that an HTML page advertises, in its order: links with the relation alternate and a
// feed's media type, as the HTML standard has it, or with the relation feed, as its drafts had. Their targets must be
// resolved against base, the href of the first base element, if that is not empty.
func Advertised(doc []byte) (base string, feeds []Link) {
	base = eachLink(doc, func(_ atom.Atom, a map[string]string) bool {
		if l, ok := advertises(a); ok {
			feeds = append(feeds, l)
		}
		return len(feeds) < maxAdvertised
	})
	return base, feeds
}

// eachLink calls each with the attributes of every link and anchor of an HTML page, until it returns false, and every
// body with none. It returns the href of the first base element before that.
func eachLink(doc []byte, each func(tag atom.Atom, a map[string]string) bool) (base string) {
	a := map[string]string{}
	for z := markup.NewTokenizer(doc, false); ; {
		switch z.Next() {
		case html.ErrorToken:
			return base
		case html.StartTagToken, html.SelfClosingTagToken:
			name, more := z.TagName()
			tag := atom.Lookup(name)
			clear(a)
			switch {
			case tag == atom.Body && !each(tag, a):
				return base
			case tag != atom.Base && tag != atom.Link && tag != atom.A || !more:
				continue
			}
			readAttributes(z, a)
			switch {
			case tag != atom.Base:
				if !each(tag, a) {
					return base
				}
			case base == "" && len(a["href"]) <= maxTarget:
				base = strings.TrimSpace(a["href"])
			}
		}
	}
}

// AdvertisedByHeader returns the feeds that the fields of a Link header advertise (RFC 8288). Their targets must be
// resolved against the address of the document.
func AdvertisedByHeader(fields []string) (feeds []Link) {
	eachHeaderLink(fields, func(a map[string]string) bool {
		if l, ok := advertises(a); ok {
			feeds = append(feeds, l)
		}
		return len(feeds) < maxAdvertised
	})
	return feeds
}

// eachHeaderLink calls each with the parameters of every link of a Link header, and with its target as href, until it
// returns false.
func eachHeaderLink(fields []string, each func(a map[string]string) bool) {
	for _, field := range fields {
		for {
			_, rest, ok := strings.Cut(field, "<")
			if !ok {
				break
			}
			a := map[string]string{}
			if a["href"], rest, ok = strings.Cut(rest, ">"); !ok {
				break
			}
			field = readParameters(rest, a)
			if !each(a) {
				return
			}
		}
	}
}

// readParameters reads the parameters of a link, up to the comma behind them, and returns what follows.
func readParameters(s string, to map[string]string) (rest string) {
	for {
		s = strings.TrimLeft(s, "; \t")
		n := strings.IndexAny(s, "=;,")
		if n < 0 || s[n] == ',' {
			return s[max(n, 0):]
		}
		name := strings.ToLower(strings.TrimSpace(s[:n]))
		if s[n] == ';' {
			s = s[n:]
			continue
		}
		var value string
		if s = strings.TrimLeft(s[n+1:], " \t"); strings.HasPrefix(s, `"`) {
			value, s = readQuoted(s[1:])
		} else {
			end := strings.IndexAny(s+";", ";,")
			value, s = strings.TrimSpace(s[:end]), s[end:]
		}
		if encoded, ok := strings.CutSuffix(name, "*"); ok { // RFC 8187: UTF-8'language'text
			if parts := strings.SplitN(value, "'", 3); len(parts) == 3 {
				value, _ = url.PathUnescape(parts[2])
				to[encoded] = value
			}
		} else if _, ok := to[name]; !ok { // the first of several counts
			to[name] = value
		}
	}
}

// readQuoted returns a quoted string whose first quotation mark was read, and what follows.
func readQuoted(s string) (value, rest string) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '"':
			return b.String(), s[i+1:]
		case s[i] == '\\' && i+1 < len(s):
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String(), ""
}

// readAttributes reads the attributes of the latest tag that a link to a feed has.
func readAttributes(z *markup.Tokenizer, to map[string]string) {
	for more := true; more; {
		var name, value []byte
		name, value, more = z.TagAttr()
		switch string(name) {
		case "rel", "type", "href", "title":
			to[string(name)] = string(value)
		}
	}
}

// advertises returns the feed to which a link with some attributes leads, if it leads to one.
func advertises(a map[string]string) (l Link, ok bool) {
	relations := strings.Fields(strings.ToLower(a["rel"]))
	kind, _, _ := strings.Cut(strings.ToLower(a["type"]), ";")
	l.Target = strings.TrimSpace(a["href"])
	title := a["title"]
	l.Title = strings.Join(strings.Fields(strings.ToValidUTF8(title[:min(len(title), maxTitle)], "")), " ")
	alternate, named := slices.Contains(relations, "alternate") && !slices.Contains(relations, "stylesheet"), slices.Contains(relations, "feed")
	switch strings.TrimSpace(kind) {
	case "application/rss+xml", "application/atom+xml", "application/rdf+xml", "application/feed+json":
		ok = alternate || named
	case "application/xml", "text/xml": // may be anything, if nothing names a feed
		ok = named || alternate && speaksOf(l, feedWords)
	case "", "application/json":
		ok = named
	}
	l.Comments = speaksOf(l, commentWords)
	return l, ok && l.Target != "" && len(l.Target) <= maxTarget
}

var (
	feedWords = []string{"rss", "atom", "feed"}
	// commentWords are the words for comments in the languages of most blogs, as publishing programs write them.
	commentWords = []string{"comment", "kommentar", "comentari", "comentár", "comentário", "commenti", "reacties", "komentar", "комментари", "yorum", "コメント", "评论", "評論", "留言", "댓글"}
)

// IsCommentTitle reports whether a title says that a feed has comments.
func IsCommentTitle(title string) bool { return speaksOf(Link{Title: title}, commentWords) }

// speaksOf reports whether the title or the target of a link has one of some words.
func speaksOf(l Link, words []string) bool {
	text := strings.ToLower(l.Title + " " + l.Target)
	return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(text, word) })
}
