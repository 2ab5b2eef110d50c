package tree

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"time"

	"tidings/internal/wire"
)

// A tally notes what becomes of publications. Its methods may be called from any goroutine.
type tally struct {
	plan   *plan
	verify wire.Verifier

	mu      sync.Mutex
	sent    []time.Time     // when each was given to its system; zero: not yet
	came    [][]time.Time   // by publication and host
	took    []time.Duration // of those wanted, until they came
	over    int             // of all that came to followers for the first time, those that came over a link
	twice   int             // that came to a host again
	strange int             // wrongly signed, or to somebody who does not follow the topic
	last    time.Time       // when one came
	roots   []int           // of topics, who need no link; nil: there are none
}

func newTally(p *plan, verify wire.Verifier) *tally {
	t := &tally{plan: p, verify: verify, sent: make([]time.Time, len(p.publications))}
	for range p.publications {
		t.came = append(t.came, make([]time.Time, p.hosts))
	}
	return t
}

// publish notes that a publication goes out now.
func (t *tally) publish(publication int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sent[publication] = time.Now()
	t.last = t.sent[publication]
}

// deliver opens an envelope that has come to a host, notes it, and says whether it was right.
func (t *tally) deliver(host int, envelope []byte) bool {
	s, err := t.verify.Open(wire.DomainEntry, envelope)
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	n := -1
	if err == nil && len(s.Payload) >= itemNumber {
		n = int(binary.BigEndian.Uint32(s.Payload))
	}
	if n < 0 || n >= len(t.sent) || t.sent[n].IsZero() || !t.plan.follower(t.plan.publications[n].topic, host) {
		t.strange++
		return false
	}
	t.last = now
	p := t.plan.publications[n]
	if !t.came[n][host].IsZero() {
		t.twice++
		return true
	}
	t.came[n][host] = now
	if host != p.publisher {
		t.took = append(t.took, now.Sub(t.sent[n]))
	}
	if t.roots == nil || host != t.roots[p.topic] {
		t.over++
	}
	return true
}

// missing says what has not come yet, and nothing once nothing has come for patience.
func (t *tally) missing() (done float64, lack string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if left := t.plan.wanted - len(t.took); left > 0 && time.Since(t.last) < patience {
		lack = fmt.Sprintf("%d deliveries are missing", left)
	}
	return float64(len(t.took)) / float64(max(1, t.plan.wanted)), lack, nil
}

// sum writes what was found into a result.
func (t *tally) sum(r *Result) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r.Wanted, r.Got, r.Over, r.Twice, r.Strange = t.plan.wanted, len(t.took), t.over, t.twice, t.strange
	slices.Sort(t.took)
	if n := len(t.took); n > 0 {
		r.P50Ms, r.P99Ms, r.MostMs = ms(t.took[n/2]), ms(t.took[n*99/100]), ms(t.took[n-1])
	}
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
