package proxy

import (
	"net/http"
	"net/url"
	"strconv"

	"tidings/internal/locale"
)

// A WatchList says which part of the list of keyword subscriptions is wanted.
type WatchList struct {
	From   uint32 // number from which on
	Filter string // part of their queries, in capital or small letters; empty: all
	Limit  int    // how many at most
}

// A WatchPage is a part of the list of keyword subscriptions, the oldest first. It may have fewer than were wanted, or none,
// although the list goes on, because one request looks at a bounded number of subscriptions.
type WatchPage struct {
	Watches []Watch
	Next    uint32 // number at which the list goes on; 0 at its end
}

const (
	// maxWatchPage bounds the searches in one answer of the API, which then takes a megabyte or two. The rest is in further
	// answers.
	maxWatchPage = 10_000
	// shownWatches is how many searches a page shows.
	shownWatches = 100
)

// watches returns a part of the list of keyword subscriptions, with the addresses at which to read them.
func (s *Server) watches(r *http.Request, list WatchList) (WatchPage, error) {
	page, err := s.config.Keywords.Watches(r.Context(), list)
	for i := range page.Watches {
		page.Watches[i].ReadURL = s.WatchURL(s.base(r), page.Watches[i].Number)
	}
	return page, err
}

// watchListOf reads which part of the list a request wants.
func watchListOf(q url.Values, most int) (WatchList, error) {
	list := WatchList{Filter: q.Get("filter")}
	if text := q.Get("from"); text != "" {
		n, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			return list, refuse(http.StatusBadRequest, "from %s is not a number: give that of \"next\" in the answer before", oneLine(text))
		}
		list.From = uint32(n)
	}
	var err error
	list.Limit, err = limitOf(q, most)
	return list, err
}

// limitOf reads how many entries of a list a request wants; most, if it does not say.
func limitOf(q url.Values, most int) (int, error) {
	text := q.Get("limit")
	if text == "" {
		return most, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > most {
		return 0, refuse(http.StatusBadRequest, "limit %s: give 1 to %d", oneLine(text), most)
	}
	return n, nil
}

func (s *Server) apiWatches(_ http.ResponseWriter, r *http.Request) (any, error) {
	list, err := watchListOf(r.URL.Query(), maxWatchPage)
	if err != nil {
		return nil, err
	}
	page, err := s.watches(r, list)
	if err != nil {
		return nil, err
	}
	answer, err := s.watchScope(r.Context(), append([]Watch{}, page.Watches...))
	answer.Next = int(page.Next)
	return answer, err
}

// A watchListView is the list of searches as a page shows it.
type watchListView struct {
	Filter string
	Parts  bool        // the page does not show all searches
	Count  locale.Text // how many searches there are
	Next   string      // address of the next part; empty at the end
}

// newWatchListView returns the list of searches as a page shows it.
func newWatchListView(list WatchList, next uint32, total int) watchListView {
	v := watchListView{Filter: list.Filter, Parts: total > list.Limit || list.Filter != "" || list.From > 0, Count: locale.Say("%d searches", total)}
	if next > 0 {
		v.Next = watchPath + "?" + url.Values{"filter": {list.Filter}, "from": {strconv.FormatUint(uint64(next), 10)}}.Encode() + "#watched"
	}
	return v
}
