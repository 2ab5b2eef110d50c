package feedtree

import (
	"encoding/binary"
	"slices"
	"time"

	"tidings/difference"
	"tidings/feedtree/feedtreepb"
	"tidings/internal/env"
	"tidings/internal/feed"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/owner"
)

// originAudits compares the logs of followed feeds with their origins now and then (decision 022). Owners that lie in the
// majority can witness what they like, or drop the feed, and each reader's node can find out. A look that shows a difference is followed by
// others, because the log of an honest network needs some time: it lacks items that nobody has polled yet, and marks items
// that the origin has withdrawn when another one follows. What still differs then is a problem, of which the node tells
// its neighbours in both trees. These look themselves.
type originAudits struct {
	*common
	entries *entries
	secret  uint64 // chooses the items that are audited, so that nobody can make items which no node audits
	cal     plans
}

func newOriginAudits(m *common, entries *entries) *originAudits {
	oa := &originAudits{common: m, entries: entries}
	oa.secret = binary.BigEndian.Uint64(m.signer.Signature(wire.DomainAudit, nil))
	oa.cal = m.feedPlans(oa.run)
	return oa
}

// originAuditing is what originAudits keeps of a feed.
type originAuditing struct {
	lookAt   env.Moment // when the next look is planned; Never: none is
	awaited  bool       // the next document is to be compared
	quiet    bool       // nothing has caused that look
	suspects *suspects  // nil: there are none
}

// suspects are the differences between a feed's log and its origin.
type suspects struct {
	looks   int            // looks at the differences that have been found
	differs []originDiffer // at most maxDiffers
	problem *Problem       // nil: none is known
	hearsay time.Time      // when a look was last planned because of another node's report
}

// ensureSuspects returns the differences, for changing them.
func (o *originAuditing) ensureSuspects() *suspects {
	if o.suspects == nil {
		o.suspects = new(suspects)
	}
	return o.suspects
}

// shown returns the problem that readers are told of; nil: none is known.
func (o *originAuditing) shown() *Problem {
	if o.suspects == nil {
		return nil
	}
	return o.suspects.problem
}

// An originDiffer is an item that the log has and the origin has not, or the reverse.
type originDiffer struct {
	difference.Version
	title  string
	lacked bool      // by the log
	since  time.Time // first look that showed it
}

// A Problem is a difference between a feed's log and its origin that this node has seen itself, twice.
type Problem struct {
	Title       string    // of the item
	Lacked      bool      // the origin has the item and the log lacks it; otherwise the reverse
	First, Last time.Time // looks that showed it
	// Confirmed says that another follower has reported a difference that this node sees, too. Otherwise the origin may show
	// this node other items than the others.
	Confirmed bool
	id        feed.ID
}

const (
	// auditPatience is the number of polling intervals after which a difference is a problem. Pollers find an item within
	// one, and a sequencer marks a withdrawn item within an hour.
	auditPatience = 4
	// maxAuditLooks bounds the looks at differences that become no problem. They are forgotten then.
	maxAuditLooks = 8
	// maxDiffers bounds the differences of a feed that are remembered.
	maxDiffers = 16
	// auditSpread is the number of polling intervals over which the followers that hear of a problem look for themselves:
	// together they ask the origin a quarter as often as if each polled it.
	auditSpread = 4
	// auditHearsay is the number of polling intervals in which a follower looks at most once because others report a
	// problem. Anybody can report one.
	auditHearsay = 16
	// quietAudits times Config.AuditOneIn is the largest number of polling intervals between two looks that nothing has
	// caused. On average a follower looks once in AuditOneIn intervals, at random.
	quietAudits = 2
	// maxRareIntervals: a feed that is polled more seldom than others, because a hub pushes its news, is looked at more
	// seldom, too; but at most so much, because the sequencer may lie about its interval.
	maxRareIntervals = 12
	// maxDisorder: a document is in the order of time if one in so many items, at most, follows an item that it should
	// precede, as a pinned one does.
	maxDisorder = 8
	// problemTime is how long a problem is shown that can neither be confirmed nor refuted any more, because the document
	// has rolled past the item.
	problemTime = 24 * time.Hour
	// maxContested is the number of contested items in a window from which on an origin counts as one that shows each node
	// other items. The log then need not have what this node sees.
	maxContested = 3
)

