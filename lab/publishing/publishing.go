// Package publishing runs a world in which publishers sign items for those who follow their feeds,
// and looks when each of these is shown each item: while nothing happens, while members come and
// go, frames are lost, the network is parted, readers are away for a day, and members in the middle
// of trees swallow what they should pass on.
//
// The nodes are the real ones, of package sim. A [Scenario] is one such world, a [Result] what came
// of it: pairs of a reader and an item, which are counted apart by what the item had to come through
// ([Part]). Time is counted from the moment at which the publisher has signed, or from that at which
// the reader's node has started, or the network was whole again, if that was later.
//
// Publishers' nodes stay, and are not among the readers that count. Whoever comes in the place of a
// reader that has gone follows as many feeds, by the dice, and is to be shown what these have
// brought from the beginning.
package publishing

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"tidings/sim"
)

// Options say how large worlds are.
type Options struct {
	Seed   uint64
	Nodes  int
	Feeds  int           // each followed by a twentieth to a fifth of the members
	Every  time.Duration // between two items of a feed, in the mean
	Length time.Duration // in which items count, but where a scenario has its own
}

// Docs are the worlds of the docs.
func Full() Options {
	return Options{Seed: 1, Nodes: 1024, Feeds: 32, Every: 3 * time.Minute, Length: 30 * time.Minute}
}

// A Scenario is what befalls a world.
type Scenario struct {
	Options
	Name        string
	Owners      int           // of each feed
	FanOut      int           // of trees; 0: as networks have it if nothing is told
	Session     time.Duration // median stay of all but publishers; 0: nobody goes
	Loss        float64       // of all frames
	Partitioned time.Duration // half of the members from the others
	Away        int           // readers whose nodes are down, for Absence
	Absence     time.Duration
	Droppers    float64       // part of the members with children in any tree
	Limit       time.Duration // within which all are to have an item
	P99Factor   float64       // what is asked of the slowest hundredth, of that in calm; 0: nothing
}

const (
	calm        = "calm"
	partitioned = "parted"
	offline     = "offline"
	droppers    = "swallow"
	dayNodes    = 64 // of the world that lives for a day
	dayFeeds    = 16
	dayEvery    = 15 * time.Minute
	dayAway     = 4
)

// Scenarios lists those of the docs.
func Scenarios(o Options) []Scenario {
	base := Scenario{Options: o, Owners: 5}
	named := func(name string, change func(*Scenario)) Scenario {
		c := base
		c.Name = name
		change(&c)
		return c
	}
	of := []Scenario{named(calm, func(c *Scenario) { c.Limit = 10 * time.Second })}
	for _, s := range []struct {
		session time.Duration
		owners  int
		limit   time.Duration
	}{{60, 5, 120}, {15, 6, 180}, {5, 8, 300}} {
		of = append(of, named(fmt.Sprintf("churn-%d", s.session), func(c *Scenario) {
			c.Session, c.Owners, c.Limit = s.session*time.Minute, s.owners, s.limit*time.Second
		}))
	}
	for _, l := range []struct {
		percent int
		p99     float64
	}{{1, 2}, {5, 4}, {10, 8}} {
		of = append(of, named(fmt.Sprintf("loss-%d", l.percent), func(c *Scenario) {
			c.Loss, c.P99Factor, c.Limit = float64(l.percent)/100, l.p99, 10*time.Minute
		}))
	}
	return append(of,
		named(partitioned, func(c *Scenario) { c.Partitioned, c.Limit = 30*time.Minute, 2*time.Minute }),
		named(offline, func(c *Scenario) {
			c.Nodes, c.Feeds, c.Every = min(c.Nodes, dayNodes), min(c.Feeds, dayFeeds), max(c.Every, dayEvery)
			c.Away, c.Absence, c.Limit = dayAway, 24*time.Hour, 2*time.Minute
		}),
		named(droppers, func(c *Scenario) { c.Droppers, c.Limit = 0.3, 10*time.Minute }),
	)
}

// Pick returns the scenarios with some names, in their order; a name without its last part names all
// that begin with it: churn is all churn-…. With loss comes calm, with which it is compared.
func Pick(all []Scenario, names []string) (of []Scenario, err error) {
	is := func(c Scenario, name string) bool { return c.Name == name || strings.HasPrefix(c.Name, name+"-") }
	var known []string
	for _, c := range all {
		known = append(known, c.Name)
	}
	for _, name := range names {
		if !slices.ContainsFunc(all, func(c Scenario) bool { return is(c, name) }) {
			return nil, fmt.Errorf("no scenario %q: there are %s", name, strings.Join(known, ", "))
		}
	}
	wanted := func(c Scenario) bool {
		return slices.ContainsFunc(names, func(name string) bool { return is(c, name) })
	}
	compared := slices.ContainsFunc(all, func(c Scenario) bool { return wanted(c) && c.P99Factor > 0 })
	for _, c := range all {
		if wanted(c) || compared && c.Name == calm {
			of = append(of, c)
		}
	}
	return of, nil
}

