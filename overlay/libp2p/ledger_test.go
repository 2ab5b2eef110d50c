package libp2p

import (
	"fmt"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"tidings/internal/env"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func TestSixteenFaultsInTenMinutesGateForAnHour(t *testing.T) {
	l := newLedger()
	for i := range maxFaults - 1 {
		if l.fault("slow", noon.Add(time.Duration(i)*time.Minute)) || l.fault("fast", noon) {
			t.Fatalf("gated after %d faults", i+1)
		}
	}
	if l.fault("slow", noon.Add(15*time.Minute)) {
		t.Error("gated for one fault a minute")
	}
	if !l.fault("fast", noon) || !l.gated("fast", noon) || l.fault("fast", noon) {
		t.Error("16 faults at once should gate, once")
	}
	if l.gates(noon) != 1 || l.gated("fast", noon.Add(gateTime)) {
		t.Error("a gate should open after an hour")
	}
}

func TestRefusalIsLoggedOnceInTenMinutes(t *testing.T) {
	l := newLedger()
	later := noon.Add(refusedTime)
	for i, c := range []struct {
		at    time.Time
		words string
		fresh bool
	}{{noon, "a", true}, {noon, "a", false}, {later, "b", false}, {later.Add(1), "b", true}} {
		if got := l.refuse("p", Refusal{Reason: c.words, ByUs: true}, c.at); got != c.fresh {
			t.Errorf("%d: fresh %v", i, got)
		}
		if r := l.refusals(c.at); len(r) != 1 || r[0].Reason != c.words {
			t.Errorf("%d: remembers %+v", i, r)
		}
	}
	if l.refused("p", later.Add(refusedTime+2)) {
		t.Error("a refusal should be forgotten after ten minutes")
	}
}

func TestLedgerIsBoundedAndKeepsTheGated(t *testing.T) {
	l := newLedger()
	for range maxFaults {
		l.fault("bad", noon)
	}
	const more = maxPages + 100
	for i := range more {
		l.refuse(peer.ID(fmt.Sprint(i)), Refusal{Reason: "w", ByUs: true}, noon.Add(time.Duration(i)))
	}
	if n := len(l.pages); n != maxPages {
		t.Errorf("%d pages", n)
	}
	if !l.gated("bad", noon) || l.refused("0", noon) || !l.refused(peer.ID(fmt.Sprint(more-1)), noon) {
		t.Error("the longest unused should go first, the gated last")
	}
}

func TestBudgetOutlivesAStream(t *testing.T) {
	a := taken[env.Control]
	l := newLedger()
	if wait := l.budget("p", env.Control, noon).spend(a.byteBurst, noon); wait > 0 {
		t.Errorf("a burst waits for %v", wait)
	}
	if wait := l.budget("p", env.Control, noon).spend(a.bytes, noon); wait != time.Second {
		t.Errorf("a new stream should not bring a new budget: it waits for %v", wait)
	}
	if l.budget("p", env.Bulk, noon).spend(1, noon) > 0 || l.budget("q", env.Control, noon).spend(1, noon) > 0 {
		t.Error("classes and peers should have budgets of their own")
	}
	if wait := l.budget("p", env.Control, noon).spend(a.bytes, noon.Add(2*time.Second)); wait > 0 {
		t.Errorf("a budget should grow with time: it waits for %v", wait)
	}
}

// An honest host never has to wait for a peer that works.
func TestLessIsSentThanIsTaken(t *testing.T) {
	for class, takes := range taken {
		sends := sent(env.Class(class))
		if sends.frames >= takes.frames || sends.bytes >= takes.bytes || sends.frameBurst >= takes.frameBurst || sends.byteBurst >= takes.byteBurst {
			t.Errorf("%v: sends %+v, takes %+v", env.Class(class), sends, takes)
		}
		if sends.byteBurst < env.MaxFrame {
			t.Errorf("%v: a frame may be larger than all that is sent at once", env.Class(class))
		}
	}
}

func TestDialBacksAreOneAMinuteInTheLongRun(t *testing.T) {
	l := newLedger()
	for i := range dialBackBurst {
		if !l.serve("p", noon) {
			t.Errorf("start %d was not served", i)
		}
	}
	if l.serve("p", noon) || !l.serve("q", noon) {
		t.Error("one who asks too often is not served, another is")
	}
	if !l.serve("p", noon.Add(dialBackEvery)) || l.serve("p", noon.Add(dialBackEvery)) {
		t.Error("a minute should be good for one more")
	}
}
