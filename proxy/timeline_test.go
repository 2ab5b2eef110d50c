package proxy

import (
	"strings"
	"testing"
	"time"
)

// The start page shows how many items came in each hour of the last day, who found them and how late, as a drawing, in words
// and as a table.
func TestTheTimelineOfTheLastDay(t *testing.T) {
	news := memoryNews{}
	b := newTestServer(t, func(c *Config) { c.News = &news })
	b.clock = time.Date(2026, 11, 20, 12, 30, 10, 0, time.FixedZone("", 5*3600+1800))
	b.node.Subscribe(t.Context(), rssURL, false) // a node without subscriptions shows the first steps in its place
	home := func() string { return body(t, b.ask("GET", "/")) }
	wants(t, home(), []string{"No new item has come in the last 24 hours."}, []string{"<figure", "The same as a table"})
	short, long := 40*time.Second, 3*time.Minute
	news.found = []NewItem{
		{b.clock, &short, true}, {b.clock.Add(-30 * time.Minute), &long, false}, {b.clock.Add(-31 * time.Minute), &short, false}, {b.clock.Add(-31 * time.Minute), nil, false},
		{b.clock.Add(-23*time.Hour - 30*time.Minute), nil, true}, {b.clock.Add(-23*time.Hour - 31*time.Minute), nil, true},
	}
	page := home()
	wants(t, page, []string{
		"5 new items in the last 24 hours: this node found 2, and other nodes found 3. Half of those with a date arrived within 40 s of that date.",
		"11:00: 0 found by this node, 2 by other nodes, half of them within 40 s", "12:00: 1 found by this node, 1 by other nodes, half of them within 3 min", "13:00: 1 found by this node, 0 by other nodes<",
		`<th scope="row">13:00</th><td>1</td><td>0</td><td>–</td>`, ">found by other nodes</text>",
	}, []string{"14:00: 1"})
	if n := strings.Count(page, "<rect"); n != 4+2 { // with two samples in the legend
		t.Errorf("%d bars", n)
	}
	if first, last := strings.Index(page, `<th scope="row">12:00`), strings.Index(page, `<th scope="row">13:00`); first < 0 || last < first {
		t.Error("the latest hour is not the first one")
	}
	news.found = nil
	for i := range 10_000 { // what the journal keeps at most
		news.found = append(news.found, NewItem{b.clock.Add(-time.Duration(i) * 8 * time.Second), &short, i%2 == 0})
	}
	begun := time.Now()
	if page := home(); len(page) > 100_000 || !strings.Contains(page, "this node found 5,000") {
		t.Errorf("%d bytes after %v", len(page), time.Since(begun))
	}
}
