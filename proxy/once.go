package proxy

import (
	"cmp"
	"hash/fnv"
	"html"
	"slices"
	"strings"

	"golang.org/x/net/publicsuffix"

	"tidings/cobra/words"
	"tidings/internal/env"
	"tidings/internal/feed"
)

// onceMark stands in the address of a keyword feed that shows each story once.
const onceMark = "once"

const (
	// shingleWords is the number of consecutive words that are compared at a time. Fewer occur in many articles by
	// chance, and more are all changed by a few edits.
	shingleWords = 4
	// minStoryWords is the least number of words by which an article is recognised. Shorter texts, such as
	// "Read more", are those of many articles; these are recognised by their links only.
	minStoryWords = 20
	// sketchSize is the number of hashes that stand for a text, so that two texts are compared in constant time.
	// The likeness of two texts is known to within a tenth.
	sketchSize = 64
	// sameStory is the share of equal hashes from which on two texts are one story: enough for another headline, or
	// a line at the end that names the source.
	sameStory = 0.7
)

// A telling is an article as one that may tell a story of another feed.
type telling struct {
	*feed.Entry
	link, site string // both are "" if the link leads to no article
	title      string
	sketch     []uint64 // of the title and the text; nil if the text does not identify the article
	text       string   // a hash of all words of the text; "" as sketch is nil
}

// A story is what feeds tell about one thing.
type story struct {
	first  *telling // the one that came first
	others []*telling
	links  map[string]bool
	key    string // what identifies the story also when the first one is gone
}

// maxStoryKeys bounds the articles whose stories are remembered, of all keyword feeds together. Each takes about 200
// bytes. Beyond it the stories of the feed that was not read for longest are forgotten.
const maxStoryKeys = 20_000

// onceEntries returns the entries of a keyword feed as oncePerStory does. A story that was shown before is the same
// item also when its first article is no longer kept.
func (s *Server) onceEntries(token string, entries []feed.Entry) []feed.Entry {
	before, _ := s.storyKeys.get(token)
	once, keys := oncePerStory(entries, before)
	s.storyKeys.put(token, keys, len(keys)+1)
	return once
}

// oncePerStory returns the entries of a keyword feed, the newest first, without those that another feed had before.
// They are listed below the first one. before and keys are as storiesOf has them.
func oncePerStory(entries []feed.Entry, before map[string]string) (once []feed.Entry, keys map[string]string) {
	stories, keys := storiesOf(entries, before)
	for _, s := range stories {
		e := *s.first.Entry
		m := *e.Meaning
		m.GUID = s.key
		m.Content += s.otherFeeds()
		e.Meaning = &m
		once = append(once, e)
	}
	return once, keys
}

// storiesOf returns the stories that entries tell, the newest first, as the entries are. Two articles of one feed are
// always two stories. keys are the keys of stories by the GUIDs of the articles that tell them, and before are those that
// the call before returned.
func storiesOf(entries []feed.Entry, before map[string]string) (stories []*story, keys map[string]string) {
	keys = map[string]string{}
	tellings := tellingsOf(entries)
	for i := range slices.Backward(tellings) {
		e := &tellings[i]
		guid := e.Meaning.GUID
		at := slices.IndexFunc(stories, func(s *story) bool {
			return (s.links[e.link] || s.first.sameText(e) || before[guid] == s.key) && !s.has(e.Source.URL)
		})
		if at < 0 {
			key := cmp.Or(before[guid], e.text, e.link, guid)
			if slices.ContainsFunc(stories, func(s *story) bool { return s.key == key }) { // a feed tells it twice
				key = guid
			}
			stories = append(stories, &story{first: e, links: map[string]bool{}, key: key})
			at = len(stories) - 1
		} else {
			stories[at].others = append(stories[at].others, e)
		}
		if e.link != "" {
			stories[at].links[e.link] = true
		}
		keys[guid] = stories[at].key
	}
	slices.Reverse(stories)
	return stories, keys
}

// has reports whether a feed tells the story already.
func (s *story) has(url string) bool {
	return s.first.Source.URL == url || slices.ContainsFunc(s.others, func(e *telling) bool { return e.Source.URL == url })
}

