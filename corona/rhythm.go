package corona

import (
	"math"
	"time"

	"tidings/corona/coronapb"
	"tidings/difference"
)

// A rhythm is what is known of how often a channel changes: the tradeoff factor u, "estimated
// based on the time between updates detected" (Corona §3.3). Updates come at random, so
// that all that counts is how many there were in how much time. Both fade, so that a
// channel that falls silent, or wakes up, is seen to.
type rhythm struct {
	updates float64   // seen, the older the less
	watched float64   // seconds in which they were, the older the less
	at      time.Time // when both were brought up to date; zero: it is not watched
	guess   float64   // seconds between two updates as the dates of items have it; 0: they have none
}

const (
	// fadeTime is the time in which what was seen comes to count for 1/e.
	fadeTime = 14 * 24 * time.Hour
	// guessWeight is how many updates a guess counts for: less than one, so that the second
	// update says more than it.
	guessWeight = 0.5
	// unknownRhythm is what is guessed of a channel whose items have no dates. A channel that
	// never changes is found out after a week: with its time of being watched alone it
	// is then as slow as any counts (honeycomb.MaxUpdate).
	unknownRhythm = 24 * time.Hour
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
	guess := r.guess
	if guess <= 0 {
		guess = unknownRhythm.Seconds()
	}
	u := (r.watched + guessWeight*guess) / (r.updates + guessWeight)
	return time.Duration(min(u, 1e8) * float64(time.Second))
}

// guessFrom guesses a rhythm by the dates of a document's items: the mean time between them,
// and to the present.
func (r *rhythm) guessFrom(dates []time.Time, now time.Time) {
	first, n := now, 0
	for _, at := range dates {
		if !at.IsZero() && at.Before(now) {
			n++
			if at.Before(first) {
				first = at
			}
		}
	}
	if n >= 2 {
		r.guess = now.Sub(first).Seconds() / float64(n)
	}
}

func (r rhythm) wire() *coronapb.Rhythm {
	return &coronapb.Rhythm{Updates: float32(r.updates), Watched: r.watched, Guess: float32(r.guess), AtMs: millis(r.at)}
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
	r := rhythm{updates: within(float64(m.GetUpdates())), watched: within(m.GetWatched()), guess: within(float64(m.GetGuess()))}
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
