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

// A Bench says what is measured.
type Bench struct {
	Hosts        int
	Topics       int
	Publications int
	ItemBytes    int           // of an item, without its envelope
	Interval     time.Duration // between two publications
	FanOut       int
	Idle         time.Duration // in which hosts that have nothing to publish are measured
	// Forget is waited before that, and before the overlay is measured by itself: whatever was
	// published is remembered nowhere then, and who has just joined is no longer busy with that.
	ForgetTime time.Duration
	// Meshes is how long GossipSub's meshes may take to form when all followers are known.
	MeshTime time.Duration
	// Connections are the numbers of connections that hosts of GossipSub have: Overlay,
	// Trees. None: GossipSub is left out.
	Connections []string
	Seed        uint64
	// Progress is told how much of what is done is done, from 0 to 1.
	Progress func(what string, done float64)
}

// How many connections hosts of GossipSub have each: as many as hosts of the trees in the mean.
const (
	Overlay = "overlay" // when there are no trees yet
	Trees   = "trees"   // when all of them stand
)

const (
	// Forgetting is how long scribe remembers what was published, and a little.
	FullForgetTime = 205 * time.Second
	// Heartbeats are five of GossipSub's, for its meshes to form.
	FullMeshTime = 5 * time.Second
)

const (
	// leafSplit and leafMerge are the smallest there can be: owners of a key live in one leaf,
	// and are eight at most. Of few hosts most know one another otherwise, and trees are flat.
	leafSplit, leafMerge = 10, 8

	pollInterval = 250 * time.Millisecond // between two looks at what is waited for
	// joinTime is how long hosts may take to become members, or to subscribe to all they follow:
	// GossipSub announces a quarter of a million subscriptions to each host's every neighbour.
	joinTime = time.Hour
	// patience is how long nothing may come before what is missing counts as lost: longer than
	// trees repeat anything, and GossipSub offers it.
	lossTimeout = 40 * time.Second
)

// System names, of results.
const (
	OfTrees  = "tidings"
	OfGossip = "gossipsub"
)

// A Result is what one system has shown with one number of topics. Its fields are its JSON.
type Result struct {
	System        string `json:"system"`
	Like          string `json:"as,omitempty"` // GossipSub: connected as the overlay, or as the trees
	Hosts         int    `json:"hosts"`
	Topics        int    `json:"topics"`
	Subscriptions int    `json:"subscriptions"`
	Publications  int    `json:"publications"`
	Seed          uint64 `json:"seed"`

	// Connections that a host needs, for its leaf, table, and edges; those of GossipSub are
	// all it has.
	ConnectionsBefore float64 `json:"connections_before"` // before there were subscriptions
	Connections       float64 `json:"connections"`        // and when all of these stood
	ConnectionsOpen   float64 `json:"connections_open"`   // then: some that were needed once live on for minutes

	JoinS        float64 `json:"join_s"` // until all subscriptions stood
	JoinMessages float64 `json:"join_messages"`
	JoinBytes    float64 `json:"join_bytes"` // these of a subscription

	Expected       int     `json:"wanted"`
	Delivered      int     `json:"got"`
	OverLinks      int     `json:"over_links"` // deliveries
	Twice          int     `json:"twice"`      // handed to a follower again
	Invalid        int     `json:"strange"`    // wrongly signed, or brought to who did not ask
	DuplicateShare float64 `json:"duplicates"` // copies that came to a host that had one, a delivery
	Failed         int     `json:"failed"`     // publications that were given up
	P50Ms          float64 `json:"p50_ms"`
	P99Ms          float64 `json:"p99_ms"`
	MaxMs          float64 `json:"most_ms"`

	Envelope     int     `json:"envelope_bytes"`
	ContentBytes float64 `json:"content_bytes"`      // sent to carry items down, of a delivery
	ControlBytes float64 `json:"control_bytes"`      // acknowledgements; GossipSub: all that carries no item
	UpBytes      float64 `json:"way_up_bytes"`       // from the publisher to the root, of a publication
	LoadMaxMean  float64 `json:"load_max_mean"`      // bytes of Content by host
	LostFrames   int     `json:"lost_frames"`        // for want of room or of a way
	PerDelivery  float64 `json:"bytes_per_delivery"` // Content and Control

	DepthMean  float64 `json:"depth_mean,omitempty"` // edges between a follower and the root
	DepthMax   int     `json:"depth_max"`
	FanOutMean float64 `json:"fan_out_mean,omitempty"` // children of those who have any; GossipSub: peers in a mesh
	FanOutMax  int     `json:"fanout_max"`
	Forwarders float64 `json:"forwarders,omitempty"` // of a topic, that do not follow it, its root included

	HeapPerSubscription float64 `json:"heap_per_subscription"` // by itself
	HeapNoise           float64 `json:"heap_noise_bytes"`      // by which it differs when nothing is done
	HeapGrown           float64 `json:"heap_grown_bytes"`      // of a subscription, connections included

	IdleS           float64          `json:"idle_s"`
	IdleMessages    float64          `json:"idle_messages_s"` // of a host: trees, or GossipSub
	IdleBytes       float64          `json:"idle_bytes_s"`
	IdleBytesTenMin float64          `json:"idle_bytes_10min"`     // as many as in ten minutes
	IdleKinds       map[string]Count `json:"idle_kinds,omitempty"` // all of them, of all hosts
	// OverlayMessages and so on are the overlay's own, before there were subscriptions, and with them.
	OverlayMessages      float64 `json:"overlay_messages_s,omitempty"`
	OverlayBytes         float64 `json:"overlay_bytes_s,omitempty"`
	OverlayMessagesAfter float64 `json:"overlay_messages_then_s,omitempty"`
	OverlayBytesAfter    float64 `json:"overlay_bytes_then_s,omitempty"`
}

// Run measures the trees, and then GossipSub, each with hosts of its own. What was finished is
// returned, also with an error.
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

// network is the network of the hosts of the trees.
func (b Bench) network() wire.Network {
	n := wire.DefaultNetwork(networkName)
	n.LeafSplit, n.LeafMerge, n.FanOut, n.PrivateAddresses = leafSplit, leafMerge, b.FanOut, true
	return n
}

// until looks again and again until nothing is missing.
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
		if err := loop.Rest(ctx, pollInterval); err != nil {
			return err
		}
	}
}

// pass lets time pass, and shows that.
func (b Bench) wait(ctx context.Context, what string, d time.Duration) error {
	for began := time.Now(); ; {
		since := time.Since(began)
		if since >= d {
			return nil
		}
		b.Progress(what, since.Seconds()/d.Seconds())
		if err := loop.Rest(ctx, min(time.Second, d-since)); err != nil {
			return err
		}
	}
}

// weighings is how often the heap is weighed: what is allocated while the collector is at work
// counts as alive, and the busier the machine is, the more that is.
const heapReadings = 5

// weigh is how much of the heap is alive, and by how much the two least readings of it differ.
// What finalizers and pools let go of is collected the second time.
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
