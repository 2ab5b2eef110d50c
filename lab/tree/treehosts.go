package tree

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"tidings/internal/loop"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/scribe"
)

// treeHosts are all hosts of the trees.
type treeHosts struct {
	bench   Bench
	plan    *plan
	tracker *tracker
	rng     *rand.Rand
	hosts   []*host
	index   map[overlay.ID]int // of hosts
	// needed has the pairs of hosts that need a connection.
	needed   map[[2]int]bool
	bareHeap float64 // live heap before there were subscriptions
	ctx      context.Context
	parts    sync.WaitGroup
	failures chan error // of hosts that ended by themselves
}

// trees measures the trees.
func (b Bench) trees(ctx context.Context, p *plan) (r Result, err error) {
	ctx, end := context.WithCancel(ctx)
	g := &treeHosts{
		bench: b, plan: p, rng: rand.New(rand.NewPCG(b.Seed, 1)), ctx: ctx, failures: make(chan error, 1),
		tracker: newTracker(p, wire.NewVerifier(wire.HashOf(b.network().Descriptor()))),
		index:   map[overlay.ID]int{},
	}
	defer g.parts.Wait()
	defer end()
	r = b.result(OfTrees, p)
	for _, step := range []func(*Result) error{g.open, g.join, g.publish, g.idle, g.measureHeap} {
		if err := step(&r); err != nil {
			return r, err
		}
		select {
		case err := <-g.failures:
			return r, err
		default:
		}
	}
	return r, nil
}

// open opens all hosts, waits until they are one network, and measures it without trees.
func (g *treeHosts) open(r *Result) error {
	for len(g.hosts) < g.bench.Hosts {
		var through []string
		for range min(bootstrapPeers, len(g.hosts)) {
			through = append(through, g.hosts[g.rng.IntN(len(g.hosts))].sockets.Addrs()...)
		}
		size := startBatch
		if through == nil {
			size = 1 // the founder
		}
		for range min(size, g.bench.Hosts-len(g.hosts)) {
			if err := g.start(through); err != nil {
				return err
			}
		}
		done := float64(len(g.hosts)) / float64(g.bench.Hosts)
		if err := g.bench.until(g.ctx, "hosts of trees start", func() (float64, string, error) {
			_, lack, err := g.notJoined()
			return done, lack, err
		}); err != nil {
			return err
		}
	}
	for i := range g.plan.topics {
		g.tracker.roots = append(g.tracker.roots, g.nearest(g.plan.topics[i].key))
	}
	if err := g.bench.wait(g.ctx, "the overlay comes to rest", g.bench.ForgetTime); err != nil {
		return err
	}
	before, err := g.sent()
	if err != nil {
		return err
	}
	alone := g.bench.Idle / 5
	if err := g.bench.wait(g.ctx, "the overlay alone", alone); err != nil {
		return err
	}
	after, err := g.sent()
	r.OverlayMessages, r.OverlayBytes = g.rate(sum(after).overlay.minus(sum(before).overlay), alone)
	if err == nil {
		g.needed, err = g.contactPairs()
	}
	r.ConnectionsBefore = degree(g.needed, len(g.hosts))
	g.bareHeap, _ = liveHeap()
	return err
}

// contactPairs returns the pairs of hosts of which one has the other in its leaf or its table.
func (g *treeHosts) contactPairs() (map[[2]int]bool, error) {
	of := make([][]int, len(g.hosts))
	err := g.each(func(i int, h *host) {
		know := func(c *overlay.Contact) {
			if c == nil || c.ID == h.id {
				return
			}
			if j, ours := g.index[c.ID]; ours {
				of[i] = append(of[i], j)
			}
		}
		for _, m := range h.node.Leaf().Members() {
			know(m)
		}
		h.node.EachSlot(func(_, _ int, contact, spare *overlay.Contact, _ int) {
			know(contact)
			know(spare)
		})
	})
	pairs := map[[2]int]bool{}
	for i, known := range of {
		for _, j := range known {
			pairs[pair(i, j)] = true
		}
	}
	return pairs, err
}

func pair(a, b int) [2]int { return [2]int{min(a, b), max(a, b)} }

// degree returns the mean number of partners of a host in some pairs.
func degree(pairs map[[2]int]bool, hosts int) float64 {
	return 2 * float64(len(pairs)) / float64(hosts)
}

