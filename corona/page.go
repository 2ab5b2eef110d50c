package corona

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"tidings/corona/coronapb"
	"tidings/difference"
	"tidings/difference/page"
	"tidings/internal/env"
	"tidings/internal/feed"
)

// Channels that are pages. A poller reports the core of a page as a whole, as one item in its
// observation. It leaves out changes that its own memory of the page takes for noise. The sequencer
// judges the rest by its memory, and makes an entry for readers of each new version. The log also
// holds the version itself, for the next sequencer. The first version is not a change and has no
// entry.

// pageView is a page as one poller has read it.
type pageView struct {
	core    page.Core
	hash    page.Hash
	verdict *pageVerdict // by that poller's memory; nil: it is the sequencer, or the view came from another node
}

func newPageView(core page.Core) *pageView { return &pageView{core: core, hash: core.Hash()} }

// fingerprint identifies a page view as other fingerprints identify items.
func (s *pageView) fingerprint() fingerprint {
	it := s.bare()
	return fingerprintOf(&it)
}

// bare returns the item that stands for a page view.
func (s *pageView) bare() (it feed.Item) {
	copy(it.ID[:], s.hash[:])
	copy(it.Hash[:], s.hash[:])
	return it
}

// pageVerdict is the result of comparing a page view with a memory of the page.
type pageVerdict struct {
	page.Result
	after page.Tracker
	delta difference.Delta // with News: what the log will get
	err   error            // with News: why the log cannot get it
}

// judge compares a page view with what is known of the page.
func (s *pageView) judge(m page.Tracker, at time.Time) *pageVerdict {
	j := &pageVerdict{after: m}
	j.Result = j.after.Check(s.core, at)
	return j
}

// reason says why a page view is rejected; "" if it is accepted.
func (j *pageVerdict) reason() string {
	switch {
	case j == nil:
		return ""
	case j.Kind == page.Changed && j.err != nil:
		return j.err.Error()
	}
	return j.Reason
}

// pageWatch is what a poller remembers of a page.
type pageWatch struct {
	memory         page.Tracker
	unacknowledged bool // the sequencer has not acknowledged the last news
}

// errLarge returns an error for a page with too much text.
func errLarge(c *page.Core) error {
	if size := len(c.Text()); size > page.MaxText {
		return fmt.Errorf("%w: %d bytes of text, more than %d", page.ErrLarge, size, page.MaxText)
	}
	return nil
}

// Offer lists what can be subscribed to at an address that has no feed, or where a page was
// requested.
type Offer struct {
	Page  bool   // the document itself, by feed.Page
	Feeds []Link // feeds that the document advertises
	Feed  bool   // a page was requested, but the document is a feed
	Doubt string // why it may not be the page that was asked for; "": it seems to be
	// Private says that the document came from a private address, which may redirect to other
	// private addresses.
	Private    bool
	Redirected bool // the web server sent the node to another address; also set if there is a feed

	Counts  []string // the first lines of what counts on the page, if the address says it
	Missing string   // why nothing on the page counts; "": something does
}

// Link is a feed that a page advertises.
type Link struct {
	URL, Title string
	Comments   bool // the feed has comments
}

// offerOf looks for feeds that a document advertises.
func offerOf(a env.Answer) (o Offer) {
	core, err := page.Read(a.Body, a.ContentType, page.Location{})
	o.Private = a.Private
	o.Page = err == nil && errLarge(&core) == nil && len(core.Lines) > 0
	o.Feeds = Advertised(a)
	return o
}

// Advertised returns the feeds that a page advertises, each address once and those of comments last. A feed of comments that is
// not called so is.
func Advertised(a env.Answer) (feeds []Link) {
	base, links := page.Advertised(a.Body)
	base, err := feed.Resolve(a.FinalURL, base)
	if err != nil {
		base = a.FinalURL
	}
	feeds = addLinks(feeds, base, links)
	feeds = addLinks(feeds, a.FinalURL, page.AdvertisedByHeader(a.Links))
	// Most people look for articles and not for comments.
	slices.SortStableFunc(feeds, func(a, b Link) int {
		switch {
		case a.Comments == b.Comments:
			return 0
		case a.Comments:
			return 1
		}
		return -1
	})
	return feeds
}

