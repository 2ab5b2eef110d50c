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

// A grove is all hosts of the trees.
type grove struct {
	bench Bench
	plan  *plan
	tally *tally
	dice  *rand.Rand
	hosts []*host
	index map[overlay.ID]int // of hosts
	// needed are pairs of hosts that cannot do without a connection.
	needed map[[2]int]bool
	bare   float64 // heap before there were subscriptions
	ctx    context.Context
	parts  sync.WaitGroup
	fails  chan error // of hosts that ended by themselves
}

// trees measures the trees.
func (b Bench) trees(ctx context.Context, p *plan) (r Result, err error) {
	ctx, end := context.WithCancel(ctx)
	g := &grove{
		bench: b, plan: p, dice: rand.New(rand.NewPCG(b.Seed, 1)), ctx: ctx, fails: make(chan error, 1),
		tally: newTally(p, wire.NewVerifier(wire.HashOf(b.network().Descriptor()))),
		index: map[overlay.ID]int{},
	}
	defer g.parts.Wait()
	defer end()
	r = b.result(OfTrees, p)
	for _, step := range []func(*Result) error{g.open, g.join, g.publish, g.idle, g.weigh} {
		if err := step(&r); err != nil {
			return r, err
		}
		select {
		case err := <-g.fails:
			return r, err
		default:
		}
	}
	return r, nil
}

// open opens all hosts, waits until they are one network, and measures it without trees.
func (g *grove) open(r *Result) error {
	for len(g.hosts) < g.bench.Hosts {
		var through []string
		for range min(doors, len(g.hosts)) {
			through = append(through, g.hosts[g.dice.IntN(len(g.hosts))].sockets.Addrs()...)
		}
		size := wave
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
			_, lack, err := g.strangers()
			return done, lack, err
		}); err != nil {
			return err
		}
	}
	for i := range g.plan.topics {
		g.tally.roots = append(g.tally.roots, g.nearest(g.plan.topics[i].key))
	}
	if err := g.bench.pass(g.ctx, "the overlay comes to rest", g.bench.Forget); err != nil {
		return err
	}
	before, err := g.sent()
	if err != nil {
		return err
	}
	alone := g.bench.Idle / 5
	if err := g.bench.pass(g.ctx, "the overlay alone", alone); err != nil {
		return err
	}
	after, err := g.sent()
	r.OverlayMessages, r.OverlayBytes = g.rate(sum(after).overlay.minus(sum(before).overlay), alone)
	if err == nil {
		g.needed, err = g.acquaintances()
	}
	r.Bare = degree(g.needed, len(g.hosts))
	g.bare, _ = weigh()
	return err
}

