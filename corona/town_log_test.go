package corona

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"tidings/difference"
	"tidings/internal/env"
	"tidings/internal/feed"
	"tidings/overlay"
)

// A townLog is what became of the findings of a channel: its log, which outlives its leaders.
type townLog struct {
	aside   bool // its leader does not poll it
	full    bool // it takes no finding
	slow    bool // entries are held only when the test says so
	waiting []func(ok bool)
	found   []difference.Delta
	items   []feed.Item
	fading  []feed.ID
	said    []State
}

// known is what a new leader knows of a channel.
func (g *townLog) known() *difference.Known {
	known := new(difference.Known)
	for _, d := range g.found {
		known.Add(d)
	}
	return known
}

// hold says what became of the findings that wait.
func (g *townLog) hold(ok bool) {
	waiting := g.waiting
	g.waiting = nil
	for _, held := range waiting {
		held(ok)
	}
}

// state is what was said last of a channel.
func (g *townLog) state() State {
	if len(g.said) == 0 {
		return State{}
	}
	return g.said[len(g.said)-1]
}

// Found implements Application, as do Said and Fading.
func (h *house) Saw(overlay.ID, *feed.Head, bool) {}

func (h *house) Found(key overlay.ID, d difference.Delta, _ *feed.Feed, done func(ok bool)) bool {
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

func (h *house) Said(key overlay.ID, state []byte, _ Haste) {
	s, err := ParseState(state)
	if err != nil {
		h.town.t.Errorf("a state that cannot be read: %v", err)
	}
	f := h.town.byKey[key]
	f.said = append(f.said, s)
}

func (h *house) Fading(key overlay.ID, _ int) []feed.ID { return h.town.byKey[key].fading }

// A village is a town of one channel: a leader who does not poll it, and some pollers.
type village struct {
	*town
	*townFeed
	pollers []*house
}

const villageFeed = "http://a.example/feed"

// newVillage returns a village whose log has what its origin shows, as all pollers know.
func newVillage(t *testing.T, pollers int, doc string) *village {
	return newVillageOf(t, pollers, doc, Config{})
}

func newVillageOf(t *testing.T, pollers int, doc string, cfg Config) *village {
	v := &village{town: newTownOf(t, pollers+1, cfg)}
	v.serve(doc)
	v.townFeed = &townFeed{url: villageFeed, key: overlay.Key("town", villageFeed), readers: 9, want: pollers}
	v.aside = true
	v.leader = v.nearest(v.key)[0]
	v.pollers = v.nearest(v.key)[1:]
	v.add(v.townFeed)
	v.run(time.Minute)
	return v
}

// serve has the origin show a document from now on.
func (v *village) serve(doc string, change ...func(*env.Answer)) {
	of := serves(doc, change...)
	v.origin = func(_ *house, r env.Request) env.Answer { return of(r) }
}

// hand makes another house the leader.
func (v *village) hand(to *house) {
	old := v.leader
	v.leader = to
	old.Cease(v.key)
	v.appoint(v.townFeed)
}

// poll has some houses poll now.
func (v *village) poll(of ...*house) {
	for _, h := range of {
		h.Corona.poll(h.duties.Get(v.key), h.Now())
	}
	v.run(time.Second)
}

// sightings are how often pollers have found news.
func (v *village) sightings() (n int) {
	for _, h := range v.pollers {
		n += int(h.Stats().Sightings)
	}
	return n
}

// standings are the pollers who know that the log holds all of a document.
func (v *village) standings(doc string) (of []*house) {
	sum := digest(prints(parsed(v.t, doc)))
	for _, h := range v.pollers {
		if d := h.duties.Get(v.key); d != nil && d.standing != nil && d.standing.digest == sum {
			of = append(of, h)
		}
	}
	return of
}

// numbered are the titles of some items.
func numbered(n int) (of []string) {
	for i := range n {
		of = append(of, fmt.Sprintf("n%d", i))
	}
	return of
}

// bulky is a feed of some items that cannot be packed, and what they have in them.
func bulky(dice *rand.Rand, items, bytes int) (doc string, bodies []string) {
	for range items {
		b := make([]byte, bytes*3/4)
		for i := range b {
			b[i] = byte(dice.Uint32())
		}
		bodies = append(bodies, base64.StdEncoding.EncodeToString(b))
	}
	return rss("A", "", append([]string{"one"}, bodies...)...), bodies
}

func parsed(t testing.TB, doc string) *feed.Feed {
	t.Helper()
	f, err := feed.Parse([]byte(doc), "")
	if err != nil {
		t.Fatal(err)
	}
	return f
}
