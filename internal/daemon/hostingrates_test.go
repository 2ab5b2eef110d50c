package daemon

import (
	"testing"
	"time"

	"tidings/cobra/provision"
	"tidings/cobra/tiers"
	"tidings/proxy"
)

// TestRates: rates are differences of counters by the time between them, and means have the right counts below them.
func TestRates(t *testing.T) {
	at := time.Unix(1e9, 0)
	from := hostingSample{at: at, cpu: time.Second, in: 100, out: 1000, matched: time.Second, tiers: tiers.Stats{
		Received: 10, Bytes: 1000, Sent: 5, Polls: 7, Documents: 3, DocumentBytes: 300, MatchMicros: 1_000_000,
	}}
	to := hostingSample{at: at.Add(10 * time.Second), cpu: 6 * time.Second, in: 1100, out: 3000, matched: 5 * time.Second, tiers: tiers.Stats{
		Received: 30, Bytes: 5000, Sent: 45, Polls: 27, Documents: 13, DocumentBytes: 20_300, MatchMicros: 3_000_000,
	}}
	want := proxy.HostingRates{
		WindowS: 10, Articles: 2, ArticleBytes: 200, Sent: 4, Polls: 2, Documents: 1, DocumentBytes: 2000, MatchS: 0.1, CPU: 0.5, InBytes: 100, OutBytes: 200,
	}
	got := *ratesBetween(provision.Filter, from, to)
	if got.MemoryMB <= 0 {
		t.Errorf("%g MB", got.MemoryMB)
	}
	if got.MemoryMB = 0; got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := ratesBetween(provision.Reflector, from, to); got.MatchS != 0.2 {
		t.Errorf("a reflector matches in %g s, want 0.2", got.MatchS)
	}
	if got := ratesBetween(provision.Filter, from, from); got != nil {
		t.Errorf("rates of no time: %+v", got)
	}
	var r hostingRates
	for i := range 2 * ratesSamples {
		r.add(hostingSample{in: uint64(i)})
	}
	if s, ok := r.oldest(); !ok || s.in != ratesSamples {
		t.Errorf("the oldest sample is %d", s.in)
	}
}
