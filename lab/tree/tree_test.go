package tree

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"tidings/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// With ten hosts and twenty topics over real sockets, by trees and by GossipSub, everything is
// delivered once, and the costs have their minimum.
func TestBothDeliver(t *testing.T) {
	b := Bench{
		Hosts: 10, Topics: 20, Publications: 20, ItemBytes: 1024, Interval: time.Millisecond, FanOut: 2, Idle: 100 * time.Millisecond,
		MeshTime: time.Second, Connections: []string{Trees}, Seed: 1, Progress: progress(t),
	}
	results, err := b.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(results) != 2 || results[0].System != OfTrees || results[1].System != OfGossip {
		t.Fatalf("results of %+v", results)
	}
	for _, r := range results {
		if r.Delivered != r.Expected || r.Expected < 20 || r.Twice > 0 || r.Invalid > 0 || r.Failed > 0 {
			t.Errorf("%s: got %d of %d, %d twice, %d strange, %d failed", r.System, r.Delivered, r.Expected, r.Twice, r.Invalid, r.Failed)
		}
		if r.Envelope < 1024+96 || r.ContentBytes < float64(r.Envelope) || r.JoinBytes < 32 {
			t.Errorf("%s: envelopes of %d bytes, %.0f a delivery, %.0f to join", r.System, r.Envelope, r.ContentBytes, r.JoinBytes)
		}
		if r.P50Ms <= 0 || r.P99Ms < r.P50Ms || r.LoadMaxMean < 1 || r.Connections < 2 {
			t.Errorf("%s: %+v", r.System, r)
		}
	}
	trees := results[0]
	if trees.OverLinks < trees.Delivered || trees.DepthMax < 1 || trees.FanOutMax > 2 || trees.UpBytes == 0 {
		t.Errorf("trees: %+v", trees)
	}
}

// progress logs the phases of a bench.
func progress(t *testing.T) func(string, float64) {
	last, began := "", time.Now()
	return func(what string, _ float64) {
		if what != last {
			last = what
			t.Logf("%.2f s: %s", time.Since(began).Seconds(), what)
		}
	}
}

// The same seed gives the same plan, and its numbers are as documented.
func TestAPlanFollowsFromItsSeed(t *testing.T) {
	p, again := newPlan(200, 100, 250, 7), newPlan(200, 100, 250, 7)
	wanted, times := 0, map[int]int{}
	for i, pub := range p.publications {
		if pub != again.publications[i] {
			t.Fatalf("publication %d is %v, and %v the next time", i, pub, again.publications[i])
		}
		if !p.follows(pub.topic, pub.publisher) {
			t.Errorf("host %d publishes to topic %d, which it does not follow", pub.publisher, pub.topic)
		}
		wanted += len(p.topics[pub.topic].followers) - 1
		times[pub.topic]++
	}
	if wanted != p.expected || len(times) != 100 {
		t.Errorf("%d wanted, not %d; %d topics are published to", p.expected, wanted, len(times))
	}
	for i, topic := range p.topics {
		if n := len(topic.followers); n < 10 || n > 40 || !slices.IsSorted(topic.followers) {
			t.Errorf("topic %d has %d followers", i, n)
		}
	}
	if per := float64(newPlan(200, TopicsFor(100), 0, 1).subscriptions) / 200; per < 90 || per > 110 {
		t.Errorf("%.1f subscriptions a host, not about 100", per)
	}
}

func TestHostsAreConnectedInOnePiece(t *testing.T) {
	for _, degree := range []int{1, 2, 7, 60, 199} {
		count := make([]int, 200)
		piece := make([]int, 200)
		for i := range piece {
			piece[i] = i
		}
		for _, l := range connect(200, degree, rand.New(rand.NewPCG(1, 1))) {
			count[l[0]]++
			count[l[1]]++
			from, to := piece[l[0]], piece[l[1]]
			for i := range piece {
				if piece[i] == from {
					piece[i] = to
				}
			}
		}
		sum := 0
		for i, n := range count {
			if sum += n; n > max(2, degree) || piece[i] != piece[0] {
				t.Errorf("degree %d: host %d has %d, in piece %d of %d", degree, i, n, piece[i], piece[0])
			}
		}
		if mean := float64(sum) / 200; mean < 0.98*float64(degree) {
			t.Errorf("degree %d: %.1f in the mean", degree, mean)
		}
	}
}

