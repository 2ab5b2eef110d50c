package corona

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"tidings/corona/coronapb"
	"tidings/honeycomb"
	"tidings/internal/env"
	"tidings/internal/wire"
)

// The estimate finds the interval between updates, whatever the dates say, and follows a change.
func TestUpdateRateIsEstimated(t *testing.T) {
	for _, every := range []time.Duration{20 * time.Minute, 6 * time.Hour, 2 * 24 * time.Hour} {
		dice := rand.New(rand.NewPCG(1, uint64(every)))
		now := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
		var r updateRate
		r.addDates([]time.Time{now.Add(-5 * every), now.Add(-10 * every)}, now)
		live := func(every, d time.Duration) {
			for end := now.Add(d); ; {
				next := now.Add(time.Duration(dice.ExpFloat64() * float64(every)))
				if next.After(end) {
					now = end
					return
				}
				now = next
				r.addUpdate(now)
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

// "About 10% of channels changed within an hour, while 50% of channels did not change at all during
// the five days of polling" (Corona §5.1). The prior is the gamma mixture of Poisson processes with
// these properties.
func TestThePriorUpdateRateIsThatOfTheSurvey(t *testing.T) {
	const hour, step = 1., 1e-4
	often := 0. // the density's integral from one update per hour
	rate := priorObserved.Hours()
	gamma, _ := math.Lgamma(priorUpdates)
	for x := 1/hour + step/2; x < 100; x += step {
		often += step * math.Exp(priorUpdates*math.Log(rate)+(priorUpdates-1)*math.Log(x)-rate*x-gamma)
	}
	if often < 0.09 || often > 0.12 {
		t.Errorf("%.3f of all channels are updated more than once an hour", often)
	}
	if silent := math.Pow(rate/(rate+5*24), priorUpdates); silent < 0.45 || silent > 0.55 {
		t.Errorf("%.3f of all channels are silent for five days", silent)
	}
}

// Averaged over many channels drawn from the prior, the estimates do not drift over time.
func TestUpdateRatesOfManyChannelsDoNotDrift(t *testing.T) {
	const channels, shown = 4000, 4
	dice := rand.New(rand.NewPCG(1, 2))
	start := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	sums := make([]float64, 7) // of √(1/u), after hours
	for range channels {
		u := 7 * 24 * time.Hour
		switch class := dice.Float64(); {
		case class < 0.1:
			u = time.Duration(float64(10*time.Minute) * math.Pow(6, dice.Float64()))
		case class < 0.5:
			u = time.Duration(float64(time.Hour) * math.Pow(120, dice.Float64()))
		}
		pause := func() time.Duration { return time.Duration(dice.ExpFloat64() * float64(u)) }
		at, dates := start, []time.Time(nil)
		for range shown {
			at = at.Add(-pause())
			dates = append(dates, at)
		}
		var r updateRate
		r.addDates(dates, start)
		next := start.Add(pause())
		for hour := range sums {
			now := start.Add(time.Duration(hour) * time.Hour)
			for ; next.Before(now); next = next.Add(pause()) {
				r.addUpdate(next)
			}
			sums[hour] += math.Sqrt(1 / min(r.interval(now), honeycomb.MaxUpdate).Seconds())
		}
	}
	for hour, sum := range sums {
		if off := sum / sums[0]; off < 0.985 || off > 1.015 {
			t.Errorf("after %d h it is %.3f of what it was at first", hour, off)
		}
	}
}

// An unknown channel without a change for a day counts as slow as any; a clock that goes back
// changes nothing.
func TestUpdateRateOfASilentChannel(t *testing.T) {
	now := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	var r updateRate
	if u := r.interval(now); u != unseen {
		t.Errorf("at first %v", u)
	}
	if u := r.interval(now.Add(24 * time.Hour)); u < honeycomb.MaxUpdate {
		t.Errorf("after a day %v", u)
	}
	was := r
	r.decay(r.at.Time().Add(-time.Hour))
	if r.observed != was.observed || r.updates != was.updates {
		t.Errorf("%+v became %+v as the clock went back", was, r)
	}
	r = updateRate{observed: math.MaxFloat64, at: env.MomentOf(now)}
	if u := r.interval(now); u <= 0 || u > 1e8*time.Second {
		t.Errorf("at most %v", u)
	}
}

// unseen is u of an unknown channel.
const unseen = time.Duration(float64(priorObserved) / priorUpdates)

// Dates of items set the rate if there are at least two, of two updates and none in the future.
// They count for at most two days and eight updates, and for nothing if more is known.
func TestDatesOfItemsCount(t *testing.T) {
	now := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	ago := func(hours ...float64) (of []time.Time) {
		for _, h := range hours {
			of = append(of, now.Add(-time.Duration(h*float64(time.Hour))))
		}
		return of
	}
	of := func(updates, hours float64) time.Duration {
		return time.Duration((hours*3600 + priorObserved.Seconds()) / (updates + priorUpdates) * 1e9)
	}
	for _, c := range []struct {
		dates []time.Time
		want  time.Duration
	}{
		{nil, unseen},
		{ago(3), unseen},
		{ago(3, -5), unseen},
		{[]time.Time{{}, {}, {}}, unseen},
		{ago(0.01, 0.015, 0.02), unseen}, // dated when the document was generated
		{ago(3, 1, 9), of(3, 9)},
		{ago(3, 3, 3.01, 1, 9), of(3, 9)},
		{append(ago(8, 4, 2, 1, -7), time.Time{}), of(4, 8)},
		{ago(30*24, 100*24), of(2*2./100, 48)},
		{ago(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16), of(8, 8)},
	} {
		r := updateRate{at: env.MomentOf(now)}
		r.addDates(c.dates, now)
		if u := r.interval(now); u.Round(time.Second) != c.want.Round(time.Second) {
			t.Errorf("of %v: %v, want %v", c.dates, u, c.want)
		}
	}
	r := updateRate{updates: 1, observed: 3600, at: env.MomentOf(now)}
	was := r
	if r.addDates(ago(3, 1, 9), now); r != was {
		t.Errorf("%+v became %+v, of dates", was, r)
	}
}

// The estimate survives the note of another sequencer; invalid values are dropped.
func TestUpdateRateSurvivesANote(t *testing.T) {
	now := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	r := updateRate{updates: 12.5, observed: 7200, at: env.MomentOf(now)}
	n, ok := parseNote(note{updateRate: r, meanBytes: 99}.append())
	if !ok || n.updateRate != r || n.meanBytes != 99 {
		t.Errorf("%+v became %+v", r, n.updateRate)
	}
	for what, m := range map[string]*coronapb.UpdateRate{
		"no number": {Updates: float32(math.NaN()), Observed: math.NaN(), AtMs: wire.MaxMillis + 1},
		"below":     {Updates: -1, Observed: -1, AtMs: math.MaxUint64},
		"no end":    {Updates: float32(math.Inf(1)), Observed: math.Inf(1)},
		"none":      nil,
	} {
		got := updateRateFrom(m)
		if u := got.interval(now); u <= 0 || u > 1e8*time.Second {
			t.Errorf("%s: %v between updates", what, u)
		}
		if what != "no end" && (got.updates != 0 || got.observed != 0) {
			t.Errorf("%s: %+v", what, got)
		}
	}
}

// The mean lag is that of newly dated items; items with older dates do not count.
func TestTheLagIsThatOfNewItems(t *testing.T) {
	now := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	l := &leaderState{pacing: pacing{interval: 30 * time.Minute}}
	l.updateLag([]time.Time{{}, now.Add(time.Minute), now.Add(-61 * time.Minute)}, l.interval, now)
	if l.lag != 0 {
		t.Errorf("a lag of %v of items that say nothing", l.lag)
	}
	if l.updateLag([]time.Time{now}, l.interval, now); l.lag <= 0 {
		t.Error("that there is no lag is not known")
	}
	for range 99 {
		l.updateLag([]time.Time{now.Add(-8 * time.Minute)}, l.interval, now)
	}
	if off := l.lag - 8*time.Minute; off < -time.Second || off > time.Second {
		t.Errorf("a lag of %v where all are found after 8 min", l.lag)
	}
	before := l.lag
	if l.updateLag([]time.Time{now.Add(-16 * time.Minute)}, l.interval, now); l.lag-before > time.Minute+time.Second || l.lag <= before {
		t.Errorf("one that was late brings %v to %v", before, l.lag)
	}
}
