package proxy

import (
	"math"
	"strings"
	"testing"
)

func TestPollingIsSaidAsFarAsItIsKnown(t *testing.T) {
	for _, c := range []struct {
		of   Channel
		want string
	}{
		{Channel{}, ""},
		{Channel{Pollers: 1, Owners: 1}, "1 poller · 1 owner"},
		{
			Channel{
				Pollers: 8, Budget: new(12), Polls: true, Rank: new(2), PhaseS: new(450.), Level: new(0.94), Owners: 5,
				DetectionExpectedS: new(112.5), DetectionObservedS: new(131.2),
			},
			"8 pollers (at most 12) · polled by this node with rank 2, phase 7 min 30 s · level 0.94 · 5 owners · expected delay 113 s · last delay 2 min 11 s",
		},
		{Channel{Polls: true, Rank: new(0), Level: new(1.)}, "polled by this node with rank 0 · level 1"},
		{Channel{Polls: true, PhaseS: new(450.), Level: new(1.)}, "polled by this node, phase 7 min 30 s · level 1"},
		{Channel{Pollers: 2, DetectionExpectedS: new(1.6666), DetectionObservedS: new(86400.)}, "2 pollers · expected delay 1.7 s · last delay 24 h 0 min"},
		{Channel{DetectionExpectedS: new(math.NaN()), DetectionObservedS: new(math.Inf(1))}, "expected delay an unknown time · last delay an unknown time"},
	} {
		if got := strings.Join(c.of.Polling(), " · "); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