// A Result is what came of a scenario. Its fields are its JSON.
type Result struct {
	Scenario   string   `json:"scenario"`
	Seed       uint64   `json:"seed"`
	Nodes      int      `json:"nodes"`
	Owners     int      `json:"owners"`
	Feeds      int      `json:"feeds"`
	Channels   float64  `json:"channels_per_node"`
	SessionMin float64  `json:"session_min"`
	Loss       float64  `json:"loss"`
	Items      int      `json:"items"`
	Groups     []*Group `json:"parts"`

	ShownTwice int `json:"twice"`    // versions of an item that a reader was shown again in one life of its node
	Repeated   int `json:"again"`    // items that it was shown again in a later life
	Duplicated int `json:"doubled"`  // that stand twice in a reader's feed in the end
	Vanished   int `json:"gone"`     // that a reader was shown and does not have in the end
	Unsigned   int `json:"unsigned"` // that are not its publisher's in the end

	CommitP99 float64 `json:"held_p99_s"` // from the signature until the publisher heard that owners hold it
	CommitMax float64 `json:"held_most_s"`
	Retried   int     `json:"pushed_again"` // pushes that came to nothing within a minute, or were refused
	Refused   string  `json:"refused"`      // why one was, the last time

	Interior        int      `json:"interior"`      // members with children in a tree
	Droppers        int      `json:"swallow"`       // of these, who swallow
	Shadowed        int      `json:"shadow_places"` // readers with a place in a second tree of their feed, when it began
	Digests         float64  `json:"digests_per_node_min"`
	Audits          float64  `json:"audits_per_node_h"`
	Missed          int      `json:"behind"` // pairs that lacked when the network was whole again, or readers were back
	Gaps            uint64   `json:"gaps"`   // of the members there in the end
	Filled          uint64   `json:"filled"`
	Overdue         uint64   `json:"overdue"`
	Lacking         uint64   `json:"lacking"` // publications that readers miss in logs, where nobody withholds any
	ForcedReconfigs uint64   `json:"jumps"`
	Merged          uint64   `json:"merged"`
	VirtualS        float64  `json:"virtual_s"`
	WallS           float64  `json:"wall_s"`
	Wrong           []string `json:"wrong"` // what checkers found besides
}

// Part returns the part of a name, an empty one if there is none.
func (r *Result) Group(name string) *Group {
	for _, p := range r.Groups {
		if p.Name == name {
			return p
		}
	}
	return &Group{Name: name}
}

// Lost is how many pairs of all parts came to nothing.
func (r *Result) Lost() (n int) {
	for _, p := range r.Groups {
		n += p.Lost
	}
	return n
}

// The times of a world.
const (
	growInterval = 100 * time.Millisecond // between two members
	settleTime   = 30 * time.Second       // until all know each other
	joinTime     = 30 * time.Second       // in which all follow their feeds
	warmupTime   = 3 * time.Minute        // until trees stand, and owners know whose the feeds are
	faultMargin  = 5 * time.Minute        // of a trouble, and behind it, in which items come
	tailTime     = 2 * time.Minute        // that is left to the last item, besides the limit
)

// Run simulates.
func (c Scenario) Run(ctx context.Context, progress func(float64)) (Result, error) {
	w := newWorld(ctx, c, progress)
	r := Result{
		Scenario: c.Name, Seed: c.Seed, Nodes: c.Nodes, Owners: c.Owners, Feeds: c.Feeds,
		SessionMin: c.Session.Minutes(), Loss: c.Loss,
	}
	if err := w.start(); err != nil {
		return r, err
	}
	r.Channels = w.channels()
	end := func() {}
	if c.Session > 0 {
		end = w.Churn(sim.Churn{
			Sessions: sim.Sessions{Median: c.Session}, Silent: silentShare, Returning: returningShare,
			Permanent: func(p *sim.Peer) bool { return w.publishers[p] != nil },
			Arrived:   w.follow,
		})
	}
	w.SetNetworkFaults(sim.NetworkFaults{Loss: c.Loss})
	var err error
	switch {
	case c.Partitioned > 0:
		err = w.partition(&r)
	case c.Away > 0:
		err = w.absence(&r)
	case c.Droppers > 0:
		err = w.dropForwards(&r)
	default:
		err = w.advance(c.Length)
	}
	if err != nil {
		return r, err
	}
	w.stop()
	if err := w.advance(c.Limit + tailTime); err != nil {
		return r, err
	}
	end()
	w.finish(&r)
	return r, w.checkWindows(&r)
}

// silent is the part of those who go that nobody hears of; back that of those who come who were here
// before.
const silentShare, returningShare = 0.5, 0.5

// length is how long a scenario takes, about.
func (c Scenario) length() time.Duration {
	d := time.Duration(c.Nodes)*growInterval + settleTime + joinTime + warmupTime + c.Limit + tailTime
	switch {
	case c.Partitioned > 0:
		return d + 2*faultMargin + c.Partitioned
	case c.Away > 0:
		return d + 2*faultMargin + c.Absence
	}
	return d + c.Length
}
