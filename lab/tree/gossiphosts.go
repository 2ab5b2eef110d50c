package tree

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"tidings/internal/loop"
	"tidings/internal/wire"
	"tidings/lab/gossip"
	"tidings/overlay"
)

// gossipHosts are all hosts of GossipSub.
type gossipHosts struct {
	bench   Bench
	plan    *plan
	tracker *tracker
	rng     *rand.Rand
	keys    []*wire.Signer
	peers   []*gossip.Peer
	links   [][2]int // connected pairs
	publish map[[2]int]publisher
	ctx     context.Context
	// live heap before there were subscriptions, and the noise of its measurement
	bareHeap, noise float64
}

// A publisher publishes to a topic through one of its followers.
type publisher func(ctx context.Context, item []byte) error

const (
	// maxDials is the number of connections that are opened at once.
	maxDials = 16
	// dialTimeout is the time to open one.
	dialTimeout = 30 * time.Second
)

// gossip measures GossipSub with hosts that have a mean number of connections.
func (b Bench) gossip(ctx context.Context, p *plan, degree int) (r Result, err error) {
	network := wire.HashOf(b.network().Descriptor())
	s := &gossipHosts{
		bench: b, plan: p, rng: rand.New(rand.NewPCG(b.Seed, 2)), ctx: ctx,
		tracker: newTracker(p, wire.NewVerifier(network)), publish: map[[2]int]publisher{},
	}
	defer func() {
		errs := []error{err}
		for _, p := range s.peers {
			errs = append(errs, p.Close())
		}
		err = errors.Join(errs...)
	}()
	for i := range b.Hosts {
		key := newKey(s.rng)
		peer, err := gossip.New(key, listenAt, func(item []byte) bool { return s.tracker.deliver(i, item) })
		if err != nil {
			return r, err
		}
		s.peers, s.keys = append(s.peers, peer), append(s.keys, wire.NewSigner(key, network))
		b.Progress("hosts of GossipSub start", float64(i+1)/float64(b.Hosts))
	}
	s.links = connect(b.Hosts, min(degree, b.Hosts-1), s.rng)
	r = b.result(OfGossip, p)
	for _, step := range []func(*Result) error{s.connect, s.join, s.deliver, s.idle} {
		if err := step(&r); err != nil {
			return r, err
		}
	}
	return r, nil
}

// connect chooses random connections: about degree for each host, with all hosts in one component.
// Each ring through all hosts, in a random order, gives every host two.
func connect(hosts, degree int, rng *rand.Rand) (links [][2]int) {
	have, count := map[[2]int]bool{}, make([]int, hosts)
	link := func(a, b int) {
		if a > b {
			a, b = b, a
		}
		if a != b && !have[[2]int{a, b}] && (count[a] < degree && count[b] < degree || len(links) < hosts) {
			have[[2]int{a, b}] = true
			links = append(links, [2]int{a, b})
			count[a]++
			count[b]++
		}
	}
	for range (degree + 1) / 2 {
		ring := rng.Perm(hosts)
		for i := range ring {
			link(ring[i], ring[(i+1)%hosts])
		}
	}
	// Add what is missing where rings had connections in common.
	for a := range hosts {
		for _, b := range rng.Perm(hosts) {
			if count[a] >= degree {
				break
			}
			link(a, b)
		}
	}
	return links
}

// connect opens the connections, and waits until GossipSub knows them.
func (s *gossipHosts) connect(r *Result) error {
	next := make(chan [2]int)
	errs := make([]error, maxDials)
	var dials sync.WaitGroup
	for i := range maxDials {
		dials.Go(func() {
			for l := range next {
				ctx, cancel := context.WithTimeout(s.ctx, dialTimeout)
				errs[i] = errors.Join(errs[i], s.peers[l[0]].Connect(ctx, s.peers[l[1]].Addrs()...))
				cancel()
			}
		})
	}
	for i, l := range s.links {
		next <- l
		s.bench.Progress("hosts of GossipSub connect", float64(i)/float64(len(s.links)))
	}
	close(next)
	dials.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if err := s.bench.until(s.ctx, "hosts of GossipSub connect", func() (float64, string, error) {
		want, have := 2*len(s.links), s.stats().Partners
		return float64(have) / float64(want), lacking(have, want, "partners"), nil
	}); err != nil {
		return err
	}
	r.ConnectionsBefore = float64(s.stats().Connections) / float64(len(s.peers))
	s.bareHeap, s.noise = liveHeap()
	return nil
}

func lacking(have, want int, what string) string {
	if have >= want {
		return ""
	}
	return fmt.Sprintf("%d of %d %s", have, want, what)
}

