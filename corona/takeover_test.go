package corona

import (
	"slices"
	"testing"
	"time"

	"tidings/corona/coronapb"
	"tidings/difference"
	"tidings/internal/env"
	"tidings/internal/feed"
	"tidings/overlay/wedge"
)

// Validators are used only when a quorum holds the items that came with them. Otherwise "not
// modified" would hide lost items.
func TestValidatorsAreUsedOnlyWhenTheItemsAreHeld(t *testing.T) {
	l := newLab(t)
	l.origins[site] = serves(rss("A", "", "one", "two"))
	p := l.poller(Config{})
	log := p.lead(site, nil)
	p.slow = true
	l.run(time.Minute, p)
	if n, _ := parseNote(log.note); n.valid != (validators{}) {
		t.Errorf("the note has validators %+v before a quorum holds anything", n.valid)
	}
	l.run(time.Hour, p)
	if r := l.last(); r.ETag != "" {
		t.Errorf("asked with %q while the change report is on its way", r.ETag)
	}
	if st := p.Stats(); st.Updates != 1 {
		t.Errorf("found %d times while it was on its way", st.Updates)
	}
	p.hold(true)
	if n, _ := parseNote(log.note); n.valid.etag == "" || n.valid.url != site {
		t.Errorf("the note has no validators when a quorum holds all")
	}
	l.run(time.Hour, p)
	if r := l.last(); r.ETag == "" {
		t.Error("not asked with the validators then")
	}
}

// Changes that no quorum came to hold leave no validators: the next poll gets the whole document
// and finds them again.
func TestLostChangesAreFoundAgain(t *testing.T) {
	l := newLab(t)
	l.origins[site] = serves(rss("A", "", "one", "two"))
	first := l.poller(Config{})
	log := first.lead(site, nil)
	first.slow = true
	l.run(time.Minute, first)
	first.hold(false)
	first.cease(site)

	second := l.poller(Config{})
	log = second.lead(site, log)
	l.run(time.Hour, second)
	if titles(log.items) != "one two" {
		t.Errorf("the next one found %q", titles(log.items))
	}
}

// A new sequencer continues from the note of the earlier one: items are not found again, and "not
// modified" is understood. It fetches the document once in full, because it vouches for what it has seen itself.
func TestTakeoverContinuesFromTheNote(t *testing.T) {
	l := newLab(t)
	l.origins[site] = serves(rss("A", "", "one", "two"))
	first := l.poller(Config{})
	log := first.lead(site, nil)
	l.run(2*time.Hour, first)
	first.cease(site)
	last := l.last()

	second := l.poller(Config{Witnesses: true})
	log = second.lead(site, log)
	began := l.now
	l.run(2*time.Hour, first, second)
	polls := l.asked[len(l.polls(site))-1]
	if polls.by != second || polls.ETag != last.ETag || polls.ValidatedURL != site {
		t.Errorf("asks with %+v, where the one before asked with %+v", polls.Request, last)
	}
	if full := slices.IndexFunc(l.asked, func(r asked) bool { return r.by == second && r.ETag == "" }); full < 0 {
		t.Error("the new sequencer never asked for the document itself")
	}
	if st := second.Stats(); st.Items != 0 || st.Unchanged == 0 || titles(log.items) != "one two" {
		t.Errorf("%+v, %q", st, titles(log.items))
	}
	if v, _ := second.View(key(site)); v.State.Kind != coronapb.State_OK || !v.State.Since.Before(began) {
		t.Errorf("well since %v", v.State.Since)
	}

	// The count of failures continues, too.
	l.origins[site] = says(env.Answer{Status: 500})
	l.run(10*time.Hour, second)
	fails := second.leaders[key(site)].fails
	third := l.poller(Config{})
	third.lead(site, log)
	if fails < 4 || third.leaders[key(site)].fails == 0 {
		t.Errorf("%d failures became %d", fails, third.leaders[key(site)].fails)
	}
}

// A sequencer whose clock is a year ahead writes a note; the next sequencer does not wait a year.
func TestTakeoverFromAWrongClock(t *testing.T) {
	for _, wrong := range []struct {
		name  string
		says  env.Answer
		waits time.Duration // longest time after taking over
	}{
		{"failing", env.Answer{Status: 500}, 45 * time.Minute},
		{"limited", env.Answer{Status: 429, RetryAfter: 3 * time.Hour}, 4 * time.Hour},
	} {
		t.Run(wrong.name, func(t *testing.T) {
			l := newLab(t)
			l.origins[site] = says(wrong.says)
			right := l.now
			l.now = right.AddDate(1, 0, 0)
			first := l.poller(Config{})
			log := first.lead(site, nil)
			l.run(time.Minute, first)
			first.cease(site)

			l.now = right.Add(time.Minute)
			second := l.poller(Config{})
			second.lead(site, log)
			before := len(l.polls(site))
			l.run(wrong.waits, second)
			if n := len(l.polls(site)) - before; n != 1 {
				t.Errorf("%d polls within %v of taking over, want 1", n, wrong.waits)
			}
		})
	}
}

