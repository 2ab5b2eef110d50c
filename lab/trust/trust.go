// Package trust measures what witnesses are worth (decision 021): it gives a share of the members a
// forged web, and counts which forged items readers are shown as witnessed. It also measures what
// witnesses cost, and how long items wait for their mark. It uses the real nodes of package sim.
package trust

import (
	"context"
	"slices"
	"time"

	"tidings/feedtree"
	"tidings/honeycomb"
	"tidings/lab/table2"
)

// A Config describes a run.
type Config struct {
	Seed          uint64
	Members       int
	Channels      int
	Subscriptions int           // about; no member subscribes to a channel twice
	Liars         float64       // share of the members that are liars
	Interval      time.Duration // of polls, and of maintenance
	Length        int           // polling intervals in which items count
}

// A Result is the outcome. Its fields are its JSON. Times are in polling intervals.
type Result struct {
	Seed     uint64  `json:"seed"`
	Members  int     `json:"nodes"`
	Liars    int     `json:"liars"`
	Share    float64 `json:"liar_share"`
	Channels int     `json:"channels"`
	// Captured are the channels most of whose owners were liars at some time, and CapturedExpected is
	// their number if owners were drawn at random.
	Captured         int     `json:"captured"`
	CapturedExpected float64 `json:"captured_expected"`
	// The figures of forged items are numbers of pairs of a reader and a forged item.
	Forged           int `json:"forged"`
	ForgedWitnessed  int `json:"forged_witnessed"`          // in channels that were never captured
	ForgedInCaptured int `json:"forged_witnessed_captured"` // in the others
	ForgedContested  int `json:"forged_contested"`          // at the end, in channels that were never captured
	ForgedUncaptured int `json:"forged_not_captured"`       // in channels that were never captured
	// Honest are the honest items that were published in the measured time, and Old those of them that
	// count for the delays: the last oldAfter polling intervals are too late for these.
	Honest int     `json:"honest"`
	Pairs  int     `json:"old_shown"` // pairs of a reader and an old item that it was shown
	Marked int     `json:"old_witnessed"`
	Many   Delays  `json:"many_pollers"`
	Few    Delays  `json:"few_pollers"`
	Polls  float64 `json:"polls"` // in a polling interval, including looks
	Looks  float64 `json:"looks"` // in a polling interval
	Bound  int     `json:"polls_bound"`
	// Detection is the mean time from a change at the origin to a reader. Ideal is that from the change to the first
	// poll, if nobody witnessed and the polls were planned with all knowledge, for the same bound.
	Detection float64  `json:"detection"`
	Ideal     float64  `json:"detection_ideal"`
	Wrong     []string `json:"wrong"`
}

// Delays are the delays of pairs of a reader and an old honest item, in polling intervals.
type Delays struct {
	Channels int     `json:"channels"`
	Pairs    int     `json:"shown"`
	Shown    float64 `json:"shown_mean"`  // mean, from the change at the origin to the first showing
	Marked   float64 `json:"marked_mean"` // mean, from the change at the origin to the mark
	// From the first showing to the mark. An item without a mark counts with the rest of the run.
	Mean float64 `json:"wait_mean"`
	P50  float64 `json:"wait_p50"`
	P99  float64 `json:"wait_p99"`
}

const (
	// ManyPollers is the number of pollers from which on delays have a target.
	ManyPollers = 10
	// settleIntervals is how many polling intervals pass before items count, until the polls of the
	// channels are as many as they may be.
	settleIntervals = 6
	// oldAfter is the age in polling intervals from which on an item should be witnessed.
	oldAfter = 3
	// maxViolations bounds the violations that are reported.
	maxViolations = 20
)

// Run makes the run.
func (c Config) Run(ctx context.Context, progress func(float64)) (r Result, err error) {
	w := newWorld(ctx, c, progress)
	if err := w.run(); err != nil {
		return r, err
	}
	r = Result{
		Seed: c.Seed, Members: c.Members, Liars: len(w.liars), Share: c.Liars, Channels: c.Channels,
		CapturedExpected: float64(c.Channels) * mostAre(w.owners, len(w.liars), c.Members),
		Polls:            float64(w.polls) / float64(c.Length), Looks: float64(w.looks) / float64(c.Length), Bound: w.load.Subscriptions(),
	}
	problem, channels := w.load.Problem(honeycomb.Lite, c.Interval, 1, 0)
	r.Ideal = table2.Bound(problem, channels).Notification / c.Interval.Seconds()
	for _, ch := range w.channels {
		if ch.captured {
			r.Captured++
		}
		for _, it := range ch.items {
			if w.counts(it) {
				r.Honest++
			}
		}
	}
	w.count(&r)
	for _, v := range w.Violations() {
		if len(r.Wrong) < maxViolations {
			r.Wrong = append(r.Wrong, v.String())
		}
	}
	return r, nil
}

// mostAre returns the probability that most of some owners are liars, if the owners are drawn from all
// members without replacement.
func mostAre(owners, liars, members int) (p float64) {
	for k := feedtree.SightingsNeeded(owners); k <= min(owners, liars); k++ {
		if owners-k <= members-liars {
			p += choose(liars, k) * choose(members-liars, owners-k) / choose(members, owners)
		}
	}
	return p
}

// choose returns n over k.
func choose(n, k int) float64 {
	of := 1.
	for i := range k {
		of *= float64(n-i) / float64(i+1)
	}
	return of
}

// count counts what readers were shown.
func (w *world) count(r *Result) {
	many, few := group{}, group{}
	for _, ch := range w.channels {
		g := &few
		if ch.pollers >= ManyPollers {
			g = &many
		}
		g.Channels++
		for _, s := range ch.showings {
			marked := !s.markedAt.IsZero()
			if s.item.forged {
				r.Forged++
			}
			if s.item.forged && !ch.captured {
				r.ForgedUncaptured++
				if s.contested {
					r.ForgedContested++
				}
			}
			switch {
			case s.item.forged && marked && ch.captured:
				r.ForgedInCaptured++
			case s.item.forged && marked:
				r.ForgedWitnessed++
			case w.old(s.item):
				r.Pairs++
				wait := w.until.Sub(s.shownAt)
				if marked {
					r.Marked++
					wait = max(0, s.markedAt.Sub(s.shownAt))
				}
				g.add(s.shownAt.Sub(s.item.at), wait)
			}
		}
	}
	if n := len(many.waits) + len(few.waits); n > 0 {
		r.Detection = (many.shown + few.shown).Seconds() / float64(n) / w.config.Interval.Seconds()
	}
	r.Many, r.Few = many.delays(w.config.Interval), few.delays(w.config.Interval)
}

// A group sums up delays of channels.
type group struct {
	Delays
	shown time.Duration
	waits []time.Duration
}

func (g *group) add(shown, wait time.Duration) {
	g.shown += shown
	g.waits = append(g.waits, wait)
}

// delays returns the delays in polling intervals.
func (g *group) delays(interval time.Duration) Delays {
	in := func(d time.Duration) float64 { return d.Seconds() / interval.Seconds() }
	d := Delays{Channels: g.Channels, Pairs: len(g.waits)}
	n := len(g.waits)
	if n == 0 {
		return d
	}
	slices.Sort(g.waits)
	var sum time.Duration
	for _, wait := range g.waits {
		sum += wait
	}
	d.Shown, d.Mean = in(g.shown)/float64(n), in(sum)/float64(n)
	d.Marked = d.Shown + d.Mean
	d.P50, d.P99 = in(g.waits[n/2]), in(g.waits[n*99/100])
	return d
}