const (
	// startBatch is the number of hosts that start at once, when the ones before are members. More
	// at a time are too much for a machine with few cores.
	startBatch = 8
	// bootstrapPeers is the number of members that a new host is told of.
	bootstrapPeers = 3
)

// start starts one more host.
func (g *treeHosts) start(through []string) error {
	i := len(g.hosts)
	rng := rand.New(rand.NewPCG(g.rng.Uint64(), g.rng.Uint64()))
	h, err := openHost(g.bench.network(), newKey(g.rng), rng, through, func(d scribe.Delivery) { g.tracker.deliver(i, d.Payload) })
	if err != nil {
		return err
	}
	g.hosts, g.index[h.id] = append(g.hosts, h), i
	g.parts.Go(func() {
		if err := h.serve(g.ctx); err != nil {
			select {
			case g.failures <- err:
			default: // one failure is enough
			}
		}
	})
	return nil
}

// newKey returns a random private key.
func newKey(rng *rand.Rand) ed25519.PrivateKey {
	seed := make([]byte, ed25519.SeedSize)
	for i := range seed {
		seed[i] = byte(rng.Uint32())
	}
	return ed25519.NewKeyFromSeed(seed)
}

// notJoined describes a host that is not a member yet, or does not know all of its leaf.
func (g *treeHosts) notJoined() (done float64, lack string, err error) {
	type look struct {
		state overlay.State
		depth int
		leaf  []overlay.ID
	}
	looks := make([]look, len(g.hosts))
	if err := g.each(func(i int, h *host) {
		looks[i] = look{state: h.node.State(), depth: h.node.Leaf().Depth()}
		for _, m := range h.node.Leaf().Members() {
			looks[i].leaf = append(looks[i].leaf, m.ID)
		}
	}); err != nil {
		return 0, "", err
	}
	right := 0
	for i, l := range looks {
		var leaf []overlay.ID
		for _, h := range g.hosts {
			if h.id.Common(g.hosts[i].id) >= l.depth {
				leaf = append(leaf, h.id)
			}
		}
		known := len(leaf) == len(l.leaf) && !slices.ContainsFunc(leaf, func(id overlay.ID) bool { return !slices.Contains(l.leaf, id) })
		if l.state == overlay.Active && known {
			right++
			continue
		}
		lack = fmt.Sprintf("host %d is %v and knows %d of the %d members of its leaf", i, l.state, len(l.leaf), len(leaf))
	}
	return float64(right) / float64(len(looks)), lack, nil
}

// join subscribes all hosts to their topics, batch by batch, and waits until all trees are
// complete.
func (g *treeHosts) join(r *Result) error {
	before, err := g.sent()
	if err != nil {
		return err
	}
	began := time.Now()
	for from := range g.plan.batches() {
		to := min(from+batchSize, len(g.plan.topics))
		if err := g.each(func(i int, h *host) {
			for t := from; t < to; t++ {
				if g.plan.follows(t, i) {
					h.scribe.Join(g.plan.topics[t].key, 1)
				}
			}
		}); err != nil {
			return err
		}
		if _, err := g.awaitTrees(from, to, g.bench.Hosts); err != nil {
			return err
		}
	}
	// Pushing down surplus children takes some ten seconds, so wait for it once for all topics.
	s, err := g.awaitTrees(0, len(g.plan.topics), g.bench.FanOut)
	if err != nil {
		return err
	}
	r.JoinS = time.Since(began).Seconds()
	after, err := g.sent()
	all := sum(after).since(sum(before))
	all.scribe[0] = all.carrying // what the overlay routes is part of it
	r.JoinMessages, r.JoinBytes = g.perSubscription(all.trees())
	for _, of := range s {
		for _, p := range of.places {
			if p.parent != none {
				g.needed[pair(p.host, p.parent)] = true
			}
		}
	}
	r.Connections, r.ConnectionsOpen = degree(g.needed, len(g.hosts)), g.connections()
	grown, _ := liveHeap()
	r.HeapGrown = (grown - g.bareHeap) / float64(g.plan.subscriptions)
	s.finish(g, r)
	return err
}

// awaitTrees waits until the trees of a range of topics are complete, with at most children
// children per node, and returns them.
func (g *treeHosts) awaitTrees(from, to, children int) (s forest, err error) {
	part := float64(to-from) / float64(len(g.plan.topics))
	return s, g.bench.until(g.ctx, "trees stand", func() (float64, string, error) {
		if s, err = g.inspectTrees(from, to); err != nil {
			return 0, "", err
		}
		done, lack := s.missing(g, children)
		return float64(from)/float64(len(g.plan.topics)) + part*done, lack, nil
	})
}

