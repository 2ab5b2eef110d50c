package corona

import (
	"bytes"
	"crypto/ed25519"
	"maps"
	"strings"
	"testing"
	"time"

	"tidings/difference"
	"tidings/internal/env"
	"tidings/internal/feed"
	"tidings/internal/wire"
)

// pollerOf returns the peer id of a number.
func pollerOf(n byte) env.PeerID {
	return wire.PeerIDOf(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{n}, ed25519.SeedSize)).Public().(ed25519.PublicKey))
}

// A poller is blamed for the items that it reported last, for a day, and not for those of which nobody remembers the
// poller. The next sequencer knows it, too.
func TestPollersOfContestedItemsAreNotBelieved(t *testing.T) {
	lab := newLab(t)
	p := lab.poller(Config{})
	log := p.lead(site, nil)
	now, in, l := lab.now, p.intake, p.leaders[key(site)]
	forgotten, honest, liar := pollerOf(1), pollerOf(2), pollerOf(3)
	version := func(id ...byte) (v difference.Version) {
		copy(v.ID[:], id)
		return v
	}
	l.note(version(1), forgotten)
	for i := range maxReported - 2 {
		l.note(version(2, byte(i)), honest)
	}
	l.note(difference.Version{ID: feed.ID{3}, Hash: feed.Hash{1}}, honest) // before the liar forged an edit
	l.note(version(3), liar)
	in.contested(l, []difference.Version{version(1), version(3)})
	for poller, want := range map[env.PeerID]bool{forgotten: false, honest: false, liar: true} {
		if l.distrusts(poller, now) != want {
			t.Errorf("%s: %v", poller, !want)
		}
	}
	if in.contested(l, []difference.Version{version(3)}); in.stats.Distrusted != 1 {
		t.Errorf("%d pollers", in.stats.Distrusted)
	}
	if l.distrusts(liar, now.Add(distrustTime)) {
		t.Error("not believed after a day")
	}
	if len(l.reported) != maxReported {
		t.Errorf("%d items are remembered", len(l.reported))
	}
	for _, until := range []time.Time{now.Add(distrustTime), now.AddDate(1, 0, 0)} { // by a sequencer whose clock is ahead, or that lies
		l.distrusted[liar] = until
		in.note(l)
		next := lab.poller(Config{})
		next.lead(site, log)
		if l := next.leaders[key(site)]; !l.distrusts(liar, now.Add(distrustTime-time.Second)) || l.distrusts(liar, now.Add(distrustTime)) || l.distrusts(honest, now) {
			t.Errorf("the next sequencer distrusts %v", l.distrusted)
		}
	}
}

// A channel remembers so many pollers that are not believed. The one that would be believed first is dropped, and none is forgotten
// for it that was caught later. Those whose day is over make room.
func TestDistrustedPollersAreBounded(t *testing.T) {
	now := time.Unix(1000, 0)
	var b blame
	for i := range maxDistrusted + 1 {
		b.distrust(pollerOf(byte(i)), now.Add(time.Duration(i)*time.Second))
	}
	b.distrust(pollerOf(5), now.Add(time.Hour)) // again
	for i := range maxDistrusted + 1 {
		if got := b.distrusts(pollerOf(byte(i)), now.Add(time.Minute)); got != (i > 0) {
			t.Errorf("poller %d is distrusted: %v", i, got)
		}
	}
	if n, ok := parseNote(note{distrusted: b.distrusted}.append()); !ok || len(n.distrusted) != maxDistrusted {
		t.Errorf("the note has %d pollers", len(n.distrusted))
	}
	b.distrusted[pollerOf(100)] = now
	if _, ok := parseNote(note{distrusted: b.distrusted}.append()); ok {
		t.Error("a note with too many pollers is taken")
	}
	if b.distrust(pollerOf(101), now.Add(2*distrustTime)); len(b.distrusted) != 1 {
		t.Errorf("%d pollers are remembered when the day of all but one is over", len(b.distrusted))
	}
}

// A sequencer whose clock is ahead does not make others distrust a poller for longer than a day, what is over does not return, and what
// is no peer id is ignored.
func TestNotedDistrustEnds(t *testing.T) {
	now := time.UnixMilli(1_000_000_000)
	ahead, over, still := pollerOf(1), pollerOf(2), pollerOf(3)
	noted := note{distrusted: distrusts{ahead: now.AddDate(1, 0, 0), over: now, still: now.Add(time.Hour), "nobody": now.Add(time.Hour)}}
	n, ok := parseNote(noted.append())
	want := distrusts{ahead: now.Add(distrustTime), still: now.Add(time.Hour)}
	if got := n.distrusted.at(now); !ok || !maps.EqualFunc(got, want, time.Time.Equal) {
		t.Errorf("%v, want %v", got, want)
	}
}

// A note that would be too large with the pollers that are not believed is sent without them, because the owners would not take it.
func TestLargeNotesLeaveDistrustOut(t *testing.T) {
	lab := newLab(t)
	p := lab.poller(Config{})
	log := p.lead(site, nil)
	l := p.leaders[key(site)]
	for i := range byte(maxDistrusted) {
		l.distrust(pollerOf(i), lab.now)
	}
	for _, c := range []struct{ etag, url, pollers int }{{40, 100, maxDistrusted}, {maxValidator, maxURL, maxDistrusted}, {maxValidator, maxURL, 0}} {
		l.valid = validators{etag: strings.Repeat("e", c.etag), lastModified: strings.Repeat("m", c.etag), url: "http://" + strings.Repeat("u", c.url-7)}
		l.grant = nil
		if c.pollers == 0 {
			l.grant, l.marks = bytes.Repeat([]byte{1}, maxGrant), strings.Repeat("m", 640)
		}
		p.intake.note(l)
		n, ok := parseNote(log.note)
		if !ok || len(log.note) > maxNote || len(n.distrusted) != c.pollers || n.valid.etag != l.valid.etag {
			t.Errorf("with validators of %d bytes: a note of %d bytes with %d pollers", c.etag, len(log.note), len(n.distrusted))
		}
	}
}
