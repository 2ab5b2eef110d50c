package tiers

import (
	"slices"
	"strings"
	"time"

	"tidings/cobra/provision"
	"tidings/internal/env"
)

// A State says what a node of a plan does.
type State struct {
	Name, Role string
	Plan       string      // digest of the topology
	Settled    bool        // nothing of an earlier topology is under way
	Retired    bool        // the node is not in the topology any more
	Down, Up   []LinkState // links to receivers, and from senders
	Feeds      int         // that a crawler polls
	Queries    int         // distinct ones that a reflector has, or that a filter has for its reflectors
	Placed     bool        // all filters of a reflector have its queries
	WaitsFor   string      // name of the node whose queue is full, so that this node does not go on; "": none
	Since      time.Time   // since when
	Stats      Stats
	Reflectors []string // names of the reflectors of the plan

	Failing  int       // feeds of a crawler whose last poll failed
	Failures []Failure // the first of them, by their addresses
}

// A Failure says why a poll failed.
type Failure struct{ URL, Why string }

// maxFailures bounds the failures of a state, which people read.
const maxFailures = 10

// A LinkState is the state of a link.
type LinkState struct {
	Name    string
	Items   int       // articles that wait: to be acknowledged by a receiver, or to be passed on
	Bytes   int       // of them
	Dropped uint64    // articles that the sender has dropped because the receiver's queue was full, ever
	Full    time.Time // since when the queue is full; zero: it is not
	Heard   time.Time // last message of the other node; zero: none since the start
}

// State returns what the node does. Without a plan it is empty.
func (t *Tiers) State() State {
	s := State{Name: t.plans.self().Name, Role: t.Role(), Plan: t.plans.plan.Digest, Stats: t.Stats()}
	if t.out == nil {
		return s
	}
	for _, n := range t.plans.plan.Nodes {
		if n.Role == provision.Reflector {
			s.Reflectors = append(s.Reflectors, n.Name)
		}
	}
	s.Settled, s.Retired = t.isSettled, t.retired()
	left := func(list []neighbour, id env.PeerID, items int) bool { return items == 0 && !has(list, id) }
	for _, l := range t.out.links {
		if left(t.plans.current.down, l.to.Peer.ID, len(l.pending)) {
			continue
		}
		d := LinkState{Name: l.to.Name, Items: len(l.pending), Bytes: l.bytes, Dropped: l.dropped, Heard: l.heardAt}
		if l.full {
			d.Full = l.fullAt
			if !t.cfg.Drop && has(t.plans.current.down, l.to.Peer.ID) && (s.WaitsFor == "" || l.fullAt.Before(s.Since)) {
				s.WaitsFor, s.Since = l.blockedBy(), l.fullAt
			}
		}
		s.Down = append(s.Down, d)
	}
	for _, i := range t.in {
		if t.filter != nil && i.waitsFor != "" && s.WaitsFor == "" {
			s.WaitsFor, s.Since = i.waitsFor, t.plans.changed // for the queries of a plan
		}
		if left(t.plans.current.up, i.from.Peer.ID, len(i.buffer)+len(i.handed)) {
			continue
		}
		s.Up = append(s.Up, LinkState{Name: i.from.Name, Items: len(i.buffer) + len(i.handed), Bytes: i.bytes, Dropped: i.dropped, Heard: i.heardAt})
	}
	switch {
	case t.crawler != nil:
		for _, f := range t.crawler.feeds {
			if f.stage == here || f.stage == leaving && len(f.record.To) == 0 {
				s.Feeds++
				s.addFailure(f)
			}
		}
	case t.filter != nil:
		for _, p := range t.filter.reflectors {
			s.Queries += len(p.entries)
		}
	case t.queries != nil:
		s.Placed = true
		s.Queries = len(t.queries.texts)
		for _, f := range t.queries.filters {
			s.Placed = s.Placed && (f.inSync || !has(t.plans.current.up, f.filter.Peer.ID))
		}
	}
	return s
}

// addFailure counts a feed whose last poll failed.
func (s *State) addFailure(f *crawled) {
	if f.failed == "" {
		return
	}
	s.Failing++
	i, _ := slices.BinarySearchFunc(s.Failures, f.url, func(other Failure, url string) int { return strings.Compare(other.URL, url) })
	s.Failures = slices.Insert(s.Failures, i, Failure{f.url, f.failed})
	s.Failures = s.Failures[:min(len(s.Failures), maxFailures)]
}

// blockedBy returns the name of the node that the receiver of a full queue waits for: mostly the receiver itself.
func (l *outLink) blockedBy() string {
	if l.waitsFor != "" {
		return l.waitsFor
	}
	return l.to.Name
}
