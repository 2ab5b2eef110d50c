package hosting

import (
	"testing"
	"time"
)

// TestCrawl: crawlers of a small world move their feeds nearer, within their bound.
func TestCrawl(t *testing.T) {
	r, err := CrawlConfig{Seed: 1, Crawlers: 4, Hosts: 40, Feeds: 400, Interval: 5 * time.Minute, Length: 40 * time.Minute}.Run(t.Context(), func(float64) {})
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range []Assignment{r.Random, r.Balanced, r.FirstFit, r.Aware, r.Nearest} {
		t.Logf("median %.0f p90 %.0f most %.2f", a.Median, a.P90, a.Most)
	}
	t.Logf("%d handed, %d probes, %d polls, %d feeds, %d", r.Handed, r.Probes, r.Polls, r.Feeds, len(r.Aware.Millis))
}
