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

// suggestions returns the feeds that a text field suggests, by name.
func suggestions(channels []Channel) (views []channelView) {
	keys := make([]sortKey, len(channels))
	for i := range channels {
		keys[i] = newSortKey(byNewest, &channels[i], i)
	}
	slices.SortFunc(keys, sortKey.compare)
	for _, key := range keys[:min(len(keys), maxSuggestions)] {
		views = append(views, channelView{channels[key.index]})
	}
	slices.SortStableFunc(views, func(a, b channelView) int {
		return strings.Compare(strings.ToLower(a.Name()), strings.ToLower(b.Name()))
	})
	return views
}

// matchFeeds returns the indices of the feeds that a person can mean: the one with the address or the title that was typed, or
// else all in whose titles and addresses the words occur.
func matchFeeds(channels []Channel, typed string) (found []int) {
	if typed = oneLine(typed); typed == "" {
		return nil
	}
	var named, worded []int
	words := strings.Fields(strings.ToLower(typed))
	for i := range channels {
		switch c := &channels[i]; {
		case c.URL == typed:
			return []int{i}
		case strings.EqualFold(c.Title, typed):
			named = append(named, i)
		case containsWords(words, c.Title, c.URL, "", "", "", nil):
			worded = append(worded, i)
		}
	}
	if named != nil {
		return named
	}
	return worded
}

// typedFeeds returns the addresses of the feeds that a person typed in several fields, some of which may be empty. Each must
// mean a single feed. One that fits no subscription is taken for an address.
func (s *Server) typedFeeds(r *http.Request, typed []string) (addresses []string, err error) {
	channels, err := s.subs.List(r.Context())
	if err != nil {
		return nil, err
	}
	for _, text := range typed {
		if oneLine(text) == "" {
			continue
		}
		switch found := matchFeeds(channels, text); len(found) {
		case 0:
			addresses = append(addresses, text)
		case 1:
			addresses = append(addresses, channels[found[0]].URL)
		default:
			return nil, refuse(http.StatusBadRequest, "“%s” fits %d feeds: go back, and enter the address of one, such as %s", oneLine(text), len(found), oneLine(channels[found[0]].URL))
		}
	}
	return addresses, nil
}
