package tree

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"time"

	"tidings/internal/wire"
)

// A tracker records deliveries. Its methods may be called from any goroutine.
type tracker struct {
	plan   *plan
	verify wire.Verifier

	mu          sync.Mutex
	sent        []time.Time     // when each publication was given to its system; zero: not yet
	arrivals    [][]time.Time   // by publication and host
	delays      []time.Duration // of expected deliveries
	overLinks   int             // first deliveries to followers that came over a link
	twice       int             // repeated deliveries
	invalid     int             // with a wrong signature, or to a host that does not follow the topic
	lastArrival time.Time       // time of the last delivery
	roots       []int           // roots of topics, which need no link; nil: there are none
}

func newTracker(p *plan, verify wire.Verifier) *tracker {
	t := &tracker{plan: p, verify: verify, sent: make([]time.Time, len(p.publications))}
	for range p.publications {
		t.arrivals = append(t.arrivals, make([]time.Time, p.hosts))
	}
	return t
}

// publish notes that a publication is made now.
func (t *tracker) publish(publication int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sent[publication] = time.Now()
	t.lastArrival = t.sent[publication]
}

// deliver checks and records an envelope at a host, and reports whether it is valid.
func (t *tracker) deliver(host int, envelope []byte) bool {
	s, err := t.verify.Open(wire.DomainEntry, envelope)
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	n := -1
	if err == nil && len(s.Payload) >= itemNumber {
		n = int(binary.BigEndian.Uint32(s.Payload))
	}
	if n < 0 || n >= len(t.sent) || t.sent[n].IsZero() || !t.plan.follows(t.plan.publications[n].topic, host) {
		t.invalid++
		return false
	}
	t.lastArrival = now
	p := t.plan.publications[n]
	if !t.arrivals[n][host].IsZero() {
		t.twice++
		return true
	}
	t.arrivals[n][host] = now
	if host != p.publisher {
		t.delays = append(t.delays, now.Sub(t.sent[n]))
	}
	if t.roots == nil || host != t.roots[p.topic] {
		t.overLinks++
	}
	return true
}

// missing describes what has not arrived yet. After lossTimeout without deliveries nothing counts
// as missing.
func (t *tracker) missing() (done float64, lack string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if left := t.plan.expected - len(t.delays); left > 0 && time.Since(t.lastArrival) < lossTimeout {
		lack = fmt.Sprintf("%d deliveries are missing", left)
	}
	return float64(len(t.delays)) / float64(max(1, t.plan.expected)), lack, nil
}

// finish writes the figures into a result.
func (t *tracker) finish(r *Result) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r.Expected, r.Delivered, r.OverLinks, r.Twice, r.Invalid = t.plan.expected, len(t.delays), t.overLinks, t.twice, t.invalid
	slices.Sort(t.delays)
	if n := len(t.delays); n > 0 {
		r.P50Ms, r.P99Ms, r.MaxMs = ms(t.delays[n/2]), ms(t.delays[n*99/100]), ms(t.delays[n-1])
	}
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
