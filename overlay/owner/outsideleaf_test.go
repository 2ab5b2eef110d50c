package owner_test

import (
	"testing"
	"time"

	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/owner"
	"tidings/overlay/owner/ownerpb"
	"tidings/sim"
)

// A sequencer of a key outside its leaf reports to the key's root again and again: the members there know nothing of its
// branch, and it knows nothing of theirs.
func TestALogLedFromOutsideTheLeafIsReported(t *testing.T) {
	w, c, far := wide(t)
	w.follows(far, c)
	theirs := claim{
		url: c.url, branch: c.epoch.Branch + 1, number: 1, sequencer: far, owners: append([]*member{far}, c.also[:2]...),
		also: []*member{c.lead}, at: w.Now(), after: c.head(),
	}
	they := w.strangers(1)[0]
	they.claims(w.epoch(theirs))
	if far.pull(they, c); !far.leads[c.key] {
		t.Fatal("it does not lead")
	}
	w.Run(90 * time.Second)
	if far.leads[c.key] || far.branch(c.key) != c.epoch.Branch {
		t.Error("it leads a branch that nobody else knows")
	}
}

// wide is a world of two or more leaves, with a channel and a member of another leaf.
func wide(t *testing.T) (w *world, c channel, far *member) {
	w, _ = quiet(t, 48, 1)
	w.Run(2 * time.Minute)
	c = w.channel(0)
	for _, m := range c.other {
		if m.overlay.State() == overlay.Active && !m.overlay.Leaf().Covers(c.key) {
			far = m
		}
	}
	if far == nil {
		t.Fatal("all members are in one leaf")
	}
	return w, c, far
}

// pull pulls a channel's log from a member, after a lookup if one is needed.
func (m *member) pull(from *member, c channel) {
	m.w.t.Helper()
	over := false
	m.Do(func() { m.owners.Pull(from.Peer(), c.key, func(bool) { over = true }) })
	if !m.w.RunUntil(func() bool { return over }, 100*time.Millisecond, 30*time.Second) {
		m.w.t.Fatal("a pull does not end")
	}
}

// A follower of a key outside its leaf does not switch to made-up owners, whether it pulls from them or is told of them: a
// lookup does not find them.
func TestMadeUpOwnersAreNotFollowed(t *testing.T) {
	w, c, far := wide(t)
	w.follows(far, c)
	for _, row := range []struct{ madeUp, told bool }{{true, false}, {true, true}, {false, true}} {
		w.Run(time.Minute) // the last lookup expires
		they := w.strangers(3)
		e := claim{
			url: c.url, branch: c.epoch.Branch - 1, number: 1, sequencer: they[0], owners: they, at: w.Now(), after: c.head(),
		}
		if !row.madeUp {
			e.owners = []*member{they[0], c.also[0], c.also[1]}
		}
		they[0].claims(w.epoch(e))
		before := far.owners.Stats()
		if row.told {
			they[0].tells(far)
			w.Run(10 * time.Second)
		} else {
			far.pull(they[0], c)
		}
		st := far.owners.Stats()
		if went := far.branch(c.key) == e.branch; went == row.madeUp {
			t.Errorf("%+v: it switches: %v", row, went)
		}
		if counted := st.Untrusted > before.Untrusted; counted != row.madeUp {
			t.Errorf("%+v: a liar is counted: %v", row, counted)
		}
		if looks := st.Lookups - before.Lookups; looks != 1 {
			t.Errorf("%+v: it has made %d lookups", row, looks)
		}
	}
}

// tells sends a member the claim of a stranger.
func (m *member) tells(to *member) {
	m.Do(func() {
		f := m.Node().(*faker)
		f.net.Send(to.Peer(), env.Control, wire.AppendFrame(nil, wire.Owner, commitOf(f.epoch)))
	})
}

// client adds a client.
func (w *world) client() *member {
	m := &member{Host: w.Host(sim.HostConfig{}), w: w}
	m.start()
	w.attached(m)
	return m
}

// attached waits until members act for a client.
func (w *world) attached(m *member) {
	w.t.Helper()
	if !w.RunUntil(func() bool { return m.overlay.State() == overlay.Attached }, time.Second, time.Minute) {
		w.t.Fatal("it has no hosts")
	}
}

// A client that has just come back, and has not looked up the members near a key, believes neither an epoch from the tree
// nor that the owners are gone.
func TestAClientWithoutALookupBelievesNobody(t *testing.T) {
	w, channels := quiet(t, 8, 1)
	c, client, they := channels[0], w.client(), w.strangers(3)
	w.follows(client, c)
	client.Crash(true)
	client.start()
	w.attached(client)
	at := owner.Position{Branch: c.epoch.Branch, Epoch: c.epoch.Number + 1, Seq: c.head().At.Seq + 1}
	raw, body := w.entry(c.url, they[0], at, c.head().Hash, 200)
	e := w.epoch(claim{url: c.url, branch: at.Branch, number: at.Epoch, sequencer: they[0], owners: they, at: w.Now(), after: c.head()})
	want := &ownerpb.Message{Body: &ownerpb.Message_RequestOwners{RequestOwners: &ownerpb.RequestOwners{Url: c.url}}}
	client.Do(func() {
		if _, of := client.owners.Offer(raw, body, wire.Encode(e), func(*owner.Entry) {}); of != owner.Gap {
			t.Errorf("an entry of made-up owners: %v", of)
		}
		client.owners.Deliver(&overlay.Message{Key: c.key, Payload: wire.Encode(want)})
	})
	if v, _ := client.owners.View(c.key); v.Epoch.Hash != c.epoch.Hash {
		t.Error("it has taken an epoch that nobody made")
	}
	if n := client.owners.Stats().Candidacies; n > 0 {
		t.Errorf("it has run %d times for a key that others own", n)
	}
}

// A client, which is in no leaf, finds out by a lookup whether a branch has lost its owners.
func TestAClientJudgesByItsLookup(t *testing.T) {
	w, channels := quiet(t, 12, 1)
	c, client := channels[0], w.client()
	w.follows(client, c)
	e := c.rival()
	they := w.strangers(1)[0] // it has heard of the branch
	they.claims(w.epoch(e))
	if client.pull(they, c); client.branch(c.key) != c.epoch.Branch {
		t.Fatal("it leaves owners who live")
	}
	for _, o := range append(c.also, c.lead) {
		o.Crash(false)
	}
	w.Run(2 * time.Minute)
	if client.pull(they, c); client.branch(c.key) != e.branch {
		t.Error("it stays with owners who are dead")
	}
}
