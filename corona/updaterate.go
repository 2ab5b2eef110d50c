package corona

import (
	"math"
	"slices"
	"time"

	"tidings/corona/coronapb"
	"tidings/difference"
	"tidings/honeycomb"
	"tidings/internal/env"
	"tidings/internal/wire"
)

// updateRate estimates how often a channel changes: the tradeoff factor u, "estimated based on the
// time between updates detected" (Corona §3.3). Updates arrive at random, so only their number and
// the time of observation matter. Both decay, so that the estimate follows a channel that falls
// silent or wakes up.
type updateRate struct {
	updates  float64    // updates seen, decayed
	observed float64    // seconds of observation, decayed
	at       env.Moment // when both were last brought up to date; Never: observation has not begun
}

const (
	// decayTime is the time after which an observation counts for 1/e.
	decayTime = 14 * 24 * time.Hour
	// priorUpdates and priorObserved are the prior: updates, and time of observation, that count
	// for a channel before anything is seen. They are those of the gamma distribution of update
	// rates with a tenth of channels above one update an hour and half of the channels changing
	// within five days, as in the paper's survey (§5.1). With the observations added, the estimate
	// is the posterior mean of the rate, which Fair's optimum needs.
	priorUpdates  = 1. / 8
	priorObserved = 20 * time.Minute
	// maxDatedTime bounds the time of observation that the dates in a first document count for, and
	// maxDatedUpdates the number of updates. Dates are weaker evidence than observations: some are
	// wrong, a dormant author may start again, and an author can invent dates to be polled more
	// often.
	maxDatedTime    = 2 * 24 * time.Hour
	maxDatedUpdates = 8
)

// decay brings an estimate up to date.
func (r *updateRate) decay(now time.Time) {
	moment := env.MomentOf(now)
	if d := moment.Sub(r.at).Seconds(); r.at != env.Never && d > 0 {
		keep := math.Exp(-d / decayTime.Seconds())
		r.updates *= keep
		r.observed = r.observed*keep + d
	}
	r.at = moment
}

// addUpdate counts one update.
func (r *updateRate) addUpdate(now time.Time) {
	r.decay(now)
	r.updates++
}

// interval is u, the mean time between two updates.
func (r *updateRate) interval(now time.Time) time.Duration {
	r.decay(now)
	u := (r.observed + priorObserved.Seconds()) / (r.updates + priorUpdates)
	return time.Duration(min(u, 1e8) * float64(time.Second))
}

// addDates uses the dates in a first document as if the channel had been observed since the
// earliest one. Dates within honeycomb.MinUpdate count as one update. A single date says nothing,
// because it may be when the document was generated.
func (r *updateRate) addDates(dates []time.Time, now time.Time) {
	r.decay(now)
	past := slices.DeleteFunc(slices.Clone(dates), func(at time.Time) bool { return at.IsZero() || !at.Before(now) })
	slices.SortFunc(past, time.Time.Compare)
	n, last := 0., time.Time{}
	for _, at := range past {
		if at.Sub(last) >= honeycomb.MinUpdate {
			n, last = n+1, at
		}
	}
	if n < 2 || r.updates > 0 { // the earlier sequencer has seen real updates
		return
	}
	watched := now.Sub(past[0]).Seconds()
	part := min(maxDatedTime.Seconds()/watched, maxDatedUpdates/n, 1)
	r.updates += part * n
	r.observed += part * watched
}

func (r updateRate) wire() *coronapb.UpdateRate {
	return &coronapb.UpdateRate{Updates: float32(r.updates), Observed: r.observed, AtMs: r.at.Millis()}
}

// updateRateFrom reads an estimate that another sequencer noted.
func updateRateFrom(m *coronapb.UpdateRate) updateRate {
	const most = 1e9 // seconds, or updates; decay keeps real values below
	within := func(x float64) float64 {
		if !(x > 0) {
			return 0
		}
		return min(x, most)
	}
	r := updateRate{updates: within(float64(m.GetUpdates())), observed: within(m.GetObserved())}
	if ms := m.GetAtMs(); ms <= wire.MaxMillis {
		r.at = env.MomentOf(timeOf(ms))
	}
	return r
}

// datesOf returns the dates of the items' current versions, zero for items without a date.
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
	// lagWeight is the weight of the last item in the mean lag.
	lagWeight = 1. / 8
	// maxLag is the largest age of a newly found item, in intervals, at which its date counts as
	// the time of its appearance. An older date was set long before the item was published, or the
	// feed was unreachable.
	maxLag = 2
)

// estimates are what the sequencer measures of a channel.
type estimates struct {
	updateRate updateRate
	meanBytes  float64       // bytes that a poll fetches on average
	lag        time.Duration // mean time between the date of an item and its detection; 0: not known
	looks      lookRate
}

// lookRate is how often owners are asked to fetch a document only to confirm news. Requests and the time of
// observation decay alike.
type lookRate struct {
	n         float64    // requests, decayed
	since, at env.Moment // when the first one was made, and when n was last brought up to date
}

// lookDecay is the time after which such a request counts for 1/e.
const lookDecay = 6 * time.Hour

func (r *lookRate) add(n int, now time.Time) {
	moment := env.MomentOf(now)
	if r.since == env.Never {
		r.since, r.at = moment, moment
	}
	r.n = r.n*math.Exp(-moment.Sub(r.at).Seconds()/lookDecay.Seconds()) + float64(n)
	r.at = moment
}

// per returns the number of requests in an interval.
func (r *lookRate) per(interval time.Duration, now time.Time) float64 {
	if r.since == env.Never {
		return 0
	}
	r.add(0, now)
	observed := lookDecay.Seconds() * -math.Expm1(-(now.Sub(r.since.Time())+interval).Seconds()/lookDecay.Seconds())
	return r.n * interval.Seconds() / observed
}

const (
	// pollOverhead is the approximate cost in bytes of a poll without a document: a connection with
	// the TLS 1.3 handshake and certificates, the request, and a "not modified" response.
	pollOverhead = 4 << 10
	// costDecay is the time, in maintenance intervals, after which the cost of a poll counts for
	// 1/e. It is much longer than sums take to reach all members. maxWeight bounds the weight of
	// the last poll.
	costDecay = 36
	maxWeight = 1. / 8
)

// pollBytes is the measured cost of a poll of a channel, in bytes.
func (e *estimates) pollBytes() float64 { return pollOverhead + e.meanBytes }

// updateLag updates the mean lag with the dates of newly found items. The lag is the detection
// time, as far as origins date their items well.
func (e *estimates) updateLag(dates []time.Time, interval time.Duration, now time.Time) {
	for _, at := range dates {
		lag := now.Sub(at)
		switch {
		case at.IsZero() || lag < 0 || lag > maxLag*interval:
		case e.lag == 0:
			e.lag = max(lag, 1)
		default:
			e.lag += time.Duration(lagWeight * float64(lag-e.lag))
		}
	}
}
