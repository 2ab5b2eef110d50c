package daemon

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"tidings/internal/check/checktest"
	"tidings/overlay"
	"tidings/overlay/libp2p"
)

// A swarm is a set of node processes on loopback.
type swarm struct {
	t     *testing.T
	nodes []*process // the live ones
	rng   *rand.Rand
}

// ownPort returns addresses to listen at. No other program gets their port while the node that has them is down.
func ownPort(t *testing.T) []string {
	t.Helper()
	port := checktest.Port(t)
	return []string{"/ip4/127.0.0.1/udp/" + port + "/quic-v1", "/ip4/127.0.0.1/tcp/" + port}
}

// grow founds a network with a number of members.
func grow(t *testing.T, members int) *swarm {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	s := &swarm{t: t, rng: rand.New(rand.NewPCG(seed, 0))}
	network := laboratory("lab")
	founder := launch(t, "0", role{Dir: t.TempDir(), Listen: ownPort(t), Found: &network})
	founder.ready()
	s.nodes = append(s.nodes, founder)
	for i := 1; i < members; i++ {
		s.nodes = append(s.nodes, launch(t, fmt.Sprint(i), role{Dir: t.TempDir(), Listen: ownPort(t), Bootstrap: founder.addrs}))
	}
	for _, p := range s.nodes[1:] {
		p.ready()
	}
	return s
}

func (s *swarm) key() (k overlay.ID) {
	for i := range k {
		k[i] = byte(s.rng.Uint32())
	}
	return k
}

// root returns the live node nearest to a key.
func (s *swarm) root(key overlay.ID) *process {
	return slices.MinFunc(s.nodes, func(a, b *process) int {
		if overlay.Nearer(key, a.id, b.id) {
			return -1
		}
		return 1
	})
}

// keyOf returns a key with a root that is wanted.
func (s *swarm) keyOf(wanted func(*process) bool) overlay.ID {
	for {
		if k := s.key(); wanted(s.root(k)) {
			return k
		}
	}
}

// together returns an error until all live nodes know each other.
func (s *swarm) together() error {
	for _, p := range s.nodes {
		st := p.status()
		if st.State != overlay.Active || len(st.Leaf) != len(s.nodes) {
			return fmt.Errorf("node %s is %v and knows %d members", p.name, st.State, len(st.Leaf))
		}
	}
	return nil
}

// routes lets each node route a number of random keys at once, and returns an error if any fails.
func (s *swarm) routes(each int, limit time.Duration) error {
	type asked struct {
		by     *process
		key    overlay.ID
		answer <-chan report
	}
	var all []asked
	for _, p := range s.nodes {
		for range each {
			k := s.key()
			all = append(all, asked{p, k, p.order(order{Do: "route", Key: k, Payload: "whose?", Limit: limit})})
		}
	}
	var faults []error
	for _, a := range all {
		r, err := a.by.answer(a.answer)
		if want := s.root(a.key); err == nil && r.Root != want.id {
			err = fmt.Errorf("node %s: root of %s is %s, not %s", a.by.name, a.key.Short(), r.Root.Short(), want.id.Short())
		}
		if err != nil {
			faults = append(faults, err)
		}
	}
	if len(faults) > 0 {
		return fmt.Errorf("%d of %d routes, the first: %w", len(faults), len(all), faults[0])
	}
	return nil
}

// checkSavedPeers returns an error until all nodes have saved a number of peers.
func checkSavedPeers(nodes []*process, peers int) error {
	for _, p := range nodes {
		if n := p.status().Overlay.Known; n != peers {
			return fmt.Errorf("node %s remembers %d", p.name, n)
		}
	}
	return nil
}

func (s *swarm) subscribe(group overlay.ID, who ...*process) {
	s.t.Helper()
	for _, p := range who {
		if _, err := p.do(order{Do: "subscribe", Key: group}); err != nil {
			s.t.Fatal(err)
		}
	}
}

// reaches returns an error until a message of one node reaches others.
func (s *swarm) reaches(group overlay.ID, from *process, to []*process) error {
	payload := fmt.Sprintf("does it arrive? %x", s.rng.Uint64())
	if _, err := from.do(order{Do: "publish", Key: group, Payload: payload, Limit: 3 * time.Second}); err != nil {
		return err
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(time.Second); ; {
		err := gotOnce(group, to, []string{payload})
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-end:
			return err
		}
	}
}

// gotOnce returns an error until all processes have received each message exactly once.
func gotOnce(group overlay.ID, to []*process, payloads []string) error {
	for _, p := range to {
		missing, repeated := 0, 0
		for _, m := range payloads {
			switch n := p.count(group, m); {
			case n == 0:
				missing++
			case n > 1:
				repeated++
			}
		}
		if missing+repeated > 0 {
			return fmt.Errorf("node %s: of %d messages %d are missing and %d came more than once", p.name, len(payloads), missing, repeated)
		}
	}
	return nil
}

// burst publishes a number of messages at once, each with a suffix.
func (s *swarm) burst(group overlay.ID, from *process, count int, end string) (payloads []string) {
	s.t.Helper()
	var answers []<-chan report
	for i := range count {
		m := fmt.Sprintf("%s: message %d of a burst %x%s", from.name, i, s.rng.Uint64(), end)
		payloads = append(payloads, m)
		answers = append(answers, from.order(order{Do: "publish", Key: group, Payload: m, Limit: time.Minute}))
	}
	for _, a := range answers {
		if _, err := from.answer(a); err != nil {
			s.t.Fatal(err)
		}
	}
	return payloads
}

// retransmissions returns how much work had to be repeated so far by all live nodes.
func (s *swarm) retransmissions() string {
	var rerouted, repeated, resent, lost, full, inbox, slowed uint64
	for _, p := range s.nodes {
		st := p.status()
		rerouted += st.Overlay.Rerouted
		repeated += st.Scribe.Repeated
		resent += st.Scribe.Resent
		lost += st.Scribe.Lost
		for _, c := range []libp2p.ClassStats{st.Transport.Control, st.Transport.Bulk} {
			full += c.Drops.QueueFull
			inbox += c.Drops.Inbox
			slowed += c.Slowed
		}
	}
	return fmt.Sprintf("%d hops silent, %d downs resent, %d repeated, %d lost; frames dropped: %d queue full, %d inbox full; %d taken late",
		rerouted, resent, repeated, lost, full, inbox, slowed)
}

// A stream publishes one message after another until it is stopped.
type stream struct {
	end  chan struct{}
	done sync.WaitGroup
	sent []string // messages that the root has
	err  error
}

func (s *swarm) stream(group overlay.ID, from *process) *stream {
	f := &stream{end: make(chan struct{})}
	f.done.Go(func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for i := 0; f.err == nil; i++ {
			m := fmt.Sprintf("message %d of a stream", i)
			if _, f.err = from.do(order{Do: "publish", Key: group, Payload: m, Limit: time.Minute}); f.err == nil {
				f.sent = append(f.sent, m)
			}
			select {
			case <-tick.C:
			case <-f.end:
				return
			}
		}
	})
	return f
}

func (f *stream) stop() ([]string, error) {
	close(f.end)
	f.done.Wait()
	return f.sent, f.err
}

func without(all []*process, some ...*process) []*process {
	return slices.DeleteFunc(slices.Clone(all), func(p *process) bool { return slices.Contains(some, p) })
}
