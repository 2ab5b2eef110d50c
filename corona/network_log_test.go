package corona

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"tidings/difference"
	"tidings/difference/page"
	"tidings/internal/env"
	"tidings/internal/feed"
	"tidings/overlay"
)

// testLog is the log of a channel, which outlives its sequencers.
type testLog struct {
	aside   bool // its sequencer is not a poller
	full    bool // it accepts no changes
	slow    bool // entries are held only when the test calls hold
	waiting []func(ok bool)
	found   []difference.Delta
	items   []feed.Item
	fading  []feed.ID
	said    []State
}

// known returns the items of the log, for a new sequencer.
func (g *testLog) known() *difference.Known {
	known := new(difference.Known)
	for _, d := range g.found {
		known.Add(d)
	}
	return known
}

// hold ends the appends that wait, with a quorum or without.
func (g *testLog) hold(ok bool) {
	waiting := g.waiting
	g.waiting = nil
	for _, held := range waiting {
		held(ok)
	}
}

// state is the last state of a channel.
func (g *testLog) state() State {
	if len(g.said) == 0 {
		return State{}
	}
	return g.said[len(g.said)-1]
}

// Saw implements Application, as do Found, StateChanged and Fading.
func (h *member) Saw(overlay.ID, string, *feed.Feed, bool) { h.saw++ }

func (h *member) SawPage(overlay.ID, string, *page.Core) {}

func (h *member) Found(key overlay.ID, d difference.Delta, _ *feed.Feed, done func(ok bool)) bool {
	f := h.town.byKey[key]
	if f.full {
		return false
	}
	d = followed(h.town.t, d)
	held := func(ok bool) {
		if ok {
			f.found = append(f.found, d)
			for _, c := range d.Changes {
				f.items = append(f.items, c.Item)
			}
		}
		done(ok)
	}
	if f.slow {
		f.waiting = append(f.waiting, held)
	} else {
		held(true)
	}
	return true
}

func (h *member) StateChanged(key overlay.ID, state []byte, _ Urgency) {
	s, err := ParseState(state)
	if err != nil {
		h.town.t.Errorf("a state that cannot be read: %v", err)
	}
	f := h.town.byKey[key]
	f.said = append(f.said, s)
}

func (h *member) Fading(key overlay.ID, _ int) []feed.ID { return h.town.byKey[key].fading }

// channelNetwork is a test network of one channel: a sequencer that does not poll, and some
// pollers.
type channelNetwork struct {
	*testNetwork
	*testChannel
	pollers []*member
}

const villageFeed = "http://a.example/feed"

// newChannelNetwork returns a network whose log has the document of its origin, as all pollers
// know.
func newChannelNetwork(t *testing.T, pollers int, doc string) *channelNetwork {
	return newChannelNetworkOf(t, pollers, doc, Config{})
}

func newChannelNetworkOf(t *testing.T, pollers int, doc string, cfg Config) *channelNetwork {
	v := &channelNetwork{testNetwork: newTestNetworkOf(t, pollers+1, cfg)}
	v.serve(doc)
	v.testChannel = &testChannel{url: villageFeed, key: overlay.Key("town", villageFeed), readers: 9, want: pollers}
	v.aside = true
	v.leader = v.nearest(v.key)[0]
	v.pollers = v.nearest(v.key)[1:]
	v.add(v.testChannel)
	v.run(time.Minute)
	return v
}

// serve makes the origin serve a document.
func (v *channelNetwork) serve(doc string, change ...func(*env.Answer)) {
	of := serves(doc, change...)
	v.origin = func(_ *member, r env.Request) env.Answer { return of(r) }
}

// hand makes another member the sequencer.
func (v *channelNetwork) hand(to *member) {
	old := v.leader
	v.leader = to
	old.Cease(v.key)
	v.appoint(v.testChannel)
}

// poll makes some members poll now.
func (v *channelNetwork) poll(of ...*member) {
	for _, h := range of {
		h.Corona.poller.poll(h.assignments.Get(v.key), h.Now())
	}
	v.run(time.Second)
}

// reports counts the change reports of all pollers.
func (v *channelNetwork) reports() (n int) {
	for _, h := range v.pollers {
		n += int(h.Stats().UpdatesReported)
	}
	return n
}

// knowing returns the pollers that know that the log holds all of a document.
func (v *channelNetwork) knowing(doc string) (of []*member) {
	sum := digest(fingerprintsOf(parsed(v.t, doc)))
	for _, h := range v.pollers {
		if d := h.assignments.Get(v.key); d != nil && d.snapshot != nil && d.snapshot.digest == sum {
			of = append(of, h)
		}
	}
	return of
}

// numbered returns the titles of some items.
func numbered(n int) (of []string) {
	for i := range n {
		of = append(of, fmt.Sprintf("n%d", i))
	}
	return of
}

// bulky is a feed of incompressible items, and their contents.
func bulky(dice *rand.Rand, items, bytes int) (doc string, bodies []string) {
	var more strings.Builder
	for n := range items {
		b := make([]byte, bytes*3/4)
		for i := range b {
			b[i] = byte(dice.Uint32())
		}
		bodies = append(bodies, base64.StdEncoding.EncodeToString(b))
		fmt.Fprintf(&more, "<item><guid>bulky %d</guid><description>%s</description></item>", n, bodies[n])
	}
	return strings.Replace(rss("A", "", "one"), "</channel>", more.String()+"</channel>", 1), bodies
}

func parsed(t testing.TB, doc string) *feed.Feed {
	t.Helper()
	f, err := feed.Parse([]byte(doc), "")
	if err != nil {
		t.Fatal(err)
	}
	return f
}
