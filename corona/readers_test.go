package corona

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"tidings/corona/coronapb"
	"tidings/internal/wire"
	"tidings/overlay"
)

// testTrees are the second trees of the test network's channels, whose roots know of so many clients.
type testTrees map[overlay.ID]int

func (testTrees) Shadow(channel overlay.ID) overlay.ID {
	channel[0] ^= 0x80
	return channel
}

func (t testTrees) Corroborated(tree overlay.ID) (int, bool) {
	n, ok := t[t.Shadow(tree)]
	return n, ok
}

// auditedChannel opens a channel whose leader claims some readers, where its second tree has others. It lets the stewards audit
// claims.
func auditedChannel(w *testNetwork, readers, inTree int) (*testChannel, testTrees) {
	trees := testTrees{}
	for _, h := range w.houses {
		h.AuditReaders(trees)
	}
	f := &testChannel{url: "http://audited.example/", readers: readers, want: 4}
	f.key = overlay.Key(w.network.Name, f.url)
	f.leader = w.nearest(f.key)[0]
	trees[f.key] = inTree
	w.add(f)
	return f, trees
}

// account returns the account of a channel at the budget leader of its domain; an empty one if there is none yet.
func (w *testNetwork) account(f *testChannel) *budgetAccount {
	domain, _ := Origin(f.url)
	if h := w.steward(domain); h != nil {
		if o := h.steward.states[overlay.StewardKey(w.network.Name, domain)]; o != nil && o.account(f.key) != nil {
			return o.account(f.key)
		}
	}
	return &budgetAccount{}
}

// counted returns how many readers of a channel count in the budget of its domain.
func (w *testNetwork) counted(f *testChannel) float64 { return w.account(f).counted(w.now) }

// withoutAnswers drops the answers of roots about readers.
func (w *testNetwork) withoutAnswers(on bool) {
	w.way = func(_, _ *member, layer wire.Layer, body []byte) []time.Duration {
		m := new(coronapb.Message)
		if on && layer == wire.Corona && proto.Unmarshal(body, m) == nil && m.GetPoliteness().GetReadersResponse() != nil {
			return nil
		}
		return []time.Duration{20 * time.Millisecond}
	}
}

// runToAudit lets time pass until a steward has asked once more, and got the answer.
func (w *testNetwork) runToAudit() {
	before := w.stats().Audited
	for i := 0; w.stats().Audited == before; i++ {
		if i > 400 {
			w.t.Fatal("nobody asks")
		}
		w.run(10 * time.Second)
	}
	w.run(5 * time.Second)
}

// A claim counts up to a third more than the second tree has, plus unauditedReaders.
func TestAClaimCountsAsFarAsTheSecondTreeBearsItOut(t *testing.T) {
	for _, c := range []struct{ claimed, inTree, counted int }{
		{500, 480, 500}, {500, 375, 500}, {500, 300, 404}, {500, 0, 4}, {4, 0, 4}, {20, 12, 20}, {1 << 31, 30, 44},
	} {
		w := newTestNetwork(t, 12)
		f, _ := auditedChannel(w, c.claimed, c.inTree)
		for range 6 {
			w.run(5 * time.Minute)
			if got := w.counted(f); got != float64(c.counted) {
				t.Errorf("%d readers claimed, %d in the tree: %v count", c.claimed, c.inTree, got)
			}
		}
		st := w.stats()
		if lied := c.claimed > c.counted; lied != (st.Overclaimed > 0) || st.Unaudited > 0 || !lied && st.Audited > 2 {
			t.Errorf("%d readers claimed, %d in the tree: %d audits, %d false, %d without an answer", c.claimed, c.inTree, st.Audited, st.Overclaimed, st.Unaudited)
		}
	}
}

// A root that has just come knows less of its tree for a while. Readers that have counted go on counting until two answers in
// a row say that they are gone.
func TestReadersAreGoneOnlyIfTwoAnswersSaySo(t *testing.T) {
	w := newTestNetwork(t, 12)
	f, trees := auditedChannel(w, 100, 100)
	w.run(15 * time.Minute)
	f.readers = 150 // makes the steward ask again
	trees[f.key] = 0
	w.runToAudit()
	if n := w.counted(f); n < 100 {
		t.Errorf("%v readers count after one answer", n)
	}
	trees[f.key] = 150
	w.runToAudit()
	if n := w.counted(f); n != 150 {
		t.Errorf("%v readers count, where the tree has 150", n)
	}
	f.readers = 300
	trees[f.key] = 0
	w.runToAudit()
	w.runToAudit()
	if n := w.counted(f); n != unauditedReaders {
		t.Errorf("%v readers count, where the tree has none", n)
	}
}

