package provision

import (
	"math"
	"testing"
)

// TestFittedPredictsWhatWasMeasured: nodes that measure what a model says about them give that model back, whatever the
// constants were before; nodes that have measured nothing change nothing.
func TestFittedPredictsWhatWasMeasured(t *testing.T) {
	truth := Measured()
	truth.ArticleRate, truth.ArticleBytes, truth.DocumentBytes, truth.DownloadShare, truth.CrawlInterval, truth.PassShare = 3e-4, 700, 50_000, 0.1, 300, 0.25
	truth.MatchFixed, truth.MatchPerMillion = 3*truth.MatchFixed, 3*truth.MatchPerMillion
	truth.FilterFixed, truth.FilterPerMillion = 2*truth.FilterFixed, 2*truth.FilterPerMillion
	truth.ReflectorFixed, truth.ReflectorPerMillion = truth.ReflectorFixed/2, truth.ReflectorPerMillion/2
	var nodes []Measurement
	for _, feeds := range []int{1000, 3000} {
		polls := float64(feeds) / truth.CrawlInterval
		nodes = append(nodes, Measurement{
			Role: Crawler, Feeds: feeds, Links: 2, Articles: float64(feeds) * truth.ArticleRate, ArticleBytes: truth.ArticleBytes,
			Polls: polls, Documents: polls * truth.DownloadShare, DocumentBytes: truth.DocumentBytes,
		})
	}
	articles := 4000 * truth.ArticleRate
	for _, queries := range []int{100_000, 300_000} {
		of := Measurement{Queries: queries, Links: 2, Articles: articles, Sent: 2 * articles * truth.PassShare, MatchSeconds: truth.matchSeconds(float64(queries))}
		filter, reflector := of, of
		filter.Role, filter.Memory = Filter, truth.FilterFixed+truth.FilterPerMillion*float64(queries)/1e6
		reflector.Role, reflector.Memory = Reflector, truth.ReflectorFixed+truth.ReflectorPerMillion*float64(queries)/1e6
		nodes = append(nodes, filter, reflector)
	}
	got, load := Measured().Fitted(nodes)
	if load != (Load{Feeds: 4000, Subscriptions: 400_000}) {
		t.Errorf("load %+v", load)
	}
	values := func(m Model) []float64 {
		return []float64{m.ArticleRate, m.ArticleBytes, m.DocumentBytes, m.DownloadShare, m.CrawlInterval, m.MatchFixed, m.MatchPerMillion,
			m.FilterFixed, m.FilterPerMillion, m.ReflectorFixed, m.ReflectorPerMillion, m.PassShare, m.PollInterval, m.PollBytes}
	}
	for i, want := range values(truth) {
		if has := values(got)[i]; math.Abs(has/want-1) > 1e-9 {
			t.Errorf("constant %d: %g, want %g", i, has, want)
		}
	}
	idle, _ := Measured().Fitted([]Measurement{{Role: Crawler, Feeds: 10}, {Role: Filter, Queries: 5, Links: 1}, {Role: Reflector, Queries: 5}})
	if idle != Measured() {
		t.Errorf("idle nodes make it %+v", idle)
	}
	few, err := Plan(load, Constraints{Bandwidth: 1e8, Memory: 1024, CPU: 1}, got)
	if err != nil || len(few.Violations) > 0 {
		t.Errorf("%v, %v", few.Violations, err)
	}
}