// perSubscription divides a count by the number of subscriptions.
func (g *treeHosts) perSubscription(c Count) (messages, bytes float64) {
	n := float64(g.plan.subscriptions)
	return float64(c.Messages) / n, float64(c.Bytes) / n
}

// publish makes all publications, and waits until they have arrived or are lost.
func (g *treeHosts) publish(r *Result) error {
	before, err := g.sent()
	if err != nil {
		return err
	}
	repeated, err := g.duplicates()
	if err != nil {
		return err
	}
	failed := 0 // guarded by mu
	var mu sync.Mutex
	for i, p := range g.plan.publications {
		h := g.hosts[p.publisher]
		raw := h.signer.Sign(wire.DomainEntry, g.plan.item(i, g.bench.ItemBytes, g.rng)).Raw
		r.Envelope = len(raw)
		g.tracker.publish(i)
		if err := h.loop.Call(g.ctx, func() {
			h.scribe.Publish(g.plan.topics[p.topic].key, raw, func(ok bool) {
				if !ok {
					mu.Lock()
					defer mu.Unlock()
					failed++
				}
			})
		}); err != nil {
			return fmt.Errorf("publish: %w", err)
		}
		g.bench.Progress("trees carry", float64(i)/float64(len(g.plan.publications)))
		if err := loop.Sleep(g.ctx, g.bench.Interval); err != nil {
			return err
		}
	}
	if err := g.bench.until(g.ctx, "trees carry", g.tracker.missing); err != nil {
		return err
	}
	if err := loop.Sleep(g.ctx, ackTime); err != nil {
		return err
	}
	after, err := g.sent()
	if err != nil {
		return err
	}
	again, err := g.duplicates()
	g.tracker.finish(r)
	all, deliveries := sum(after).since(sum(before)), float64(max(1, r.OverLinks))
	r.ContentBytes = float64(all.scribe[downKind].Bytes) / deliveries
	r.ControlBytes = float64(all.scribe[gotKind].Bytes) / deliveries
	r.UpBytes = float64(all.carrying.Bytes) / float64(len(g.plan.publications))
	r.DuplicateShare, r.LostFrames = float64(again-repeated)/deliveries, all.lost
	var loads []int
	for i := range after {
		loads = append(loads, after[i].since(before[i]).scribe[downKind].Bytes)
	}
	r.LoadMaxMean = maxOverMean(loads)
	mu.Lock()
	defer mu.Unlock()
	r.Failed = failed
	return err
}

// ackTime is the time for the last acknowledgements.
const ackTime = time.Second

// connections returns the mean number of peers that a host is connected to.
func (g *treeHosts) connections() (mean float64) {
	for _, h := range g.hosts {
		mean += float64(h.sockets.Stats().Connections) / float64(len(g.hosts))
	}
	return mean
}

// sent returns what each host has sent.
func (g *treeHosts) sent() ([]traffic, error) {
	of := make([]traffic, len(g.hosts))
	err := g.each(func(i int, h *host) { of[i] = h.snapshot() })
	return of, err
}

// duplicates returns the number of items that reached hosts that already had them.
func (g *treeHosts) duplicates() (n int, err error) {
	of := make([]int, len(g.hosts))
	err = g.each(func(i int, h *host) { of[i] = int(h.scribe.Stats().Repeated) })
	for _, k := range of {
		n += k
	}
	return n, err
}

func sum(of []traffic) (all traffic) {
	for _, t := range of {
		all = all.plus(t)
	}
	return all
}

// each calls do on the loops of all hosts at once.
func (g *treeHosts) each(do func(i int, h *host)) error {
	errs := make([]error, len(g.hosts))
	var all sync.WaitGroup
	for i, h := range g.hosts {
		all.Go(func() { errs[i] = h.loop.Call(g.ctx, func() { do(i, h) }) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("ask hosts of trees: %w", context.Cause(g.ctx))
	}
	return nil
}

// maxOverMean returns the largest load divided by the mean.
func maxOverMean(loads []int) float64 {
	total := 0
	for _, l := range loads {
		total += l
	}
	if total == 0 {
		return 0
	}
	return float64(slices.Max(loads)) * float64(len(loads)) / float64(total)
}