// If no answer comes, a claim counts in full; one that grows does so with the second question.
func TestAClaimCountsIfNobodyAnswers(t *testing.T) {
	w := newTestNetwork(t, 12)
	w.withoutAnswers(true)
	f, _ := auditedChannel(w, 100, 0)
	w.run(3 * time.Minute)
	if n := w.counted(f); n != 100 {
		t.Errorf("%v of 100 readers count", n)
	}
	f.readers = 200
	w.run(25 * time.Minute)
	if n := w.counted(f); n != 200 {
		t.Errorf("%v of 200 readers count", n)
	}
	if st := w.stats(); st.Unaudited == 0 || st.Overclaimed > 0 {
		t.Errorf("%d audits without an answer, %d false claims", st.Unaudited, st.Overclaimed)
	}
	w.withoutAnswers(false)
	w.run(30 * time.Minute)
	if n := w.counted(f); n != unauditedReaders {
		t.Errorf("%v readers count after answers have come", n)
	}
}

// Only the root that the overlay's receipt names may answer, whoever knows the question.
func TestOnlyTheRootOfTheSecondTreeAnswers(t *testing.T) {
	w := newTestNetwork(t, 12)
	liar := (*member)(nil)
	w.way = func(from, to *member, layer wire.Layer, body []byte) []time.Duration {
		m := new(coronapb.Message)
		if layer == wire.Corona && from != liar && proto.Unmarshal(body, m) == nil && m.GetPoliteness().GetReadersResponse() != nil {
			for _, h := range w.houses {
				if h != from && h != to {
					liar = h
				}
			}
			m.GetPoliteness().GetReadersResponse().Readers = 1 << 20
			liar.send(to.node.Self().Peer, 0, m) // before the root's own answer
			return nil
		}
		return []time.Duration{20 * time.Millisecond}
	}
	f, _ := auditedChannel(w, 100, 0)
	w.run(time.Minute)
	a := w.account(f)
	if liar == nil || a.known {
		t.Errorf("the answer of a member that is not the root counts: %+v", a.audited)
	}
}

// A member on the way of the question knows its nonce, and can answer before the receipt comes. That hides no answer of the root.
func TestAnEarlyAnswerOfAnotherMemberHidesNothing(t *testing.T) {
	w := newTestNetwork(t, 12)
	w.way = func(from, to *member, layer wire.Layer, body []byte) []time.Duration {
		m := new(coronapb.Message)
		if layer == wire.Corona && proto.Unmarshal(body, m) == nil && m.GetPoliteness().GetReadersResponse() != nil {
			for _, h := range w.houses[:2] {
				if h != from && h != to {
					w.after(time.Millisecond, func() { h.arrive(h.signer.PeerID(), to, layer, bytes.Clone(body)) })
				}
			}
		}
		return []time.Duration{20 * time.Millisecond}
	}
	f, _ := auditedChannel(w, 500, 0)
	w.run(time.Minute)
	if n, st := w.counted(f), w.stats(); n != unauditedReaders || st.Unaudited > 0 {
		t.Errorf("%v readers count; %d of %d audits have no answer", n, st.Unaudited, st.Audited)
	}
}

// Without the answer to the first question a claim counts after auditWait, and goes on counting by its grant. The next claim is
// asked about all the same, and two answers end the lie.
func TestOneLostAnswerDoesNotFreeALie(t *testing.T) {
	w := newTestNetwork(t, 12)
	w.withoutAnswers(true)
	f, _ := auditedChannel(w, 500, 0)
	w.run(3 * time.Minute)
	if n := w.counted(f); n != 500 {
		t.Fatalf("%v of 500 readers count without an answer", n)
	}
	w.withoutAnswers(false)
	w.runToAudit()
	w.runToAudit()
	if n := w.counted(f); n != unauditedReaders {
		t.Errorf("%v readers count, where the tree has none", n)
	}
}

// A first claim counts no readers while the steward has too many questions without an answer, and is asked about later.
func TestAFirstClaimWaitsForItsQuestion(t *testing.T) {
	w := newTestNetwork(t, 12)
	f, _ := auditedChannel(w, 100, 100)
	for _, h := range w.houses {
		for i := range uint64(maxAudits) {
			h.steward.audits[2*i] = &audit{askedAt: w.now}
		}
	}
	w.run(time.Minute)
	if n, st := w.counted(f), w.stats(); n != unauditedReaders || st.Audited > 0 {
		t.Errorf("%v readers count; %d questions", n, st.Audited)
	}
	w.runToAudit()
	if n := w.counted(f); n != 100 {
		t.Errorf("%v of 100 readers count", n)
	}
}

