package crawl

import (
	"cmp"
	"slices"
	"time"

	"tidings/cobra/words"
	"tidings/internal/feed"
)

// A Document is a document that was read.
type Document struct {
	Bytes int
	Items int
	Read  time.Duration // from its bytes to what is passed on, without the network
}

// An Article is an item of the last document that was read.
type Article struct {
	Bytes int // of its XML or JSON
	Words int // of its title and its content, or its summary if it has none
}

// articlesOf returns the items of a document. Those that cannot be read have no words.
func articlesOf(f *feed.Feed) (of []Article) {
	var tokenizer words.Tokenizer
	ignore := func([]byte, int, words.TokenKind) {}
	for i := range f.Items {
		a := Article{Bytes: len(f.Items[i].Raw)}
		if m, err := f.Items[i].Meaning(""); err == nil {
			text := feed.AppendText(nil, cmp.Or(m.Content, m.Summary))
			a.Words = tokenizer.Tokenize(m.Title, ignore) + tokenizer.Tokenize(string(text), ignore)
		}
		of = append(of, a)
	}
	return of
}

// Properties are those of Figure 5. Each feed counts once, with its last document.
type Properties struct {
	Feeds        int          `json:"feeds"`
	FeedBytes    Distribution `json:"feed_bytes"`
	FeedItems    Distribution `json:"feed_items"`
	ArticleBytes Distribution `json:"article_bytes"`
	ArticleWords Distribution `json:"article_words"`
}

// A Distribution is the part of one that the paper states.
type Distribution struct {
	Median float64 `json:"median"`
	P90    float64 `json:"p90"`
}

func distributionOf(values []float64) Distribution {
	if len(values) == 0 {
		return Distribution{}
	}
	slices.Sort(values)
	return Distribution{values[len(values)/2], values[len(values)*9/10]}
}

// PropertiesOf returns the properties of the feeds of some traces.
func PropertiesOf(of []Trace) (p Properties) {
	var feedBytes, feedItems, articleBytes, articleWords []float64
	for _, t := range of {
		if len(t.Documents) == 0 {
			continue // none could be read
		}
		last := t.Documents[len(t.Documents)-1]
		p.Feeds++
		feedBytes, feedItems = append(feedBytes, float64(last.Bytes)), append(feedItems, float64(last.Items))
		for _, a := range t.Articles {
			articleBytes, articleWords = append(articleBytes, float64(a.Bytes)), append(articleWords, float64(a.Words))
		}
	}
	p.FeedBytes, p.FeedItems = distributionOf(feedBytes), distributionOf(feedItems)
	p.ArticleBytes, p.ArticleWords = distributionOf(articleBytes), distributionOf(articleWords)
	return p
}
