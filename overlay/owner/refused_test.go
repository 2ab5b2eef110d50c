package owner_test

import (
	"testing"
	"time"

	"tidings/internal/wire"
	"tidings/overlay/owner"
	"tidings/overlay/owner/ownerpb"
	"tidings/sim"
)

// lacking is a world whose channel has an entry that its second owner's disk has refused. The others make that owner the
// sequencer nevertheless, of an epoch that continues from the entry.
func lacking(t *testing.T) (w *world, c channel, next *member, epoch *ownerpb.Epoch) {
	w, channels := quiet(t, 8, 1)
	c = channels[0]
	next = c.also[0]
	next.SetDisk(sim.DiskFull)
	w.append(c.url, 100)
	w.Run(time.Second)
	if next.owners.Has(c.key, c.head().Hash) {
		t.Fatal("the disk has not refused it")
	}
	epoch = w.epoch(claim{
		url: c.url, branch: c.epoch.Branch, number: c.epoch.Number + 1, sequencer: next,
		owners: append([]*member{c.lead}, c.also...), at: w.Now(), after: c.head(),
	})
	return w, c, next, epoch
}

// A sequencer whose disk has refused the entry that its epoch continues from pulls that entry before it appends.
// Otherwise a committed entry would be lost.
func TestASequencerPullsTheBaseOfItsEpoch(t *testing.T) {
	w, c, next, epoch := lacking(t)
	for _, m := range w.members {
		m.hears(c.lead.Host, commitOf(epoch))
	}
	w.Run(3 * time.Second) // it pulls the entry, and cannot store it either
	if !next.leads[c.key] {
		t.Fatal("it does not lead")
	}
	w.append(c.url, 100)
	w.Run(5 * time.Second)
	if len(w.done) != 2 {
		t.Errorf("%d bodies are committed, of which one lacks its predecessors", len(w.done))
	}
	next.SetDisk(sim.DiskOK)
	if !w.RunUntil(func() bool { return len(w.done) == 3 }, time.Second, 20*time.Second) {
		t.Error("it does not go on when its disk is sound again")
	}
	w.Run(time.Minute)
	for id := range w.made {
		if !next.has[c.key][id] {
			t.Errorf("body %d is lost", id)
		}
	}
	w.settled()
}

// No member takes entries from a sequencer that leaves out the entry that its epoch continues from.
func TestTheBaseOfAnEpochCannotBeLeftOut(t *testing.T) {
	w, c, next, epoch := lacking(t)
	other := c.also[1]
	other.hears(c.lead.Host, commitOf(epoch))
	log := c.lead.owners.Log(c.key)
	before := log[len(log)-2]
	at := owner.Position{Branch: c.epoch.Branch, Epoch: c.epoch.Number + 1, Seq: c.head().At.Seq}
	raw, body := w.entry(c.url, next, at, before.Hash, 99)
	untrusted := other.owners.Stats().Untrusted
	other.Do(func() {
		msg := &ownerpb.Message{Body: &ownerpb.Message_Replicate{Replicate: &ownerpb.Replicate{Entry: raw, Body: body}}}
		if err := other.owners.Receive(next.ID(), wire.Encode(msg)); err == nil {
			t.Error("it is taken")
		}
	})
	if !other.owners.Has(c.key, c.head().Hash) || other.owners.Stats().Untrusted != untrusted+1 {
		t.Error("a committed body is lost")
	}
}