// interval returns the interval at which the network says that it polls a feed; ok is false if it does not poll it
// successfully, of which readers are told anyway.
func (oa *originAudits) interval(c *channel) (d time.Duration, ok bool) {
	_, isPage := feed.DocumentURL(c.url)
	d, ok = oa.app.Interval(c.state)
	return max(d, oa.cfg.PollInterval), ok && c.subscribed && !c.alone && !isPage
}

// shown chooses the new items of a feed that are audited: one in Config.AuditOneIn.
func (oa *originAudits) shown(c *channel, items []difference.Change) {
	interval, ok := oa.interval(c)
	for i := range items {
		if id := &items[i].Item.ID; ok && env.Mix(oa.secret^binary.BigEndian.Uint64(id[:8]))%uint64(oa.cfg.AuditOneIn) == 0 {
			oa.plan(c, interval/2+oa.random(interval))
			return
		}
	}
}

// planQuiet plans a look that nothing causes, so that owners that say nothing at all are found out, too.
func (oa *originAudits) planQuiet(c *channel) {
	if _, isPage := feed.DocumentURL(c.url); isPage || !c.subscribed || c.lookAt != env.Never {
		return
	}
	oa.plan(c, oa.chance(c, quietAudits*time.Duration(oa.cfg.AuditOneIn)*oa.cfg.PollInterval))
	c.quiet = true
}

// chance returns a time up to d that nobody else can predict.
func (oa *originAudits) chance(c *channel, d time.Duration) time.Duration {
	return time.Duration(env.Mix(oa.secret^binary.BigEndian.Uint64(c.key[:])^uint64(oa.clock.Now().UnixNano())) % uint64(d))
}

// random returns a random time up to d.
func (oa *originAudits) random(d time.Duration) time.Duration {
	return time.Duration(oa.rand.Int64N(int64(d) + 1))
}

// plan plans a look that something causes, unless an earlier one is planned.
func (oa *originAudits) plan(c *channel, wait time.Duration) {
	c.quiet = false
	if at := oa.after(wait); c.lookAt == env.Never || c.lookAt.After(at) {
		c.lookAt = env.MomentOf(at)
		oa.cal.add(at, c.key)
	}
}

// run looks at the origin of a feed. A poller of a domain with a budget waits for its next poll instead.
func (oa *originAudits) run(c *channel) {
	interval, ok := oa.interval(c)
	if c.lookAt == env.Never || c.lookAt.After(oa.clock.Now()) {
		return // planned for another time
	}
	rare := min(interval, maxRareIntervals*oa.cfg.PollInterval)
	skip := !ok || c.quiet && oa.chance(c, rare) >= oa.cfg.PollInterval
	if c.lookAt, c.awaited = env.Never, !skip; skip {
		oa.planQuiet(c)
		return
	}
	if oa.app.Look(c.key, c.url) {
		oa.stats.OriginAudits++
	}
	oa.plan(c, interval) // in case that no document comes
}

// saw compares a document that this node has just fetched from the origin of a feed, if it waits for one.
func (oa *originAudits) saw(c *channel, doc *feed.Feed) {
	if !c.awaited || doc.Omitted != "" {
		return
	}
	c.awaited, c.lookAt = false, env.Never
	oa.planQuiet(c)
	f := *doc
	f.Items = slices.Clone(doc.Items) // which Recognise changes
	log := oa.owners.Visible(c.key)
	known, w, titles := new(difference.Known), new(difference.Window), map[feed.ID]string{}
	oa.entries.decode(log, func(e *owner.Entry, d *decodedEntry) {
		known.AddLogged(d.Delta)
		w.Apply(d.Delta, e.Time, e.At.Seq)
		for _, ch := range d.Changes {
			titles[ch.Item.ID] = titleOfItem(&ch.Item)
		}
	}, func() {
		if oa.feeds[c.key] == c && c.subscribed {
			oa.compare(c, &f, known, w, titles)
		}
	})
}