func addLinks(feeds []Link, base string, links []page.Link) []Link {
	for _, l := range links {
		address, err := feed.Resolve(base, l.Target)
		if err != nil || slices.ContainsFunc(feeds, func(other Link) bool { return other.URL == address }) {
			continue
		}
		title := feed.PlainTitle(l.Title)
		if l.Comments && !page.IsCommentTitle(title) {
			title = strings.TrimSpace(title + " (comments)")
		}
		feeds = append(feeds, Link{address, title, l.Comments})
	}
	return feeds
}

// readPage reads the page of a channel, and compares it with what a poller knows of it.
func (r *observation) readPage(channel string, a env.Answer, memory *page.Tracker, offers bool, now time.Time) error {
	address, _ := feed.DocumentURL(channel)
	rule, err := feed.WhatCounts(channel)
	if err != nil {
		return err // the address is canonical to another version of the program
	}
	core, err := page.Read(a.Body, a.ContentType, page.Location{Address: address, Final: a.FinalURL, What: rule})
	if err == nil {
		err = errLarge(&core)
	}
	if offers {
		r.offer = offerOf(a)
		if !rule.IsZero() {
			r.offer.Counts = core.Beginning()
		}
		if err != nil && !rule.IsZero() {
			r.offer.Missing = strings.TrimPrefix(err.Error(), "read page: ")
		}
		_, none := feed.Parse(a.Body, a.ContentType)
		r.offer.Feed, r.offer.Doubt = none == nil, new(page.Tracker).Check(core, now).Reason
	}
	if err != nil {
		return err
	}
	s := newPageView(core)
	r.page = s
	if memory != nil {
		switch s.verdict = s.judge(*memory, now); s.verdict.Kind {
		case page.Failed:
			return errors.New(s.verdict.Reason)
		case page.Same, page.Changed: // the sequencer gets the text as it is laid out in the visible version
			s.core = s.verdict.after.Last()
			s.hash = s.core.Hash()
		}
	}
	r.f = &feed.Feed{Head: feed.Head{Title: core.Title}, Items: []feed.Item{s.bare()}}
	return nil
}

// updatePageWatch notes what this node has learned of a page from a poll, including polls that
// returned something else. s is nil if the page was not modified, or if the channel is a feed.
func (d *assignment) updatePageWatch(s *pageView, now time.Time) {
	if s == nil {
		if w := d.extras().pageWatch; w != nil {
			if w.memory.Unchanged(now); w.memory.NeedsRecheck() && d.snapshot != nil {
				d.snapshot = &snapshot{fingerprints: d.snapshot.fingerprints, digest: d.snapshot.digest}
			}
		}
		return
	}
	x := d.ensureExtra()
	if x.pageWatch == nil {
		x.pageWatch = &pageWatch{}
	}
	if w := x.pageWatch; s.verdict == nil {
		w.unacknowledged = true // fetched when this node was the sequencer
	} else {
		w.memory = s.verdict.after
		w.unacknowledged = w.unacknowledged || s.verdict.Kind == page.Changed
	}
}

// isNewVersion says whether the sequencer may lack what a poll of a page found.
func (d *assignment) isNewVersion(r *observation) bool {
	w, s, of := d.ensureExtra().pageWatch, d.snapshot, fingerprintsOf(r.f)
	valid := r.validAfter(&w.memory)
	switch {
	case s != nil && digest(of) == s.digest:
		w.unacknowledged = false
		d.snapshot = &snapshot{valid: valid, fingerprints: of, digest: s.digest}
	case !w.unacknowledged && s != nil && (r.page.verdict == nil || r.page.verdict.Kind != page.Stale): // text that has returned must be fetched again
		d.snapshot = &snapshot{valid: valid, fingerprints: s.fingerprints, digest: s.digest}
	}
	return w.unacknowledged
}

// validAfter returns the validators for the next poll of a page. They are empty if the memory needs
// another look at the same text.
func (r *observation) validAfter(m *page.Tracker) validators {
	if m.NeedsRecheck() {
		return validators{}
	}
	return r.valid
}

// acknowledgePage notes that the sequencer knows the last news of a page.
func (d *assignment) acknowledgePage() {
	if w := d.extras().pageWatch; w != nil {
		w.unacknowledged = false
	}
}

// encode packs the items of a change report, or the core of a page.
func (w *pendingReport) encode(delta difference.Delta) ([]byte, error) {
	if w.page != nil {
		var err error
		if delta.Page, err = w.page.core.Update(); err != nil {
			return nil, err
		}
	}
	return delta.Encode()
}

