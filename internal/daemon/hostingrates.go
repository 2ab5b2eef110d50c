package daemon

import (
	"context"
	counters "runtime/metrics"
	"sync"
	"time"

	"tidings/cobra/provision"
	"tidings/cobra/tiers"
	"tidings/proxy"
)

const (
	// ratesInterval is the time between two samples of the counters from which rates are computed.
	ratesInterval = 10 * time.Second
	// ratesSamples bounds the samples: those of five minutes, so that rates cover several rounds of polls and still follow the
	// time of day.
	ratesSamples = 30
)

// A hostingSample is the state of the counters at one moment.
type hostingSample struct {
	at      time.Time
	tiers   tiers.Stats
	cpu     time.Duration // of the process; 0: the system does not tell
	in, out uint64        // bytes of frames
	matched time.Duration // that a reflector has spent on articles of filters
}

// hostingRates remembers the samples of the last minutes.
type hostingRates struct {
	mu      sync.Mutex
	samples []hostingSample
}

func (r *hostingRates) add(s hostingSample) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.samples) == ratesSamples {
		r.samples = append(r.samples[:0], r.samples[1:]...)
	}
	r.samples = append(r.samples, s)
}

// oldest returns the first sample. ok is false if there is none yet.
func (r *hostingRates) oldest() (s hostingSample, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.samples) == 0 {
		return s, false
	}
	return r.samples[0], true
}

// sampleOf returns the counters of a snapshot.
func (h *hosting) sampleOf(snap Snapshot) hostingSample {
	t := snap.Transport
	return hostingSample{
		at: time.Now(), tiers: snap.Hosting.Stats, cpu: processorTime(), matched: time.Duration(h.keywords.tier.matched.Load()),
		in: t.Control.BytesIn + t.Bulk.BytesIn, out: t.Control.BytesOut + t.Bulk.BytesOut,
	}
}

// runRates takes samples until ctx ends.
func (st *status) runRates(ctx context.Context) {
	if st.config.Hosting.Topology == "" {
		return
	}
	tick := time.NewTicker(ratesInterval)
	defer tick.Stop()
	for {
		if snap, err := st.Snapshot(ctx); err == nil {
			st.hosting.rates.add(st.hosting.sampleOf(snap))
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// ratesOf returns what the node has measured since the oldest sample; nil if there is none.
func (h *hosting) ratesOf(snap Snapshot) *proxy.HostingRates {
	from, ok := h.rates.oldest()
	if !ok {
		return nil
	}
	return ratesBetween(snap.Hosting.Role, from, h.sampleOf(snap))
}

// ratesBetween returns the rates between two samples; nil if they are of the same time.
func ratesBetween(role string, from, to hostingSample) *proxy.HostingRates {
	window := to.at.Sub(from.at).Seconds()
	if window <= 0 {
		return nil
	}
	a, b := from.tiers, to.tiers
	articles := b.Found + b.Received - a.Found - a.Received
	matching := float64(b.MatchMicros-a.MatchMicros) / 1e6
	if role == provision.Reflector {
		matching = (to.matched - from.matched).Seconds()
	}
	mean := func(sum float64, count uint64) float64 { return sum / float64(max(count, 1)) }
	return &proxy.HostingRates{
		WindowS: window, Articles: float64(articles) / window, ArticleBytes: mean(float64(b.Bytes-a.Bytes), articles),
		Sent: float64(b.Sent-a.Sent) / window, Polls: float64(b.Polls-a.Polls) / window,
		Documents: float64(b.Documents-a.Documents) / window, DocumentBytes: mean(float64(b.DocumentBytes-a.DocumentBytes), b.Documents-a.Documents),
		MatchS: mean(matching, articles), CPU: (to.cpu - from.cpu).Seconds() / window, MemoryMB: memoryOfProcess() / 1e6,
		InBytes: float64(to.in-from.in) / window, OutBytes: float64(to.out-from.out) / window,
	}
}

// memoryOfProcess returns the memory that the program has from the system, in bytes.
func memoryOfProcess() float64 {
	samples := []counters.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	counters.Read(samples)
	return float64(samples[0].Value.Uint64()) - float64(samples[1].Value.Uint64())
}
