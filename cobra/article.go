package cobra

import (
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
	FeedLink  string // where people read it; may be ""
	ID        feed.ID
	Link      string
	Title     string
	Author    string
	Tags      []string
	Language  string // a tag (RFC 5646), "" if unknown
	HTML      string // content, or else summary; of a stranger
	Published time.Time
}

// MaxHTML is how many bytes of an article's content are matched and kept. One in ten
// has more than 2,426 bytes (Figure 5).
const MaxHTML = 64 << 10

// Size is how many bytes of memory an article has, more or less.
func (a *Article) Size() int {
	n := len(a.Feed) + len(a.FeedTitle) + len(a.FeedLink) + len(a.Link) + len(a.Title) + len(a.Author) + len(a.Language) + len(a.HTML) + 256
	for _, tag := range a.Tags {
		n += len(tag) + 16
	}
	return n
}

// content is as much of the content as is matched and kept.
func (a *Article) content() string {
	if len(a.HTML) <= MaxHTML {
		return a.HTML
	}
	return strings.ToValidUTF8(a.HTML[:MaxHTML], "")
}

// A reader finds out which registered terms an article has, and where.
type reader struct {
	terms *index.Terms
	wants query.Wants

	cutter words.Cutter
	text   []byte
	key    []byte
	seen   []uint32 // by term: the article that was seen to have it last
	now    uint32
	out    *index.Article
	stems  map[string]string // of words, by language and word

	field    query.Field // of the text that is cut
	at       uint32      // where it begins
	language string
}

const (
	// apart is how far words of different parts of an article are from each
	// other: more than a phrase is long.
	apart = query.MaxTerms
	// maxStems is how many stems are remembered; all are forgotten then.
	maxStems = 1 << 16
)

func newReader(terms *index.Terms) *reader {
	return &reader{terms: terms, stems: map[string]string{}}
}

// read finds an article's terms. They are counted, for the frequencies of words.
func (r *reader) read(a *Article, out *index.Article) {
	out.Reset()
	r.out, r.at, r.language = out, 0, words.Language(a.Language)
	if r.now++; r.now == 0 {
		clear(r.seen)
		r.now = 1
	}
	r.terms.Seen()
	r.scopes(a)
	r.cut(a.Title, query.Title)
	r.cut(a.Author, query.Author)
	for _, tag := range a.Tags {
		r.cut(tag, query.Tag)
	}
	r.text = feed.AppendText(r.text[:0], a.content())
	r.cut(string(r.text), query.Any)
}

// scopes finds what is said of the article as a whole.
func (r *reader) scopes(a *Article) {
	r.has(query.ScopeKey(r.key[:0], query.Feed, a.Feed), 0)
	document, _ := feed.DocumentURL(a.Feed)
	for _, address := range []string{document, a.Link} {
		// A site's articles are those of all sites below it.
		for site := query.SiteOf(address); strings.Contains(site, "."); {
			r.has(query.ScopeKey(r.key[:0], query.Site, site), 0)
			_, site, _ = strings.Cut(site, ".")
		}
	}
	tag := strings.ToLower(strings.ReplaceAll(strings.TrimSpace(a.Language), "_", "-"))
	for tag != "" {
		r.has(query.ScopeKey(r.key[:0], query.Lang, tag), 0)
		tag = tag[:max(0, strings.LastIndexByte(tag, '-'))]
	}
}

// cut finds the terms of a text. Words of all fields but authors are words in Any field too.
func (r *reader) cut(text string, f query.Field) {
	if text == "" || f == query.Author && !r.wanted(f) {
		return
	}
	r.field = f
	places := r.cutter.Cut(text, r.form)
	r.at += uint32(places) + apart
}

// wanted says whether queries look for anything in a field.
func (r *reader) wanted(f query.Field) bool {
	if r.wants.Fields[f] || r.wants.Prefixed[f] {
		return true
	}
	return slices.ContainsFunc(r.wants.Stems, func(s query.StemWants) bool { return s.Fields[f] })
}

// form finds the terms of a form of a word.
func (r *reader) form(form []byte, at int, kind words.Form) {
	place := r.at + uint32(at)
	if r.field != query.Author {
		r.has(query.WordKey(r.key[:0], query.Any, form), place)
		r.more(query.Any, form, place, kind)
	}
	if r.field != query.Any {
		if r.wants.Fields[r.field] {
			r.has(query.WordKey(r.key[:0], r.field, form), place)
		}
		r.more(r.field, form, place, kind)
	}
}

// more finds prefixes and stems.
func (r *reader) more(f query.Field, form []byte, place uint32, kind words.Form) {
	if kind != words.Word && kind != words.Second {
		return
	}
	if r.wants.Prefixed[f] {
		for n := 1; n <= len(form); n++ {
			if r.wants.Prefixes[f][n] {
				r.has(query.PrefixKey(r.key[:0], f, form[:n]), place)
			}
		}
	}
	for _, s := range r.wants.Stems {
		if s.Fields[f] && (r.language == "" || r.language == s.Language) {
			r.has(query.StemKey(r.key[:0], f, s.Language, r.stem(s.Language, form)), place)
		}
	}
}

// stem returns a word's stem, which is found once for a word that is read often.
func (r *reader) stem(language string, form []byte) string {
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

// has notes that the article has a key at a place.
func (r *reader) has(key []byte, place uint32) {
	r.key = key
	r.terms.Has(key)
	n, ok := r.terms.Find(key)
	if !ok {
		return
	}
	r.out.Places = append(r.out.Places, index.Place{Term: n, At: place})
	for len(r.seen) <= int(n) {
		r.seen = append(r.seen, 0)
	}
	if r.seen[n] != r.now {
		r.seen[n] = r.now
		r.out.Terms = append(r.out.Terms, n)
	}
}
