package daemon

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tidings/internal/longtest"
	"tidings/overlay"
)

// TestEightProcesses runs a network from its founding to its end: eight members and a client in processes of
// their own. Two members are killed and come back.
func TestEightProcesses(t *testing.T) {
	if !testing.Short() { // the race detector makes nine processes as heavy as all other tests
		t.Parallel()
	}
	begun := time.Now()
	tell := func(format string, args ...any) {
		t.Logf("%5.1f s: %s", time.Since(begun).Seconds(), fmt.Sprintf(format, args...))
	}

	keys := longtest.Pick(60, 250) // for each node
	s := grow(t, 8)
	founder := s.nodes[0]
	through := founder.addrs
	client := launch(t, "client", role{Dir: t.TempDir(), Listen: anyPort, Bootstrap: through, RefuseInbound: true})
	client.ready()
	tell("all listen")
	within(t, 60*time.Second, "eight members know each other", s.together)
	tell("eight members know each other")

	if err := s.routes(keys, time.Minute); err != nil {
		t.Error(err)
	}
	tell("%d keys routed", 8*keys)

	six, group := s.nodes[1:7], s.key()
	s.subscribe(group, six...)
	within(t, 30*time.Second, "a group of six", func() error { return s.reaches(group, s.nodes[7], six) })
	tell("a group of six stands")
	payloads := s.burst(group, s.nodes[7], 500, "")
	tell("500 messages published by a stranger to the group")
	payloads = append(payloads, s.burst(group, s.nodes[1], 500, "")...)
	tell("500 published by a subscriber")
	within(t, 20*time.Second, "1,000 messages arrive once", func() error { return gotOnce(group, six, payloads) })
	tell("1,000 messages arrived; %s", s.retransmissions())

	stranger := launch(t, "stranger", role{Dir: t.TempDir(), Listen: anyPort, Bootstrap: through, Network: "other"})
	s.checkRefusal(stranger, founder)
	tell("a node of another network refused")

	within(t, 40*time.Second, "a client has two members", func() error {
		if st := client.status(); st.State != overlay.Attached || len(st.Hosts) != 2 {
			return fmt.Errorf("it is %v and has %d", st.State, len(st.Hosts))
		}
		return nil
	})
	tell("the client has two members")

	// Two are killed: the founder, through which all joined, and one of the client's two members.
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
	within(t, 30*time.Second, "known peers saved", func() error { return checkSavedPeers(victims, 7) })
	tell("two groups stand, and known peers are saved")
	flow := s.stream(steady, left[0])
	within(t, 30*time.Second, "messages flow", func() error {
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

	// The killed nodes restart without flags.
	for _, v := range victims {
		p := v.restart()
		p.ready()
		s.nodes = append(s.nodes, p)
	}
	back := time.Now()
	within(t, 90*time.Second, "eight members know each other again", s.together)
	tell("eight members know each other again %.1f s after the restart", time.Since(back).Seconds())
	if err := s.routes(keys, time.Minute); err != nil {
		t.Error(err)
	}
	returned := s.nodes[6:]
	s.subscribe(orphan, returned...)
	s.subscribe(steady, returned...)
	everybody := append(listeners, returned...)
	for _, g := range []overlay.ID{steady, orphan} {
		within(t, 60*time.Second, "groups reach all again", func() error { return s.reaches(g, returned[0], everybody) })
		payloads := s.burst(g, returned[1], 100, "")
		within(t, 20*time.Second, "messages arrive once", func() error { return gotOnce(g, everybody, payloads) })
	}
	tell("all right again %.1f s after the restart; %s", time.Since(back).Seconds(), s.retransmissions())

	// One node is killed and restarts before the others notice.
	hasty := s.nodes[2]
	hasty.kill()
	s.nodes[2] = hasty.restart()
	s.nodes[2].ready()
	back = time.Now()
	within(t, 60*time.Second, "a hasty member is back", func() error {
		if err := s.together(); err != nil {
			return err
		}
		return s.routes(40, 2*time.Second)
	})
	tell("a member that was killed and started at once is back after %.1f s", time.Since(back).Seconds())

	s.stopAll(append(s.nodes, client))
	tell("all have left")
}

// TestNetworkComesBackAfterAnOutage kills all nodes and restarts all but the founder. At first no node is a
// member.
func TestNetworkComesBackAfterAnOutage(t *testing.T) {
	t.Parallel()
	s := grow(t, 4)
	within(t, 60*time.Second, "four members know each other", s.together)
	within(t, 30*time.Second, "known peers saved", func() error { return checkSavedPeers(s.nodes, 3) })
	for _, p := range s.nodes {
		p.kill()
	}
	s.nodes = s.nodes[1:]
	for i, p := range s.nodes {
		s.nodes[i] = p.restart()
		s.nodes[i].ready()
	}
	took := within(t, 90*time.Second, "three members know each other", s.together)
	t.Logf("together again %.1f s after the start", took.Seconds())
	if err := s.routes(40, 10*time.Second); err != nil {
		t.Error(err)
	}
	s.stopAll(s.nodes)
}

// TestLargeMessagesDoNotLookLikeAFlood publishes far more bytes at once than control frames may have.
func TestLargeMessagesDoNotLookLikeAFlood(t *testing.T) {
	t.Parallel()
	s := grow(t, 3)
	within(t, 60*time.Second, "three members know each other", s.together)
	group := s.keyOf(func(p *process) bool { return p == s.nodes[0] })
	s.subscribe(group, s.nodes[2])
	within(t, 30*time.Second, "a group of one", func() error { return s.reaches(group, s.nodes[1], s.nodes[2:]) })
	payloads := s.burst(group, s.nodes[1], 400, strings.Repeat(" and on", 6000))
	within(t, 30*time.Second, "17 MB arrive", func() error { return gotOnce(group, s.nodes[2:], payloads) })
	t.Log(s.retransmissions())
	for _, p := range s.nodes {
		if s := p.status().Transport; s.Gated > 0 || s.Bulk.Slowed > 0 {
			t.Errorf("node %s shut out %d peers, and made them wait for %d frames", p.name, s.Gated, s.Bulk.Slowed)
		}
	}
	s.stopAll(s.nodes)
}

// checkRefusal checks that a process ends with the reason of a refusal, and that the other side remembers the
// reason.
func (s *swarm) checkRefusal(stranger, by *process) {
	s.t.Helper()
	const words = `the node that was asked is in network "lab", and the node that asks wants "other"`
	select {
	case <-stranger.exited:
	case <-time.After(30 * time.Second):
		s.t.Fatal("a node of another network goes on")
	}
	if code := stranger.cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(stranger.logged(), "refused: "+words) {
		s.t.Errorf("a node of another network ended with code %d and these words:\n%s", code, stranger.logged())
	}
	for _, r := range by.status().Refusals {
		if r.Reason == words && r.ByUs {
			return
		}
	}
	s.t.Error("who refused a node of another network does not remember it")
}

// victims returns the founder and another node, of which exactly one hosts the client.
func (s *swarm) victims(client, founder *process) []*process {
	hosts := client.status().Hosts
	hosting := func(p *process) bool { return slices.Contains(hosts, p.id) }
	second := slices.IndexFunc(s.nodes, func(p *process) bool { return p != founder && hosting(p) != hosting(founder) })
	return []*process{founder, s.nodes[second]}
}

// stopAll stops all processes at the same time.
func (s *swarm) stopAll(all []*process) {
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