// acquaintances are the pairs of hosts of which one has the other in its leaf or its table.
func (g *grove) acquaintances() (map[[2]int]bool, error) {
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

// degree is how many others a host stands with in pairs, in the mean.
func degree(pairs map[[2]int]bool, hosts int) float64 {
	return 2 * float64(len(pairs)) / float64(hosts)
}

const (
	// wave is how many hosts start at once, when those before are members: a machine with few
	// cores makes no more connections at a time.
	wave = 8
	// doors is how many members they know.
	doors = 3
)

// start starts one more host.
func (g *grove) start(through []string) error {
	i := len(g.hosts)
	dice := rand.New(rand.NewPCG(g.dice.Uint64(), g.dice.Uint64()))
	h, err := openHost(g.bench.network(), newKey(g.dice), dice, through, func(d scribe.Delivery) { g.tally.deliver(i, d.Payload) })
	if err != nil {
		return err
	}
	g.hosts, g.index[h.id] = append(g.hosts, h), i
	g.parts.Go(func() {
		if err := h.live(g.ctx); err != nil {
			select {
			case g.fails <- err:
			default: // one is enough
			}
		}
	})
	return nil
}

// newKey rolls a private key.
func newKey(dice *rand.Rand) ed25519.PrivateKey {
	seed := make([]byte, ed25519.SeedSize)
	for i := range seed {
		seed[i] = byte(dice.Uint32())
	}
	return ed25519.NewKeyFromSeed(seed)
}

// strangers says who is no member yet, or does not know all of its leaf.
func (g *grove) strangers() (done float64, lack string, err error) {
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

// join has all hosts subscribe to what they follow, a portion of the topics after the other, and
// waits until all trees stand.
func (g *grove) join(r *Result) error {
	before, err := g.sent()
	if err != nil {
		return err
	}
	began := time.Now()
	for from := range g.plan.portions() {
		to := min(from+portion, len(g.plan.topics))
		if err := g.each(func(i int, h *host) {
			for t := from; t < to; t++ {
				if g.plan.follower(t, i) {
					h.scribe.Join(g.plan.topics[t].key, 1)
				}
			}
		}); err != nil {
			return err
		}
		if _, err := g.stand(from, to, g.bench.Hosts); err != nil {
			return err
		}
	}
	// To push down who is too many takes some ten seconds: once for all.
	s, err := g.stand(0, len(g.plan.topics), g.bench.FanOut)
	if err != nil {
		return err
	}
	r.JoinS = time.Since(began).Seconds()
	after, err := g.sent()
	all := sum(after).minus(sum(before))
	all.scribe[0] = all.carrying // what the overlay routes is part of it
	r.JoinMessages, r.JoinBytes = g.each1(all.trees())
	for _, of := range s {
		for _, p := range of.places {
			if p.parent != none {
				g.needed[pair(p.host, p.parent)] = true
			}
		}
	}
	r.Connections, r.Open = degree(g.needed, len(g.hosts)), g.connections()
	grown, _ := weigh()
	r.HeapGrown = (grown - g.bare) / float64(g.plan.subscriptions)
	s.sum(g, r)
	return err
}

// stand waits until the trees of the topics in a range all stand, with nobody who has more children
// than so many, and returns them.
func (g *grove) stand(from, to, children int) (s shape, err error) {
	part := float64(to-from) / float64(len(g.plan.topics))
	return s, g.bench.until(g.ctx, "trees stand", func() (float64, string, error) {
		if s, err = g.shape(from, to); err != nil {
			return 0, "", err
		}
		done, lack := s.lack(g, children)
		return float64(from)/float64(len(g.plan.topics)) + part*done, lack, nil
	})
}

// each1 is what of a count is one subscription's.
func (g *grove) each1(c Count) (messages, bytes float64) {
	n := float64(g.plan.subscriptions)
	return float64(c.Messages) / n, float64(c.Bytes) / n
}

// publish publishes all there is to publish, and waits until it has come, or will not.
func (g *grove) publish(r *Result) error {
	before, err := g.sent()
	if err != nil {
		return err
	}
	repeated, err := g.repeated()
	if err != nil {
		return err
	}
	failed := 0 // belongs to mu
	var mu sync.Mutex
	for i, p := range g.plan.publications {
		h := g.hosts[p.publisher]
		raw := h.signer.Sign(wire.DomainEntry, g.plan.item(i, g.bench.ItemBytes, g.dice)).Raw
		r.Envelope = len(raw)
		g.tally.publish(i)
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
		if err := loop.Sleep(g.ctx, g.bench.Every); err != nil {
			return err
		}
	}
	if err := g.bench.until(g.ctx, "trees carry", g.tally.missing); err != nil {
		return err
	}
	if err := loop.Sleep(g.ctx, ackTime); err != nil {
		return err
	}
	after, err := g.sent()
	if err != nil {
		return err
	}
	again, err := g.repeated()
	g.tally.sum(r)
	all, deliveries := sum(after).minus(sum(before)), float64(max(1, r.Over))
	r.Content = float64(all.scribe[downKind].Bytes) / deliveries
	r.Control = float64(all.scribe[gotKind].Bytes) / deliveries
	r.WayUp = float64(all.carrying.Bytes) / float64(len(g.plan.publications))
	r.Doubled, r.Lost = float64(again-repeated)/deliveries, all.lost
	var loads []int
	for i := range after {
		loads = append(loads, after[i].minus(before[i]).scribe[downKind].Bytes)
	}
	r.Load = uneven(loads)
	mu.Lock()
	defer mu.Unlock()
	r.Failed = failed
	return err
}

// ackTime is how long the last acknowledgements may take.
const ackTime = time.Second

// connections is how many peers a host is connected to, in the mean.
func (g *grove) connections() (mean float64) {
	for _, h := range g.hosts {
		mean += float64(h.sockets.Stats().Connections) / float64(len(g.hosts))
	}
	return mean
}

// sent is what each host has sent.
func (g *grove) sent() ([]traffic, error) {
	of := make([]traffic, len(g.hosts))
	err := g.each(func(i int, h *host) { of[i] = h.sentSoFar() })
	return of, err
}

// repeated is how many items have come to hosts that had them.
func (g *grove) repeated() (n int, err error) {
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

// each does something on the loops of all hosts at once.
func (g *grove) each(do func(i int, h *host)) error {
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

// uneven is the largest of some loads, of their mean.
func uneven(loads []int) float64 {
	total := 0
	for _, l := range loads {
		total += l
	}
	if total == 0 {
		return 0
	}
	return float64(slices.Max(loads)) * float64(len(loads)) / float64(total)
}
