package proxy

import (
	"cmp"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"tidings/internal/locale"
)

// channelsPage is the table of all channels, a page at a time.
type channelsPage struct {
	pager
	Columns    []column
	Channels   []channelView
	All, Found int
	Filter     string
	Sort       string // name of a column, with a "-" in front for descending order
}

// channelRows is the number of channels on a page of the table. Such a page has at most 100 kB unless addresses are
// unusually long.
const channelRows = 100

// A column is a column of the table, by which the table can be sorted.
type column struct {
	Name   string
	Title  locale.Text
	Sorted string // value of aria-sort; "" if the table is sorted by another column
	Link   string // sorts by this column, or reverses the order
	// rank gives a channel its place in ascending order. Channels with the same rank are in the order of their texts.
	rank func(*Channel) uint64
	text func(*Channel) string // comes before the name of the channel; nil: nothing
}

// rankOf returns the rank of a number that is not negative. Unknown numbers come last.
func rankOf(number *float64) uint64 {
	if number == nil {
		return math.MaxUint64
	}
	return math.Float64bits(max(0, *number)) // of such numbers, the greater one has the greater bits
}

// columns returns the columns of the table in their order.
func columns() []column {
	return []column{
		{Name: "name", Title: locale.Say("Feed")},
		{Name: "state", Title: locale.Say("State"), text: func(c *Channel) string { return c.State }},
		{Name: "readers", Title: locale.Say("Readers"), rank: func(c *Channel) uint64 { return uint64(max(0, c.Subscribers)) }},
		{Name: "pollers", Title: locale.Say("Pollers"), rank: func(c *Channel) uint64 { return uint64(max(0, c.Pollers)) }},
		{Name: "level", Title: locale.Say("Level"), rank: func(c *Channel) uint64 { return rankOf(c.Level) }},
		{Name: "expected", Title: locale.Say("Expected delay"), rank: func(c *Channel) uint64 { return rankOf(c.DetectionExpectedS) }},
		{Name: "found", Title: locale.Say("Last delay"), rank: func(c *Channel) uint64 { return rankOf(c.DetectionObservedS) }},
		{Name: "next", Title: locale.Say("Next poll"), rank: func(c *Channel) uint64 { return soonestFirst(c.NextPoll) }},
	}
}

// key returns the sort key of a channel.
func (c *column) key(of *Channel) sortKey {
	key := newSortKey(byTitle, of)
	if c.rank != nil {
		key.rank = c.rank(of)
	}
	if c.text != nil {
		key.rank, key.text = 0, c.text(of)+"\x00"+key.text
	}
	return key
}

// AtMost returns the limit of the number of pollers. It is empty if there is none or it is not known.
func (c channelView) AtMost() locale.Text {
	if c.Budget == nil {
		return nil
	}
	return locale.Say("(at most %d)", *c.Budget)
}

// LevelText returns the polling level. It is empty if the level is not known.
func (c channelView) LevelText() locale.Text {
	if c.Level == nil {
		return nil
	}
	return locale.Say("%v", *c.Level)
}

func (s *Server) channels(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	p := channelsPage{Filter: strings.TrimSpace(q.Get("filter")), Sort: cmp.Or(q.Get("sort"), "name"), Columns: columns()}
	name, falling := strings.CutPrefix(p.Sort, "-")
	sorted := &p.Columns[0]
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
			if sorted, c.Sorted = c, "ascending"; falling {
				c.Sorted = "descending"
			} else {
				to = "-" + to
			}
		}
		c.Link = address(to, 1)
	}
	words := strings.Fields(strings.ToLower(p.Filter))
	var keys []sortKey
	err := s.subs.Each(r.Context(), func(c *Channel) {
		if p.All++; (listQuery{}).matches(c, words) {
			keys = append(keys, sorted.key(c))
		}
	})
	if err != nil {
		return err
	}
	slices.SortFunc(keys, sortKey.compare)
	if falling {
		slices.Reverse(keys)
	}
	p.Found = len(keys)
	page, _ := strconv.Atoi(q.Get("page"))
	keys, p.pager = pageOf(keys, page, channelRows, func(page int) string { return address(p.Sort, page) })
	if p.Channels, err = s.views(r, keys); err != nil {
		return err
	}
	return s.writePage(w, r, http.StatusOK, "channels.html", locale.Say("Polling"), p)
}
