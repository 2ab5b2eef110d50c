package feedtree

import (
	"testing"
	"time"
)

// A node is cut off when it hears of none of its feeds for the given time, or, unless it is a full member, from no
// other node for a minute.
func TestCutOffDependsOnWhatWasHeardLast(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	const silence = 30 * time.Minute
	for _, c := range []struct {
		what  string
		h     contactState
		since time.Time
		cut   bool
	}{
		{"a client at its start", contactState{nodeHeard: now}, time.Time{}, false},
		{"a client that hears its hosts", contactState{nodeHeard: ago(20 * time.Second), feedsHeard: []time.Time{ago(time.Minute)}}, time.Time{}, false},
		{"a client at the limit", contactState{nodeHeard: ago(nodeSilence)}, time.Time{}, false},
		{"a client that hears of nobody", contactState{nodeHeard: ago(nodeSilence + time.Second), feedsHeard: []time.Time{ago(time.Minute)}}, ago(nodeSilence + time.Second), true},
		{"a member that is a network by itself", contactState{nodeHeard: ago(time.Hour), member: true}, time.Time{}, false},
		{"a member of which one feed is heard", contactState{nodeHeard: ago(time.Hour), member: true, feedsHeard: []time.Time{ago(time.Hour), ago(time.Minute)}}, time.Time{}, false},
		{"a member at the limit", contactState{nodeHeard: now, member: true, feedsHeard: []time.Time{ago(silence)}}, time.Time{}, false},
		{"a member of which no feed is heard", contactState{nodeHeard: now, member: true, feedsHeard: []time.Time{ago(time.Hour), ago(silence + 1)}}, ago(silence + 1), true},
	} {
		c.h.now, c.h.maxSilence = now, silence
		if since, cut := c.h.cutOff(); cut != c.cut || !since.Equal(c.since) {
			t.Errorf("%s: cut off: %v, since %v", c.what, cut, since)
		}
	}
}

// With short polling intervals, the limit is long enough for several digests.
func TestFeedSilenceCoversEnoughDigests(t *testing.T) {
	for _, c := range []struct{ poll, digest, want time.Duration }{
		{30 * time.Minute, time.Minute, 30 * time.Minute},
		{10 * time.Second, time.Second, 10 * time.Second},
		{time.Second, time.Second, missedDigests * time.Second},
	} {
		if got := (Config{PollInterval: c.poll, DigestInterval: c.digest}).feedSilence(); got != c.want {
			t.Errorf("polls every %v, digests every %v: feed silence %v", c.poll, c.digest, got)
		}
	}
}
