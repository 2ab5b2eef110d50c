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
		if got := l.refuse("p", c.words, true, c.at); got != c.fresh {
			t.Errorf("%d: fresh %v", i, got)
		}
		if r := l.refusals(c.at); len(r) != 1 || r[0].Words != c.words {
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
		l.refuse(peer.ID(fmt.Sprint(i)), "w", true, noon.Add(time.Duration(i)))
	}
	if n := len(l.pages); n != maxPages {
		t.Errorf("%d pages", n)
	}
	if !l.gated("bad", noon) || l.refused("0", noon) || !l.refused(peer.ID(fmt.Sprint(more-1)), noon) {
		t.Error("the longest unused should go first, the gated last")
	}
}

func TestBudgetOutlivesAStream(t *testing.T) {
	l := newLedger()
	if !l.budget("p", env.Control, noon).spend(controlByteBurst, noon) {
		t.Error("a burst should be allowed")
	}
	if l.budget("p", env.Control, noon).spend(controlBytes, noon) {
		t.Error("a new stream should not bring a new budget")
	}
	if !l.budget("p", env.Bulk, noon).spend(1, noon) || !l.budget("q", env.Control, noon).spend(1, noon) {
		t.Error("classes and peers should have budgets of their own")
	}
	if !l.budget("p", env.Control, noon).spend(controlBytes, noon.Add(time.Second)) {
		t.Error("a budget should grow with time")
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
