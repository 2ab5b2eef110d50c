package owner_test

import (
	"slices"
	"testing"
	"time"

	"tidings/internal/wire"
	"tidings/overlay/owner"
	"tidings/overlay/owner/ownerpb"
	"tidings/sim"
)

// quiet is a world of members that are all in one leaf, with channels of one entry each.
func quiet(t *testing.T, members, channels int) (w *world, of []channel) {
	w = newWorld(t, sim.Config{Seed: 1, Topology: sim.Uniform(20 * time.Millisecond)}, 10*time.Minute)
	w.grow(members)
	w.Run(20 * time.Second)
	w.want(channels)
	w.Run(5 * time.Second)
	for i, url := range w.urls {
		w.append(url, 100)
		of = append(of, w.channel(i))
	}
	w.Run(time.Second)
	return w, of
}

// met is a quiet world of eight, in which the nearest member that does not own a channel follows it.
func met(t *testing.T, channels int) (w *world, of []channel) {
	w, of = quiet(t, 8, channels)
	for _, c := range of {
		w.follows(c.other[0], c)
	}
	return w, of
}

// follows makes a member follow a channel, with its whole log.
func (w *world) follows(m *member, c channel) {
	w.t.Helper()
	m.Do(func() {
		m.owners.Follow(c.key, c.url)
		m.owners.Pull(c.lead.Peer(), c.key, func(bool) {})
	})
	w.Run(time.Second)
	if m.branch(c.key) != c.epoch.Branch || !m.owners.Has(c.key, c.head().Hash) {
		w.t.Fatalf("%s: member %d does not have the log", c.url, m.Index())
	}
}

// head is the last entry of a channel's log.
func (c channel) head() *owner.Entry {
	log := c.lead.owners.Log(c.key)
	return log[len(log)-1]
}

// rival is another branch of a channel, one that ends where both live: two members that did not own the channel have
// founded it a moment ago with one that did.
func (c channel) rival() claim {
	return claim{
		url: c.url, branch: c.epoch.Branch + 1, number: 1, sequencer: c.other[1],
		owners: []*member{c.also[0], c.other[1], c.other[2]}, at: c.lead.w.Now(), after: c.head(),
	}
}

// A member that hears of another branch while its own lives switches only for a reason, told by an authoritative peer.
func TestWhichBranchIsPreferred(t *testing.T) {
	const owns, follows = true, false
	both := func(c channel) *member { return c.also[0] }
	theirs := func(c channel) *member { return c.other[1] }
	ours := func(c channel) *member { return c.also[2] }
	lead := func(c channel) *member { return c.lead }
	type change func(channel, *claim)
	nearer := func(c channel, e *claim) { e.branch = c.epoch.Branch - 1 }
	older := func(c channel, e *claim) { e.at = c.epoch.Time.Add(-time.Second) }
	signed := func(by func(channel) *member) change {
		return func(c channel, e *claim) { e.also = append(e.also, by(c)) }
	}
	led := func(c channel, e *claim) { // its other owners have signed it, the sequencer has not
		e.sequencer, e.owners, e.unsigned = c.lead, []*member{c.lead, c.other[1], c.other[2]}, 1
	}
	rows := []struct {
		what    string
		owns    bool // the member that hears of it owns the channel
		from    func(channel) *member
		changes []change
		goes    bool
	}{
		{"a branch that continues, told by an owner of it", follows, theirs, []change{nearer}, true},
		{"a branch that continues, told by somebody else", follows, ours, []change{nearer}, false},
		{"a branch that continues, for an owner, whose entries must be merged first", owns, theirs, []change{nearer}, false},
		{"one that ends", follows, theirs, nil, false},
		{"one that ends, by an owner who left ours for it", follows, both, nil, true},
		{"one that ends, by an owner of ours", follows, ours, nil, false},
		{"one that ends and was there before ours", follows, both, []change{older}, false},
		{"one that ends, for an owner, by another who left", owns, both, nil, false},
		{"by our sequencer", owns, lead, nil, true},
		{"by our sequencer, of one that was there before ours", owns, lead, []change{older}, true},
		{"one that our sequencer leads", owns, theirs, []change{led}, true},
		{"one that our sequencer led before ours", owns, theirs, []change{led, older}, false},
		{"one that our sequencer has signed", owns, theirs, []change{signed(lead)}, true},
		{"one that our sequencer had signed before ours", owns, theirs, []change{signed(lead), older}, false},
		{"one that another of our owners has signed", owns, theirs, []change{signed(ours)}, false},
	}
	w, channels := met(t, len(rows))
	for i, row := range rows {
		c := channels[i]
		m := c.other[0]
		if row.owns {
			m = c.also[1]
		}
		e := c.rival()
		for _, change := range row.changes {
			change(c, &e)
		}
		m.hears(row.from(c).Host, commitOf(w.epoch(e)))
		if went := m.branch(c.key) == e.branch; went != row.goes {
			t.Errorf("%s: switches: %v", row.what, went)
		}
		if u := m.owners.Stats().Untrusted; u > 0 {
			t.Fatalf("%s: it is not believed", row.what)
		}
	}
}

