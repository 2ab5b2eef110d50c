package corona

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"tidings/corona/coronapb"
	"tidings/internal/env"
	"tidings/overlay"
)

// A rate limit stops the member that saw it at once, and the whole wedge when a second member has
// seen it, too.
func TestALimitSeenByTwoStopsTheWedge(t *testing.T) {
	w := newTestNetwork(t, 12)
	f := w.open("http://a.example/feed", 100, 8)
	w.run(25 * time.Minute)
	limit := w.now
	w.origin = func(*member, env.Request) env.Answer { return env.Answer{Status: 429, RetryAfter: 2 * time.Hour} }
	w.run(100 * time.Minute)
	if n := w.honestHits(limit, w.now, "a.example")[f.url]; n < 2 || n > 3 {
		t.Errorf("%d requests after the origin had asked to be left alone", n)
	}
	w.origin = nil
	w.run(30 * time.Minute)
	back := w.now
	w.run(time.Hour)
	if n := w.honestHits(back, w.now, "a.example")[f.url]; n < 14 {
		t.Errorf("%d requests in an hour after that was over", n)
	}
}

// A 403 of a host that limits its requests counts as a limit. The second in a row does not: such a host
// blocks the node or the feed.
func TestOne403OfALimitedHostIsALimit(t *testing.T) {
	const url = "http://www.example.org/a"
	l := newLab(t)
	p := l.poller(Config{PollInterval: 30 * time.Minute})
	p.lead(url, nil)
	var kinds []coronapb.State_Kind
	for _, status := range []int{429, 200, 403, 403, 403, 200, 403} {
		if l.origins[url] = says(env.Answer{Status: status}); status == 200 {
			l.origins[url] = serves(rss("A", "", "one"))
		}
		for n := len(l.polls(url)); len(l.polls(url)) == n; {
			l.run(time.Minute, p)
		}
		l.run(2*latency, p)
		kinds = append(kinds, p.leaders[key(url)].state.Kind)
	}
	const ok, limited, missing = coronapb.State_OK, coronapb.State_LIMITED, coronapb.State_MISSING
	if want := []coronapb.State_Kind{limited, ok, limited, missing, missing, ok, limited}; !slices.Equal(kinds, want) {
		t.Errorf("%v, want %v", kinds, want)
	}
}

// Reports that are signed by another node, old, or from a node that cannot poll the channel are
// ignored. Members cannot cause more than one message per minute to readers.
func TestForgedStatusReportsAreIgnored(t *testing.T) {
	w := newTestNetwork(t, 12)
	f := w.open("http://a.example/feed", 100, 8)
	w.run(25 * time.Minute)
	l, liar := f.leader.leaders[f.key], w.houses[3]
	if liar == f.leader {
		liar = w.houses[4]
	}
	ill := State{Kind: coronapb.State_GONE, Detail: "410", Polled: w.now}
	old := ill
	old.Polled = w.now.Add(-time.Hour)
	other := liar.reports.signStatus(overlay.ID{1}, ill, false)
	other.GetStatus().Key = f.key[:]
	forged := f.leader.reports.signStatus(f.key, ill, false)
	forged.GetStatus().Status[40] ^= 1
	for what, m := range map[string]*coronapb.Message{
		"of long ago": liar.reports.signStatus(f.key, old, false), "of another channel": other, "of another's": forged,
	} {
		if f.leader.take(f.key, liar.signer.PeerID(), m); len(l.failing) > 0 || l.state.Kind != coronapb.State_OK {
			t.Errorf("a report %s: %d are failing, and it is %v", what, len(l.failing), l.state.Kind)
		}
	}
	l.pollers = 1 // one is then the majority
	said := len(f.said)
	for i := range 30 {
		ill.Detail = fmt.Sprint(i)
		f.leader.take(f.key, liar.signer.PeerID(), liar.reports.signStatus(f.key, ill, false))
	}
	if n := len(f.said) - said; n != 1 || len(l.failing) != 1 {
		t.Errorf("%d states for reports of one member at one time; %d are failing", n, len(l.failing))
	}
}

// A single member cannot stop a feed by claiming a limit: the sequencer fetches the channel itself.
func TestAClaimedLimitIsChecked(t *testing.T) {
	w := newTestNetwork(t, 12)
	f := w.open("http://a.example/feed", 100, 8)
	w.run(25 * time.Minute)
	start := w.now
	for i := range 60 {
		h := w.houses[i%12]
		s := State{Kind: coronapb.State_LIMITED, Detail: "429", Since: w.now, Polled: w.now, Next: w.now.Add(20 * time.Hour)}
		h.tell(f.key, h.reports.signStatus(f.key, s, false), true)
		h.run()
		w.run(time.Minute)
	}
	n := w.honestHits(start, w.now, "a.example")[f.url]
	if n < 14 || n > 20 {
		t.Errorf("%d requests in an hour of eight pollers", n)
	}
}

// A single member cannot leave a feed to one poller by claiming that it is gone: the sequencer fetches it itself.
func TestAClaimedEndIsChecked(t *testing.T) {
	w := newTestNetwork(t, 4)
	f := w.open("http://a.example/feed", 100, 2)
	w.run(65 * time.Minute)
	l, start := f.leader.leaders[f.key], w.now
	gone := State{Kind: coronapb.State_GONE, Detail: "410", Polled: w.now}
	for range 10 {
		f.leader.monitor.noteFailure(l, "liar", gone, false, w.now)
		if l.state.Kind == coronapb.State_GONE || f.order.N != 2 {
			t.Fatalf("after one report: %v, polled by %d", l.state.Kind, f.order.N)
		}
	}
	w.run(10 * time.Second)
	if n := w.honestHits(start, w.now, "a.example")[f.url]; n > 2 || l.state.Kind != coronapb.State_OK {
		t.Errorf("%d requests in ten seconds after ten reports; %v", n, l.state.Kind)
	}
	w.origin = func(*member, env.Request) env.Answer { return env.Answer{Status: 410} }
	w.run(3 * time.Hour)
	if l.state.Kind != coronapb.State_GONE || f.order.N != 1 {
		t.Errorf("the origin says so: %v, polled by %d", l.state.Kind, f.order.N)
	}
}

// A feed that is gone is polled by one member and ever more rarely, once a week at last. It comes back
// by itself.
func TestAFeedThatIsGoneIsPolledByOne(t *testing.T) {
	w := newTestNetwork(t, 4)
	f := w.open("http://a.example/feed", 100, 3)
	w.run(25 * time.Minute)
	start := w.now
	w.origin = func(*member, env.Request) env.Answer { return env.Answer{Status: 410} }
	w.run(24 * time.Hour)
	l := f.leader.leaders[f.key]
	if l.state.Kind != coronapb.State_GONE || f.order.N != 1 {
		t.Fatalf("%v, polled by %d", l.state.Kind, f.order.N)
	}
	f.leader.enlist(f.key, 3, w.now) // a decision of the allocator
	first := w.honestHits(start, w.now, "a.example")[f.url]
	w.run(6 * 24 * time.Hour)
	all := w.honestHits(start, w.now, "a.example")[f.url]
	if first > 8 || all-first > 4 || all-first < 2 {
		t.Errorf("%d requests in the first day and %d in the week after it", first, all-first)
	}
	w.origin = nil
	w.run(4 * 24 * time.Hour)
	if l := f.leader.leaders[f.key]; l.state.Kind != coronapb.State_OK {
		t.Errorf("back for four days: %v", l.state.Kind)
	}
}
