package corona

import (
	"testing"
	"time"

	"tidings/corona/coronapb"
	"tidings/internal/env"
)

// DESIGN §3, rule 2: a limit binds the member that saw it at once, the whole wedge when a
// second one saw it too.
func TestALimitThatTwoHaveSeenBindsTheWedge(t *testing.T) {
	w := newTown(t, 12)
	f := w.open("http://a.example/feed", 100, 8)
	w.run(25 * time.Minute)
	limit := w.now
	w.origin = func(*house, env.Request) env.Answer { return env.Answer{Status: 429, RetryAfter: 2 * time.Hour} }
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

// Who only says so starves nobody: the sequencer looks itself.
func TestALimitThatNobodyElseSeesBindsNobody(t *testing.T) {
	w := newTown(t, 12)
	f := w.open("http://a.example/feed", 100, 8)
	w.run(25 * time.Minute)
	start := w.now
	for i := range 60 {
		h := w.houses[i%12]
		s := State{Kind: coronapb.State_LIMITED, Words: "429", Since: w.now, Polled: w.now, Next: w.now.Add(20 * time.Hour)}
		h.tell(f.key, &coronapb.Message{Body: &coronapb.Message_Report{Report: &coronapb.Report{
			Key: f.key[:], Poller: []byte(h.signer.PeerID()), State: s.wire(),
		}}}, true)
		h.run()
		w.run(time.Minute)
	}
	n := w.honestHits(start, w.now, "a.example")[f.url]
	if n < 14 || n > 20 {
		t.Errorf("%d requests in an hour of eight pollers", n)
	}
}
