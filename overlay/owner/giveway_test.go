package owner_test

import (
	"slices"
	"testing"
	"time"

	"tidings/overlay/owner/ownerpb"
	"tidings/sim"
)

// givingWay is a world in which the branch of a channel that should continue has lost its quorum, and another branch
// lives that three members have founded that did not own the channel.
func givingWay(t *testing.T) (w *world, c channel, theirs claim) {
	w, channels := quiet(t, 8, 1)
	c = channels[0]
	theirs = c.rival()
	theirs.sequencer, theirs.owners = c.other[0], c.other
	for _, m := range c.other {
		w.follows(m, c)
	}
	theirs.at = w.Now()
	for _, m := range c.other {
		m.hears(c.lead.Host, commitOf(w.epoch(theirs)))
		if m.branch(c.key) != theirs.branch {
			t.Fatalf("member %d has not switched", m.Index())
		}
	}
	for _, m := range c.also[:3] {
		m.Crash(false)
	}
	return w, c, theirs
}

// The branch that should continue, but lacks a quorum, gives way to a live one long before a lease is over. The two
// end as one that has the entries of both.
func TestABranchWithoutQuorumGivesWay(t *testing.T) {
	w, c, theirs := givingWay(t)
	their := theirs.sequencer
	w.append(c.url, 100) // to each of the two
	words := c.lead.overheard()
	one := func() bool { return !c.lead.leads[c.key] && c.lead.branch(c.key) == theirs.branch }
	if !w.RunUntil(one, time.Second, time.Minute) {
		t.Fatal("the two have not become one")
	}
	var stuck, gave time.Time
	for _, word := range slices.Backward(*words) {
		switch {
		case word.msg.GetPrepare() != nil:
			stuck = word.at
		case word.to == their.ID() && word.msg.GetMerge().GetGivesWay():
			gave = word.at
		}
	}
	if d := gave.Sub(stuck); stuck.IsZero() || d < 15*time.Second || d > 20*time.Second {
		t.Errorf("gives way %v after it lost its quorum", d)
	}
	w.Run(time.Minute)
	if !their.leads[c.key] || their.branch(c.key) != theirs.branch {
		t.Error("the other branch has not continued")
	}
	if len(w.made) != 3 {
		t.Fatalf("%d bodies were made", len(w.made))
	}
	for id := range w.made {
		if !their.has[c.key][id] {
			t.Errorf("body %d is lost", id)
		}
	}
	w.settled()
}

// A branch to which another one gives way takes its entries, and does not ask it to continue again for a while.
func TestABranchThatOthersGaveWayToDoesNotAskBack(t *testing.T) {
	w, c, theirs := givingWay(t)
	their := theirs.sequencer
	ours := w.wire(c.epoch)
	w.Partition([]*sim.Host{c.lead.Host}) // its messages are forged
	merge := func(gives bool) (merged, asked bool) {
		words := their.overheard()
		their.hears(c.lead.Host, &ownerpb.Message{Body: &ownerpb.Message_Merge{Merge: &ownerpb.Merge{
			Epoch: ours, Head: c.head().Raw(), GivesWay: gives,
		}}})
		for _, word := range *words {
			asked = asked || word.to == c.lead.ID() && word.msg.GetMerge() != nil
			merged = merged || word.to == c.lead.ID() && word.msg.GetCommit().GetAbsorbed()
		}
		return merged, asked
	}
	if merged, asked := merge(false); merged || !asked {
		t.Errorf("one that is to go on asks: its entries are taken: %v, it is asked: %v", merged, asked)
	}
	w.Run(4 * time.Second)
	if merged, asked := merge(true); !merged || asked {
		t.Errorf("it gives way: its entries are taken: %v, it is asked: %v", merged, asked)
	}
	given, words := w.Now(), their.overheard()
	for range 14 {
		their.hears(c.lead.Host, commitOf(ours))
		w.Run(3 * time.Second)
	}
	var first time.Time
	for _, word := range *words {
		if word.to == c.lead.ID() && word.msg.GetMerge() != nil && first.IsZero() {
			first = word.at
		}
	}
	if d := first.Sub(given); d < 29*time.Second || d > 40*time.Second {
		t.Errorf("asked back after %v", d)
	}
}

