package corona

import (
	"fmt"
	"testing"
	"time"

	"tidings/corona/coronapb"
	"tidings/internal/env"
	"tidings/overlay/wedge"
)

// A feed that has redirected permanently for a week is polled at its new address, keeps its own, and
// survives both the end of the old host and a return to it. A new sequencer knows the move, and believes it when the old
// host has failed several times.
func TestAFeedIsPolledWhereItHasMoved(t *testing.T) {
	const oldURL, newURL = "http://old.example/feed", "http://new.example/feed"
	day := 24 * time.Hour
	l := newLab(t)
	document := rss("A", "", "one", "two")
	l.origins[newURL] = serves(document)
	l.origins[oldURL] = serves(document, func(a *env.Answer) { a.FinalURL, a.Moved = newURL, true })
	p := l.poller(Config{PollInterval: 2 * time.Hour})
	log := p.lead(oldURL, nil)
	state := func(p *labNode) State { return p.leaders[key(oldURL)].state }

	if l.run(6*day, p); len(l.polls(newURL)) > 0 || state(p).Moved != newURL {
		t.Fatalf("after six days: %d polls there, moved to %q", len(l.polls(newURL)), state(p).Moved)
	}
	before := len(log.items)
	l.run(2*day, p)
	asked := len(l.polls(oldURL))
	delete(l.origins, oldURL) // the old host is gone
	l.run(2*day, p)
	if len(l.polls(oldURL)) != asked || state(p).Kind != coronapb.State_OK || state(p).Moved != newURL || len(log.items) != before {
		t.Errorf("after ten days: %d more polls of the old address, %+v, %d items", len(l.polls(oldURL))-asked, state(p), len(log.items)-before)
	}

	p.cease(oldURL)
	next := l.poller(Config{PollInterval: 2 * time.Hour})
	next.lead(oldURL, log)
	if l.run(day, next); len(l.polls(oldURL)) != asked+moveDoubt+1 || state(next).Kind != coronapb.State_OK {
		t.Errorf("the next sequencer polls the old address %d times: %+v", len(l.polls(oldURL))-asked, state(next))
	}

	delete(l.origins, newURL)
	l.origins[oldURL] = serves(document)
	if l.run(4*day, next); state(next).Kind != coronapb.State_OK || state(next).Moved != "" {
		t.Errorf("back at the old address: %+v", state(next))
	}
}

// A new address that is trusted and redirects on, for good or for a while, is followed: the old host may be gone.
func TestAMovedFeedMovesOn(t *testing.T) {
	const oldURL, newURL, third = "http://old.example/feed", "http://new.example/feed", "https://new.example/feed"
	day := 24 * time.Hour
	for name, permanent := range map[string]bool{"for good": true, "for a while": false} {
		l := newLab(t)
		document := rss("A", "", "one", "two")
		l.origins[newURL] = serves(document)
		l.origins[oldURL] = serves(document, func(a *env.Answer) { a.FinalURL, a.Moved = newURL, true })
		p := l.poller(Config{PollInterval: 2 * time.Hour})
		p.lead(oldURL, nil)
		l.run(8*day, p)
		delete(l.origins, oldURL)
		l.origins[newURL] = serves(document, func(a *env.Answer) { a.FinalURL, a.Moved = third, permanent })
		l.origins[third] = serves(document)
		asked := len(l.polls(oldURL))
		l.run(10*day, p)
		s := p.leaders[key(oldURL)]
		if s.state.Kind != coronapb.State_OK || len(l.polls(oldURL)) != asked {
			t.Errorf("%s: %+v, and the old address was asked %d times", name, s.state, len(l.polls(oldURL))-asked)
		}
		if directly := len(l.polls(third)) > 0; directly != permanent || permanent && s.moved.to != third {
			t.Errorf("%s: the third address is polled directly: %v; moved to %q", name, directly, s.moved.to)
		}
	}
}

