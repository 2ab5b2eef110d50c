// Package publishing measures how long items take from publishers to the readers of their feeds:
// without faults, under churn and loss, in a partition, after readers were away for a day, and with
// members in the middle of trees that drop what they should pass on.
//
// The nodes are the real ones, in package sim. A [Scenario] is one run, a [Result] its outcome:
// pairs of a reader and an item, in groups by the conditions that the item had to pass ([Group]).
// Time counts from the moment at which the publisher has signed the item, or, if that is later,
// from the start of the reader's node or the end of the partition.
//
// Publishers' nodes stay, and are not among the readers. A peer that replaces a reader follows
// about as many feeds, chosen at random, and is to be shown all their items from the beginning.
package publishing

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"tidings/sim"
)

// Options say how large the network is.
type Options struct {
	Seed   uint64
	Nodes  int
	Feeds  int           // each followed by 5 to 20 % of the members
	Every  time.Duration // mean time between two items of a feed
	Length time.Duration // in which items count, unless a scenario has its own length
}

// Full returns the options of the runs in the docs.
func Full() Options {
	return Options{Seed: 1, Nodes: 1024, Feeds: 32, Every: 3 * time.Minute, Length: 30 * time.Minute}
}

// A Scenario is the conditions of a run.
type Scenario struct {
	Options
	Name        string
	Owners      int           // of each feed
	FanOut      int           // of trees; 0: the default
	Session     time.Duration // median stay of all nodes but publishers; 0: no node leaves
	Loss        float64       // of all frames
	Partitioned time.Duration // how long half of the members are separated from the others
	Away        int           // readers whose nodes are down for Absence
	Absence     time.Duration
	Droppers    float64       // share of the members with children in any tree that drop messages
	Limit       time.Duration // within which every reader must be shown an item
	P99Factor   float64       // target of the p99 relative to that without faults; 0: none
}

const (
	calm        = "calm"
	partitioned = "parted"
	offline     = "offline"
	droppers    = "swallow"
	dayNodes    = 64 // of the run that takes a day
	dayFeeds    = 16
	dayEvery    = 15 * time.Minute
	dayAway     = 4
)

// Scenarios lists the scenarios in the docs.
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

// Pick returns the scenarios with some names, in the order of the list. A name without its last
// part selects all that begin with it: churn is all churn-…. With loss comes calm, with which it is
// compared.
func Pick(all []Scenario, names []string) (of []Scenario, err error) {
	is := func(c Scenario, name string) bool { return c.Name == name || strings.HasPrefix(c.Name, name+"-") }
	var known []string
	for _, c := range all {
		known = append(known, c.Name)
	}
	for _, name := range names {
		if !slices.ContainsFunc(all, func(c Scenario) bool { return is(c, name) }) {
			return nil, fmt.Errorf("there is no scenario %q; the scenarios are %s", name, strings.Join(known, ", "))
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

// A Result is the outcome of a scenario. Its fields are its JSON.
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

	ShownTwice int `json:"twice"`    // items that a reader was shown again in one life of its node
	Repeated   int `json:"again"`    // items that a reader was shown again in a later life
	Duplicated int `json:"doubled"`  // items that are twice in a reader's feed at the end
	Vanished   int `json:"gone"`     // items that a reader was shown and does not have at the end
	Unsigned   int `json:"unsigned"` // items that do not count as their publisher's at the end

	CommitP99 float64 `json:"held_p99_s"` // from the signature until the publisher was told of the commit
	CommitMax float64 `json:"held_most_s"`
	Retried   int     `json:"pushed_again"` // pushes that were refused, or not answered within a minute
	Refused   string  `json:"refused"`      // the last reason

	Interior        int      `json:"interior"`      // members with children in a tree
	Droppers        int      `json:"swallow"`       // those of them that drop messages
	Shadowed        int      `json:"shadow_places"` // readers with a place in the shadow tree of their feed, at the start
	Digests         float64  `json:"digests_per_node_min"`
	Audits          float64  `json:"audits_per_node_h"`
	Missed          int      `json:"behind"` // pairs that were missing at the end of the partition, or when the readers were back
	Gaps            uint64   `json:"gaps"`   // of the members that are there at the end
	Filled          uint64   `json:"filled"`
	Overdue         uint64   `json:"overdue"`
	Lacking         uint64   `json:"lacking"` // publications that readers miss in logs although no member withholds any
	ForcedReconfigs uint64   `json:"jumps"`
	Merged          uint64   `json:"merged"`
	VirtualS        float64  `json:"virtual_s"`
	WallS           float64  `json:"wall_s"`
	Wrong           []string `json:"wrong"` // other violations that checkers found
}

// Group returns the group with a name; an empty one if there is none.
func (r *Result) Group(name string) *Group {
	for _, p := range r.Groups {
		if p.Name == name {
			return p
		}
	}
	return &Group{Name: name}
}

// Lost returns the number of lost pairs in all groups.
func (r *Result) Lost() (n int) {
	for _, p := range r.Groups {
		n += p.Lost
	}
	return n
}

// The phases.
const (
	growInterval = 100 * time.Millisecond // between the starts of two members
	settleTime   = 30 * time.Second       // until all know each other
	joinTime     = 30 * time.Second       // in which members subscribe
	warmupTime   = 3 * time.Minute        // until there are trees, and owners know the publishers' keys
	faultMargin  = 5 * time.Minute        // before and after a fault, in which items come
	tailTime     = 2 * time.Minute        // for the last item, in addition to the limit
)

// Run makes the run.
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

// silentShare is the share of departures that no other node is told of; returningShare that of
// arrivals that were there before.
const silentShare, returningShare = 0.5, 0.5

// length is about how long a scenario takes.
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