// A grant waits for the answer about its first claim even if grants for other channels of the domain are due before.
func TestAFirstGrantIsForAllReaders(t *testing.T) {
	for gap := time.Duration(0); gap <= 1200*time.Millisecond; gap += 200 * time.Millisecond {
		w := newTestNetwork(t, 12)
		w.way = func(from, to *member, layer wire.Layer, body []byte) []time.Duration {
			m := new(coronapb.Message)
			if layer == wire.Corona && proto.Unmarshal(body, m) == nil && m.GetPoliteness().GetReadersResponse() != nil {
				return []time.Duration{3 * time.Second} // longer than issuePause
			}
			return []time.Duration{20 * time.Millisecond}
		}
		other, trees := auditedChannel(w, 4, 4)
		w.run(gap)
		f := &testChannel{url: other.url + "2", readers: 500, want: 20}
		f.key = overlay.Key(w.network.Name, f.url)
		f.leader = w.nearest(f.key)[0]
		trees[f.key] = 500
		w.add(f)
		for range 60 {
			w.run(time.Second)
			if last, ok := w.account(f).last(); ok && last.readers != 500 {
				t.Fatalf("after %v: a grant for %v of 500 readers", gap, last.readers)
			}
		}
		if _, ok := w.account(f).last(); !ok {
			t.Errorf("after %v: no grant", gap)
		}
	}
}

// lieAsLeader sends the stewards a claim of 5000 readers.
func (w *testNetwork) lieAsLeader(liar *member, url string) {
	domain, _ := Origin(url)
	ps := liar.permits
	ps.routePoliteness(overlay.StewardKey(w.network.Name, domain), domain, ps.signClaims([]*coronapb.Claim{
		{Url: url, Readers: 5000, IntervalMs: 1800_000, Pollers: 100},
	}, liar.Now()), func(overlay.Receipt, bool) {})
	liar.run()
}

// A leader that is the root of the second tree gains nothing by that, and an honest one loses nothing: the root of the first tree is
// asked.
func TestALeaderThatIsTheRootOfTheSecondTree(t *testing.T) {
	for _, inFirst := range []int{0, 5000} {
		w := newTestNetwork(t, 60)
		f, trees := auditedChannel(w, 4, 0) // gives the domain stewards
		w.run(15 * time.Minute)
		liar := w.houses[7]
		lie := &testChannel{}
		for i := 0; lie.leader != liar; i++ {
			lie.url = fmt.Sprintf("%s?%d", f.url, i)
			lie.key = overlay.Key(w.network.Name, lie.url)
			if lie.leader = w.nearest(trees.Shadow(lie.key))[0]; !liar.mayLead(liar.id, lie.key) {
				lie.leader = nil
			}
		}
		trees[lie.key], trees[trees.Shadow(lie.key)] = 5000, inFirst
		for range 3 {
			w.lieAsLeader(liar, lie.url)
			w.run(20 * time.Minute)
			if n, most := w.counted(lie), max(float64(min(inFirst, maxReaders*60)), unauditedReaders); n != most {
				t.Errorf("%d readers in the first tree: %v count", inFirst, n)
			}
		}
		if st := w.stats(); st.Unaudited > 0 {
			t.Errorf("%d audits without an answer", st.Unaudited)
		}
	}
}

// oneRoot has trees whose roots are the same members, as in tiny networks.
type oneRoot struct{ testTrees }

func (oneRoot) Shadow(channel overlay.ID) overlay.ID {
	channel[31] ^= 1
	return channel
}

// If the leader of a channel is the root of both trees, its claim counts, because nobody else can tell.
func TestALeaderThatIsTheRootOfBothTrees(t *testing.T) {
	w := newTestNetwork(t, 3)
	f, _ := auditedChannel(w, 30, 0)
	for _, h := range w.houses {
		h.AuditReaders(oneRoot{})
	}
	w.run(15 * time.Minute)
	if n, st := w.counted(f), w.stats(); n != 30 || st.Unaudited == 0 {
		t.Errorf("%v of 30 readers count; %d audits without an answer", n, st.Unaudited)
	}
}

// The next budget leader of a domain goes on with the readers that have counted.
func TestReadersCountOnAtTheNextBudgetLeader(t *testing.T) {
	w := newTestNetwork(t, 14)
	f, trees := auditedChannel(w, 100, 100)
	w.run(25 * time.Minute)
	h := w.steward("audited.example")
	trees[f.key] = 0 // the root has changed, too
	w.kill(h)
	w.runToAudit()
	if n := w.counted(f); n < 100 {
		t.Errorf("%v of 100 readers count", n)
	}
}
