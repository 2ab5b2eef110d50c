package corona

import (
	"errors"
	"fmt"
	"time"

	"tidings/corona/coronapb"
	"tidings/difference"
	"tidings/difference/page"
	"tidings/internal/env"
	"tidings/internal/feed"
)

// Channels that are pages. What a poller finds is the core of one, whole: it stands in its
// reading as one item of which there is only a print. The poller leaves out what its own memory
// of the page takes for noise; what is news is for the sequencer to judge, by its own. It makes of
// a new version the entry that readers see, and the log has the version beside it, for who is
// sequencer next. The first version is no change, and has no entry.

// A sight is a page as a poller has seen it.
type sight struct {
	core page.Core
	hash page.Hash
	own  *judgement // by the memory of that poller; nil: it is the sequencer, or another's sight
}

func sightOf(core page.Core) *sight { return &sight{core: core, hash: core.Hash()} }

// print stands for a sight, as those of items do for items.
func (s *sight) print() imprint {
	it := s.bare()
	return printOf(&it)
}

// bare is the item that stands for a sight.
func (s *sight) bare() (it feed.Item) {
	copy(it.ID[:], s.hash[:])
	copy(it.Hash[:], s.hash[:])
	return it
}

// A judgement is what a memory of a page makes of a sight.
type judgement struct {
	page.Finding
	after page.Memory
	delta difference.Delta // of News: what the log is to have
	err   error            // of News: why it cannot have that
}

// judge looks at a page with what is known of it.
func (s *sight) judge(m page.Memory, at time.Time) *judgement {
	j := &judgement{after: m}
	j.Finding = j.after.Look(s.core, at)
	return j
}

// reason says, in words, why a sight is not one of the page; "" if it is.
func (j *judgement) reason() string {
	switch {
	case j == nil:
		return ""
	case j.Kind == page.News && j.err != nil:
		return j.err.Error()
	}
	return j.Reason
}

// A watched is what a poller knows of a page.
type watched struct {
	memory page.Memory
	owed   bool // the sequencer has not said yet that it knows of what was found
}

// errLarge is the same error for all pages that have too much text.
func errLarge(c *page.Core) error {
	if size := len(c.Text()); size > page.MaxText {
		return fmt.Errorf("%w: %d bytes of text, more than %d", page.ErrLarge, size, page.MaxText)
	}
	return nil
}

// An Offer is what can be subscribed to at an address where there is no feed, or where a page was
// asked for.
type Offer struct {
	Page  bool   // the document itself, by feed.Page
	Feeds []Link // that it advertises
	Feed  bool   // the document that was asked for as a page is one
	Doubt string // why it may not be the page that was asked for; "": it seems to be
	// Private says that the document came from a private address, which may send to others.
	Private bool
}

// A Link is a feed that a page advertises.
type Link struct{ URL, Title string }

// offerOf looks for feeds in a document that is none.
func offerOf(a env.Answer) (o Offer) {
	core, err := page.Read(a.Body, a.ContentType, page.Place{})
	o.Private = a.Private
	o.Page = err == nil && errLarge(&core) == nil && len(core.Lines) > 0
	base, links := page.Advertised(a.Body)
	if base, err = feed.Resolve(a.FinalURL, base); err != nil {
		base = a.FinalURL
	}
	for _, l := range links {
		if address, err := feed.Resolve(base, l.Target); err == nil {
			o.Feeds = append(o.Feeds, Link{address, l.Title})
		}
	}
	return o
}

// atOrigin returns the address that a poll asks for, and whether it is that of a page.
func (c *Corona) atOrigin(p poll) (address string, isPage bool) {
	switch d, l := c.duties.Get(p.key), c.leads[p.key]; {
	case p.duty != nil:
		return feed.AtOrigin(p.duty.said.url)
	case p.kind == lone && c.lone[p.key] != nil:
		return feed.AtOrigin(c.lone[p.key].url)
	case l != nil:
		return feed.AtOrigin(l.url)
	case d != nil:
		return feed.AtOrigin(d.said.url)
	default:
		return feed.AtOrigin(c.asked[p.key])
	}
}

