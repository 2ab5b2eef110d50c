package proxy

import (
	"cmp"
	"hash/fnv"
	"html"
	"slices"
	"strings"

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

// A story is what feeds tell about one thing.
type story struct {
	first  *feed.Entry // the one that came first
	others []*feed.Entry
	links  map[string]bool
	sketch []uint64 // of the first one's text; nil if it is too short
	key    string   // what identifies the story also when the first one is gone
}

// maxTold bounds the articles whose stories are remembered, of all keyword feeds together. Each takes about 200 bytes.
const maxTold = 20_000

// onceEntries returns the entries of a keyword feed as oncePerStory does. A story that was shown before is the same
// item also when its first article is no longer kept.
func (s *Server) onceEntries(token string, entries []feed.Entry) []feed.Entry {
	before, _ := s.told.get(token)
	once, told := oncePerStory(entries, before)
	s.told.put(token, told, len(told))
	return once
}

// oncePerStory returns the entries of a keyword feed, the newest first, without those that another feed had before.
// They are listed below the first one. Two articles of one feed are always two stories. told has the keys of stories
// by the articles that tell them, before and now.
func oncePerStory(entries []feed.Entry, before map[string]string) (once []feed.Entry, told map[string]string) {
	var stories []*story
	told = map[string]string{}
	for i := range slices.Backward(entries) {
		e := &entries[i]
		link := feed.StoryLink(e.Meaning.Link)
		sketch, text := sketchOf(e.Meaning)
		at := slices.IndexFunc(stories, func(s *story) bool {
			return (s.links[link] || likeness(s.sketch, sketch) >= sameStory || before[e.Meaning.GUID] == s.key) && !s.has(e.Source.URL)
		})
		if at < 0 {
			key := cmp.Or(before[e.Meaning.GUID], text, link, e.Meaning.GUID)
			if slices.ContainsFunc(stories, func(s *story) bool { return s.key == key }) { // a feed tells it twice
				key = e.Meaning.GUID
			}
			stories = append(stories, &story{first: e, links: map[string]bool{}, sketch: sketch, key: key})
			at = len(stories) - 1
		} else {
			stories[at].others = append(stories[at].others, e)
		}
		if link != "" {
			stories[at].links[link] = true
		}
		told[e.Meaning.GUID] = stories[at].key
	}
	for _, s := range slices.Backward(stories) {
		e := *s.first
		m := *e.Meaning
		m.GUID = s.key
		m.Content += s.otherFeeds()
		e.Meaning = &m
		once = append(once, e)
	}
	return once, told
}

// has reports whether a feed tells the story already.
func (s *story) has(url string) bool {
	return s.first.Source.URL == url || slices.ContainsFunc(s.others, func(e *feed.Entry) bool { return e.Source.URL == url })
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
