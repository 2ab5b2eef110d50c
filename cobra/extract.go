package cobra

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"tidings/cobra/index"
	"tidings/cobra/query"
	"tidings/cobra/words"
	"tidings/internal/feed"
)

// An Article is a new entry of a channel, as it is matched and shown.
type Article struct {
	Feed      string // the channel's canonical URL
	FeedTitle string
	FeedLink  string // address of the page that people read; may be ""
	ID        feed.ID
	Link      string
	Title     string
	Author    string
	Tags      []string
	Language  string // an RFC 5646 tag, "" if unknown
	HTML      string // content, or the summary if there is none; untrusted
	Published time.Time
}

// MaxHTML is the number of bytes of an article's content that are matched and kept. One article
// in ten has more than 2,426 bytes (Figure 5).
const MaxHTML = 64 << 10

// Size returns the approximate size of the article in memory, in bytes.
func (a *Article) Size() int {
	n := len(a.Feed) + len(a.FeedTitle) + len(a.FeedLink) + len(a.Link) + len(a.Title) + len(a.Author) + len(a.Language) + len(a.HTML) + 256
	for _, tag := range a.Tags {
		n += len(tag) + 16
	}
	return n
}

// keptContent returns the part of the content that is matched and kept.
func (a *Article) keptContent() string {
	if len(a.HTML) <= MaxHTML {
		return a.HTML
	}
	return strings.ToValidUTF8(a.HTML[:MaxHTML], "")
}

// An extractor finds the registered terms of an article and their positions.
type extractor struct {
	terms *index.Terms
	kinds query.KeyKinds // kinds of keys that queries contain

	tokenizer    words.Tokenizer   // splits text into words
	plainText    []byte            // buffer for the plain text of an article
	key          []byte            // buffer for the key of a term
	lastSeen     []uint32          // for each term, the number of the last article that contained it
	articleCount uint32            // number of the present article; starts again after 2^32
	out          *index.Article    // terms found in the present article
	stems        map[string]string // cache of stems, by language and word

	field    query.Field // field of the text that is being read
	position uint32      // position of its first word in the article
	language string      // language of the article, "" if unknown
}

const (
	// partGap is the distance between the words of two parts of an article. It exceeds the
	// length of a phrase, so no phrase spans two parts.
	partGap = query.MaxTerms
	// maxStems bounds the cache of stems. A full cache is emptied.
	maxStems = 1 << 16
)

func newExtractor(terms *index.Terms) *extractor {
	return &extractor{terms: terms, stems: map[string]string{}}
}

// extract finds an article's terms and counts them for the frequencies of words.
func (r *extractor) extract(a *Article, out *index.Article) {
	out.Reset()
	r.out, r.position, r.language = out, 0, words.Language(a.Language)
	if r.articleCount++; r.articleCount == 0 {
		clear(r.lastSeen)
		r.articleCount = 1
	}
	r.terms.CountArticle()
	r.addScopes(a)
	r.addText(a.Title, query.Title)
	r.addText(a.Author, query.Author)
	for _, tag := range a.Tags {
		r.addText(tag, query.Tag)
	}
	r.plainText = feed.AppendText(r.plainText[:0], a.keptContent())
	r.addText(string(r.plainText), query.Any)
}

// addScopes adds the terms of the article as a whole: feed, sites and language.
func (r *extractor) addScopes(a *Article) {
	r.addKey(query.ScopeKey(r.key[:0], query.Feed, a.Feed), 0)
	document, _ := feed.DocumentURL(a.Feed)
	for _, address := range []string{document, a.Link} {
		// An article of a site also belongs to all parent domains.
		for site := query.SiteOf(address); strings.Contains(site, "."); {
			r.addKey(query.ScopeKey(r.key[:0], query.Site, site), 0)
			_, site, _ = strings.Cut(site, ".")
		}
	}
	tag := strings.ToLower(strings.ReplaceAll(strings.TrimSpace(a.Language), "_", "-"))
	for tag != "" {
		r.addKey(query.ScopeKey(r.key[:0], query.Lang, tag), 0)
		tag = tag[:max(0, strings.LastIndexByte(tag, '-'))]
	}
}

