package corona

import (
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

// counted returns how many readers of a channel count in the budget of its domain.
func (w *testNetwork) counted(f *testChannel) float64 {
	domain, _ := Origin(f.url)
	h := w.steward(domain)
	claims, accounts := h.steward.states[overlay.StewardKey(w.network.Name, domain)].claims(h.Now())
	for i, a := range accounts {
		if a.key == f.key {
			return claims[i].readers
		}
	}
	w.t.Fatal("the channel has no account")
	return 0
}

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
	a := w.steward("audited.example").steward.states[overlay.StewardKey(w.network.Name, "audited.example")].account(f.key)
	if liar == nil || a.known {
		t.Errorf("the answer of a member that is not the root counts: %+v", a.audited)
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
