package tree

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"time"

	"tidings/internal/loop"
	"tidings/internal/wire"
)

// A Bench describes a measurement.
type Bench struct {
	Hosts        int
	Topics       int
	Publications int
	ItemBytes    int           // of an item, without its envelope
	Interval     time.Duration // between two publications
	FanOut       int
	Idle         time.Duration // how long hosts are measured while nothing is published
	// ForgetTime is the time before the idle measurement, and before the overlay is measured by
	// itself. After it no host remembers a publication, and new members have settled.
	ForgetTime time.Duration
	// MeshTime is the time for GossipSub's meshes to form once all subscriptions are known.
	MeshTime time.Duration
	// Connections lists the numbers of connections that GossipSub hosts have: Overlay, Trees. If
	// empty, GossipSub is left out.
	Connections []string
	Seed        uint64
	// Progress is called with the part that is done, from 0 to 1.
	Progress func(what string, done float64)
}

// The number of connections of GossipSub hosts: the mean of the hosts of the trees
const (
	Overlay = "overlay" // before there are trees
	Trees   = "trees"   // when all trees are complete
)

const (
	// FullForgetTime is a little more than the time for which scribe remembers publications.
	FullForgetTime = 205 * time.Second
	// FullMeshTime is five of GossipSub's heartbeats, in which its meshes form.
	FullMeshTime = 5 * time.Second
)

const (
	// leafSplit and leafMerge have the smallest possible values: the owners of a key, at most
	// eight, live in one leaf. With larger leaves, few hosts would all know each other, and trees
	// would be flat.
	leafSplit, leafMerge = 10, 8

	pollInterval = 250 * time.Millisecond // between two checks of a condition
	// joinTime is the time for hosts to become members, and to subscribe. GossipSub announces a
	// quarter of a million subscriptions to every neighbour of each host.
	joinTime = time.Hour
	// lossTimeout is how long no delivery may come before missing ones count as lost. It is longer
	// than trees repeat messages and GossipSub offers them.
	lossTimeout = 40 * time.Second
)

// System names, of results.
const (
	OfTrees  = "tidings"
	OfGossip = "gossipsub"
)

// A Result is the outcome for one system and one number of topics. Its fields are its JSON.
type Result struct {
	System        string `json:"system"`
	Like          string `json:"as,omitempty"` // GossipSub: connected like the overlay, or like the trees
	Hosts         int    `json:"hosts"`
	Topics        int    `json:"topics"`
	Subscriptions int    `json:"subscriptions"`
	Publications  int    `json:"publications"`
	Seed          uint64 `json:"seed"`

	// Connections that a host needs for its leaf, table and edges; with GossipSub, all that it has.
	ConnectionsBefore float64 `json:"connections_before"` // before there were subscriptions
	Connections       float64 `json:"connections"`        // when all trees were complete
	ConnectionsOpen   float64 `json:"connections_open"`   // open ones at that time; some are no longer needed, but live on for minutes

	JoinS        float64 `json:"join_s"` // until all subscriptions were complete
	JoinMessages float64 `json:"join_messages"`
	JoinBytes    float64 `json:"join_bytes"` // per subscription

	Expected       int     `json:"wanted"`
	Delivered      int     `json:"got"`
	OverLinks      int     `json:"over_links"` // deliveries
	Twice          int     `json:"twice"`      // delivered to a follower again
	Invalid        int     `json:"strange"`    // with a wrong signature, or delivered to a host that does not follow the topic
	DuplicateShare float64 `json:"duplicates"` // copies at hosts that already had one, per delivery
	Failed         int     `json:"failed"`     // publications that were given up
	P50Ms          float64 `json:"p50_ms"`
	P99Ms          float64 `json:"p99_ms"`
	MaxMs          float64 `json:"most_ms"`

	Envelope     int     `json:"envelope_bytes"`
	ContentBytes float64 `json:"content_bytes"`      // sent to carry items, per delivery
	ControlBytes float64 `json:"control_bytes"`      // acknowledgements; GossipSub: everything without items
	UpBytes      float64 `json:"way_up_bytes"`       // from the publisher to the root, per publication
	LoadMaxMean  float64 `json:"load_max_mean"`      // of the bytes that each host sent to carry items
	LostFrames   int     `json:"lost_frames"`        // for lack of buffers or of a path
	PerDelivery  float64 `json:"bytes_per_delivery"` // ContentBytes and ControlBytes

	DepthMean  float64 `json:"depth_mean,omitempty"` // edges between a follower and the root
	DepthMax   int     `json:"depth_max"`
	FanOutMean float64 `json:"fan_out_mean,omitempty"` // children of nodes that have any; GossipSub: peers in a mesh
	FanOutMax  int     `json:"fanout_max"`
	Forwarders float64 `json:"forwarders,omitempty"` // per topic, hosts that forward without following it, the root included

	HeapPerSubscription float64 `json:"heap_per_subscription"` // of the trees alone
	HeapNoise           float64 `json:"heap_noise_bytes"`      // difference between two measurements of the same state
	HeapGrown           float64 `json:"heap_grown_bytes"`      // per subscription, including connections

	IdleS           float64          `json:"idle_s"`
	IdleMessages    float64          `json:"idle_messages_s"` // per host: of the trees, or of GossipSub
	IdleBytes       float64          `json:"idle_bytes_s"`
	IdleBytesTenMin float64          `json:"idle_bytes_10min"`     // extrapolated to ten minutes
	IdleKinds       map[string]Count `json:"idle_kinds,omitempty"` // totals of all hosts
	// The overlay's own messages, before there were subscriptions and after.
	OverlayMessages      float64 `json:"overlay_messages_s,omitempty"`
	OverlayBytes         float64 `json:"overlay_bytes_s,omitempty"`
	OverlayMessagesAfter float64 `json:"overlay_messages_then_s,omitempty"`
	OverlayBytesAfter    float64 `json:"overlay_bytes_then_s,omitempty"`
}