// A new sequencer does not know the feed's ttl until it has a document. Until then it keeps the
// earlier interval, and the earlier count of readers while the tree forms again.
func TestTakeoverKeepsTheIntervalAndTheReaders(t *testing.T) {
	l := newLab(t)
	l.origins[site] = serves(rss("A", "<ttl>240</ttl>", "one", "two"))
	first := l.poller(Config{})
	first.readers = 7
	log := first.lead(site, nil)
	first.leaders[key(site)].lag = 7 * time.Second
	l.run(9*time.Hour, first)
	first.cease(site)

	second := l.poller(Config{})
	second.readers = 0
	second.lead(site, log)
	if lag := second.leaders[key(site)].lag; lag != 7*time.Second {
		t.Errorf("items are found after %v, and after 7s by the one before", lag)
	}
	began := len(l.polls(site))
	l.run(10*time.Minute, second)
	if n := second.readersOf(site); n != 7 {
		t.Errorf("%d readers while the tree forms anew", n)
	}
	second.readers = 3
	l.run(12*time.Hour, second)
	if n := len(l.polls(site)) - began; n < 2 || n > 4 {
		t.Errorf("%d polls in 12 h of a feed with a ttl of 4 h", n)
	}
	if n := second.readersOf(site); n != 3 {
		t.Errorf("%d readers at last", n)
	}
}

// An invalid note counts as none.
func TestAnInvalidNoteIsIgnored(t *testing.T) {
	l := newLab(t)
	l.origins[site] = serves(rss("A", "", "one"))
	p := l.poller(Config{})
	log := p.lead(site, &channelLog{note: []byte("\xff\xffnonsense")})
	l.run(time.Minute, p)
	if titles(log.items) != "one" {
		t.Errorf("found %q", titles(log.items))
	}
}

// After a channel is led again, an answer to a request from before is ignored.
func TestAnAnswerFromAFormerTermIsIgnored(t *testing.T) {
	l := newLab(t)
	l.origins[site] = serves(rss("A", "", "one"))
	p := l.poller(Config{})
	p.lead(site, nil)
	p.Run(l.now)
	p.cease(site)
	l.run(time.Second, p)
	if st := p.Stats(); st.Polls != 0 || st.Channels != 0 {
		t.Errorf("%+v", st)
	}
	log := p.lead(site, nil)
	l.run(time.Minute, p)
	if st := p.Stats(); st.Polls != 1 || titles(log.items) != "one" {
		t.Errorf("%+v, %q", st, titles(log.items))
	}
}

// Items that another branch of the log brought are no longer news.
func TestItemsOfAnotherBranchAreFilteredOnce(t *testing.T) {
	l := newLab(t)
	l.origins[site] = serves(rss("A", "", "one", "two"))
	p := l.poller(Config{})
	log := p.lead(site, nil)
	l.run(time.Minute, p)
	l.origins[site] = serves(rss("A", "", "three", "two", "one"))
	other := l.poller(Config{})
	their := other.lead(site, nil)
	l.run(time.Minute, other)

	f, err := feed.Parse([]byte(rss("A", "", "three", "two", "one")), "")
	if err != nil {
		t.Fatal(err)
	}
	all := new(difference.Known).Diff(f)
	if len(their.items) != 3 || len(all.Changes) != 3 {
		t.Fatalf("the other found %q", titles(their.items))
	}
	if d := p.Filter(key(site), all); len(d.Changes) != 1 {
		t.Errorf("%d of them are new here", len(d.Changes))
	}
	if d := p.Filter(key(site), all); !d.Empty() {
		t.Error("new twice")
	}
	l.run(time.Hour, p)
	if titles(log.items) != "one two" {
		t.Errorf("found again: %q", titles(log.items))
	}
	if d := p.Filter(key("http://nobody.example/"), all); !d.Empty() {
		t.Error("new where nobody leads")
	}
}

// A node that led a channel for a moment has ended the order in force, in a newer term than that of
// the present sequencer, which has not heard of it. The sequencer continues with the newer term.
func TestAnOrderEndedByAnotherNodeIsRenewed(t *testing.T) {
	l := newLab(t)
	l.origins[site] = serves(rss("A", "", "one", "two"))
	p := l.poller(Config{MaintenanceInterval: 10 * time.Minute, PollInterval: 30 * time.Minute})
	p.lead(site, nil)
	l.run(time.Hour, p)
	before := len(l.asked)
	p.ended = wedge.Term{Epoch: p.epoch + 1, Seq: 2}
	p.Release(key(site))
	p.epoch += 2
	l.run(time.Hour, p)
	if n := len(l.asked) - before; n < 2 {
		t.Errorf("%d polls in the hour after", n)
	}
}
