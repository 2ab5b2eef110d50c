package daemon

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tidings/overlay"
	"tidings/overlay/libp2p"
)

// A swarm is some node processes on loopback, and a client.
type swarm struct {
	t     *testing.T
	nodes []*process // those that live
	dice  *rand.Rand
}

func (s *swarm) key() (k overlay.ID) {
	for i := range k {
		k[i] = byte(s.dice.Uint32())
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

// keyOf returns a key whose root is one that is wanted.
func (s *swarm) keyOf(wanted func(*process) bool) overlay.ID {
	for {
		if k := s.key(); wanted(s.root(k)) {
			return k
		}
	}
}

// together says what is missing until all live nodes know each other.
func (s *swarm) together() error {
	for _, p := range s.nodes {
		st := p.status()
		if st.State != overlay.Active || len(st.Leaf) != len(s.nodes) {
			return fmt.Errorf("node %s is %v and knows %d members", p.name, st.State, len(st.Leaf))
		}
	}
	return nil
}

// routes lets each node route so many random keys, all at once, and says what
// went wrong.
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

func (s *swarm) subscribe(group overlay.ID, who ...*process) {
	s.t.Helper()
	for _, p := range who {
		if _, err := p.do(order{Do: "subscribe", Key: group}); err != nil {
			s.t.Fatal(err)
		}
	}
}

// reaches says what is missing until a message of one node comes to others.
func (s *swarm) reaches(group overlay.ID, from *process, to []*process) error {
	payload := fmt.Sprintf("does it arrive? %x", s.dice.Uint64())
	if _, err := from.do(order{Do: "publish", Key: group, Payload: payload, Limit: 3 * time.Second}); err != nil {
		return err
	}
	end := time.Now().Add(time.Second)
	for {
		err := gotOnce(group, to, []string{payload})
		if err == nil || time.Now().After(end) {
			return err
		}
		<-time.After(10 * time.Millisecond)
	}
}

// gotOnce says which messages did not come to all, each once.
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

// burst publishes so many messages at once.
func (s *swarm) burst(group overlay.ID, from *process, count int) (payloads []string) {
	s.t.Helper()
	var answers []<-chan report
	for i := range count {
		m := fmt.Sprintf("%s: message %d of a burst %x", from.name, i, s.dice.Uint64())
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

// cost says what had to be done twice so far, by all live nodes.
func (s *swarm) cost() string {
	var rerouted, repeated, resent, lost, full, inbox, rate uint64
	for _, p := range s.nodes {
		st := p.status()
		rerouted += st.Overlay.Rerouted
		repeated += st.Scribe.Repeated
		resent += st.Scribe.Resent
		lost += st.Scribe.Lost
		for _, c := range []libp2p.ClassStats{st.Transport.Control, st.Transport.Bulk} {
			full += c.Drops.QueueFull
			inbox += c.Drops.Inbox
			rate += c.Drops.Rate
		}
	}
	return fmt.Sprintf("%d hops silent, %d downs resent, %d repeated, %d lost; frames dropped: %d queue full, %d inbox full, %d over the rate",
		rerouted, resent, repeated, lost, full, inbox, rate)
}

// A stream publishes one message after another until it is ended.
type stream struct {
	end  chan struct{}
	done sync.WaitGroup
	sent []string // those that the root has
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

// TestEightProcesses is one network from its founding to its end: eight members
// and a client in processes of their own, of which two are killed and come back.
func TestEightProcesses(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	s := &swarm{t: t, dice: rand.New(rand.NewPCG(seed, 0))}
	begun := time.Now()
	tell := func(format string, args ...any) {
		t.Logf("%5.1f s: %s", time.Since(begun).Seconds(), fmt.Sprintf(format, args...))
	}

	network := laboratory("lab")
	founder := launch(t, "0", role{Dir: t.TempDir(), Listen: anyPort, Found: &network})
	founder.ready()
	through := founder.addrs
	s.nodes = append(s.nodes, founder)
	for i := 1; i < 8; i++ {
		s.nodes = append(s.nodes, launch(t, fmt.Sprint(i), role{Dir: t.TempDir(), Listen: anyPort, Bootstrap: through}))
	}
	client := launch(t, "client", role{Dir: t.TempDir(), Listen: anyPort, Bootstrap: through, RefuseInbound: true})
	for _, p := range append(s.nodes[1:], client) {
		p.ready()
	}
	tell("all listen")
	within(t, 60*time.Second, "eight members know each other", s.together)
	tell("eight members know each other")

	if err := s.routes(250, time.Minute); err != nil {
		t.Error(err)
	}
	tell("2,000 keys routed")

	six, group := s.nodes[1:7], s.key()
	s.subscribe(group, six...)
	within(t, 30*time.Second, "a group of six", func() error { return s.reaches(group, s.nodes[7], six) })
	tell("a group of six stands")
	payloads := s.burst(group, s.nodes[7], 500)
	tell("500 messages published by a stranger to the group")
	payloads = append(payloads, s.burst(group, s.nodes[1], 500)...)
	tell("500 published by a subscriber")
	within(t, 20*time.Second, "1,000 messages arrive once", func() error { return gotOnce(group, six, payloads) })
	tell("1,000 messages arrived; %s", s.cost())

	stranger := launch(t, "stranger", role{Dir: t.TempDir(), Listen: anyPort, Bootstrap: through, Network: "other"})
	s.refused(stranger, founder)
	tell("a node of another network refused")

	within(t, 40*time.Second, "a client has two members", func() error {
		if st := client.status(); st.State != overlay.Attached || len(st.Hosts) != 2 {
			return fmt.Errorf("it is %v and has %d", st.State, len(st.Hosts))
		}
		return nil
	})
	tell("the client has two members")

	// Two are killed: the founder, through which all joined, and one of the
	// client's two members.
	victims := s.victims(client, founder)
	left := without(s.nodes, victims...)
	lives := func(p *process) bool { return slices.Contains(left, p) }
	steady, orphan := s.keyOf(lives), s.keyOf(func(p *process) bool { return p == founder })
	listeners := append(slices.Clone(left), client)
	s.subscribe(steady, listeners...)
	s.subscribe(orphan, listeners...)
	for _, g := range []overlay.ID{steady, orphan} {
		within(t, 30*time.Second, "a group of seven", func() error { return s.reaches(g, left[0], listeners) })
	}
	within(t, 30*time.Second, "known peers saved", func() error {
		for _, v := range victims {
			if n := v.status().Overlay.Known; n != 7 {
				return fmt.Errorf("node %s remembers %d", v.name, n)
			}
		}
		return nil
	})
	tell("two groups stand, and known peers are saved")
	flow := s.stream(steady, left[0])
	within(t, 10*time.Second, "messages flow", func() error {
		if client.count(steady, "message 50 of a stream") == 0 {
			return errors.New("not yet")
		}
		return nil
	})
	for _, v := range victims {
		v.kill()
	}
	killed := time.Now()
	s.nodes = left
	tell("killed nodes %s and %s", victims[0].name, victims[1].name)
	within(t, 90*time.Second, "all keys lead to living nodes", func() error { return s.routes(40, 5*time.Second) })
	tell("all keys lead to living nodes %.1f s after the kill", time.Since(killed).Seconds())
	within(t, 90*time.Second, "the tree of a dead root reaches all", func() error { return s.reaches(orphan, left[1], listeners) })
	tell("the tree of a dead root reaches all %.1f s after the kill", time.Since(killed).Seconds())
	within(t, 90*time.Second, "six members know each other", s.together)
	within(t, 90*time.Second, "the client has two members again", func() error {
		if st := client.status(); len(st.Hosts) != 2 || st.Overlay.Deaths == 0 {
			return fmt.Errorf("it has %d, and knows of %d deaths", len(st.Hosts), st.Overlay.Deaths)
		}
		return nil
	})
	tell("six members know each other, and the client has two again, %.1f s after the kill", time.Since(killed).Seconds())
	if took := time.Since(killed); took > 90*time.Second {
		t.Errorf("right again only after %v", took)
	}
	sent, err := flow.stop()
	if err != nil {
		t.Error(err)
	}
	within(t, 20*time.Second, "nothing of a stream is lost", func() error { return gotOnce(steady, listeners, sent) })
	tell("nothing lost of a stream of %d messages", len(sent))

	// The dead come back, told nothing.
	for _, v := range victims {
		p := v.again()
		p.ready()
		s.nodes = append(s.nodes, p)
	}
	back := time.Now()
	within(t, 90*time.Second, "eight members know each other again", s.together)
	tell("eight members know each other again %.1f s after the restart", time.Since(back).Seconds())
	if err := s.routes(250, time.Minute); err != nil {
		t.Error(err)
	}
	returned := s.nodes[6:]
	s.subscribe(orphan, returned...)
	s.subscribe(steady, returned...)
	everybody := append(listeners, returned...)
	for _, g := range []overlay.ID{steady, orphan} {
		within(t, 60*time.Second, "groups reach all again", func() error { return s.reaches(g, returned[0], everybody) })
		payloads := s.burst(g, returned[1], 100)
		within(t, 20*time.Second, "messages arrive once", func() error { return gotOnce(g, everybody, payloads) })
	}
	tell("all right again %.1f s after the restart; %s", time.Since(back).Seconds(), s.cost())

	// One is killed and is back before its death was noticed.
	hasty := s.nodes[2]
	hasty.kill()
	s.nodes[2] = hasty.again()
	s.nodes[2].ready()
	back = time.Now()
	within(t, 60*time.Second, "a hasty member is back", func() error {
		if err := s.together(); err != nil {
			return err
		}
		return s.routes(40, 2*time.Second)
	})
	tell("a member that was killed and started at once is back after %.1f s", time.Since(back).Seconds())

	s.inGoodOrder(append(s.nodes, client))
	tell("all have left")
}

// refused sees that a process ends with the words of a refusal, and that the
// other side remembers them.
func (s *swarm) refused(stranger, by *process) {
	s.t.Helper()
	const words = `this node belongs to network "lab", not "other"`
	select {
	case <-stranger.exited:
	case <-time.After(30 * time.Second):
		s.t.Fatal("a node of another network goes on")
	}
	if code := stranger.cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(stranger.logged(), "refused: "+words) {
		s.t.Errorf("a node of another network ended with code %d and these words:\n%s", code, stranger.logged())
	}
	for _, r := range by.status().Refusals {
		if r.Words == words && r.ByUs {
			return
		}
	}
	s.t.Error("who refused a node of another network does not remember it")
}

// victims chooses the founder and another, so that a client loses one of its two
// members.
func (s *swarm) victims(client, founder *process) []*process {
	hosts := client.status().Hosts
	hosting := func(p *process) bool { return slices.Contains(hosts, p.id) }
	second := slices.IndexFunc(s.nodes, func(p *process) bool { return p != founder && hosting(p) != hosting(founder) })
	return []*process{founder, s.nodes[second]}
}

// inGoodOrder stops all processes at once.
func (s *swarm) inGoodOrder(all []*process) {
	var stopping sync.WaitGroup
	for _, p := range all {
		stopping.Go(func() {
			if err := p.stop(); err != nil {
				s.t.Error(err)
			}
		})
	}
	stopping.Wait()
}