// A member that pulls from another live branch, and may not switch to it, tells both sequencers of each other, but not at
// each pull.
func TestASeenBranchIsReportedToItsSequencer(t *testing.T) {
	w, channels := met(t, 2)
	for i, c := range channels {
		m := []*member{c.also[1], c.other[0]}[i] // an owner, a follower
		theirs, they := w.epoch(c.rival()), w.strangers(1)[0]
		they.claims(theirs)
		words, leads := m.overheard(), c.lead.overheard()
		pull := func() {
			m.Do(func() { m.owners.Pull(they.Peer(), c.key, func(bool) {}) })
			w.Run(500 * time.Millisecond)
		}
		for range 3 {
			pull()
		}
		if m.branch(c.key) != c.epoch.Branch {
			t.Fatalf("member %d has switched", m.Index())
		}
		if n := commits(*words, c.lead.Host, theirs); n != 1 {
			t.Errorf("its own sequencer was told %d times", n)
		}
		if n := commits(*words, they.Host, w.wire(c.epoch)); n != 1 {
			t.Errorf("the others were told %d times", n)
		}
		if commits(*leads, c.other[1].Host, w.wire(c.epoch)) == 0 {
			t.Error("the sequencers do not get in touch")
		}
		w.Run(2 * time.Second)
		pull()
		if n := commits(*words, c.lead.Host, theirs); n != 2 {
			t.Errorf("after a while its own sequencer was told %d times", n)
		}
	}
}

// Entries from the tree are not pulled if their branch will end here. They are pulled if this node's sequencer has signed
// them, since it has joined that branch, or if their branch continues.
func TestOffersOfOtherBranches(t *testing.T) {
	w, channels := met(t, 1)
	c := channels[0]
	m := c.other[0]
	offer := func(by *member, branch uint64) (of owner.OfferResult) {
		raw, body := w.entry(c.url, by, owner.Position{Branch: branch, Epoch: 1, Seq: 9}, c.head().Hash, 200)
		m.Do(func() { _, of = m.owners.Offer(raw, body, nil, func(*owner.Entry) {}) })
		return of
	}
	later, before := c.epoch.Branch+1, c.epoch.Branch-1
	if of := offer(c.other[1], later); of != owner.OtherBranch {
		t.Errorf("of one that ends: %v", of)
	}
	if of := offer(c.lead, later); of != owner.Gap {
		t.Errorf("by our sequencer: %v", of)
	}
	if of := offer(c.other[1], before); of != owner.Gap {
		t.Errorf("an entry of a branch that continues: %v", of)
	}
	w.Run(9 * time.Minute)
	if of := offer(c.other[1], later); of != owner.Gap {
		t.Errorf("when our sequencer is silent: %v", of)
	}
	m.Do(func() { m.owners.HeardFromSequencer(c.key) })
	if of := offer(c.other[1], later); of != owner.OtherBranch {
		t.Errorf("when our sequencer was heard: %v", of)
	}
}

// A sequencer that has lost its quorum founds a branch that continues from its last entry, and publishes that entry. The
// owners of the old branch may continue without the entry: their followers are not shown it, or it would be taken back
// (faults, seed 35 with public feeds).
func TestAnEntryIsCommittedInTheBranchThatPublishesIt(t *testing.T) {
	w, channels := met(t, 5)
	verify := wire.NewVerifier(w.hash)
	lead := func(c channel) *member { return c.lead }
	theirs := func(c channel) *member { return c.other[1] }
	for i, row := range []struct {
		branch  string
		founder func(channel) *member // nil: it comes without an epoch
		made    bool                  // up, by the founder alone: its owners have not signed
		owns    bool                  // it has stored the entry, without knowing that it is committed
		of      owner.OfferResult
		shows   bool
	}{
		{"its own", nil, false, false, owner.Added, true},
		{"another, which our sequencer has founded", lead, false, false, owner.Gap, false},
		{"another", theirs, false, false, owner.OtherBranch, false},
		{"another, for an owner who was asked to hold it", theirs, false, true, owner.OtherBranch, false},
		{"another that somebody has made up", theirs, true, false, owner.Added, true},
	} {
		c := channels[i]
		m := c.other[0]
		at := c.head().At
		at.Seq++
		raw, body := w.entry(c.url, c.lead, at, c.head().Hash, 200)
		e, err := owner.OpenEntry(verify, raw)
		if err != nil {
			t.Fatal(err)
		}
		var epoch []byte
		if row.founder != nil {
			rival := c.rival()
			rival.sequencer, rival.after = row.founder(c), e
			rival.owners = []*member{rival.sequencer, c.other[2]}
			if row.made {
				rival.unsigned = 1
			}
			epoch = wire.Encode(w.epoch(rival))
		}
		if row.owns {
			m = c.also[1]
			m.Do(func() { m.owners.Follow(c.key, c.url) })
			m.hears(c.lead.Host, &ownerpb.Message{Body: &ownerpb.Message_Replicate{Replicate: &ownerpb.Replicate{Entry: raw, Body: body}}})
			w.Run(time.Second)
		}
		var of owner.OfferResult
		m.Do(func() { _, of = m.owners.Offer(raw, body, epoch, func(*owner.Entry) {}) })
		w.Run(time.Second)
		log := m.owners.Visible(c.key)
		if shows := log[len(log)-1].Hash == e.Hash; of != row.of || shows != row.shows || m.owners.Has(c.key, e.Hash) != (row.shows || row.owns) {
			t.Errorf("offered in %s: %v, visible: %v, here: %v", row.branch, of, shows, m.owners.Has(c.key, e.Hash))
		}
	}
}