// Duplicates, deliveries to other hosts and forged ones do not count as expected.
func TestTheTrackerCountsExpectedItems(t *testing.T) {
	p := newPlan(20, 1, 2, 1)
	topic, pub := p.topics[0], p.publications[0]
	network := wire.Hash{1}
	rng := rand.New(rand.NewPCG(1, 1))
	signer := wire.NewSigner(newKey(rng), network)
	tally := newTracker(p, wire.NewVerifier(network))
	other := topic.followers[0]
	if other == pub.publisher {
		other = topic.followers[1]
	}
	stranger := 0
	for p.follows(0, stranger) {
		stranger++
	}
	item := signer.Sign(wire.DomainEntry, p.item(0, 100, rng)).Raw
	forged := slices.Clone(item)
	forged[len(forged)-1] ^= 1
	elsewhere := wire.NewSigner(newKey(rng), wire.Hash{2}).Sign(wire.DomainEntry, p.item(0, 100, rng)).Raw
	if tally.deliver(other, item) {
		t.Error("came before it was sent")
	}
	tally.publish(0)
	for _, c := range []struct {
		what  string
		host  int
		item  []byte
		right bool
	}{
		{"to a follower", other, item, true},
		{"to it again", other, item, true},
		{"to its publisher", pub.publisher, item, true},
		{"to a stranger", stranger, item, false},
		{"forged", other, forged, false},
		{"of another network", other, elsewhere, false},
		{"not sent yet", other, signer.Sign(wire.DomainEntry, p.item(1, 100, rng)).Raw, false},
		{"of no number", other, signer.Sign(wire.DomainEntry, p.item(2, 100, rng)).Raw, false},
		{"nothing", other, nil, false},
	} {
		if got := tally.deliver(c.host, c.item); got != c.right {
			t.Errorf("%s: right is %v", c.what, got)
		}
	}
	var r Result
	tally.finish(&r)
	if r.Expected != 2*(len(topic.followers)-1) || r.Delivered != 1 || r.OverLinks != 2 || r.Twice != 1 || r.Invalid != 7 {
		t.Errorf("%+v", r)
	}
}

// Broken trees are told from complete ones.
func TestBrokenTreesAreFound(t *testing.T) {
	p := newPlan(4, 1, 0, 1)
	p.topics[0].followers = []int{0, 1, 2, 3}
	g := &treeHosts{plan: p, tracker: &tracker{roots: []int{3}}}
	right := func() treeShape {
		return treeShape{places: []place{{host: 0, parent: 1}, {host: 1, parent: 3, children: 1}, {host: 2, parent: 3}, {host: 3, parent: none, root: true, children: 2}}}
	}
	for _, c := range []struct {
		what   string
		change func([]place) []place
		stands bool
	}{
		{"a right one", func(of []place) []place { return of }, true},
		{"a follower without a place", func(of []place) []place { return of[1:] }, false},
		{"an orphan", func(of []place) []place { of[0].parent = none; return of }, false},
		{"a circle", func(of []place) []place { of[1].parent = 0; return of }, false},
		{"a parent that is not in it", func(of []place) []place { of[0].parent = 7; return of }, false},
		{"a second root", func(of []place) []place { of[2].root = true; return of }, false},
		{"another root", func(of []place) []place { of[3].root, of[2].root = false, true; return of }, false},
		{"too many children", func(of []place) []place { of[3].children = 3; return of }, false},
	} {
		of := right()
		of.places = c.change(of.places)
		if fault := of.problem(g, 2); (fault == "") != c.stands {
			t.Errorf("%s: %q", c.what, fault)
		}
	}
	var r Result
	forest{right()}.finish(g, &r)
	if r.DepthMean != 1 || r.DepthMax != 2 || r.FanOutMean != 1.5 || r.FanOutMax != 2 || r.Forwarders != 0 {
		t.Errorf("%+v", r)
	}
}

func TestEnvelopesAreOpened(t *testing.T) {
	s, err := Verify(1024, time.Millisecond, 1)
	if err != nil || s.PerSecond < 100 {
		t.Errorf("%+v, %v", s, err)
	}
}
