package corona

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"tidings/corona/coronapb"
)

// The interval between updates is found out, whatever was guessed, and followed when it changes.
func TestARhythmIsFoundOut(t *testing.T) {
	for _, every := range []time.Duration{20 * time.Minute, 6 * time.Hour, 2 * 24 * time.Hour} {
		dice := rand.New(rand.NewPCG(1, uint64(every)))
		now := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
		r := rhythm{guess: 5 * every.Seconds()}
		r.pass(now)
		live := func(every, d time.Duration) {
			for end := now.Add(d); ; {
				next := now.Add(time.Duration(dice.ExpFloat64() * float64(every)))
				if next.After(end) {
					now = end
					return
				}
				now = next
				r.update(now)
			}
		}
		live(every, 8*7*24*time.Hour)
		if u := r.interval(now); float64(u) < 0.5*float64(every) || float64(u) > 2*float64(every) {
			t.Errorf("updates every %v: found %v", every, u)
		}
		live(every/10, 8*7*24*time.Hour)
		if u := r.interval(now); float64(u) > 0.2*float64(every) {
			t.Errorf("updates every %v, ten times as often as before: found %v", every/10, u)
		}
		was := r.interval(now)
		now = now.Add(4 * 7 * 24 * time.Hour)
		if u := r.interval(now); u < 3*was {
			t.Errorf("silent for four weeks: %v where it was %v", u, was)
		}
	}
}

// A channel of which nothing is known is taken to change daily, and as slow as any when it has
// not for weeks; a clock that goes back changes nothing.
func TestARhythmOfSilence(t *testing.T) {
	now := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	var r rhythm
	if u := r.interval(now); u != unknownRhythm {
		t.Errorf("at first %v", u)
	}
	if u := r.interval(now.Add(7 * 24 * time.Hour)); u < 7*24*time.Hour {
		t.Errorf("after a week %v", u)
	}
	was := r
	r.pass(r.at.Add(-time.Hour))
	if r.watched != was.watched || r.updates != was.updates {
		t.Errorf("%+v became %+v as the clock went back", was, r)
	}
	r = rhythm{watched: math.MaxFloat64, at: now}
	if u := r.interval(now); u <= 0 || u > 1e8*time.Second {
		t.Errorf("at most %v", u)
	}
}

// Dates of items say how often they come: at least two, and none of the future.
func TestARhythmIsGuessedFromDates(t *testing.T) {
	now := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	ago := func(hours ...int) (of []time.Time) {
		for _, h := range hours {
			of = append(of, now.Add(-time.Duration(h)*time.Hour))
		}
		return of
	}
	for _, c := range []struct {
		dates []time.Time
		want  time.Duration
	}{
		{nil, unknownRhythm},
		{ago(3), unknownRhythm},
		{ago(3, -5), unknownRhythm},
		{[]time.Time{{}, {}, {}}, unknownRhythm},
		{ago(3, 1, 9), 3 * time.Hour},
		{append(ago(8, 4, 2, 1, -7), time.Time{}), 2 * time.Hour},
	} {
		r := rhythm{at: now}
		r.guessFrom(c.dates, now)
		if u := r.interval(now); u != c.want {
			t.Errorf("of %v is guessed %v, want %v", c.dates, u, c.want)
		}
	}
	r := rhythm{guess: 3600}
	if r.guessFrom(ago(3), now); r.guess != 3600 {
		t.Error("a guess is forgotten for none")
	}
}

// A rhythm goes on with another sequencer as it was noted; what makes no sense is left out.
func TestARhythmIsNoted(t *testing.T) {
	now := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	r := rhythm{updates: 12.5, watched: 7200, guess: 600, at: now}
	n, ok := parseNote(note{rhythm: r, cost: 99}.append())
	if !ok || n.rhythm != r || n.cost != 99 {
		t.Errorf("%+v became %+v", r, n.rhythm)
	}
	for what, m := range map[string]*coronapb.Rhythm{
		"no number": {Updates: float32(math.NaN()), Watched: math.NaN(), Guess: float32(math.NaN()), AtMs: maxMillis + 1},
		"below":     {Updates: -1, Watched: -1, Guess: -1, AtMs: math.MaxUint64},
		"no end":    {Updates: float32(math.Inf(1)), Watched: math.Inf(1), Guess: float32(math.Inf(1))},
		"none":      nil,
	} {
		got := rhythmFrom(m)
		if u := got.interval(now); u <= 0 || u > 1e8*time.Second {
			t.Errorf("%s: %v between updates", what, u)
		}
		if what != "no end" && (got.updates != 0 || got.watched != 0 || got.guess != 0) {
			t.Errorf("%s: %+v", what, got)
		}
	}
}

// The mean lag is that of items dated as they came; others say nothing of it.
func TestTheLagIsThatOfItemsThatJustCame(t *testing.T) {
	now := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	l := &lead{interval: 30 * time.Minute}
	l.late([]time.Time{{}, now.Add(time.Minute), now.Add(-61 * time.Minute)}, now)
	if l.lag != 0 {
		t.Errorf("a lag of %v of items that say nothing", l.lag)
	}
	if l.late([]time.Time{now}, now); l.lag <= 0 {
		t.Error("that there is no lag is not known")
	}
	for range 99 {
		l.late([]time.Time{now.Add(-8 * time.Minute)}, now)
	}
	if off := l.lag - 8*time.Minute; off < -time.Second || off > time.Second {
		t.Errorf("a lag of %v where all are found after 8 min", l.lag)
	}
	before := l.lag
	if l.late([]time.Time{now.Add(-16 * time.Minute)}, now); l.lag-before > time.Minute+time.Second || l.lag <= before {
		t.Errorf("one that was late brings %v to %v", before, l.lag)
	}
}
