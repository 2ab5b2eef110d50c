package proxy

import (
	"net/http"
	"slices"
	"strings"
)

const (
	// maxSuggestions bounds the feeds, and the searches, that a text field suggests: those with the newest items. A person can
	// type the address of any other, or words of its title. Pages stay below 100 kB with it.
	maxSuggestions = 100
	// maxMatches bounds the feeds among which a person can choose if the typed words fit several.
	maxMatches = 20
)

// A fieldFinder finds, of all subscriptions that it sees, those that a text field suggests, and those that a person can mean who has
// typed something.
type fieldFinder struct {
	newest []sortKey
	typed  []*typedFeed
}

// see finds the feeds with the newest items, and those that were typed.
func (f *fieldFinder) see(c *Channel) {
	f.newest = append(f.newest, newSortKey(byNewest, c))
	for _, t := range f.typed {
		t.see(c)
	}
}

// suggestions returns the feeds that a text field suggests, by name.
func (s *Server) suggestions(r *http.Request, f *fieldFinder) ([]channelView, error) {
	slices.SortFunc(f.newest, sortKey.compare)
	views, err := s.views(r, f.newest[:min(len(f.newest), maxSuggestions)])
	slices.SortStableFunc(views, func(a, b channelView) int {
		return strings.Compare(strings.ToLower(a.Name()), strings.ToLower(b.Name()))
	})
	return views, err
}

// A typedFeed finds the feeds that a person can mean: the one with the address or the title that was typed, or else all in whose
// titles and addresses the words occur.
type typedFeed struct {
	text                 string
	words                []string
	exact, named, worded []sortKey
}

func newTypedFeed(text string) *typedFeed {
	text = oneLine(text)
	return &typedFeed{text: text, words: strings.Fields(strings.ToLower(text))}
}

func (t *typedFeed) see(c *Channel) {
	switch {
	case t.text == "":
	case c.URL == t.text:
		t.exact = append(t.exact, newSortKey(byTitle, c))
	case strings.EqualFold(c.Title, t.text):
		t.named = append(t.named, newSortKey(byTitle, c))
	case containsWords(t.words, c.Title, c.URL, "", "", "", nil):
		t.worded = append(t.worded, newSortKey(byTitle, c))
	}
}

// found returns what the person can mean, in the order of titles.
func (t *typedFeed) found() []sortKey {
	for _, found := range [][]sortKey{t.exact, t.named, t.worded} {
		if len(found) > 0 {
			slices.SortFunc(found, sortKey.compare)
			return found
		}
	}
	return nil
}

// typedFeeds returns the addresses of the feeds that a person typed in several fields, some of which may be empty. Each must
// mean a single feed. One that fits no subscription is taken for an address.
func (s *Server) typedFeeds(r *http.Request, typed []string) (addresses []string, err error) {
	var all []*typedFeed
	for _, text := range typed {
		if oneLine(text) != "" {
			all = append(all, newTypedFeed(text))
		}
	}
	err = s.subs.Each(r.Context(), func(c *Channel) {
		for _, t := range all {
			t.see(c)
		}
	})
	if err != nil {
		return nil, err
	}
	for _, t := range all {
		switch found := t.found(); len(found) {
		case 0:
			addresses = append(addresses, t.text)
		case 1:
			addresses = append(addresses, found[0].url)
		default:
			return nil, refuse(http.StatusBadRequest, "“%s” fits %d feeds: go back, and enter the address of one, such as %s", t.text, len(found), oneLine(found[0].url))
		}
	}
	return addresses, nil
}
