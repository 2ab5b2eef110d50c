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
	Sort     string // name of a column, with a "-" in front for descending order
}

// A column is a column of the table, by which the table can be sorted.
type column struct {
	Name, Title string
	Sorted      string // value of aria-sort; "" if the table is sorted by another column
	Link        string // sorts by this column, or reverses the order
	less        func(a, b *channelView) int
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
		if view := newChannelView(c); view.matches(p.Filter) {
			p.Channels = append(p.Channels, view)
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

// matches reports whether all words of a search occur in the channel's texts.
func (c *channelView) matches(words string) bool {
	text := strings.ToLower(strings.Join([]string{c.Name, c.URL, c.State, c.Why, c.Error}, "\n"))
	for word := range strings.FieldsSeq(strings.ToLower(words)) {
		if !strings.Contains(text, word) {
			return false
		}
	}
	return true
}