// parsePage reads a page off the loop, and looks at it with what this node knows of it, if it
// is one of the pollers and not the sequencer.
func (c *Corona) parsePage(p poll, h env.Handle, a env.Answer, r reading) {
	var m *page.Memory
	if d := p.duty; d != nil && d.lead == nil {
		m = new(page.Memory)
		if w := d.extras().watched; w != nil {
			*m = w.memory.Clone()
		}
	}
	now := c.clock.Now()
	address, _ := c.atOrigin(p)
	var err error
	c.worker.Do(func() {
		var core page.Core
		if core, err = page.Read(a.Body, a.ContentType, page.Place{Address: address, Found: a.FinalURL}); err == nil {
			err = errLarge(&core)
		}
		if p.kind == solo {
			r.offer = offerOf(a)
			_, none := feed.Parse(a.Body, a.ContentType)
			r.offer.Feed, r.offer.Doubt = none == nil, new(page.Memory).Look(core, now).Reason
		}
		if err != nil {
			return
		}
		s := sightOf(core)
		r.page = s
		if m != nil {
			if s.own = s.judge(*m, now); s.own.Kind == page.Failed {
				err = errors.New(s.own.Reason)
				return
			}
		}
		r.f = &feed.Feed{Head: feed.Head{Title: core.Title}, Items: []feed.Item{s.bare()}}
	}, func() { c.judge(p, h, a, r, err) })
}

// watch takes what this node has learned of a page by a look, also where it was not the page; nil:
// it has not been modified, if it is one.
func (d *duty) watch(s *sight, now time.Time) {
	if s == nil {
		if w := d.extras().watched; w != nil {
			if w.memory.Unchanged(now); w.memory.Waits() && d.standing != nil {
				d.standing = &standing{prints: d.standing.prints, digest: d.standing.digest}
			}
		}
		return
	}
	x := d.rare()
	if x.watched == nil {
		x.watched = &watched{}
	}
	if w := x.watched; s.own == nil {
		w.owed = true // it was looked at for the sequencer that this node was
	} else {
		w.memory = s.own.after
		w.owed = w.owed || s.own.Kind == page.News
	}
}

// isNewVersion says whether the sequencer may lack what a poll of a page has shown.
func (d *duty) isNewVersion(r *reading) bool {
	w, s, of := d.rare().watched, d.standing, prints(r.f)
	valid := r.validAfter(&w.memory)
	switch {
	case s != nil && digest(of) == s.digest:
		w.owed = false
		d.standing = &standing{valid: valid, prints: of, digest: s.digest}
	case !w.owed && s != nil && (r.page.own == nil || r.page.own.Kind != page.Returned): // what has returned is to be seen again
		d.standing = &standing{valid: valid, prints: s.prints, digest: s.digest}
	}
	return w.owed
}

// validAfter is what to ask for a page with after a look at it: nothing, if another look may tell more.
func (r *reading) validAfter(m *page.Memory) validators {
	if m.Waits() {
		return validators{}
	}
	return r.valid
}

// settled notes that the sequencer knows of what was found of a page.
func (d *duty) settled() {
	if w := d.extras().watched; w != nil {
		w.owed = false
	}
}

// encode packs what is told of a finding: of a page, its core.
func (w *found) encode(delta difference.Delta) ([]byte, error) {
	if w.page != nil {
		var err error
		if delta.Page, err = w.page.core.Update(); err != nil {
			return nil, err
		}
	}
	return delta.Encode()
}

// sightIn is that which a finding has brought.
func sightIn(d *difference.Delta) (*sight, error) {
	var m page.Memory
	if err := m.Take(d.Page); err != nil {
		return nil, err
	}
	return sightOf(m.Core()), nil
}

// same says whether a reading of a page is of the very text that stands.
func (l *lead) same(r *reading) bool {
	return l.prints != nil && digest(prints(r.f)) == digest(l.prints)
}