// Run measures the trees and then GossipSub, each with hosts of its own. It returns the results
// that are complete, even with an error.
func (b Bench) Run(ctx context.Context) (of []Result, err error) {
	p := newPlan(b.Hosts, b.Topics, b.Publications, b.Seed)
	trees, err := b.trees(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("trees of %d topics: %w", b.Topics, err)
	}
	of = append(of, trees)
	for _, as := range b.Connections {
		degree := trees.ConnectionsBefore
		if as == Trees {
			degree = trees.Connections
		}
		gossip, err := b.gossip(ctx, p, int(degree+0.5))
		if err != nil {
			return of, fmt.Errorf("GossipSub with %d topics: %w", b.Topics, err)
		}
		gossip.Like = as
		of = append(of, gossip)
	}
	for i := range of {
		r := &of[i]
		r.PerDelivery, r.IdleBytesTenMin = r.ContentBytes+r.ControlBytes, 600*r.IdleBytes
	}
	return of, nil
}

func (b Bench) result(system string, p *plan) Result {
	return Result{
		System: system, Hosts: b.Hosts, Topics: b.Topics, Subscriptions: p.subscriptions,
		Publications: len(p.publications), Seed: b.Seed,
	}
}

// network returns the network of the hosts of the trees.
func (b Bench) network() wire.Network {
	n := wire.DefaultNetwork(networkName)
	n.LeafSplit, n.LeafMerge, n.FanOut, n.PrivateAddresses = leafSplit, leafMerge, b.FanOut, true
	return n
}

// until waits until nothing is missing.
func (b Bench) until(ctx context.Context, what string, missing func() (done float64, lack string, err error)) error {
	for began := time.Now(); ; {
		done, lack, err := missing()
		if err != nil || lack == "" {
			return err
		}
		b.Progress(what, done)
		if time.Since(began) > joinTime {
			return fmt.Errorf("%s: not within %v: %s", what, joinTime, lack)
		}
		if err := loop.Sleep(ctx, pollInterval); err != nil {
			return err
		}
	}
}

// wait lets time pass, and shows the progress.
func (b Bench) wait(ctx context.Context, what string, d time.Duration) error {
	for began := time.Now(); ; {
		since := time.Since(began)
		if since >= d {
			return nil
		}
		b.Progress(what, since.Seconds()/d.Seconds())
		if err := loop.Sleep(ctx, min(time.Second, d-since)); err != nil {
			return err
		}
	}
}

// heapReadings is the number of readings of the heap. Memory that is allocated during a collection
// counts as live, and a busy machine has more of it.
const heapReadings = 5

// liveHeap returns the live heap and, as its noise, the difference of the two smallest readings.
// Each reading collects twice, because finalizers and pools release memory only at the second
// collection.
func liveHeap() (alive, noise float64) {
	var of []float64
	for range heapReadings {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		of = append(of, float64(m.HeapAlloc))
	}
	slices.Sort(of)
	return of[0], of[1] - of[0]
}
