package tree

import (
	"fmt"
	"testing"

	"tidings/lab/mark"
)

func TestFiguresAreJudged(t *testing.T) {
	of := func(change func(*Result)) map[string]mark.Mark {
		r := Result{
			System: OfTrees, Hosts: 200, Topics: 1000, Subscriptions: 960_000, Expected: 10, Delivered: 10, Envelope: 1000, ContentBytes: 1030, ControlBytes: 20,
			LoadMaxMean: 4, HeapPerSubscription: 400, IdleS: 1, IdleMessages: 1, IdleBytes: 500, OverlayMessages: 3, OverlayBytes: 900, OverlayMessagesAfter: 4, OverlayBytesAfter: 800,
		}
		change(&r)
		marks := map[string]mark.Mark{}
		for _, m := range Judge([]Result{{System: OfGossip, Expected: 10}, r}) {
			if m.Run != fmt.Sprintf("%d topics", r.Topics) {
				t.Errorf("%q is of %s", m.Figure, m.Run)
			}
			marks[m.Figure] = m
		}
		return marks
	}
	all := of(func(*Result) {})
	for what, stretched := range map[string]bool{
		"delivered": false, "bytes on tree links per delivery, relative to the envelope": true, "bytes that a host forwards, maximum by mean": false, "heap per subscription": false,
		"idle messages per host beyond the overlay's own": false, "idle traffic per host beyond the overlay's own": false,
	} {
		if m, ok := all[what]; !ok || !m.Met() || m.StretchMet() != stretched {
			t.Errorf("%s: %+v, of %v", what, m, all)
		}
	}
	if len(all) != 6 {
		t.Errorf("%d figures: %v", len(all), all)
	}
	for _, c := range []struct {
		what   string
		change func(*Result)
	}{
		{"delivered", func(r *Result) { r.Delivered-- }},
		{"bytes on tree links per delivery, relative to the envelope", func(r *Result) { r.ControlBytes = 121 }},
		{"bytes that a host forwards, maximum by mean", func(r *Result) { r.LoadMaxMean = 4.1 }},
		{"heap per subscription", func(r *Result) { r.HeapPerSubscription = 401 }},
		{"idle messages per host beyond the overlay's own", func(r *Result) { r.OverlayMessagesAfter = 4.1 }},
		{"idle traffic per host beyond the overlay's own", func(r *Result) { r.IdleBytes = 2001 }},
	} {
		if m := of(c.change)[c.what]; m.Met() {
			t.Errorf("%s is met: %+v", c.what, m)
		}
	}
	for _, c := range []struct {
		what   string
		left   int
		change func(*Result)
	}{
		{"few topics", 5, func(r *Result) { r.Topics = 100 }},
		{"few subscriptions", 3, func(r *Result) { r.Subscriptions = 25_000 }},
		{"nothing published", 3, func(r *Result) { r.Expected = 0 }},
		{"no idle time", 4, func(r *Result) { r.IdleS = 0 }},
	} {
		if got := of(c.change); len(got) != c.left {
			t.Errorf("%s: %v", c.what, got)
		}
	}
	if s := (Speed{PerSecond: 9999}); s.Judge().Met() {
		t.Error("9,999 envelopes a second are enough")
	}
}