// Owners that switched to another branch tell their new sequencer of the old branch when it asks. It does not take
// them for owners of the old branch, and keeps them.
func TestHearsayCostsABranchNoOwner(t *testing.T) {
	for _, goesOn := range []bool{false, true} {
		w, channels := quiet(t, 5, 1)
		c := channels[0]
		theirs := claim{
			url: c.url, branch: c.epoch.Branch + 1, number: 1, sequencer: c.also[0], owners: c.also[:3], at: w.Now(), after: c.head(),
		}
		if goesOn {
			theirs.branch = c.epoch.Branch - 1
		}
		for _, m := range theirs.owners {
			m.hears(c.lead.Host, commitOf(w.epoch(theirs)))
		}
		w.append(c.url, 100)
		for range 120 {
			w.Run(500 * time.Millisecond)
			if v, _ := theirs.sequencer.owners.View(c.key); v.Leads && len(v.Epoch.Owners) < 3 {
				t.Fatalf("continues: %v: %d owners of five members keep its log", goesOn, len(v.Epoch.Owners))
			}
		}
		w.Run(time.Minute)
		w.settled()
		if v, _ := theirs.sequencer.owners.View(c.key); v.Epoch.Branch != theirs.branch {
			t.Errorf("continues: %v: its branch has ended", goesOn)
		}
	}
}

// A candidate without a quorum asks the root, which may know a live branch. If none of that branch's owners is an owner
// here, nobody else tells.
func TestACandidateWithoutQuorumAsksTheRoot(t *testing.T) {
	w, channels := quiet(t, 8, 1)
	c := channels[0]
	m, dies := c.other[2], c.other[:2]
	w.follows(m, c)
	w.Run(time.Second)
	ours := c.rival()
	ours.sequencer, ours.owners, ours.also = dies[0], c.other, []*member{c.lead}
	m.hears(dies[0].Host, commitOf(w.epoch(ours)))
	if v, _ := m.owners.View(c.key); !v.Owns {
		t.Fatal("it is no owner")
	}
	w.Run(time.Second)
	// The sequencer has joined the other one, and died, before it could tell.
	lives := claim{
		url: c.url, branch: c.epoch.Branch, number: c.epoch.Number + 1, sequencer: c.lead, owners: append(slices.Clone(c.also), c.lead),
		also: dies[:1], at: w.Now(), after: c.head(),
	}
	for _, o := range lives.owners {
		o.hears(c.lead.Host, commitOf(w.epoch(lives)))
	}
	for _, d := range dies {
		d.Crash(false)
	}
	words := m.overheard()
	if !w.RunUntil(func() bool { return m.branch(c.key) == lives.branch }, time.Second, 2*time.Minute) {
		t.Fatal("nobody has told it")
	}
	candidacies := 0
	for _, word := range *words {
		if word.to == dies[0].ID() && word.msg.GetPrepare() != nil {
			candidacies++
		}
	}
	if candidacies < 2 {
		t.Errorf("it was stuck for %d candidacies", candidacies)
	}
}

// Owners that were away when their branch ended hear of it when the continuing branch asks for them, and join it: their
// former sequencer says so.
func TestOwnersThatWereAwayHearThatTheirBranchHasEnded(t *testing.T) {
	w, c, theirs := givingWay(t)
	w.append(c.url, 100)
	if !w.RunUntil(func() bool { return c.lead.branch(c.key) == theirs.branch }, time.Second, time.Minute) {
		t.Fatal("the two have not become one")
	}
	away := c.also[:3]
	for _, m := range away {
		m.start()
	}
	joined := func() bool {
		return !slices.ContainsFunc(away, func(m *member) bool { return m.branch(c.key) != theirs.branch })
	}
	if !w.RunUntil(joined, time.Second, 40*time.Second) {
		t.Error("they own the key in a branch that has ended")
	}
	w.Run(time.Minute)
	w.settled()
}

