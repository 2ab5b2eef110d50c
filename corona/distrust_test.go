package corona

import (
	"maps"
	"testing"
	"time"

	"tidings/difference"
	"tidings/internal/env"
	"tidings/internal/feed"
)

// A poller is blamed for the items that it reported last, for a day, and not for those of which nobody remembers the
// poller.
func TestPollersOfContestedItemsAreNotBelieved(t *testing.T) {
	lab := newLab(t)
	p := lab.poller(Config{})
	log := p.lead(site, nil)
	now, in, l := lab.now, p.intake, p.leaders[key(site)]
	version := func(id ...byte) (v difference.Version) {
		copy(v.ID[:], id)
		return v
	}
	l.note(version(1), "forgotten")
	for i := range maxReported - 2 {
		l.note(version(2, byte(i)), "honest")
	}
	l.note(difference.Version{ID: feed.ID{3}, Hash: feed.Hash{1}}, "honest") // before the liar forged an edit
	l.note(version(3), "liar")
	in.contested(l, []difference.Version{version(1), version(3)})
	for poller, want := range map[env.PeerID]bool{"forgotten": false, "honest": false, "liar": true} {
		if l.distrusts(poller, now) != want {
			t.Errorf("%s: %v", poller, !want)
		}
	}
	if in.contested(l, []difference.Version{version(3)}); in.stats.Distrusted != 1 {
		t.Errorf("%d pollers", in.stats.Distrusted)
	}
	if l.distrusts("liar", now.Add(distrustTime)) {
		t.Error("not believed after a day")
	}
	if len(l.reported) != maxReported {
		t.Errorf("%d items are remembered", len(l.reported))
	}
	p.cease(site)
	next := lab.poller(Config{})
	next.lead(site, log)
	if l := next.leaders[key(site)]; !l.distrusts("liar", now.Add(distrustTime-time.Second)) || l.distrusts("honest", now) {
		t.Error("the next sequencer does not know who lied")
	}
}

// A channel remembers so many pollers that are not believed. The one that would be believed first is dropped, and none is forgotten
// for it that was caught later.
func TestDistrustedPollersAreBounded(t *testing.T) {
	now := time.Unix(1000, 0)
	var b blame
	name := func(i int) env.PeerID { return env.PeerID(rune('A' + i)) }
	for i := range maxDistrusted + 1 {
		b.distrust(name(i), now.Add(time.Duration(i)*time.Second))
	}
	b.distrust(name(5), now.Add(time.Hour)) // again
	for i := range maxDistrusted + 1 {
		if got := b.distrusts(name(i), now.Add(time.Minute)); got != (i > 0) {
			t.Errorf("poller %d is distrusted: %v", i, got)
		}
	}
	if n, ok := parseNote(note{distrusted: b.distrusted}.append()); !ok || len(n.distrusted) != maxDistrusted {
		t.Errorf("the note has %d pollers", len(n.distrusted))
	}
	b.distrusted["one more"] = now
	if _, ok := parseNote(note{distrusted: b.distrusted}.append()); ok {
		t.Error("a note with too many pollers is taken")
	}
}

// A sequencer whose clock is ahead does not make others distrust a poller for longer than a day, and what is over does not return.
func TestNotedDistrustEnds(t *testing.T) {
	now := time.UnixMilli(1_000_000_000)
	noted := note{distrusted: distrusts{"ahead": now.AddDate(1, 0, 0), "over": now, "still": now.Add(time.Hour)}}
	n, ok := parseNote(noted.append())
	want := distrusts{"ahead": now.Add(distrustTime), "still": now.Add(time.Hour)}
	if got := n.distrusted.at(now); !ok || !maps.EqualFunc(got, want, time.Time.Equal) {
		t.Errorf("%v, want %v", got, want)
	}
}