// pageViewFrom decodes the page view of a change report.
func pageViewFrom(d *difference.Delta) (*pageView, error) {
	var m page.Tracker
	if err := m.Apply(d.Page); err != nil {
		return nil, err
	}
	return newPageView(m.Core()), nil
}

// sameText says whether an observation of a page has the text of the committed snapshot.
func (l *leaderState) sameText(r *observation) bool {
	return l.fingerprints != nil && digest(fingerprintsOf(r.f)) == digest(l.fingerprints)
}

// suspiciousKind is the state of a channel whose document is rejected as suspicious.
func (l *leaderState) suspiciousKind() coronapb.State_Kind {
	if l.page {
		return coronapb.State_BROKEN
	}
	return coronapb.State_NOT_A_FEED
}

// learnFrom takes over what this node has learned of a page as a poller.
func (l *leaderState) learnFrom(d *assignment) {
	if w := d.extras().pageWatch; w != nil {
		l.known.Page().SetMarks(w.memory.Marks())
		d.extra.pageWatch = nil
	}
}

// judgePage judges a page view off the loop, one at a time, and then calls takeObservation. It
// returns false if it cannot judge the view now.
func (sq *sequencer) judgePage(l *leaderState, from env.Peer, r observation, now time.Time) bool {
	if l.judging || r.page == nil {
		return false
	}
	l.judging = true
	l.inFlight++
	if rule, _ := feed.WhatCounts(l.url); rule.Number != nil && !r.page.core.Figure { // a page by an unreadable rule is never read
		r.page.core.Figure = true // reports do not say it
	}
	m, url := l.known.Page().Clone(), l.url
	sq.worker.Do(func() {
		r.verdict = r.page.judge(m, now)
		r.verdict.buildDelta(url)
	}, func() {
		l.judging = false
		l.inFlight--
		if l.ceased {
			return
		}
		switch taken := sq.takeObservation(l, from, r, sq.clock.Now()); {
		case !taken:
			l.waiters = nil // their pollers report again
		case l.inFlight == 0 && l.snapshot() != nil:
			sq.answerAll(l)
		}
	})
	return true
}

// buildDelta builds what the log gets of a new version.
func (j *pageVerdict) buildDelta(channel string) {
	if j.Kind != page.Changed {
		return
	}
	address, _ := feed.DocumentURL(channel)
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
	rule, _ := feed.WhatCounts(channel) // otherwise the page could not be read
	if j.delta.Page, j.err = j.after.Update(); j.err != nil || j.Number == 1 || !j.Told(&rule) {
		return
	}
	item, err := feed.ReadItem(feed.Atom, j.Entry(address), nil, 0)
	j.delta.Changes, j.err = []difference.Change{{Item: item}}, err
}

// detectPage hands over the news in an observation of a page. It returns false if the news was not
// accepted.
func (sq *sequencer) detectPage(l *leaderState, r observation, shown []fingerprint) bool {
	j, valid := r.verdict, r.valid
	if j != nil {
		valid = r.validAfter(&j.after)
	}
	if j == nil || j.Kind != page.Changed {
		sq.stats.Unchanged++
		switch d := sq.poller.assignments.Get(l.key); {
		case j != nil && j.Kind == page.Stale: // text that stays must be fetched again
		case j == nil || l.fingerprints == nil:
			sq.setValidators(l, valid, shown)
		case d != nil: // these validators are not for other pollers, which may get another text
			d.setSnapshot(&snapshot{valid: valid, fingerprints: l.fingerprints, digest: digest(l.fingerprints)}, l.limitedUntil)
		}
		sq.setPageMemory(l, j)
		return true
	}
	if !sq.handOver(l, j.delta, nil, func() { sq.commitAfterLast(l, new(feed.Feed), valid, shown) }) {
		return false
	}
	sq.stats.Updates++
	sq.stats.Items += uint64(len(j.delta.Changes))
	sq.setPageMemory(l, j)
	sq.learn(l, j.delta, j.Number == 1)
	return true
}

// setPageMemory replaces the sequencer's memory of a page after a comparison.
func (sq *sequencer) setPageMemory(l *leaderState, j *pageVerdict) {
	if j == nil {
		return
	}
	l.known.SetPage(j.after)
	if marks := string(j.after.Marks()); marks != l.marks {
		l.marks = marks
		sq.note(l)
	}
}
