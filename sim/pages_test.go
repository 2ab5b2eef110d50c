package sim

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"tidings/internal/longtest"
	"tidings/internal/script"
	"tidings/internal/wire"
)

// A newsPage changes a clock and a counter at each poll, and one of its sentences at each of times.
// During down it shows an error instead. From emptied on, if set, only one sentence is left. If still is set, it has no clock
// and no counter.
type newsPage struct {
	still   bool
	times   []time.Duration
	down    [2]time.Duration
	emptied time.Duration
}

func (n newsPage) At(t time.Duration) script.Version {
	v := script.Version{Index: int(t / time.Second), ContentType: "text/html"}
	if t >= n.down[0] && t < n.down[1] {
		v.Body = []byte("<html><title>502 Bad Gateway</title><h1>502 Bad Gateway</h1></html>")
		return v
	}
	if n.emptied > 0 && t >= n.emptied {
		v.Body = []byte("<html><head><title>The page</title></head><body><p>We have moved.</p></body></html>")
		return v
	}
	var b strings.Builder
	b.WriteString("<html><head><title>The page</title></head><body><h1>News</h1>\n")
	if n.still {
		v.Index = 0
		for _, at := range n.times {
			if t >= at {
				v.Index++
			}
		}
	} else {
		fmt.Fprintf(&b, "<p>It is %d:%02d now, and %d people have seen this.</p>\n", int(t.Hours()), int(t.Minutes())%60, int(t/time.Second))
	}
	for i := range 12 {
		said := 0
		for j, at := range n.times {
			if t >= at && j%12 == i {
				said = j + 1
			}
		}
		fmt.Fprintf(&b, "<p>Sentence %s of the page says what it says%s.</p>\n", strings.Repeat("i", i+1), strings.Repeat(", and more", said))
	}
	b.WriteString("</body></html>")
	v.Body = []byte(b.String())
	return v
}

func (n newsPage) Next(t time.Duration) (time.Duration, bool) {
	return t.Truncate(time.Second) + time.Second, true
}

// The page that members follow, and its channel.
const (
	pageOrigin  = "http://page.example/"
	pageChannel = "page+" + pageOrigin
)

// followers returns a world of 16 members, some of which follow the page that as serves. It is
// polled every minute.
func followers(c Config, readers int, as script.Script) (s *Swarm, f *Feed) {
	network := wire.DefaultNetwork("sim")
	network.PollInterval = time.Minute
	s = NewSwarm(SwarmConfig{World: c, Network: network})
	s.Grow(16, 100*time.Millisecond)
	s.World.Run(20 * time.Second)
	f = s.Serve(pageOrigin, as)
	for _, p := range s.Peers()[:readers] {
		p.SubscribeFeed(pageChannel)
	}
	return s, f
}

// Readers of a page are shown each of its changes once, and nothing that changes by itself once
// that is learned. That holds for later readers, after a change of sequencer, and after the page
// was replaced by an error for a while.
func TestPagesAreFollowed(t *testing.T) {
	t.Parallel()
	for seed := range longtest.Pick[uint64](1, 2) {
		page := newsPage{down: [2]time.Duration{70 * time.Minute, 80 * time.Minute}}
		for i := range 10 { // after the clock and the counter are known to be volatile
			page.times = append(page.times, time.Hour+time.Duration(i)*8*time.Minute)
		}
		s, f := followers(Config{Seed: seed, NetworkFaults: NetworkFaults{Loss: 0.01}}, 10, page)
		key, peers := s.Key(pageChannel), s.Peers()
		s.groups[key] = true
		began := s.Now()
		shown := func(from time.Duration) (most, least int) {
			least = 1 << 20
			for _, p := range peers {
				r := p.subscriptions[pageChannel]
				if r == nil || !p.Up() || r.since.Sub(began) > time.Hour {
					continue
				}
				n := 0
				for _, at := range r.firstShown {
					if at.Sub(began) >= from {
						n++
					}
				}
				most, least = max(most, n), min(least, n)
			}
			return most, least
		}
		s.World.Run(time.Hour - s.Now().Sub(began))
		if most, _ := shown(0); most > 8 {
			t.Errorf("seed %d: %d entries of a clock in its first hour", seed, most)
		}
		s.World.Run(50 * time.Minute)
		for _, p := range peers[:10] { // the sequencer is killed
			if v, ok := p.node.Owners.View(key); ok && v.Leads {
				p.Kill(true)
			}
		}
		s.World.Run(10 * time.Minute)
		peers[12].SubscribeFeed(pageChannel)
		s.World.Run(30 * time.Minute)
		if most, least := shown(time.Hour); most != 10 || least != 10 {
			t.Errorf("seed %d: %d to %d entries of 10 changes", seed, least, most)
		}
		all, _ := shown(0)
		if late := len(peers[12].subscriptions[pageChannel].firstShown); late != all {
			t.Errorf("seed %d: the late reader has %d entries of %d", seed, late, all)
		}
		var updates, reported uint64
		for _, p := range peers {
			if p.Up() {
				updates += p.node.Corona.Stats().Updates
				reported += p.node.Corona.Stats().UpdatesReported
			}
		}
		t.Logf("seed %d: %d polls, %d full, %d change reports, %d of which with changes", seed, f.Polls, f.Full, reported, updates)
		for _, v := range s.Violations() {
			t.Error(v)
		}
	}
}

