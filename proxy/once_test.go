package proxy

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"tidings/internal/feed"
)

// aText is a text of 60 words, which has nothing in common with that of another number.
func aText(number int) string {
	var b strings.Builder
	for i := range 60 {
		fmt.Fprintf(&b, "word%dx%d ", number, i)
	}
	return "<p>" + b.String() + "</p>"
}

func articleOf(source, title, link, content string) feed.Entry {
	return feed.Entry{
		Arrived: time.Unix(1.7e9, 0),
		Meaning: &feed.Meaning{GUID: source + " " + title, Title: title, Link: link, Content: content},
		Source:  &feed.Source{URL: "https://" + source + ".example/feed", Title: "Feed <" + source + ">"},
	}
}

// An article is another feed's if it has its link, or nearly its text.
func TestAStoryIsShownOnce(t *testing.T) {
	const link = "https://h.example/story"
	for name, c := range map[string]struct {
		later feed.Entry
		same  bool
	}{
		"the link, as it is tracked":            {articleOf("b", "B", "http://www.h.example/story/?utm_source=b#x", "an excerpt"), true},
		"the text":                              {articleOf("b", "Another headline", "https://b.example/1", aText(1)), true},
		"the text, with another markup":         {articleOf("b", "A", "https://b.example/1", strings.ReplaceAll(strings.ToUpper(aText(1)), " ", "<BR> ")), true},
		"nearly the text":                       {articleOf("b", "A", "https://b.example/1", aText(1)+"<p>This first appeared in A.</p>"), true},
		"the text, another address of the site": {articleOf("b", "A", "https://news.h.example/2", aText(1)), true},
		"the text, another title of the site":   {articleOf("b", "B", "https://news.h.example/2", aText(1)), false},
		"half of the text":                      {articleOf("b", "A", "https://b.example/1", aText(1)+aText(2)), false},
		"another text":                          {articleOf("b", "A", "https://b.example/1", aText(2)), false},
		"another link":                          {articleOf("b", "A", "https://h.example/story2", ""), false},
		"the same feed":                         {articleOf("a", "A again", link, aText(1)), false},
	} {
		got, _ := oncePerStory([]feed.Entry{c.later, articleOf("a", "A", link, aText(1))}, nil)
		if (len(got) == 1) != c.same {
			t.Errorf("%s: %d articles", name, len(got))
		}
		if c.same && (got[0].Meaning.Title != "A" || !strings.Contains(got[0].Meaning.Content, "Feed &lt;b&gt;: "+c.later.Meaning.Title)) {
			t.Errorf("%s: %+v", name, got[0].Meaning)
		}
		if !c.same && (got[0].Source.URL != c.later.Source.URL || got[0].Meaning.GUID == got[1].Meaning.GUID) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	short := []feed.Entry{articleOf("b", "Weekly", "https://b.example/", "Read more."), articleOf("a", "Weekly", "https://a.example/", "Read more.")}
	if got, _ := oncePerStory(short, nil); len(got) != 2 {
		t.Errorf("articles that say nothing count as one: %+v", got)
	}
}

// A text that a feed has below several titles asks readers to subscribe, or the like. It is no story, of this feed or
// another.
func TestATextOfManyArticlesIsNoStory(t *testing.T) {
	wall, other := aText(1), articleOf("b", "Elections", "https://b.example/1", aText(1))
	a, again := articleOf("a", "Cup final", "https://a.example/1", wall), articleOf("a", "Weather", "https://a.example/2", wall)
	if got, _ := oncePerStory([]feed.Entry{other, again, a}, nil); len(got) != 3 {
		t.Errorf("%d stories: %+v", len(got), got)
	}
	again.Meaning.Title = "Cup final" // the same article once more
	if got, _ := oncePerStory([]feed.Entry{other, again, a}, nil); len(got) != 2 {
		t.Errorf("%d stories: %+v", len(got), got)
	}
}

// The memory of stories has room for so many articles, and feeds without any take some, too.
func TestRememberedStoriesAreBounded(t *testing.T) {
	b := newTestServer(t)
	s := b.server
	entries := make([]feed.Entry, 100)
	for i := range entries {
		entries[i] = articleOf("a", fmt.Sprint(i), "", "")
	}
	for i := range maxStoryKeys/len(entries) + 10 {
		s.onceEntries(fmt.Sprint(i), entries)
	}
	if _, ok := s.storyKeys.get("0"); ok || s.storyKeys.cost > maxStoryKeys {
		t.Errorf("the first feed is remembered: %v, with %d articles", ok, s.storyKeys.cost)
	}
	for i := range maxStoryKeys + 10 {
		s.onceEntries(fmt.Sprint("empty ", i), nil)
	}
	if n := len(s.storyKeys.items); n > maxStoryKeys {
		t.Errorf("%d feeds without articles are remembered", n)
	}
}

// The item stays the same when the first article is no longer kept, so that readers do not show it again.
func TestAStoryKeepsItsIdentity(t *testing.T) {
	a := articleOf("a", "A", "https://h.example/1", aText(1))
	b := articleOf("b", "B", "https://b.example/1", aText(1)) // the same also for a node that has started again
	before, _ := oncePerStory([]feed.Entry{b, a}, nil)
	after, _ := oncePerStory([]feed.Entry{b}, nil)
	if len(before) != 1 || len(after) != 1 || before[0].Meaning.GUID != after[0].Meaning.GUID {
		t.Errorf("%+v, then %+v", before, after)
	}
	c := articleOf("c", "C", "https://h.example/1", "an excerpt")
	before, told := oncePerStory([]feed.Entry{c, a}, nil)
	after, told = oncePerStory([]feed.Entry{c}, told)
	last, _ := oncePerStory([]feed.Entry{articleOf("d", "D", "https://h.example/1", ""), c}, told)
	if len(after) != 1 || after[0].Meaning.GUID != before[0].Meaning.GUID || len(last) != 1 || last[0].Meaning.GUID != before[0].Meaning.GUID {
		t.Errorf("%+v, then %+v, then %+v", before, after, last)
	}
	_, told = oncePerStory([]feed.Entry{b, c, a}, nil)
	if last, _ = oncePerStory([]feed.Entry{b, c}, told); len(last) != 1 || last[0].Meaning.GUID != before[0].Meaning.GUID {
		t.Errorf("articles that only the first one joined: %+v", last)
	}
	if original := b.Meaning.GUID; original != "b B" {
		t.Errorf("the article itself became %s", original)
	}
}

// A search has a feed that shows stories once, beside the one that shows all articles.
func TestAKeywordFeedShowsStoriesOnce(t *testing.T) {
	k := &memoryKeywords{articles: map[uint32][]feed.Entry{}}
	b := newTestServer(t, func(c *Config) { c.Keywords = k })
	var answer WatchResponse
	b.call("POST", "watch", `{"query":"solar","once":true}`, &answer)
	once := strings.TrimPrefix(answer.Watches[0].ReadURL, "http://"+host)
	b.call("POST", "watch", `{"query":"solar"}`, &answer)
	k.articles[k.watches[0].Number] = []feed.Entry{
		articleOf("c", "C<script>x()</script>", "javascript:x()", aText(1)), articleOf("b", "B", "https://h.example/1", aText(2)), articleOf("a", "A", "https://h.example/1", aText(1)),
	}
	all := strings.Replace(once, ".once", "", 1)
	for address, want := range map[string]int{once: 1, all: 3} {
		if text := body(t, b.ask("GET", address)); strings.Count(text, "<entry") != want || strings.Contains(text, "javascript:") || strings.Contains(text, "<script") {
			t.Errorf("%s: %s", address, text)
		}
		for _, format := range []string{"rss", "json"} {
			if r := b.ask("GET", strings.TrimSuffix(address, "atom")+format); r.StatusCode != 200 {
				t.Errorf("%s as %s: %d", address, format, r.StatusCode)
			}
		}
	}
	if !strings.HasSuffix(once, ".once.atom") || once == all {
		t.Errorf("%s and %s", once, all)
	}
	if status := b.call("POST", "unwatch", `{"query":"http://`+host+once+`"}`, &answer); status != 200 {
		t.Errorf("%d: it does not end by this address", status)
	}
}
