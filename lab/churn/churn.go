// Package churn measures the overlay while nodes come and go: how often a look-up fails
// or ends at the wrong member, and what it costs to keep the network in order.
//
// The measures are those of MSPastry (Castro, Costa and Rowstron, Performance and
// dependability of structured peer-to-peer overlays, DSN 2004): look-ups that fail,
// look-ups that are delivered by another than the live member nearest the key, and
// control messages per node and second, which are all messages of the overlay but those
// that carry a look-up or acknowledge it. The nodes are the real ones, in package sim; who comes and goes,
// and for how long, is sim's Churn and Sessions.
//
// Runs lists the runs that the docs name, Pick chooses of them. Each comes to a Report,
// whose Marks stand beside what was asked for.
package churn

import (
	"context"
	"math/rand/v2"
	"time"

	"tidings/sim"
)

// A Scenario is one run.
type Scenario struct {
	Name    string
	Seed    uint64
	Nodes   int
	Session time.Duration // median; 0: nobody leaves
	Silent  float64       // part of those who leave that nobody hears of
	Loss    float64       // of messages
	Lookups int
	Length  time.Duration // in which these are made; virtual
}

// A Result is what a run has shown. Messages and bytes are those of the overlay, as it
// hands them to the transport.
type Result struct {
	Scenario      string  `json:"scenario"`
	Nodes         int     `json:"nodes"`
	SessionMin    float64 `json:"session_min"` // median
	Loss          float64 `json:"loss"`
	Seed          uint64  `json:"seed"`
	Lookups       int     `json:"lookups"` // whose origin lived to be told
	Failed        int     `json:"failed"`
	WrongRoot     int     `json:"wrong_root"`
	HopsMean      float64 `json:"hops_mean"`
	LookupMaxS    float64 `json:"lookup_most_s"`
	MsgsPerNodeS  float64 `json:"msgs_per_node_s"`
	BytesPerNodeS float64 `json:"bytes_per_node_s"`
	ContactsMean  float64 `json:"contacts_mean"` // leaf, table and spares
	ContactsMax   int     `json:"contacts_most"`
	Joins         int     `json:"joins"`
	JoinS         float64 `json:"join_s"` // mean, from the start to membership
	JoinMaxS      float64 `json:"join_most_s"`
	JoinMsgs      float64 `json:"join_msgs"` // mean: that a joining node sends and is sent until then
	Deaths        int     `json:"deaths"`
}

const (
	// growPause is the time between two nodes of the first ones.
	growInterval = 100 * time.Millisecond
	// settle is how long a network is left alone between two phases.
	settleTime = 10 * time.Minute
)

// Run does a run. progress is told how much of it is over, from 0 to 1.
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
	if err := s.advance(settleTime); err != nil { // for the last answers
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
