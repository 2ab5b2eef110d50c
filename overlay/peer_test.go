package overlay

import (
	"testing"
	"time"

	"tidings/internal/env"
)

// RFC 6298, section 2: after the first measurement R, SRTT is R and RTTVAR R/2. After each
// further measurement R', RTTVAR is 3/4 RTTVAR + 1/4 |SRTT - R'| and SRTT is 7/8 SRTT + 1/8
// R'. RTO is SRTT + 4 RTTVAR.
func TestRetransmissionTimeout(t *testing.T) {
	const us = time.Microsecond
	for _, c := range []struct {
		what    string
		samples []time.Duration
		rtt     time.Duration
		rto     time.Duration
	}{
		{"unknown", nil, 0, time.Second},
		{"one", []time.Duration{200_000 * us}, 200_000 * us, 600_000 * us},
		{"two", []time.Duration{200_000 * us, 300_000 * us}, 212_500 * us, 612_500 * us},
		{"three", []time.Duration{200_000 * us, 300_000 * us, 132_500 * us}, 202_500 * us, 582_500 * us},
		{"fast", []time.Duration{1000 * us}, 1000 * us, minRTO},
		{"slow", []time.Duration{2_000_000 * us}, 2_000_000 * us, maxRTO},
		{"late", []time.Duration{time.Hour}, maxRTO, maxRTO},
		{"none at all", []time.Duration{0}, 1 * us, minRTO},
	} {
		p := &peer{}
		for _, s := range c.samples {
			p.sample(s)
		}
		if p.rtt.duration() != c.rtt || p.rto() != c.rto {
			t.Errorf("%s: round trip %v, timeout %v, want %v and %v", c.what, p.rtt.duration(), p.rto(), c.rtt, c.rto)
		}
	}
}

// A link that may have been closed first needs a handshake of two round trips.
func TestSilentPeerGetsTimeForAHandshake(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	p := &peer{lastHeard: env.MomentOf(now.Add(-time.Minute))}
	p.sample(200 * time.Millisecond)
	if got := p.answerTimeout(now); got != p.rto() {
		t.Errorf("a peer that spoke a minute ago: %v", got)
	}
	p.lastHeard = env.MomentOf(now.Add(-time.Hour))
	if got, want := p.answerTimeout(now), p.rto()+600*time.Millisecond; got != want {
		t.Errorf("a peer that spoke an hour ago: %v, want %v", got, want)
	}
}