// addText adds the terms of a text. Words of every field except the author are also words of
// the field Any.
func (r *extractor) addText(text string, f query.Field) {
	if text == "" || f == query.Author && !r.isQueried(f) {
		return
	}
	r.field = f
	length := r.tokenizer.Tokenize(text, r.addToken)
	r.position += uint32(length) + partGap
}

// isQueried reports whether a query refers to a field.
func (r *extractor) isQueried(f query.Field) bool {
	if r.kinds.Fields[f] || r.kinds.HasPrefixes[f] {
		return true
	}
	return slices.ContainsFunc(r.kinds.Stems, func(s query.StemFields) bool { return s.Fields[f] })
}

// addToken adds the terms of a token of the text.
func (r *extractor) addToken(form []byte, at int, kind words.TokenKind) {
	position := r.position + uint32(at)
	if r.field != query.Author {
		r.addKey(query.WordKey(r.key[:0], query.Any, form), position)
		r.addPrefixesAndStems(query.Any, form, position, kind)
	}
	if r.field != query.Any {
		if r.kinds.Fields[r.field] {
			r.addKey(query.WordKey(r.key[:0], r.field, form), position)
		}
		r.addPrefixesAndStems(r.field, form, position, kind)
	}
}

// addPrefixesAndStems adds the prefixes and stems of a word that queries contain.
func (r *extractor) addPrefixesAndStems(f query.Field, form []byte, position uint32, kind words.TokenKind) {
	if kind != words.Word && kind != words.Variant {
		return
	}
	if r.kinds.HasPrefixes[f] {
		for n := 1; n <= len(form); n++ {
			if r.kinds.PrefixLengths[f][n] {
				r.addKey(query.PrefixKey(r.key[:0], f, form[:n]), position)
			}
		}
	}
	for _, s := range r.kinds.Stems {
		if s.Fields[f] && (r.language == "" || r.language == s.Language) {
			r.addKey(query.StemKey(r.key[:0], f, s.Language, r.stem(s.Language, form)), position)
		}
	}
}

// stem returns the stem of a word, from the cache if possible.
func (r *extractor) stem(language string, form []byte) string {
	r.key = append(append(append(r.key[:0], language...), ':'), form...)
	if s, ok := r.stems[string(r.key)]; ok {
		return s
	}
	if len(r.stems) >= maxStems {
		clear(r.stems)
	}
	s := words.Stem(language, string(form))
	r.stems[string(r.key)] = s
	return s
}

// addKey adds a key at a position, if it is a registered term, and counts it.
func (r *extractor) addKey(key []byte, position uint32) {
	r.key = key
	r.terms.CountKey(key)
	n, ok := r.terms.Find(key)
	if !ok {
		return
	}
	r.out.Positions = append(r.out.Positions, index.Position{Term: n, At: position})
	for len(r.lastSeen) <= int(n) {
		r.lastSeen = append(r.lastSeen, 0)
	}
	if r.lastSeen[n] != r.articleCount {
		r.lastSeen[n] = r.articleCount
		r.out.Terms = append(r.out.Terms, n)
	}
}

// NewArticle returns an item of a feed as an article. address is the feed's canonical URL; title, link and language
// are those of its head. It returns an error if the item is unreadable.
func NewArticle(address, title, link, language string, item *feed.Item) (*Article, error) {
	base, _ := feed.DocumentURL(address)
	m, err := item.Meaning(base)
	if err != nil {
		return nil, err
	}
	published := m.Published
	if published.IsZero() {
		published = m.Updated
	}
	return &Article{
		Feed: address, FeedTitle: title, FeedLink: feed.AbsoluteLink(base, link), Language: language,
		ID: item.ID, Link: m.Link, Title: m.Title, Author: m.Author(), Tags: m.Categories,
		HTML: cmp.Or(m.Content, m.Summary), Published: published,
	}, nil
}
