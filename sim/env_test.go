package sim

import (
	"encoding/binary"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/internal/wire/wirepb"
)

// These benchmarks measure the event loop and the interfaces of env under a simulated full load,
// without the layers. docs/decisions/001-doors.md has the results.
//
// go test ./sim -run '^$' -bench 'Timers|Messages|FullLoad' -benchtime 1x -cpu 1

// load is the work of one benchNode.
type load struct {
	pairs       int           // channels that it polls, each once in tau
	fetch       bool          // polls use the Fetcher; otherwise they are only timers
	leases      int           // leases of children, spread over its links
	links       int           // peers with which it exchanges messages
	updateEvery time.Duration // between two messages, to one link after the other; 0: none
	digestEvery time.Duration // between two rounds of digests, one per link; 0: none
}

const (
	tau        = 30 * time.Minute
	leaseTime  = time.Hour
	leaseGrain = time.Minute // leases are checked in batches of this width
)

// A benchNode is a node with one layer that does only what the interfaces need: calendars, polls,
// leases, and messages that are really encoded and decoded.
type benchNode struct {
	// When each part is due.
	next, pollsAt, leasesAt, updateAt, digestsAt time.Time

	fired, answers, sent, heard, lapsed int

	env.Env
	load  load
	index int
	urls  []string // of all channels, shared by all nodes

	polls  env.Calendar[int32]
	expiry env.Calendar[int32]

	leases  []lease
	links   []neighbour
	byID    map[env.PeerID]int32
	message wirepb.Envelope // scratch buffer for encoding
	turn    int
}

// lease is a child's place in one tree. The leases of one link are adjacent.
type lease struct {
	channel int32
	_       uint32 // padding to the size of a real lease
}

type neighbour struct {
	peer  env.Peer
	heard time.Time
}

func newStandIn(e env.Env, index int, l load, urls []string, peers []env.Peer) *benchNode {
	n := &benchNode{
		Env: e, load: l, index: index, urls: urls,
		leases: make([]lease, l.leases),
		byID:   map[env.PeerID]int32{},
	}
	n.message.Key, n.message.Payload, n.message.Signature = make([]byte, 32), make([]byte, 48), make([]byte, 64)
	now := e.Clock.Now()
	within := func(d time.Duration) time.Time { return now.Add(time.Duration(e.Rand.Int64N(int64(d)))) }
	for i := range l.pairs {
		n.polls.Add(within(tau), int32(i))
	}
	for i, p := range peers {
		n.links = append(n.links, neighbour{p, now})
		n.byID[p.ID] = int32(i)
	}
	for i := range n.leases {
		n.leases[i] = lease{channel: e.Rand.Int32N(int32(len(urls)))}
		n.expiry.Add(grain(within(leaseTime)), int32(i))
	}
	n.pollsAt, n.leasesAt = n.polls.Next(), n.expiry.Next()
	if l.updateEvery > 0 {
		n.updateAt = within(l.updateEvery)
	}
	if l.digestEvery > 0 {
		n.digestsAt = within(l.digestEvery)
	}
	return n
}

// grain returns the end of the batch in which a lease is checked.
func grain(t time.Time) time.Time { return t.Truncate(leaseGrain).Add(leaseGrain) }

func (n *benchNode) Run(now time.Time) time.Time {
	due := func(t time.Time) bool { return !t.IsZero() && !t.After(now) }
	if n.next.After(now) {
		return n.next
	}
	if due(n.pollsAt) {
		n.poll(now)
		n.pollsAt = n.polls.Next()
	}
	if due(n.leasesAt) {
		n.lapse(now)
		n.leasesAt = n.expiry.Next()
	}
	for due(n.updateAt) {
		n.say(n.turn%len(n.links), false)
		n.turn++
		n.updateAt = n.updateAt.Add(n.load.updateEvery)
	}
	for due(n.digestsAt) {
		for i := range n.links {
			n.say(i, true)
		}
		n.digestsAt = n.digestsAt.Add(n.load.digestEvery)
	}
	n.next = env.Sooner(env.Sooner(n.pollsAt, n.leasesAt), env.Sooner(n.updateAt, n.digestsAt))
	return n.next
}

func (n *benchNode) poll(now time.Time) {
	for {
		i, at, ok := n.polls.Pop(now)
		if !ok {
			return
		}
		n.fired++
		if n.load.fetch {
			channel := (n.index*7919 + int(i)*104729) % len(n.urls)
			n.Fetcher.Fetch(env.Handle(i), env.Request{URL: n.urls[channel]})
		}
		n.polls.Add(at.Add(tau), i)
	}
}

// lapse checks the leases that would have expired without a digest of their link.
func (n *benchNode) lapse(now time.Time) {
	for {
		i, _, ok := n.expiry.Pop(now)
		if !ok {
			return
		}
		link := int(i) * len(n.links) / len(n.leases)
		until := n.links[link].heard.Add(leaseTime)
		if until.Before(now) {
			n.leases[i] = lease{}
			n.lapsed++
			continue
		}
		n.expiry.Add(grain(until), i)
	}
}

