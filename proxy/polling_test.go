package proxy

import (
	"math"
	"strings"
	"testing"
)

func TestPollingFactsLeaveOutWhatIsUnknown(t *testing.T) {
	for _, c := range []struct {
		of   Channel
		want string
	}{
		{Channel{}, ""},
		{Channel{Pollers: 1, Owners: 1}, "1 node polls it · 1 node keeps its log"},
		{
			Channel{
				Pollers: 8, Budget: new(12), Polls: true, Rank: new(2), PhaseS: new(450.), Level: new(0.94), Owners: 5,
				DetectionExpectedS: new(112.5), DetectionObservedS: new(131.2),
			},
			"8 nodes poll it (at most 12) · this node is number 3 of them, 7 min 30 s after the first · 5 nodes keep its log · " +
				"average delay of new items: 113 s expected, 2 min 11 s observed",
		},
		{Channel{Pollers: 1, Polls: true, PushedBy: "hub.example"}, "pushed by hub.example · only this node polls it"},
		{Channel{Pollers: 1, Budget: new(4), Polls: true, Rank: new(0), PhaseS: new(0.)}, "only this node polls it"},
		{Channel{Polls: true, Rank: new(0), PhaseS: new(0.)}, "this node is number 1 of them"},
		{Channel{Pollers: 2, Polls: true, Rank: new(2), PhaseS: new(450.)}, "2 nodes poll it · this node polls it"},
		{Channel{Polls: true, PhaseS: new(450.), Level: new(1.)}, "this node polls it, 7 min 30 s into each interval"},
		{Channel{Pollers: 2, DetectionExpectedS: new(1.6666), DetectionObservedS: new(86400.)}, "2 nodes poll it · average delay of new items: 1.7 s expected, 24 h observed"},
		{Channel{DetectionExpectedS: new(900.), DetectionObservedS: new(3600.)}, "average delay of new items: 15 min expected, 60 min observed"},
		{Channel{DetectionExpectedS: new(math.NaN()), DetectionObservedS: new(math.Inf(1))}, "average delay of new items: an unknown time expected, an unknown time observed"},
	} {
		var facts []string
		for _, fact := range c.of.PollingFacts() {
			facts = append(facts, fact.String())
		}
		if got := strings.Join(facts, " · "); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