// Visible entries that come again late, after a switch to a branch that continues from them, are known.
func TestAVisibleEntryIsKnownInTheNextBranch(t *testing.T) {
	w, channels := met(t, 1)
	c := channels[0]
	m := c.other[0]
	at, prev := c.head().At, c.head().Hash
	at.Seq++
	raw, body := w.entry(c.url, c.lead, at, prev, 200)
	offer := func() (of owner.OfferResult) {
		m.Do(func() { _, of = m.owners.Offer(raw, body, nil, func(*owner.Entry) {}) })
		w.Run(time.Second)
		return of
	}
	if of := offer(); of != owner.Added {
		t.Fatalf("at first: %v", of)
	}
	log := m.owners.Visible(c.key)
	next := c.rival()
	next.after = log[len(log)-1]
	next.branch = c.epoch.Branch - 1 // it continues when both live
	m.hears(c.other[1].Host, commitOf(w.epoch(next)))
	if m.branch(c.key) != next.branch {
		t.Fatal("it has not switched")
	}
	if of := offer(); of != owner.Known {
		t.Errorf("once more: %v", of)
	}
}

// A member that has heard nothing of its sequencer for a lease switches to a live branch.
func TestASilentBranchIsLeft(t *testing.T) {
	w, channels := met(t, 2)
	w.Run(9 * time.Minute)
	for i, c := range channels {
		m, heard := c.other[0], i == 0
		if heard {
			m.Do(func() { m.owners.HeardFromSequencer(c.key) })
		}
		e := c.rival()
		m.hears(c.other[1].Host, commitOf(w.epoch(e)))
		if left := m.branch(c.key) == e.branch; left == heard {
			t.Errorf("heard of: %v, left: %v", heard, left)
		}
	}
}

// No member switches to an epoch that no quorum has signed, whether it is told of the epoch or pulls it. Nor does a
// sequencer switch, because the other branch has to take its entries first.
func TestUncertifiedEpochsAreNotFollowed(t *testing.T) {
	for _, pulls := range []bool{false, true} {
		rows := []struct {
			what     string
			unsigned int
			leads    bool
			goes     bool
			liars    uint64 // are counted
		}{
			{"signed by two of three", 1, false, true, 0},
			{"signed by one of three", 2, false, false, 1},
			{"where one leads, and has signed it", 0, true, false, 0},
		}
		w, channels := met(t, len(rows))
		for i, row := range rows {
			c := channels[i]
			m := c.other[0]
			if row.leads {
				m = c.lead
			}
			they := w.strangers(1)[0]
			e := c.rival()
			e.branch, e.owners, e.unsigned = c.epoch.Branch-1, []*member{they, c.other[1], c.other[2]}, row.unsigned
			if row.leads {
				e.also = []*member{c.lead}
			}
			they.claims(w.epoch(e))
			before := m.owners.Stats().Untrusted
			if pulls {
				m.Do(func() { m.owners.Pull(they.Peer(), c.key, func(bool) {}) })
				w.Run(200 * time.Millisecond)
			} else {
				m.hears(they.Host, commitOf(w.epoch(e)))
			}
			if went := m.branch(c.key) == e.branch; went != row.goes {
				t.Errorf("%s, pulled: %v: it switches: %v", row.what, pulls, went)
			}
			if n := m.owners.Stats().Untrusted - before; n != row.liars {
				t.Errorf("%s, pulled: %v: %d times a liar was counted", row.what, pulls, n)
			}
		}
	}
}

// A pull is over when what it brought is durable; what the disk refuses is not in the log.
func TestAPullEndsOnDisk(t *testing.T) {
	w, channels := met(t, 1)
	c := channels[0]
	m := c.other[1]
	m.Do(func() { m.owners.Follow(c.key, c.url) })
	pull := func() (answers []bool) {
		m.Do(func() { m.owners.Pull(c.lead.Peer(), c.key, func(ok bool) { answers = append(answers, ok) }) })
		w.Run(5 * time.Second)
		return answers
	}
	m.SetDisk(sim.DiskFull)
	if of := pull(); !slices.Equal(of, []bool{false}) || m.owners.Has(c.key, c.head().Hash) {
		t.Errorf("a disk that takes nothing: %v", of)
	}
	m.SetDisk(sim.DiskOK)
	if of := pull(); !slices.Equal(of, []bool{true}) || !m.owners.Has(c.key, c.head().Hash) {
		t.Errorf("a sound disk: %v", of)
	}
}
