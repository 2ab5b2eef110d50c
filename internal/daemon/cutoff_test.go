package daemon

import (
	"strings"
	"testing"
	"time"

	"tidings/feedtree"
	"tidings/proxy"
)

// A quiet subscription that gets nothing is cut off, also when two members stand between: in a network of three members nobody
// else keeps the feed.
func TestQuietSubscriptionsThatGetNothingAreCutOff(t *testing.T) {
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		state     string
		age       time.Duration
		connected bool
		want      string
	}{
		{proxy.StateNew, time.Minute, true, proxy.StateNew},
		{proxy.StateNew, quietAnswer + time.Second, true, proxy.StateCutOff},
		{proxy.StateNew, time.Second, false, proxy.StateCutOff},
		{proxy.StateOK, time.Hour, true, proxy.StateOK},
		{proxy.StateOK, time.Hour, false, proxy.StateCutOff},
		{"gone", time.Hour, false, "gone"},
	} {
		got := proxy.Channel{State: c.state}
		addQuietState(&got, feedtree.Subscription{Since: now.Add(-c.age)}, c.connected, now)
		if got.State != c.want || (got.Error != "") != (c.want == proxy.StateCutOff) || got.Error != "" && !strings.Contains(got.Error, "at least five members") {
			t.Errorf("%+v: %s, %q", c, got.State, got.Error)
		}
	}
}