// oddness is what documents are that are not believed.
func (l *lead) oddness() coronapb.State_Kind {
	if l.page {
		return coronapb.State_BROKEN
	}
	return coronapb.State_NOT_A_FEED
}

// learnFrom goes on with what this node has learned of a page as one of its pollers.
func (l *lead) learnFrom(d *duty) {
	if w := d.extras().watched; w != nil {
		l.known.Page().SetMarks(w.memory.Marks())
		d.extra.watched = nil
	}
}

// judgePage judges a sight off the loop, one at a time, and then reads it. It says whether it
// does.
func (c *Corona) judgePage(l *lead, from env.Peer, r reading, now time.Time) bool {
	if l.judging || r.page == nil {
		return false
	}
	l.judging = true
	l.handing++
	m, url := l.known.Page().Clone(), l.url
	c.worker.Do(func() {
		r.judged = r.page.judge(m, now)
		r.judged.tell(url)
	}, func() {
		l.judging = false
		l.handing--
		if c.leads[l.key] != l {
			return
		}
		switch taken := c.read(l, from, r, c.clock.Now()); {
		case !taken:
			l.waiters = nil // they tell it again
		case l.handing == 0:
			c.answerAll(l)
		}
	})
	return true
}

// tell makes of a new version what the log is to have of it.
func (j *judgement) tell(channel string) {
	if j.Kind != page.News {
		return
	}
	address, _ := feed.AtOrigin(channel)
	title := j.Core.Title
	if title == "" {
		title = address
	}
	head, err := feed.NewHead(feed.Atom, title, address, "What changes on the page "+address, "")
	if err != nil {
		j.err = err
		return
	}
	j.delta.Head = &head
	if j.delta.Page, j.err = j.after.Update(); j.err != nil || j.Number == 1 {
		return
	}
	item, err := feed.ReadItem(feed.Atom, j.Entry(address), nil, 0)
	j.delta.Changes, j.err = []difference.Change{{Item: item}}, err
}

// detectPage hands over the news of a reading of a page. It says whether that was taken.
func (c *Corona) detectPage(l *lead, r reading, shown []imprint) bool {
	j, valid := r.judged, r.valid
	if j != nil {
		valid = r.validAfter(&j.after)
	}
	if j == nil || j.Kind != page.News {
		c.stats.Unchanged++
		switch d := c.duties.Get(l.key); {
		case j != nil && j.Kind == page.Returned: // if it stays, it is to be seen again
		case j == nil || l.prints == nil:
			c.validate(l, valid, shown)
		case d != nil: // what it was asked with is not for others, who see another text
			d.know(&standing{valid: valid, prints: l.prints, digest: digest(l.prints)}, l.rest)
		}
		c.remember(l, j)
		return true
	}
	l.handing++
	taken := c.app.Found(l.key, j.delta, nil, func(ok bool) {
		l.handing--
		if ok && l.handing == 0 && c.leads[l.key] == l {
			c.stand(l, valid, shown)
		}
	})
	if !taken {
		l.handing--
		return false
	}
	c.stats.Findings++
	c.stats.Items += uint64(len(j.delta.Changes))
	l.known.Add(j.delta)
	c.remember(l, j)
	c.learn(l, j.delta, j.Number == 1)
	return true
}

// remember makes the sequencer's memory of a page what it has become by a look.
func (c *Corona) remember(l *lead, j *judgement) {
	if j == nil {
		return
	}
	l.known.SetPage(j.after)
	if marks := string(j.after.Marks()); marks != l.marks {
		l.marks = marks
		c.note(l)
	}
}

// answerAll tells those who wait that there was nothing new in what they found.
func (c *Corona) answerAll(l *lead) {
	if l.standing() == nil {
		return
	}
	for _, w := range l.waiters {
		c.send(w.to, env.Control, c.standingOf(l, w.nonce))
	}
	l.waiters = nil
}
