package proxy

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// channelsPage is the table of all channels.
type channelsPage struct {
	Columns  []column
	Channels []channelView
	All      int
	Filter   string
	Sort     string // the name of a column, with "-" before it if the greatest comes first
}

// A column can be sorted by.
type column struct {
	Name, Title string
	Sorted      string // as aria-sort has it; empty: by another
	Link        string // to have it sorted, or the other way round
	less        func(a, b *channelView) int
}

// absent has what is not known come last.
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

// columns are those of the table, in their order.
func columns() []column {
	return []column{
		{Name: "name", Title: "Feed", less: func(a, b *channelView) int {
			return cmp.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name))
		}},
		{Name: "state", Title: "State", less: func(a, b *channelView) int { return cmp.Compare(a.State, b.State) }},
		{Name: "readers", Title: "Readers", less: func(a, b *channelView) int { return cmp.Compare(a.Subscribers, b.Subscribers) }},
		{Name: "pollers", Title: "Pollers", less: func(a, b *channelView) int { return cmp.Compare(a.Pollers, b.Pollers) }},
		{Name: "level", Title: "Level", less: func(a, b *channelView) int { return compareOptional(a.Level, b.Level) }},
		{Name: "expected", Title: "Expected delay", less: func(a, b *channelView) int { return compareOptional(a.DetectionExpectedS, b.DetectionExpectedS) }},
		{Name: "found", Title: "Last delay", less: func(a, b *channelView) int { return compareOptional(a.DetectionObservedS, b.DetectionObservedS) }},
		{Name: "next", Title: "Next poll", less: func(a, b *channelView) int {
			switch {
			case a.NextPoll == nil || b.NextPoll == nil:
				return cmp.Compare(len(iso(b.NextPoll)), len(iso(a.NextPoll)))
			}
			return a.NextPoll.Compare(*b.NextPoll)
		}},
	}
}

func (s *Server) channels(w http.ResponseWriter, r *http.Request) error {
	all, err := s.list(r)
	if err != nil {
		return err
	}
	q := r.URL.Query()
	p := channelsPage{All: len(all), Filter: strings.TrimSpace(q.Get("filter")), Sort: cmp.Or(q.Get("sort"), "name"), Columns: columns()}
	for _, c := range all {
		if shown := newChannelView(c); shown.matches(p.Filter) {
			p.Channels = append(p.Channels, shown)
		}
	}
	name, falling := strings.CutPrefix(p.Sort, "-")
	for i := range p.Columns {
		c := &p.Columns[i]
		to := c.Name
		if c.Name == name {
			if c.Sorted = "ascending"; falling {
				c.Sorted = "descending"
			} else {
				to = "-" + to
			}
			slices.SortStableFunc(p.Channels, func(a, b channelView) int {
				if falling {
					return c.less(&b, &a)
				}
				return c.less(&a, &b)
			})
		}
		c.Link = "/channels?" + url.Values{"sort": {to}, "filter": {p.Filter}}.Encode()
	}
	return s.writePage(w, r, http.StatusOK, "channels.html", "Feeds", p)
}

// has says whether a channel has some words in what is shown of it.
func (c *channelView) matches(words string) bool {
	text := strings.ToLower(strings.Join([]string{c.Name, c.URL, c.State, c.Why, c.Error}, "\n"))
	for word := range strings.FieldsSeq(strings.ToLower(words)) {
		if !strings.Contains(text, word) {
			return false
		}
	}
	return true
}
