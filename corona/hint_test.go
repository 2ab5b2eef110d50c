package corona

import (
	"testing"
	"time"

	"tidings/corona/coronapb"
	"tidings/internal/env"
	"tidings/internal/wire"
)

// A hint from anybody has the sequencer fetch a channel without a hub, at most once in five minutes, unless its polls fail
// or its domain asked for fewer requests. The next poll stays when it was. Hints of other channels are ignored.
func TestAHintCausesAFetch(t *testing.T) {
	const channel = "http://a.example/feed"
	for what, c := range map[string]struct {
		hinted  string
		after   time.Duration
		prepare func(p *labNode, l *leaderState)
		want    bool
	}{
		"after five minutes":                 {channel, HintGap, nil, true},
		"too soon":                           {channel, HintGap - 2*time.Minute, nil, false},
		"another channel":                    {"http://b.example/feed", HintGap, nil, false},
		"polls fail":                         {channel, HintGap, func(_ *labNode, l *leaderState) { l.state.Kind = coronapb.State_FAILING }, false},
		"the domain asks for fewer requests": {channel, HintGap, func(p *labNode, l *leaderState) { p.domains.limit(l.domain, p.l.now.Add(time.Hour)) }, false},
		"the domain has had its request":     {channel, HintGap, func(p *labNode, l *leaderState) { l.domain.lastUngranted = env.MomentOf(p.l.now) }, false},
	} {
		l := newLab(t)
		requests := 0
		doc := serves(rss("A", "", "one"))
		l.origins[channel] = func(r env.Request) env.Answer { requests++; return doc(r) }
		p := l.poller(Config{Politeness: true})
		p.domains.budgeted = true
		p.lead(channel, nil)
		l.run(time.Minute, p)
		led := p.leaders[key(channel)]
		l.run(led.fetchedAt.Time().Add(c.after).Sub(l.now), p)
		if c.prepare != nil {
			c.prepare(p, led)
		}
		k := key(c.hinted)
		m := &coronapb.Message{Body: &coronapb.Message_Hint{Hint: &coronapb.Hint{Key: k[:]}}}
		next, before := led.state.Next, requests
		for range 100 {
			p.Deliver(k, wire.Encode(m))
		}
		l.run(time.Second, p)
		if got := requests - before; (got == 1) != c.want || got > 1 || !led.state.Next.Equal(next) {
			t.Errorf("%s: %d requests, next poll %v, was %v", what, got, led.state.Next, next)
		}
		if garbage := p.Stats().Garbage; garbage != 0 {
			t.Errorf("%s: %d messages refused", what, garbage)
		}
	}
}