// A member that hears of another branch from a peer that is not authoritative asks its own sequencer. If that one has
// joined the other branch it says so, although it is told nothing new.
func TestASequencerThatHasJoinedAnotherBranchSaysSo(t *testing.T) {
	for _, test := range []struct {
		who   string
		asks  func(c channel) *member
		hears func(c channel) *member
	}{
		{"an owner", func(c channel) *member { return c.also[0] }, func(c channel) *member { return c.other[0] }},
		{"a follower", func(c channel) *member { return c.other[3] }, func(c channel) *member { return c.also[0] }},
	} {
		w, channels := quiet(t, 9, 1)
		c := channels[0]
		m, theirs := test.asks(c), c.rival()
		w.follows(m, c)
		theirs.branch, theirs.owners = c.epoch.Branch-1, c.other[:3]
		merged, head := commitOf(w.epoch(theirs)), c.head().Hash
		merged.GetCommit().MergedHead, merged.GetCommit().Absorbed = head[:], true
		w.Partition([]*sim.Host{m.Host}) // it does not hear that its branch ends
		c.lead.hears(theirs.sequencer.Host, merged)
		w.Run(100 * time.Millisecond)
		w.Heal()
		if c.lead.branch(c.key) != theirs.branch {
			t.Fatalf("%s: the sequencer has not joined", test.who)
		}
		m.hears(test.hears(c).Host, commitOf(w.epoch(theirs)))
		if m.branch(c.key) == theirs.branch {
			t.Fatalf("%s takes anybody's word", test.who)
		}
		w.Run(200 * time.Millisecond)
		if m.branch(c.key) != theirs.branch {
			t.Errorf("%s stays in a branch that has ended", test.who)
		}
	}
}

// A branch whose own owners answer does not give way, however often members that own the key in another branch refuse to
// become owners.
func TestABranchWithAQuorumDoesNotGiveWay(t *testing.T) {
	w, channels := quiet(t, 10, 1)
	c := channels[0]
	near := w.sorted(c.key)
	some := func(ranks ...int) (of []*member) {
		for _, rank := range ranks {
			of = append(of, near[rank])
		}
		return of
	}
	lead := near[8] // far from the key, it takes its time between two candidacies
	ours := claim{
		url: c.url, branch: c.epoch.Branch - 1, number: 1, sequencer: lead, owners: some(0, 3, 4, 7, 8), at: w.Now(), after: c.head(),
	}
	// The other one lives, but lacks a quorum, so that it does not end.
	away := w.strangers(4)
	theirs := claim{
		url: c.url, branch: c.epoch.Branch + 1, number: 1, sequencer: away[0], owners: append(some(1, 2, 5, 6), away...),
		at: w.Now(), after: c.head(),
	}
	for _, m := range near[5:9] {
		w.follows(m, c)
	}
	for _, of := range []claim{ours, theirs} {
		for _, m := range of.owners {
			if !slices.Contains(away, m) {
				m.hears(c.lead.Host, commitOf(w.epoch(of)))
			}
		}
	}
	words := lead.overheard()
	for range 12 {
		w.append(c.url, 100)
		w.Run(10 * time.Second)
	}
	refused := 0
	for _, word := range *words {
		switch {
		case word.msg.GetMerge().GetGivesWay():
			t.Fatal("it gives way")
		case word.to == near[1].ID() && word.msg.GetSign() != nil:
			refused++
		}
	}
	if refused < 2 {
		t.Errorf("somebody has refused %d times", refused)
	}
	leads := func(m *member) bool { return m.leads[c.key] && m.branch(c.key) == ours.branch }
	if !slices.ContainsFunc(ours.owners, leads) { // another owner may have taken over while members refused
		t.Error("none of its owners leads")
	}
}
