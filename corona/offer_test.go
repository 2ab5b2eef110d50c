package corona

import (
	"slices"
	"testing"

	"tidings/internal/env"
)

// Feeds are found in the page and in its header, each once, and those of comments come last and are called so.
func TestFeedsThatAPageOffers(t *testing.T) {
	const doc = `<base href="//files.example/f/"><link rel=alternate type=application/rss+xml href=comments.xml>
		<link rel="alternate nofollow" type=application/atom+xml title="Q&amp;amp;A &lt;b&gt;news&lt;/b&gt;" href=news.xml>
		<link rel=alternate type=application/rss+xml title="Comments of all" href=c.xml><link rel=feed href=javascript:x()><p>Text.`
	o := offerOf(env.Answer{Status: 200, ContentType: "text/html", FinalURL: "https://page.example/blog/post", Body: []byte(doc), Links: []string{
		`<../feed.json>; rel=alternate; type="application/feed+json"; title="A, B", <https://files.example/f/news.xml>; rel=feed`, `<https://hub.example/>; rel=hub`,
	}})
	want := []Link{
		{"https://files.example/f/news.xml", "Q&A news", false},
		{"https://page.example/feed.json", "A, B", false},
		{"https://files.example/f/comments.xml", "(comments)", true},
		{"https://files.example/f/c.xml", "Comments of all", true},
	}
	if !o.Page || !slices.Equal(o.Feeds, want) {
		t.Errorf("%+v", o)
	}
}