// compare finds the differences between a document and the log, and judges those that earlier looks have found.
func (oa *originAudits) compare(c *channel, f *feed.Feed, known *difference.Known, w *difference.Window, titles map[feed.ID]string) {
	known.Recognise(f)
	now, found := oa.clock.Now(), []originDiffer(nil)
	if known.Suspicious(f) == "" {
		found = append(oa.lacked(c, known, f, now), oa.absent(c, w, f, titles, now)...)
	}
	interval, ok := oa.interval(c)
	patience := auditPatience * interval
	if c.trust != nil {
		patience += 2 * c.trust.Beat // the network waits for the publisher
	}
	if c.suspects == nil && len(found) == 0 {
		return
	}
	s := c.ensureSuspects()
	var problem *originDiffer
	for i := range found {
		d := &found[i]
		if j := slices.IndexFunc(s.differs, func(o originDiffer) bool { return o.Version == d.Version && o.lacked == d.lacked }); j >= 0 {
			d.since = s.differs[j].since
		}
		if problem == nil && now.Sub(d.since) >= patience && (d.lacked || followed(w, f, d.since, now.Add(-patience))) {
			problem = d
		}
	}
	s.differs = found[:min(len(found), maxDiffers)]
	if s.looks++; len(found) == 0 {
		s.looks = 0
	}
	switch {
	case problem != nil && ok:
		s.looks = 0
		oa.raise(c, problem, now)
		oa.plan(c, 2*patience+oa.random(interval))
	case s.problem != nil && (s.problem.refuted(w, f) || now.Sub(s.problem.Last) > problemTime):
		s.problem = nil
		oa.app.StateChanged(c.key, c.state, now)
		oa.plan(c, patience+oa.random(interval))
	case s.problem != nil:
		oa.plan(c, 2*patience+oa.random(interval))
	case len(found) > 0 && s.looks < maxAuditLooks:
		oa.plan(c, patience+oa.random(interval))
	default:
		s.differs, s.looks = nil, 0
	}
}

// lacked returns the items of a document that the log lacks. Other versions of its items do not count: numbers in them may
// change by themselves.
func (oa *originAudits) lacked(c *channel, known *difference.Known, f *feed.Feed, now time.Time) (of []originDiffer) {
	contested := 0
	for _, m := range c.window.marks {
		if m.contested {
			contested++
		}
	}
	if contested >= maxContested {
		return nil
	}
	for _, ch := range known.Diff(f).Changes {
		if !ch.Edited && len(of) < maxDiffers {
			of = append(of, originDiffer{difference.Version{ID: ch.Item.ID, Hash: ch.Item.Hash}, titleOfItem(&ch.Item), true, now})
		}
	}
	return of
}

// absent returns the items that a log says to stand at the origin and a document lacks, although it cannot have rolled past
// them. A document whose items are not in the order of time, like a list of the most read articles, proves nothing. Readers
// are told of contested items anyway.
func (oa *originAudits) absent(c *channel, w *difference.Window, f *feed.Feed, titles map[feed.ID]string, now time.Time) (of []originDiffer) {
	doc, shown := make([]seenVersion, 0, len(f.Items)), map[feed.ID]bool{}
	newer, older, before := 0, 0, time.Time{}
	for i := range f.Items {
		id := f.Items[i].ID
		doc, shown[id] = append(doc, seenVersionOf(difference.Version{ID: id})), true
		e, ok := w.Entry(id)
		if !ok {
			continue
		}
		if !before.IsZero() && e.Arrived.After(before) {
			newer++
		} else if e.Arrived.Before(before) {
			older++
		}
		before = e.Arrived
	}
	if min(newer, older) > len(f.Items)/maxDisorder {
		return nil
	}
	for _, e := range w.Entries() {
		if !shown[e.ID] && !e.Withdrawn && !c.window.marks[e.ID].contested && len(of) < maxDiffers && mostlyOlder(w, doc, e.Ref) {
			of = append(of, originDiffer{difference.Version{ID: e.ID, Hash: e.Hash}, titles[e.ID], false, now})
		}
	}
	return of
}

