package proxy

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// channelsPage is the table of all channels, a page at a time.
type channelsPage struct {
	Columns        []column
	Channels       []channelView
	All, Found     int
	Page, Pages    int
	Filter         string
	Sort           string // name of a column, with a "-" in front for descending order
	Previous, Next string // addresses of the pages before and after; "" if there is none
}

// channelRows is the number of channels on a page of the table. Such a page has at most 100 kB unless addresses are
// unusually long.
const channelRows = 100

// A column is a column of the table, by which the table can be sorted.
type column struct {
	Name, Title string
	Sorted      string // value of aria-sort; "" if the table is sorted by another column
	Link        string // sorts by this column, or reverses the order
	less        func(a, b *Channel, x, y *sortKey) int
}

// compareOptional compares two numbers. Unknown numbers come last.
func compareOptional(a, b *float64) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return 1
	case b == nil:
		return -1
	}
	return cmp.Compare(*a, *b)
}

// columns returns the columns of the table in their order.
func columns() []column {
	return []column{
		{Name: "name", Title: "Feed", less: func(_, _ *Channel, a, b *sortKey) int { return a.compare(*b) }},
		{Name: "state", Title: "State", less: func(a, b *Channel, _, _ *sortKey) int { return cmp.Compare(a.State, b.State) }},
		{Name: "readers", Title: "Readers", less: func(a, b *Channel, _, _ *sortKey) int { return cmp.Compare(a.Subscribers, b.Subscribers) }},
		{Name: "pollers", Title: "Pollers", less: func(a, b *Channel, _, _ *sortKey) int { return cmp.Compare(a.Pollers, b.Pollers) }},
		{Name: "level", Title: "Level", less: func(a, b *Channel, _, _ *sortKey) int { return compareOptional(a.Level, b.Level) }},
		{Name: "expected", Title: "Expected delay", less: func(a, b *Channel, _, _ *sortKey) int {
			return compareOptional(a.DetectionExpectedS, b.DetectionExpectedS)
		}},
		{Name: "found", Title: "Last delay", less: func(a, b *Channel, _, _ *sortKey) int {
			return compareOptional(a.DetectionObservedS, b.DetectionObservedS)
		}},
		{Name: "next", Title: "Next poll", less: func(a, b *Channel, _, _ *sortKey) int {
			switch {
			case a.NextPoll == nil || b.NextPoll == nil:
				return cmp.Compare(len(iso(b.NextPoll)), len(iso(a.NextPoll)))
			}
			return a.NextPoll.Compare(*b.NextPoll)
		}},
	}
}

func (s *Server) channels(w http.ResponseWriter, r *http.Request) error {
	all, err := s.subs.List(r.Context())
	if err != nil {
		return err
	}
	q := r.URL.Query()
	p := channelsPage{All: len(all), Filter: strings.TrimSpace(q.Get("filter")), Sort: cmp.Or(q.Get("sort"), "name"), Columns: columns()}
	words := strings.Fields(strings.ToLower(p.Filter))
	var keys []sortKey // by name
	for i := range all {
		if (listQuery{}).matches(&all[i], words) {
			keys = append(keys, newSortKey(byTitle, &all[i], i))
		}
	}
	name, falling := strings.CutPrefix(p.Sort, "-")
	order := sortKey.compare
	address := func(sort string, page int) string {
		q := url.Values{"sort": {sort}, "filter": {p.Filter}}
		if page > 1 {
			q.Set("page", strconv.Itoa(page))
		}
		return withQuery("/channels", q)
	}
	for i := range p.Columns {
		c := &p.Columns[i]
		to := c.Name
		if c.Name == name {
			if c.Sorted = "ascending"; falling {
				c.Sorted = "descending"
			} else {
				to = "-" + to
			}
			order = func(a, b sortKey) int {
				x, y := a, b
				if falling {
					x, y = b, a
				}
				return cmp.Or(c.less(&all[x.index], &all[y.index], &x, &y), a.compare(b))
			}
		}
		c.Link = address(to, 1)
	}
	slices.SortFunc(keys, order)
	p.Found, p.Pages = len(keys), max(1, (len(keys)+channelRows-1)/channelRows)
	page, _ := strconv.Atoi(q.Get("page"))
	p.Page = min(max(1, page), p.Pages)
	for _, key := range keys[min(len(keys), (p.Page-1)*channelRows):min(len(keys), p.Page*channelRows)] {
		p.Channels = append(p.Channels, newChannelView(all[key.index]))
	}
	if p.Page > 1 {
		p.Previous = address(p.Sort, p.Page-1)
	}
	if p.Page < p.Pages {
		p.Next = address(p.Sort, p.Page+1)
	}
	return s.writePage(w, r, http.StatusOK, "channels.html", "Polling", p)
}
