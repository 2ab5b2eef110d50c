package libp2p

import (
	"fmt"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"tidings/internal/env"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func TestSixteenViolationsInTenMinutesBlockForAnHour(t *testing.T) {
	l := newReputations()
	for i := range maxViolations - 1 {
		if l.violation("slow", noon.Add(time.Duration(i)*time.Minute)) || l.violation("fast", noon) {
			t.Fatalf("blocked after %d violations", i+1)
		}
	}
	if l.violation("slow", noon.Add(15*time.Minute)) {
		t.Error("blocked for one violation a minute")
	}
	if !l.violation("fast", noon) || !l.isBlocked("fast", noon) || l.violation("fast", noon) {
		t.Error("16 violations at once should block, once")
	}
	if l.countBlocked(noon) != 1 || l.isBlocked("fast", noon.Add(blockTime)) {
		t.Error("a block should end after an hour")
	}
}

func TestRefusalIsLoggedOnceInTenMinutes(t *testing.T) {
	l := newReputations()
	later := noon.Add(refusalTime)
	for i, c := range []struct {
		at     time.Time
		reason string
		fresh  bool
	}{{noon, "a", true}, {noon, "a", false}, {later, "b", false}, {later.Add(1), "b", true}} {
		if got := l.addRefusal("p", Refusal{Reason: c.reason, ByUs: true}, c.at); got != c.fresh {
			t.Errorf("%d: fresh %v", i, got)
		}
		if r := l.refusals(c.at); len(r) != 1 || r[0].Reason != c.reason {
			t.Errorf("%d: remembers %+v", i, r)
		}
	}
	if l.isRefused("p", later.Add(refusalTime+2)) {
		t.Error("a refusal should be forgotten after ten minutes")
	}
}

func TestReputationsAreBoundedAndKeepTheBlocked(t *testing.T) {
	l := newReputations()
	for range maxViolations {
		l.violation("bad", noon)
	}
	const more = maxReputations + 100
	for i := range more {
		l.addRefusal(peer.ID(fmt.Sprint(i)), Refusal{Reason: "w", ByUs: true}, noon.Add(time.Duration(i)))
	}
	if n := len(l.byPeer); n != maxReputations {
		t.Errorf("%d reputations", n)
	}
	if !l.isBlocked("bad", noon) || l.isRefused("0", noon) || !l.isRefused(peer.ID(fmt.Sprint(more-1)), noon) {
		t.Error("the longest unused should be forgotten first, blocked peers last")
	}
}

func TestARateLimitOutlivesAStream(t *testing.T) {
	a := receiveLimits[env.Control]
	l := newReputations()
	if wait := l.limiter("p", env.Control, noon).reserve(a.byteBurst, noon); wait > 0 {
		t.Errorf("a burst waits for %v", wait)
	}
	if wait := l.limiter("p", env.Control, noon).reserve(a.bytes, noon); wait != time.Second {
		t.Errorf("a new stream should not bring a new limiter: it waits for %v", wait)
	}
	if l.limiter("p", env.Bulk, noon).reserve(1, noon) > 0 || l.limiter("q", env.Control, noon).reserve(1, noon) > 0 {
		t.Error("classes and peers should have their own limiters")
	}
	if wait := l.limiter("p", env.Control, noon).reserve(a.bytes, noon.Add(2*time.Second)); wait > 0 {
		t.Errorf("a limiter should recover with time: it waits for %v", wait)
	}
}

// A host that keeps to its sending limits never has to wait for a receiver that works.
func TestSendLimitsAreBelowReceiveLimits(t *testing.T) {
	for class, takes := range receiveLimits {
		sends := sendLimit(env.Class(class))
		if sends.frames >= takes.frames || sends.bytes >= takes.bytes || sends.frameBurst >= takes.frameBurst || sends.byteBurst >= takes.byteBurst {
			t.Errorf("%v: sends %+v, accepts %+v", env.Class(class), sends, takes)
		}
		if sends.byteBurst < env.MaxFrame {
			t.Errorf("%v: a frame may be larger than a burst", env.Class(class))
		}
	}
}

func TestDialBacksAreLimitedToOneAMinute(t *testing.T) {
	l := newReputations()
	for i := range dialBackBurst {
		if !l.allowDialBack("p", noon) {
			t.Errorf("start %d was not served", i)
		}
	}
	if l.allowDialBack("p", noon) || !l.allowDialBack("q", noon) {
		t.Error("a peer that asks too often should not be served, another should")
	}
	if !l.allowDialBack("p", noon.Add(dialBackInterval)) || l.allowDialBack("p", noon.Add(dialBackInterval)) {
		t.Error("one more request should be served after a minute")
	}
}