// refuted reports whether a log and its origin agree about the item of a problem.
func (p *Problem) refuted(w *difference.Window, f *feed.Feed) bool {
	e, logged := w.Entry(p.id)
	shown := slices.ContainsFunc(f.Items, func(it feed.Item) bool { return it.ID == p.id })
	return p.Lacked && logged || !p.Lacked && (shown || !logged || e.Withdrawn)
}

// followed reports whether a document has an item that came into the log between two times. An honest sequencer marks a
// withdrawn item when another one follows it.
func followed(w *difference.Window, f *feed.Feed, after, before time.Time) bool {
	return slices.ContainsFunc(f.Items, func(it feed.Item) bool {
		e, ok := w.Entry(it.ID)
		return ok && e.Arrived.After(after) && e.Arrived.Before(before)
	})
}

// raise tells readers and neighbours of a problem that this node has seen.
func (oa *originAudits) raise(c *channel, d *originDiffer, now time.Time) {
	s := c.ensureSuspects()
	if s.problem == nil {
		oa.stats.Problems++
		oa.log.Warn("log of a feed differs from its web server", "url", c.url, "item", d.title, "lacked", d.lacked)
	}
	s.problem = &Problem{d.title, d.lacked, d.since, now, s.problem != nil && s.problem.Confirmed, d.ID}
	oa.app.StateChanged(c.key, c.state, now)
	seen, missing := []difference.Version{d.Version}, []difference.Version(nil)
	if !d.lacked {
		seen, missing = missing, seen
	}
	report := &feedtreepb.Message{Body: &feedtreepb.Message_Audit{Audit: &feedtreepb.Audit{
		Sighting: difference.See(oa.signer, c.url, seen, now, missing...).Raw,
	}}}
	told := map[env.PeerID]bool{oa.signer.PeerID(): true}
	for tree := range treeCount {
		group := groupOf(c.key, tree)
		for _, p := range slices.Concat(oa.scribe.Parents(group), oa.scribe.Children(group)) {
			if !told[p.Peer.ID] {
				told[p.Peer.ID] = true
				oa.send(p.Peer, report)
			}
		}
	}
}

// onAudit handles another node's report of a problem. It proves nothing, because ids are cheap, but this node looks at the
// origin itself.
func (oa *originAudits) onAudit(from env.PeerID, m *feedtreepb.Audit) error {
	s, err := difference.OpenSighting(oa.verify, m.Sighting)
	if err != nil {
		return err
	}
	c, now := oa.feeds[overlay.Key(oa.node.Network(), s.URL)], oa.clock.Now()
	if c == nil || wire.PeerIDOf(s.Owner) != from || now.Sub(s.Time).Abs() > maxObjectionAge {
		return nil
	}
	problem := c.shown()
	if problem != nil && !problem.Confirmed && slices.ContainsFunc(c.suspects.differs, func(d originDiffer) bool { return d.reportedIn(s) }) {
		confirmed := *problem
		confirmed.Confirmed = true
		c.suspects.problem = &confirmed
		oa.app.StateChanged(c.key, c.state, now)
	}
	interval, ok := oa.interval(c)
	if !ok || problem != nil {
		return nil
	}
	if o := c.suspects; o != nil && (len(o.differs) > 0 || !o.hearsay.IsZero() && now.Sub(o.hearsay) < auditHearsay*interval) {
		return nil
	}
	c.ensureSuspects().hearsay = now
	oa.plan(c, oa.random(auditSpread*interval))
	return nil
}

// reportedIn reports whether the sighting of another follower shows the same difference. Its node may see another text.
func (d *originDiffer) reportedIn(s *difference.Sighting) bool {
	of := s.Missing
	if d.lacked {
		of = s.Seen
	}
	return slices.ContainsFunc(of, func(v difference.Version) bool { return v.ID == d.ID })
}

// titleOfItem returns the title of an item for people; if it has none, its identity.
func titleOfItem(it *feed.Item) string {
	if m, err := it.Meaning(""); err == nil && m.Title != "" {
		return feed.PlainTitle(m.Title)
	}
	return it.ID.String()
}
