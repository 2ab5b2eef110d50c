package hosting

import (
	"testing"
	"time"
)

// TestCrawl: crawlers of a small world move their feeds nearer, within their bound, and none is without a crawler.
func TestCrawl(t *testing.T) {
	c := CrawlConfig{Seed: 2, Crawlers: 4, Hosts: 40, Feeds: 400, Interval: 5 * time.Minute, Length: 45 * time.Minute}
	r, err := c.Run(t.Context(), func(float64) {})
	if err != nil {
		t.Fatal(err)
	}
	for name, a := range map[string]Assignment{"random": r.Random, "balanced": r.Balanced, "first fit": r.FirstFit, "aware": r.Aware, "nearest": r.Nearest} {
		t.Logf("%s: median %.0f ms, p90 %.0f ms, most %.2f", name, a.Median, a.P90, a.Most)
		if len(a.Millis) != c.Feeds {
			t.Errorf("%s: %d feeds, want %d", name, len(a.Millis), c.Feeds)
		}
	}
	if r.Feeds != c.Feeds || r.Handed == 0 {
		t.Errorf("%d of %d feeds have a crawler, %d were handed over", r.Feeds, c.Feeds, r.Handed)
	}
	if r.Aware.Median > r.Balanced.Median || r.Aware.Median < r.Nearest.Median || r.Aware.Most > 1.2+0.05 {
		t.Errorf("aware: %+v", r.Aware)
	}
}

// TestLoad: with waiting no article is missing, whatever stalls; with dropping, what a stalled reflector misses was counted.
func TestLoad(t *testing.T) {
	c := LoadConfig{Seed: 1, Filters: 2, Feeds: 40, Every: 2 * time.Second, Interval: 10 * time.Second, Length: 4 * time.Minute, Stall: time.Minute, Buffer: 128 << 10}
	waiting, err := c.Run(t.Context(), func(float64) {})
	if err != nil {
		t.Fatal(err)
	}
	c.Drop = true
	dropping, err := c.Run(t.Context(), func(float64) {})
	if err != nil {
		t.Fatal(err)
	}
	if waiting.Missing > 0 || waiting.Dropped > 0 {
		t.Errorf("with waiting %d articles are missing, and %d were dropped", waiting.Missing, waiting.Dropped)
	}
	if dropping.Missing == 0 || uint64(dropping.Missing) != dropping.Dropped {
		t.Errorf("with dropping %d articles are missing, and %d were dropped", dropping.Missing, dropping.Dropped)
	}
	if waiting.Update.P99 < 2*dropping.Update.P99 {
		t.Errorf("from the web server to the other reflector, p99: %.1f s with waiting, %.1f s with dropping", waiting.Update.P99, dropping.Update.P99)
	}
}