// A redirect to a page of maintenance moves nothing.
func TestMaintenanceMovesNothing(t *testing.T) {
	const url = "http://a.example/feed"
	l := newLab(t)
	l.origins[url] = serves(rss("A", "", "one"))
	p := l.poller(Config{PollInterval: time.Hour})
	log := p.lead(url, nil)
	l.run(5*time.Hour, p)
	l.origins[url] = says(env.Answer{Status: 200, FinalURL: "http://a.example/maintenance", Moved: true, ContentType: "text/html", Body: []byte("<!DOCTYPE html><title>Back soon</title>")})
	l.run(8*24*time.Hour, p)
	if s := p.leaders[key(url)]; s.moved.to != "" || s.state.Kind != coronapb.State_NOT_A_FEED {
		t.Errorf("%+v, moved to %q", s.state, s.moved.to)
	}
	l.origins[url] = serves(rss("A", "", "one"))
	if l.run(25*time.Hour, p); p.leaders[key(url)].state.Kind != coronapb.State_OK || len(log.items) != 1 {
		t.Errorf("back: %+v, %d items", p.leaders[key(url)].state, len(log.items))
	}
}

// A move begins anew when the address redirects elsewhere, and ends when the document is back there.
func TestMovesBeginAnewAndEnd(t *testing.T) {
	const url, b, c = "http://a.example/", "http://b.example/", "http://c.example/"
	now := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	var m move
	for i, step := range []struct {
		asked, moved, final string
		want                string // the address that is trusted
	}{
		{url, b, b, ""}, {url, b, b, ""}, {url, b, b, b}, {url, "", b, b}, {b, "", b, b}, {b, "", c, b},
		{url, c, c, ""}, {b, "", b, ""}, {url, c, c, c}, {c, b, b, b}, {c, "", c, b}, {url, "", url, ""},
		{b, c, c, ""}, {url, b, b, ""}, {url, b, b, ""}, {url, b, b, b}, {b, url, url, ""},
	} {
		if m.note(url, step.asked, step.moved, step.final, now); m.trusted(now) != step.want {
			t.Errorf("step %d: %q, want %q", i, m.trusted(now), step.want)
		}
		now = now.Add(moveTrust / 2)
	}
}

// A sequencer that says that its channels have moved to the web server of somebody else sends no poller there, as long as
// their own addresses answer. If these are dead, an owner asks the other web server no more often than a domain is asked without a grant.
func TestNobodyIsAimedAtAnotherWebServer(t *testing.T) {
	const victim = "http://victim.example/feed"
	for name, c := range map[string]struct {
		own   origin
		owner bool
		least time.Duration // between two polls of the victim; 0: it is not polled
	}{
		"the feed is where it was":        {own: serves(rss("A", "", "one"))},
		"it redirects somewhere else":     {own: serves(rss("A", "", "one"), func(a *env.Answer) { a.FinalURL, a.Moved = "http://b.example/feed", true })},
		"it is dead":                      {},
		"it is dead, for an owner":        {owner: true, least: ungrantedGap},
		"it asks for fewer, for an owner": {own: says(env.Answer{Status: 429}), owner: true},
	} {
		l := newLab(t)
		l.origins[victim] = serves(rss("Victim", "", "other"))
		p := l.poller(Config{PollInterval: time.Hour})
		p.owner = c.owner
		for i := range 40 { // channels of different domains, so that no budget holds them back
			url := fmt.Sprintf("http://own%d.example/feed", i)
			if c.own != nil {
				l.origins[url] = c.own
			}
			p.Serve(key(url), wedge.Assignment{
				N: 1, Ranks: wedge.SingleRank(0), IntervalStart: l.now.Add(time.Duration(i) * time.Second), Interval: time.Hour,
				Payload: channelParams{at: victim}.payload(url),
			})
		}
		l.run(4*24*time.Hour, p)
		at := l.polls(victim)
		if (len(at) > 0) != (c.least > 0) {
			t.Errorf("%s: the victim is polled %d times", name, len(at))
		}
		for i := 1; i < len(at); i++ {
			if at[i].Sub(at[i-1]) < c.least {
				t.Errorf("%s: the victim is polled again after %v", name, at[i].Sub(at[i-1]))
			}
		}
	}
}

// A sequencer may say that a channel has moved to any address, so a document from there proves nothing about the channel.
// Owners vouch only for documents that they got by asking for the channel's own address.
func TestOnlyTheOwnAddressOfAChannelProvesSomething(t *testing.T) {
	for asked, want := range map[string]bool{"": true, site: true, "https://evil.example/feed": false} {
		r := observation{asked: asked}
		if r.direct(site) != want {
			t.Errorf("asked %q: %v", asked, !want)
		}
	}
}
