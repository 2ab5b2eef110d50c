package corona

import (
	"math"
	"slices"
	"time"

	"tidings/corona/coronapb"
	"tidings/difference"
	"tidings/honeycomb"
)

// A rhythm is what is known of how often a channel changes: the tradeoff factor u, "estimated
// based on the time between updates detected" (Corona §3.3). Updates come at random, so
// that all that counts is how many there were in how much time. Both fade, so that a
// channel that falls silent, or wakes up, is seen to.
type rhythm struct {
	updates float64   // seen, the older the less
	watched float64   // seconds in which they were, the older the less
	at      time.Time // when both were brought up to date; zero: it is not watched
}

const (
	// fadeTime is the time in which what was seen comes to count for 1/e.
	fadeTime = 14 * 24 * time.Hour
	// usualUpdates and usualWatched are the updates, and the time, that count for a channel
	// before anything is seen: what channels are like. They are those of the gamma distribution
	// of update rates of which a tenth is above one an hour, and by which half of the channels
	// change in five days, as in the paper's survey (§5.1). With what is seen, the rate is
	// then the mean of what it may be, which Fair's optimum asks for.
	usualUpdates = 1. / 8
	usualWatched = 20 * time.Minute
	// maxDated is for how long the dates of a document count as if it had been watched, and
	// maxDates for how many updates, at most. They say more than nothing, and less than what is
	// seen: some are wrong, who has not written for years may begin again, and who is polled
	// the more often, the more dates there are, may make them up.
	maxDated = 2 * 24 * time.Hour
	maxDates = 8
)

// pass brings a rhythm up to date.
func (r *rhythm) pass(now time.Time) {
	if d := now.Sub(r.at).Seconds(); !r.at.IsZero() && d > 0 {
		keep := math.Exp(-d / fadeTime.Seconds())
		r.updates *= keep
		r.watched = r.watched*keep + d
	}
	r.at = now
}

// update notes one.
func (r *rhythm) update(now time.Time) {
	r.pass(now)
	r.updates++
}

// interval is u, the mean time between two updates.
func (r *rhythm) interval(now time.Time) time.Duration {
	r.pass(now)
	u := (r.watched + usualWatched.Seconds()) / (r.updates + usualUpdates)
	return time.Duration(min(u, 1e8) * float64(time.Second))
}

// date takes the dates of the items of a first document: it is as if it had been watched since the
// first of them. Those within honeycomb.MinUpdate are of one update; a single one says nothing: it
// may be when the document was made.
func (r *rhythm) date(dates []time.Time, now time.Time) {
	r.pass(now)
	past := slices.DeleteFunc(slices.Clone(dates), func(at time.Time) bool { return at.IsZero() || !at.Before(now) })
	slices.SortFunc(past, time.Time.Compare)
	n, last := 0., time.Time{}
	for _, at := range past {
		if at.Sub(last) >= honeycomb.MinUpdate {
			n, last = n+1, at
		}
	}
	if n < 2 || r.updates > 0 { // another sequencer has seen more
		return
	}
	watched := now.Sub(past[0]).Seconds()
	part := min(maxDated.Seconds()/watched, maxDates/n, 1)
	r.updates += part * n
	r.watched += part * watched
}

func (r rhythm) wire() *coronapb.Rhythm {
	return &coronapb.Rhythm{Updates: float32(r.updates), Watched: r.watched, AtMs: millis(r.at)}
}

// rhythmFrom reads a rhythm that another sequencer has noted.
func rhythmFrom(m *coronapb.Rhythm) rhythm {
	const most = 1e9 // seconds, or updates: beyond what fading lets come together
	within := func(x float64) float64 {
		if !(x > 0) {
			return 0
		}
		return min(x, most)
	}
	r := rhythm{updates: within(float64(m.GetUpdates())), watched: within(m.GetWatched())}
	if ms := m.GetAtMs(); ms <= maxMillis {
		r.at = timeOf(ms)
	}
	return r
}

// datesOf are the dates of items, zero where they have none: of the version that is there.
func datesOf(changes []difference.Change) []time.Time {
	of := make([]time.Time, len(changes))
	for i := range changes {
		if m, err := changes[i].Item.Meaning(""); err == nil {
			of[i] = m.Published
			if m.Updated.After(of[i]) {
				of[i] = m.Updated
			}
		}
	}
	return of
}

const (
	// lagWeight is how much the last item counts in the mean lag, if there were many.
	lagWeight = 1. / 8
	// maxLag, in intervals, is how long ago the date of an item may lie that was found just
	// now and is taken for the time at which it appeared. Older ones were dated long before
	// they were shown, or the feed was not reachable.
	maxLag = 2
)

// late takes the dates of items that were just found, for the mean lag: the detection time,
// as far as origins date their items well.
func (l *lead) late(dates []time.Time, now time.Time) {
	for _, at := range dates {
		lag := now.Sub(at)
		switch {
		case at.IsZero() || lag < 0 || lag > maxLag*l.interval:
		case l.lag == 0:
			l.lag = max(lag, 1)
		default:
			l.lag += time.Duration(lagWeight * float64(lag-l.lag))
		}
	}
}
