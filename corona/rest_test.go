package corona

import (
	"fmt"
	"testing"
	"time"

	"tidings/corona/coronapb"
	"tidings/internal/env"
	"tidings/overlay"
)

// Rate limits: a limit binds the member that saw it at once, the whole wedge when a
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

// What is said in another's name, of long ago, or by who cannot poll the channel, counts for
// nothing; and whatever members say, readers hear of it once in a minute.
func TestNobodyReportsInAnothersName(t *testing.T) {
	w := newTown(t, 12)
	f := w.open("http://a.example/feed", 100, 8)
	w.run(25 * time.Minute)
	l, liar := f.leader.leads[f.key], w.houses[3]
	if liar == f.leader {
		liar = w.houses[4]
	}
	ill := State{Kind: coronapb.State_GONE, Words: "410", Polled: w.now}
	old := ill
	old.Polled = w.now.Add(-time.Hour)
	other := liar.reporting(overlay.ID{1}, ill)
	other.GetReport().Key = f.key[:]
	forged := f.leader.reporting(f.key, ill)
	forged.GetReport().Told[40] ^= 1
	for what, m := range map[string]*coronapb.Message{
		"of long ago": liar.reporting(f.key, old), "of another channel": other, "of another's": forged,
	} {
		if f.leader.take(f.key, liar.signer.PeerID(), m); len(l.ill) > 0 || l.state.Kind != coronapb.State_OK {
			t.Errorf("a report %s: %d are ill, and it is %v", what, len(l.ill), l.state.Kind)
		}
	}
	l.pollers = 1 // so that one is most of them
	said := len(f.said)
	for i := range 30 {
		ill.Words = fmt.Sprint(i)
		f.leader.take(f.key, liar.signer.PeerID(), liar.reporting(f.key, ill))
	}
	if n := len(f.said) - said; n != 1 || len(l.ill) != 1 {
		t.Errorf("%d words of one member at one time, of whom %d are ill", n, len(l.ill))
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
		h.tell(f.key, h.reporting(f.key, s), true)
		h.run()
		w.run(time.Minute)
	}
	n := w.honestHits(start, w.now, "a.example")[f.url]
	if n < 14 || n > 20 {
		t.Errorf("%d requests in an hour of eight pollers", n)
	}
}