// otherFeeds returns the list of the articles that are not shown, as HTML; "" if there is none.
func (s *story) otherFeeds() string {
	if len(s.others) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("<p>Also in:</p><ul>")
	for _, e := range s.others {
		name := html.EscapeString(feed.PlainTitle(cmp.Or(e.Source.Title, e.Source.URL)) + ": " + feed.PlainTitle(e.Meaning.Title))
		if isWeb(e.Meaning.Link) {
			name = `<a href="` + html.EscapeString(e.Meaning.Link) + `">` + name + "</a>"
		}
		b.WriteString("<li>" + name + "</li>")
	}
	return b.String() + "</ul>"
}

// tellingsOf returns entries as tellings. A text that two articles of one feed share under different titles, such as a
// request to subscribe, identifies neither.
func tellingsOf(entries []feed.Entry) []telling {
	all := make([]telling, len(entries))
	for i := range entries {
		e := &entries[i]
		t := telling{Entry: e, link: feed.StoryLink(e.Meaning.Link), title: feed.PlainTitle(e.Meaning.Title)}
		t.site = siteOf(t.link)
		t.sketch, t.text = sketchOf(e.Meaning)
		all[i] = t
	}
	var shared []*telling
	for i := range all {
		e := &all[i]
		if slices.ContainsFunc(all, func(o telling) bool {
			return o.Source.URL == e.Source.URL && o.title != e.title && likeness(o.sketch, e.sketch) >= sameStory
		}) {
			shared = append(shared, e)
		}
	}
	for _, e := range shared {
		e.sketch, e.text = nil, ""
	}
	return all
}

// siteOf returns the site of a link from [feed.StoryLink], such as example.org for news.example.org.
func siteOf(link string) string {
	host := link
	if i := strings.IndexAny(link, "/?"); i >= 0 {
		host = link[:i]
	}
	if site, err := publicsuffix.EffectiveTLDPlusOne(host); err == nil {
		return site
	}
	return host
}

// sameText reports whether two articles have one text. A site that has two addresses for one text under two titles has
// two stories: the text is a request to subscribe, which all its articles have.
func (t *telling) sameText(o *telling) bool {
	return likeness(t.sketch, o.sketch) >= sameStory && (t.site != o.site || t.site == "" || t.title == o.title)
}

// sketchOf returns a sketch of an article's title and text, and a hash of all words of the text. Both are empty if the
// article is too short.
func sketchOf(m *feed.Meaning) (sketch []uint64, text string) {
	var t words.Tokenizer
	var all []uint64 // hashes of the words
	whole := fnv.New128a()
	count := func(form []byte, _ int, kind words.TokenKind) {
		if kind != words.Word && kind != words.Unigram {
			return
		}
		h := fnv.New64a()
		_, _ = h.Write(form)
		all = append(all, h.Sum64())
		_, _ = whole.Write(append(form, ' '))
	}
	t.Tokenize(string(feed.AppendText(nil, cmp.Or(m.Content, m.Summary))), count)
	if len(all) < minStoryWords {
		return nil, ""
	}
	text = string(whole.Sum(nil))
	t.Tokenize(feed.PlainTitle(m.Title), count)
	sketch = make([]uint64, sketchSize)
	for i := range sketch {
		sketch[i] = 1<<64 - 1
	}
	for i := range len(all) - shingleWords + 1 {
		shingle := uint64(0)
		for _, word := range all[i : i+shingleWords] {
			shingle = env.Mix(shingle ^ word)
		}
		for j := range sketch { // the smallest of each order is equal as often as the sets of shingles are
			sketch[j] = min(sketch[j], env.Mix(shingle+uint64(j)))
		}
	}
	return sketch, text
}

// likeness returns the share of equal hashes of two sketches.
func likeness(a, b []uint64) float64 {
	if a == nil || b == nil {
		return 0
	}
	equal := 0
	for i := range a {
		if a[i] == b[i] {
			equal++
		}
	}
	return float64(equal) / sketchSize
}