// join subscribes all hosts to their topics, batch by batch, and waits until their neighbours know.
func (s *gossipHosts) join(r *Result) error {
	degrees := make([]int, len(s.peers))
	for _, l := range s.links {
		degrees[l[0]]++
		degrees[l[1]]++
	}
	publishes := map[[2]int]bool{}
	for _, p := range s.plan.publications {
		publishes[[2]int{p.publisher, p.topic}] = true
	}
	before, began := s.stats(), time.Now()
	want := before.Announced
	for from := range s.plan.batches() {
		to := min(from+batchSize, len(s.plan.topics))
		for t := from; t < to; t++ {
			for _, i := range s.plan.topics[t].followers {
				want += degrees[i]
			}
		}
		if err := s.follow(from, to, publishes); err != nil {
			return err
		}
		if err := s.bench.until(s.ctx, "subscriptions are known", func() (float64, string, error) {
			return float64(to) / float64(len(s.plan.topics)), lacking(s.stats().Announced, want, "announcements"), nil
		}); err != nil {
			return err
		}
	}
	r.JoinS = time.Since(began).Seconds()
	if err := s.bench.wait(s.ctx, "meshes form", s.bench.MeshTime); err != nil {
		return err
	}
	after, n := s.stats(), float64(s.plan.subscriptions)
	r.JoinMessages = float64(after.Others-before.Others) / n
	r.JoinBytes = float64(after.OtherBytes-before.OtherBytes) / n
	r.Connections = float64(after.Connections) / float64(len(s.peers))
	r.ConnectionsOpen = r.Connections
	r.FanOutMean = float64(after.Mesh) / n
	with, noise := liveHeap()
	r.HeapGrown = (with - s.bareHeap) / n
	r.HeapPerSubscription, r.HeapNoise = r.HeapGrown, (noise+s.noise)/n
	return nil
}

// follow subscribes all hosts to their topics in a range, and keeps the publish functions of those
// that will publish.
func (s *gossipHosts) follow(from, to int, publishes map[[2]int]bool) error {
	errs := make([]error, len(s.peers))
	var mu sync.Mutex // guards s.publish
	var all sync.WaitGroup
	for i, p := range s.peers {
		all.Go(func() {
			for t := from; t < to; t++ {
				if !s.plan.follows(t, i) {
					continue
				}
				publish, err := p.Join(nameOfTopic(s.plan.topics[t].key))
				if err != nil {
					errs[i] = err
					return
				}
				if who := [2]int{i, t}; publishes[who] {
					mu.Lock()
					s.publish[who] = publish
					mu.Unlock()
				}
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// nameOfTopic encodes a key as the name of a topic, as short as text can be.
func nameOfTopic(key overlay.ID) string { return base64.RawURLEncoding.EncodeToString(key[:]) }

// deliver makes all publications, and waits until they have arrived or are lost.
func (s *gossipHosts) deliver(r *Result) error {
	before, loads := s.stats(), s.loads()
	for i, p := range s.plan.publications {
		raw := s.keys[p.publisher].Sign(wire.DomainEntry, s.plan.item(i, s.bench.ItemBytes, s.rng)).Raw
		r.Envelope = len(raw)
		s.tracker.publish(i)
		if err := s.publish[[2]int{p.publisher, p.topic}](s.ctx, raw); err != nil {
			if s.ctx.Err() != nil {
				return context.Cause(s.ctx)
			}
			r.Failed++
		}
		s.bench.Progress("GossipSub carries", float64(i)/float64(len(s.plan.publications)))
		if err := loop.Sleep(s.ctx, s.bench.Interval); err != nil {
			return err
		}
	}
	if err := s.bench.until(s.ctx, "GossipSub carries", s.tracker.missing); err != nil {
		return err
	}
	if err := loop.Sleep(s.ctx, ackTime); err != nil { // for the last copies
		return err
	}
	s.tracker.finish(r)
	after, deliveries := s.stats(), float64(max(1, r.OverLinks))
	r.ContentBytes = float64(after.ItemBytes-before.ItemBytes) / deliveries
	r.ControlBytes = float64(after.OtherBytes-before.OtherBytes) / deliveries
	r.DuplicateShare = float64(after.Repeated-before.Repeated) / deliveries
	r.LostFrames = after.Dropped - before.Dropped
	for i, load := range s.loads() {
		loads[i] = load - loads[i]
	}
	r.LoadMaxMean = maxOverMean(loads)
	return nil
}

// loads returns the bytes that each host has sent to carry items.
func (s *gossipHosts) loads() (of []int) {
	for _, p := range s.peers {
		of = append(of, p.Stats().ItemBytes)
	}
	return of
}

// idle measures what hosts send while nothing is published.
func (s *gossipHosts) idle(r *Result) error {
	if err := s.bench.wait(s.ctx, "GossipSub comes to rest", s.bench.MeshTime); err != nil {
		return err
	}
	before, began := s.stats(), time.Now()
	if err := s.bench.wait(s.ctx, "GossipSub rests", s.bench.Idle); err != nil {
		return err
	}
	after, took := s.stats(), time.Since(began)
	r.IdleS = took.Seconds()
	if n := float64(len(s.peers)) * took.Seconds(); n > 0 {
		r.IdleMessages = float64(after.Others+after.Items-before.Others-before.Items) / n
		r.IdleBytes = float64(after.OtherBytes+after.ItemBytes-before.OtherBytes-before.ItemBytes) / n
	}
	return nil
}

// stats returns the sum of all peers' counters.
func (s *gossipHosts) stats() (all gossip.Stats) {
	for _, p := range s.peers {
		one := p.Stats()
		all.Connections += one.Connections
		all.Partners += one.Partners
		all.Mesh += one.Mesh
		all.Items += one.Items
		all.ItemBytes += one.ItemBytes
		all.Others += one.Others
		all.OtherBytes += one.OtherBytes
		all.Dropped += one.Dropped
		all.Announced += one.Announced
		all.Repeated += one.Repeated
	}
	return all
}
