// Package push measures what a network saves when the hubs of its feeds push (WebSub), and what it loses when a hub is gone
// for an hour. It uses the real nodes of package sim, because an hour and a day would otherwise take as long.
package push

import (
	"context"
	"fmt"
	"time"

	"tidings/sim"
)

// A World is a simulated network with a hub, and how long it runs.
type World struct {
	Seed     uint64
	Members  int
	Public   int           // members that hubs reach
	Channels int           // each with all members as readers
	Every    time.Duration // mean time between two items of a channel
	Length   time.Duration // in which polls count
}

// A Result is the outcome. Its fields are its JSON.
type Result struct {
	Before    int      `json:"polls_without_hub"`
	Polls     int      `json:"polls_with_hub"`
	Pushed    int      `json:"pushed"`        // channels whose hub was relied on
	Items     int      `json:"items"`         // shown to readers, each counted once for every reader
	Missing   int      `json:"missing"`       // not shown to a reader, also of the hour without the hub
	P50       float64  `json:"p50_s"`         // from the publisher's ping to a reader
	P99       float64  `json:"p99_s"`         // the same
	Slowest   float64  `json:"outage_most_s"` // longest time to a reader of an item of the hour without the hub
	Resumed   int      `json:"resumed"`       // channels that were pushed again
	ResumedIn float64  `json:"resumed_in_s"`  // time from the return of the hub until all were
	Wrong     []string `json:"wrong"`
}

const (
	outage = time.Hour
	// settled is how long polls and hubs settle before polls count, and at least three mean times between two items.
	settled = 6 * time.Hour
	// resumeTime is how long the hub may be back until a channel is pushed again, in mean times between two items. A hub is
	// relied on when it has delivered an item.
	resumeTime = 4
	step       = 5 * time.Minute
)

// Run runs the network without the hub, and then with it.
func (w World) Run(ctx context.Context, progress func(what string, done float64)) (r Result, err error) {
	if r.Before, _, err = w.measure(ctx, 0, func(done float64) { progress("readers poll", done/2) }); err != nil {
		return r, err
	}
	polls, h, err := w.measure(ctx, w.Public, func(done float64) { progress("the hub pushes", (1+done)/2) })
	if err != nil {
		return r, err
	}
	r.Polls, r.Pushed = polls, h.Pushed()
	began := h.Now().Add(-w.Length)
	if err := run(ctx, h, time.Minute, nil); err != nil {
		return r, err
	}
	delays, missing := h.Delays(began, h.Now().Add(-time.Minute))
	r.Items, r.Missing = len(delays), missing
	if n := len(delays); n > 0 {
		r.P50, r.P99 = delays[n/2].Seconds(), delays[n*99/100].Seconds()
	}
	gone := h.Now()
	h.Down = true
	if err := run(ctx, h, outage, nil); err != nil {
		return r, err
	}
	h.Down = false
	back := h.Now()
	for h.Now().Sub(back) < resumeTime*w.Every {
		if err := run(ctx, h, step, nil); err != nil {
			return r, err
		}
		if r.Resumed = h.Pushed(); r.Resumed == w.Channels && r.ResumedIn == 0 {
			r.ResumedIn = h.Now().Sub(back).Seconds()
		}
	}
	delays, missing = h.Delays(gone, back)
	r.Items, r.Missing = r.Items+len(delays), r.Missing+missing
	if n := len(delays); n > 0 {
		r.Slowest = delays[n-1].Seconds()
	}
	for _, v := range h.Violations() {
		r.Wrong = append(r.Wrong, v.String())
	}
	return r, nil
}

// measure counts polls in a network that hubs reach at some members.
func (w World) measure(ctx context.Context, public int, progress func(float64)) (polls int, h *sim.Hub, err error) {
	h = sim.NewHub(w.Seed, w.Members, public)
	h.Publish(w.Channels, w.Every, 0)
	settle := max(settled, 3*w.Every)
	all := settle + w.Length
	if err := run(ctx, h, settle, func(done float64) { progress(done * float64(settle) / float64(all)) }); err != nil {
		return 0, nil, err
	}
	before := h.Polls()
	err = run(ctx, h, w.Length, func(done float64) { progress((float64(settle) + done*float64(w.Length)) / float64(all)) })
	return h.Polls() - before, h, err
}

// run lets time pass, and tells how much of it has.
func run(ctx context.Context, h *sim.Hub, d time.Duration, progress func(float64)) error {
	for began := h.Now(); h.Now().Sub(began) < d; {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("the simulated network: %w", err)
		}
		h.World.Run(min(step, d-h.Now().Sub(began)))
		if progress != nil {
			progress(float64(h.Now().Sub(began)) / float64(d))
		}
	}
	return nil
}