// A page that loses most of its text is not accepted at once. If it stays that way, pollers and
// sequencer accept it, and readers are shown that once.
func TestAPageThatLosesItsTextIsAcceptedIfItStays(t *testing.T) {
	t.Parallel()
	s, _ := followers(Config{Seed: 1}, 10, newsPage{emptied: 90 * time.Minute})
	began := s.Now()
	failed := func() (n uint64) {
		for _, p := range s.Peers() {
			n += p.node.Corona.Stats().Failed
		}
		return n
	}
	s.World.Run(4 * time.Hour)
	before := failed()
	s.World.Run(time.Hour)
	if n := failed() - before; before == 0 || n > 0 {
		t.Errorf("%d polls failed in four hours, %d in the fifth", before, n)
	}
	for _, p := range s.Peers()[:10] {
		told := 0
		for _, at := range p.subscriptions[pageChannel].firstShown {
			switch since := at.Sub(began) - 90*time.Minute; {
			case since < 0:
			case since < time.Hour:
				t.Errorf("%v: shown after %v, want more than an hour", p.ID(), since)
			default:
				told++
			}
		}
		if told != 1 {
			t.Errorf("%v: shown %d times, want once", p.ID(), told)
		}
	}
}

// When an edit of a page is reverted, readers are shown the original text again, also if the origin
// answers "not modified" afterwards.
func TestEditThatIsTakenBack(t *testing.T) {
	t.Parallel()
	s, f := followers(Config{Seed: 1}, 10, editedPage{{0, "It is so."}, {time.Hour, "It is not so."}, {80 * time.Minute, "It is so."}})
	s.World.Run(4 * time.Hour)
	for _, p := range s.Peers()[:10] {
		if told := len(p.subscriptions[pageChannel].firstShown); told != 2 {
			t.Errorf("%v: shown %d entries, want one for each of two changes", p.ID(), told)
		}
	}
	if f.Full*10 > f.Polls {
		t.Errorf("%d of %d polls transferred the page", f.Full, f.Polls)
	}
}

// A place that changed at every poll and then stays the same is shown once, and so is a counter
// that stops, also if the origin answers "not modified" from then on.
func TestAPlaceThatStopsChangingIsShownOnce(t *testing.T) {
	t.Parallel()
	for name, says := range map[string]func(minute int) string{
		"a saying": func(minute int) string { return strings.Repeat("ha", minute) + " is what the day says." },
		"a number": func(minute int) string { return fmt.Sprintf("So far there are %d of us.", minute) },
	} {
		t.Run(name, func(t *testing.T) {
			var page editedPage
			for minute := range 90 { // a different one each time
				page = append(page, edit{time.Duration(minute) * time.Minute, says(minute)})
			}
			s, f := followers(Config{Seed: 1}, 10, page)
			began := s.Now()
			s.World.Run(80 * time.Minute)
			polls, full := f.Polls, f.Full
			s.World.Run(160 * time.Minute)
			for _, p := range s.Peers()[:10] {
				told := 0
				for _, at := range p.subscriptions[pageChannel].firstShown {
					if at.Sub(began) > 45*time.Minute {
						told++
					}
				}
				if told != 1 {
					t.Errorf("host %d: shown %d entries of the place, want one", p.Index(), told)
				}
			}
			if polls, full = f.Polls-polls, f.Full-full; full*2 > polls {
				t.Errorf("%d of %d polls transferred the page", full, polls)
			}
		})
	}
}

// An edit is what a page says from a time on.
type edit struct {
	from time.Duration
	says string
}

// An editedPage changes only at its edits.
type editedPage []edit

func (e editedPage) At(t time.Duration) (v script.Version) {
	for i, one := range e {
		if t >= one.from {
			v = script.Version{Index: i, ContentType: "text/html", Body: []byte("<title>The page</title><p>What is it?<p>" + one.says)}
		}
	}
	return v
}

func (e editedPage) Next(t time.Duration) (time.Duration, bool) {
	for _, one := range e {
		if one.from > t {
			return one.from, true
		}
	}
	return 0, false
}