// say sends a message of about 150 bytes, which is typical. It has the form of an envelope, but no
// signature.
func (n *benchNode) say(link int, digest bool) {
	n.message.Payload[8] = 0
	if digest {
		n.message.Payload[8] = 1
	}
	binary.BigEndian.PutUint64(n.message.Payload, n.Rand.Uint64())
	n.Network.Send(n.links[link].peer, env.Control, wire.AppendFrame(make([]byte, 0, 160), wire.Overlay, &n.message))
	n.sent++
}

func (n *benchNode) Receive(from env.PeerID, frame []byte) error {
	_, body, err := wire.ParseFrame(frame)
	if err != nil {
		return err
	}
	var m wirepb.Envelope
	if err := proto.Unmarshal(body, &m); err != nil {
		return err
	}
	if len(m.Payload) != 48 {
		return env.ErrFrame
	}
	if m.Payload[8] == 1 {
		n.links[n.byID[from]].heard = n.Clock.Now()
	}
	n.heard++
	return nil
}

func (n *benchNode) Answered(_ env.Handle, a env.Answer) {
	if a.Status == 304 {
		n.answers++
	}
}

func (n *benchNode) Found(env.Peer)      {}
func (n *benchNode) Reachable([]string)  {}
func (n *benchNode) PeerDown(env.PeerID) {}

// benchNodes boots a world of nodes under one load. Links are mutual: to the next and the previous
// hosts on a ring.
func benchNodes(nodes, channels int, l load) (*World, []*benchNode) {
	w := New(Config{Seed: 1})
	urls := make([]string, channels)
	for i := range urls {
		urls[i] = fmt.Sprintf("https://origin-%d.example/feed.xml", i)
	}
	for range nodes {
		w.Host(HostConfig{Open: true})
	}
	var all []*benchNode
	for i, h := range w.Hosts() {
		var peers []env.Peer
		for k := range l.links / 2 {
			peers = append(peers,
				w.Hosts()[(i+k+1)%nodes].Peer(), w.Hosts()[(i-k-1+nodes)%nodes].Peer())
		}
		h.Boot(func(e env.Env) env.Node {
			n := newStandIn(e, i, l, urls, peers)
			all = append(all, n)
			return n
		})
	}
	return w, all
}

// sum adds up a counter of all nodes.
func sum(all []*benchNode, counter func(*benchNode) int) (total int) {
	for _, n := range all {
		total += counter(n)
	}
	return total
}

// BenchmarkTimers has 5 million (node, channel) pairs in the calendars of 1,000 nodes, each of
// which fires once.
func BenchmarkTimers(b *testing.B) {
	for b.Loop() {
		w, all := benchNodes(1000, 100_000, load{pairs: 5000})
		start := time.Now()
		w.Run(time.Hour)
		fired := sum(all, func(n *benchNode) int { return n.fired })
		if fired != 2*5_000_000 {
			b.Fatalf("%d timers fired, want 10 million", fired)
		}
		b.ReportMetric(float64(fired)/time.Since(start).Seconds(), "events/s")
	}
}

// BenchmarkMessages encodes, sends, delivers and decodes 2 million messages of about 150 bytes.
func BenchmarkMessages(b *testing.B) {
	for b.Loop() {
		w, all := benchNodes(1024, 1, load{links: 48, updateEvery: time.Second})
		start := time.Now()
		w.Run(2000 * time.Second)
		heard := sum(all, func(n *benchNode) int { return n.heard })
		if sent := sum(all, func(n *benchNode) int { return n.sent }); sent < 2_000_000 || heard < sent-1024 {
			b.Fatalf("%d messages heard of %d", heard, sent)
		}
		b.ReportMetric(float64(heard)/time.Since(start).Seconds(), "msgs/s")
	}
}

// BenchmarkFullLoad runs a network of 1,024 nodes for six hours: 60 million polls of 5 million
// pairs, 5 million leases, and 10 million messages.
func BenchmarkFullLoad(b *testing.B) {
	for b.Loop() {
		start := time.Now()
		w, all := benchNodes(1024, 100_000, load{
			pairs: 4883, fetch: true, leases: 4883, links: 48,
			updateEvery: 2680 * time.Millisecond, digestEvery: 10 * time.Minute,
		})
		w.Run(6 * time.Hour)
		wall := time.Since(start).Seconds()
		polls := sum(all, func(n *benchNode) int { return n.answers })
		heard := sum(all, func(n *benchNode) int { return n.heard })
		lapsed := sum(all, func(n *benchNode) int { return n.lapsed })
		leases := sum(all, func(n *benchNode) int { return n.expiry.Len() })
		if polls < 59_990_000 || heard < 10_000_000 || lapsed > 0 || leases < 5_000_000 {
			b.Fatalf("%d polls, %d messages, %d leases, %d lapsed", polls, heard, leases, lapsed)
		}
		b.ReportMetric(wall, "wall_s")
		b.ReportMetric(float64(w.Events())/wall, "events/s")
		b.ReportMetric(float64(heard)/wall, "msgs/s")
		b.ReportMetric(maxRSS(), "max_rss_bytes")
		runtime.KeepAlive(all)
	}
}

// maxRSS returns the maximum memory of the process, as the system counts it, or as the Go runtime
// does where the system does not report it.
func maxRSS() float64 {
	status, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(status)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "VmHWM:" {
			kb, _ := strconv.ParseFloat(f[1], 64)
			return kb * 1024
		}
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.Sys)
}
