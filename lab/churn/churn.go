// Package churn measures the overlay while nodes come and go: how often a lookup fails or ends at
// the wrong member, and how much control traffic the network needs.
//
// The measures are those of MSPastry (Castro, Costa and Rowstron, Performance and dependability of
// structured peer-to-peer overlays, DSN 2004): lookups that fail, lookups that are delivered by a
// member other than the live one nearest to the key, and control messages per node and second.
// Control messages are all overlay messages except those that carry or acknowledge a lookup. The
// nodes are the real ones, in package sim; arrivals, departures and session times are sim's Churn
// and Sessions.
//
// Runs lists the runs that the docs name, and Pick selects some of them. Each run gives a Report,
// whose Marks compare its figures with the targets.
package churn

import (
	"context"
	"math/rand/v2"
	"time"

	"tidings/sim"
)

// A Scenario is a run with steady conditions: churn, loss, or neither.
type Scenario struct {
	Name    string
	Seed    uint64
	Nodes   int
	Session time.Duration // median; 0: no member leaves
	Silent  float64       // share of departures that no other node is told of
	Loss    float64       // share of messages that are lost
	Lookups int
	Length  time.Duration // virtual time in which the lookups are made
}

// A Result is the outcome of a Scenario. Messages and bytes are those that the overlay hands to the
// transport.
type Result struct {
	Scenario      string  `json:"scenario"`
	Nodes         int     `json:"nodes"`
	SessionMin    float64 `json:"session_min"` // median
	Loss          float64 `json:"loss"`
	Seed          uint64  `json:"seed"`
	Lookups       int     `json:"lookups"` // lookups whose origin lived to see the outcome
	Failed        int     `json:"failed"`
	WrongRoot     int     `json:"wrong_root"`
	HopsMean      float64 `json:"hops_mean"`
	LookupMaxS    float64 `json:"lookup_most_s"`
	MsgsPerNodeS  float64 `json:"msgs_per_node_s"`
	BytesPerNodeS float64 `json:"bytes_per_node_s"`
	ContactsMean  float64 `json:"contacts_mean"` // leaf, table and spare contacts
	ContactsMax   int     `json:"contacts_most"`
	Joins         int     `json:"joins"`
	JoinS         float64 `json:"join_s"` // mean, from start to membership
	JoinMaxS      float64 `json:"join_most_s"`
	JoinMsgs      float64 `json:"join_msgs"` // mean number of messages that a joining node sends and receives until then
	Deaths        int     `json:"deaths"`
}

const (
	// growInterval is the time between the starts of two initial nodes.
	growInterval = 100 * time.Millisecond
	// settleTime is how long a network is left alone between two phases.
	settleTime = 10 * time.Minute
)

// Run makes the run. It calls progress with the part that is done, from 0 to 1.
func (c Scenario) Run(ctx context.Context, progress func(float64)) (Result, error) {
	grow := time.Duration(c.Nodes)*growInterval + 2*settleTime
	s := newWorld(ctx, c.Seed, grow+joiners*joinInterval+c.Length+2*settleTime, progress)
	s.Grow(c.Nodes, growInterval)
	r := Result{Scenario: c.Name, Nodes: c.Nodes, SessionMin: c.Session.Minutes(), Loss: c.Loss, Seed: c.Seed}
	if err := s.advance(grow); err != nil {
		return r, err
	}
	s.TakeJoinStats()
	rng := rand.New(rand.NewPCG(c.Seed, 0x100c))
	end := func() {}
	if c.Session > 0 {
		end = s.Churn(sim.Churn{Sessions: sim.Sessions{Median: c.Session}, Silent: c.Silent, Returning: 0.5})
	} else {
		s.addJoiners(joiners, joinInterval, rng)
	}
	s.SetNetworkFaults(sim.NetworkFaults{Loss: c.Loss})
	if err := s.advance(joiners*joinInterval + settleTime); err != nil {
		return r, err
	}

	before, from := s.ControlTraffic(), s.Now()
	for range c.Lookups {
		s.After(time.Duration(rng.Int64N(int64(c.Length))), func() {
			if p := s.RandomMember(rng); p != nil {
				s.Route(p, randomKey(rng))
			}
		})
	}
	if err := s.advance(c.Length); err != nil {
		return r, err
	}
	spent, took := s.ControlTraffic(), s.Now().Sub(from).Seconds()
	live := s.Live()
	r.MsgsPerNodeS = float64(spent.Messages-before.Messages) / took / float64(len(live))
	r.BytesPerNodeS = float64(spent.Bytes-before.Bytes) / took / float64(len(live))
	r.contacts(live)
	end()
	if err := s.advance(settleTime); err != nil { // for the last acknowledgements
		return r, err
	}
	r.routes(s.RouteStats())
	r.joins(s.TakeJoinStats())
	return r, nil
}

func (r *Result) contacts(live []*sim.Peer) {
	sum := 0
	for _, p := range live {
		st := p.Layers().Overlay.Stats()
		n := st.Contacts + st.Leaf - 1
		sum += n
		r.ContactsMax = max(r.ContactsMax, n)
	}
	r.ContactsMean = float64(sum) / float64(max(len(live), 1))
}

func (r *Result) routes(of sim.RouteStats) {
	r.Lookups = of.Sent - of.OriginDied
	r.Failed = of.Failed + of.RootJustDiedFailed
	r.WrongRoot = of.WrongRoots
	r.HopsMean = float64(of.HopsTotal) / float64(max(of.Acked, 1))
	r.LookupMaxS = of.Slowest.Seconds()
}

func (r *Result) joins(of sim.JoinStats) {
	r.Deaths, r.Joins, r.JoinMaxS = of.Departed, of.Joined, of.Slowest.Seconds()
	if of.Joined > 0 {
		r.JoinS = of.TotalTime.Seconds() / float64(of.Joined)
		r.JoinMsgs = float64(of.Frames) / float64(of.Joined)
	}
}
