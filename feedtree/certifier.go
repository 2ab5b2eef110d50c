package feedtree

import (
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

// A certifier collects sightings of the items that this node has appended as the sequencer. When enough owners have
// seen the same version of an item, or enough have looked and differ, it appends their sightings as a certificate.
type certifier struct {
	*common
	entries   *entries
	witnesses *witnesses
	contests  *contests
	cal       plans

	appendAccepted func(c *channel) // appends publications that wait, because the numbers in later entries count them
}

func newCertifier(m *common, entries *entries, ws *witnesses) *certifier {
	ce := &certifier{common: m, entries: entries, witnesses: ws, contests: newContests(m, entries, ws)}
	ce.cal = m.feedPlans(ce.check)
	ws.certify = ce.take
	return ce
}

// certifying is what a certifier keeps of a feed.
type certifying struct {
	unsigned  bool                                  // an item that no publisher has signed was appended
	marks     marks                                 // items that have a certificate of today's owners
	former    marks                                 // items that have an earlier one, whoever signed it
	countedBy []env.PeerID                          // owners of the feed when the certificates in the log were last counted
	sightings map[env.PeerID][]*difference.Sighting // of items without a certificate; at most maxHeldSightings of an owner
	requests  int                                   // number of requests since the last new item
	askAt     env.Moment                            // when the next request is due
	checkAt   env.Moment                            // when the next check is planned; Never: none is
}

const (
	// maxSightRequests is how often owners are asked about an item: at once, and a quarter, one, two and four
	// polling intervals after the request before. An origin usually shows an item for longer than that.
	maxSightRequests = 5
	// lookAgain is the request with which all owners look that have not answered.
	lookAgain = 2
	// maxHeldSightings bounds the sightings of one owner that wait for those of others. The oldest is dropped.
	maxHeldSightings = 16
	// certifyRetry is the time after which a certificate is appended that the log had no room for.
	certifyRetry = 5 * time.Second
)

// sightPause returns the time between a request and the next one.
func (ce *certifier) sightPause(requests int) time.Duration {
	return ce.cfg.PollInterval / 4 << (2 * min(requests-1, 1)) << max(requests-2, 0)
}

// committed begins to ask the owners about new unsigned items of a feed that this node leads.
func (ce *certifier) committed(c *channel) {
	if !c.leader.unsigned {
		return
	}
	c.leader.unsigned, c.leader.requests, c.leader.askAt = false, 0, env.Never
	ce.plan(c, ce.clock.Now())
}

// plan plans a check, unless one is planned for earlier.
func (ce *certifier) plan(c *channel, at time.Time) {
	if l := c.leader; l.checkAt == env.Never || l.checkAt.After(at) {
		l.checkAt = env.MomentOf(at)
		ce.cal.add(at, c.key)
	}
}

// take takes a sighting of an owner.
func (ce *certifier) take(c *channel, s *difference.Sighting) {
	l := c.leader
	v, ok := ce.owners.View(c.key)
	if l == nil || !l.ready || !ok || v.Epoch == nil || s.URL != c.url {
		return
	}
	i := slices.Index(v.Epoch.Owners, wire.PeerIDOf(s.Owner))
	if i < 0 {
		return
	}
	if l.sightings == nil {
		l.sightings = map[env.PeerID][]*difference.Sighting{}
	}
	by := v.Epoch.Owners[i]
	if held := l.sightings[by]; len(held) > 0 && s.Time.Before(held[len(held)-1].Time) {
		return // anybody may send again what was in a certificate
	}
	held := append(slices.DeleteFunc(l.sightings[by], func(old *difference.Sighting) bool { return replaces(s, old) }), s)
	l.sightings[by] = held[max(0, len(held)-maxHeldSightings):]
	ce.plan(c, ce.clock.Now())
}

// replaces reports whether a sighting is about all items that an earlier one of its owner is about.
func replaces(s, old *difference.Sighting) bool {
	about := func(v difference.Version) bool {
		same := func(o difference.Version) bool { return o.ID == v.ID }
		return slices.ContainsFunc(s.Seen, same) || slices.ContainsFunc(s.Missing, same)
	}
	return !slices.ContainsFunc(slices.Concat(old.Seen, old.Missing), func(v difference.Version) bool { return !about(v) })
}

// onSight handles a sighting from another owner.
func (ce *certifier) onSight(from env.PeerID, m *feedtreepb.Sight) error {
	s, err := difference.OpenSighting(ce.verify, m.Sighting)
	if err != nil {
		return err
	}
	if wire.PeerIDOf(s.Owner) != from {
		return nil
	}
	key := overlay.Key(ce.node.Network(), s.URL)
	if c := ce.feeds[key]; c != nil {
		ce.take(c, s)
	}
	ce.contests.heard(key, s)
	return nil
}

// check appends the certificates that are complete, and asks the owners about the other items.
func (ce *certifier) check(c *channel) {
	l, now := c.leader, ce.clock.Now()
	if l == nil || l.checkAt == env.Never || l.checkAt.After(now) {
		return
	}
	l.checkAt = env.Never
	v, ok := ce.owners.View(c.key)
	if !l.ready || !ok || v.Epoch == nil || len(v.Epoch.Owners) < 2 {
		return
	}
	owners := v.Epoch.Owners
	ce.recount(c, owners)
	for _, certificate := range ce.certificates(c, owners) {
		if !ce.append(c, certificate, owners) {
			return
		}
	}
	open := ce.open(c)
	switch {
	case len(open) == 0:
		l.sightings = nil
	case l.requests >= maxSightRequests:
	case l.askAt.After(now):
		ce.plan(c, l.askAt.Time())
	default:
		ce.request(c, owners, open)
		l.requests++
		next := now.Add(ce.sightPause(l.requests))
		l.askAt = env.MomentOf(next)
		ce.plan(c, next)
	}
}

// append appends a certificate to the log. It reports false, and plans a check, if the log has no room for it now.
func (ce *certifier) append(c *channel, certificate []*difference.Sighting, owners []env.PeerID) bool {
	l, now, delta := c.leader, ce.clock.Now(), difference.Delta{}
	for _, s := range certificate {
		raw := s.Raw
		if wire.PeerIDOf(s.Owner) == ce.signer.PeerID() {
			raw = s.Bare() // readers verify one signature less
		}
		delta.Sightings = append(delta.Sightings, raw)
	}
	ce.appendAccepted(c)
	if _, isPage := feed.DocumentURL(c.url); !isPage && len(l.window.OlderThan(ce.owners.FirstKept(c.key, 0))) > 0 {
		ce.plan(c, now.Add(ce.cfg.PollInterval/4)) // the log would forget items; the next poll repeats those that the origin still shows
		return false
	}
	if !ce.entries.append(c, delta, func(bool) {}) {
		ce.plan(c, now.Add(certifyRetry))
		return false
	}
	ce.stats.Certificates++
	if contests := ce.contestedIn(c, l.marks.add(certificate, l.window.Version, owners)); len(contests) > 0 {
		ce.stats.Contests += uint64(len(contests))
		ce.app.Contested(c.key, contests)
	} else {
		l.requests, l.askAt = 0, env.Never // further items may be waiting behind these
	}
	return true
}

// onContest appends the sightings by which another owner knows that an item is contested, unless the log has that already.
// They count whoever sends them, and whatever their signers have told this node: an owner that says one thing to one node
// and another thing to others must not get this node barred. Nothing is kept; the sender repeats what the log has no room for.
func (ce *certifier) onContest(from env.PeerID, m *feedtreepb.Contest) {
	key := overlay.ID(m.Key)
	c, ok := ce.feeds[key]
	v, _ := ce.owners.View(key)
	if !ok || c.leader == nil || !c.leader.ready || v.Epoch == nil || !slices.Contains(v.Epoch.Owners, from) {
		return
	}
	ce.recount(c, v.Epoch.Owners)
	if told := ce.entries.forFeed(key, difference.OpenSightings(ce.verify, m.Sightings)); c.leader.contestedBy(told, v.Epoch.Owners, ce.contests.contestAfter()) {
		ce.append(c, told, v.Epoch.Owners)
	}
}

// contestedBy reports whether each of the sightings is another owner's, and they contest an item of the log about which no
// certificate of today's owners says anything: the other owners judge by the same ones, and bar this node if it leaves the contest out. Those from before the log had that version say nothing about it; the owners' clocks may differ
// by tolerance.
func (l *leaderState) contestedBy(certificate []*difference.Sighting, owners []env.PeerID, tolerance time.Duration) bool {
	var by []env.PeerID
	for _, s := range certificate {
		if owner := wire.PeerIDOf(s.Owner); slices.Contains(owners, owner) && !slices.Contains(by, owner) {
			by = append(by, owner)
		}
	}
	if len(by) < len(certificate) {
		return false
	}
	var m marks
	marked := m.add(certificate, func(id feed.ID) (hash feed.Hash) {
		e, _ := l.window.Entry(id)
		old := func(s *difference.Sighting) bool { return s.Time.Add(tolerance).Before(e.Changed) }
		if l.marks.of(difference.Version{ID: id, Hash: e.Hash}) == (mark{}) && !slices.ContainsFunc(certificate, old) {
			hash = e.Hash
		}
		return hash
	}, owners)
	return slices.ContainsFunc(marked, func(id feed.ID) bool { return m[id].contested })
}

// recent returns the time from which on an item is certified although this node has not seen it itself.
func (ce *certifier) recent() time.Time { return ce.clock.Now().Add(-4 * ce.cfg.PollInterval) }

// readLogged notes the items that have a certificate in the log. It proves something if today's owners have signed it. An early one
// of others may be one of former owners, or one that a lying sequencer has signed with keys of its own and dated as it liked.
// It only keeps this node from asking about items that its own document shows: with each change of owners all their certificates
// would be made again.
func (ce *certifier) readLogged(c *channel, certificate []*difference.Sighting, at time.Time, owners []env.PeerID) {
	l := c.leader
	l.marks.add(certificate, l.window.Version, owners)
	if at.Before(ce.recent()) {
		var signers []env.PeerID
		for _, s := range certificate {
			signers = append(signers, wire.PeerIDOf(s.Owner))
		}
		l.former.add(certificate, l.window.Version, signers)
	}
}

// recount reads the certificates in the log again if the feed has other owners than before. The other owners count those of
// today's owners only, and bar a sequencer that takes a contest for logged because former owners have signed it.
func (ce *certifier) recount(c *channel, owners []env.PeerID) {
	l := c.leader
	if slices.Equal(l.countedBy, owners) {
		return
	}
	l.countedBy = owners
	log := ce.owners.Log(c.key)
	type certificate struct {
		at  time.Time
		all []*difference.Sighting
	}
	var logged []certificate // of at most MaxSightings*MaxSighting bytes each
	ce.entries.decode(log, func(e *owner.Entry, d *decodedEntry) {
		if len(d.sightings) > 0 {
			logged = append(logged, certificate{e.Time, d.sightings})
		}
	}, func() {
		if c.leader != l || !slices.Equal(l.countedBy, owners) {
			return
		}
		l.marks, l.former = nil, nil
		for _, of := range logged {
			ce.readLogged(c, of.all, of.at, owners)
		}
		ce.plan(c, ce.clock.Now())
	})
}

// An openItem is a version in the log that has no certificate.
type openItem struct {
	difference.Version
	changed time.Time // when the log got it
}

// answeredBy reports whether a sighting says which version its owner sees. One from before the log got this version and
// with another one does not.
func (o openItem) answeredBy(s *difference.Sighting) bool {
	return slices.Contains(s.Missing, o.Version) || slices.ContainsFunc(s.Seen, func(v difference.Version) bool {
		return v == o.Version || v.ID == o.ID && !s.Time.Before(o.changed)
	})
}

// open returns the newest versions of unsigned items in the log without a certificate, or with one that contests them:
// those that this node has seen itself or looks for as an owner, and those that came lately. Earlier ones may have left the
// document. A contest is not final, because replicas of an origin may lag for long.
func (ce *certifier) open(c *channel) (open []openItem) {
	l, since := c.leader, ce.recent()
	own := ce.witnesses.records[c.key]
	for e := range l.window.Latest {
		version := difference.Version{ID: e.ID, Hash: e.Hash}
		if e.Signed || l.marks.of(version).vouches() || len(open) == difference.MaxSeen {
			continue
		}
		shown, wanted := false, false
		if own != nil {
			seen, found := own.find(version)
			shown = found && seen == version && !l.former.of(version).vouches()
			wanted = slices.ContainsFunc(own.wanted, func(w wantedSight) bool { return w.Version == version })
		}
		if shown || wanted || e.Changed.After(since) {
			open = append(open, openItem{version, e.Changed})
		}
	}
	return open
}

// request asks the owners about items. As many owners as are needed look for themselves at once, but those that poll
// soon anyway; after a polling interval, all that have not answered do so once.
func (ce *certifier) request(c *channel, owners []env.PeerID, open []openItem) {
	looking := 0
	soon, needed := ce.app.PollSoon(c.key), SightingsNeeded(len(owners))
	for i, owner := range owners {
		var lacking []difference.Version
		for _, o := range open {
			if s := ce.sightingOf(c, owner, o); s == nil || slices.Contains(s.Missing, o.Version) {
				lacking = append(lacking, o.Version)
			}
		}
		if len(lacking) == 0 {
			continue
		}
		look := soon >= 0 && (c.leader.requests == 0 && soon <= i && i < needed || c.leader.requests == lookAgain)
		if look {
			looking++
		}
		if owner == ce.signer.PeerID() {
			ce.witnesses.want(c.key, c.url, owner, lacking, look)
			continue
		}
		ce.send(ce.peer(owner), &feedtreepb.Message{Body: &feedtreepb.Message_SightRequest{SightRequest: &feedtreepb.SightRequest{
			Key: c.key[:], Items: difference.VersionBytes(lacking), Look: look,
		}}})
	}
	ce.app.Looking(c.key, looking)
}

// sightingOf returns the latest sighting of an owner that answers for an item; nil if there is none. What this node heard
// before it led the feed counts, too.
func (ce *certifier) sightingOf(c *channel, owner env.PeerID, o openItem) *difference.Sighting {
	for _, s := range slices.Backward(c.leader.sightings[owner]) {
		if o.answeredBy(s) {
			return s
		}
	}
	return ce.witnesses.records[c.key].missedBy(owner, o.Version)
}

// contestedIn returns the versions of some items of a feed that are contested.
func (ce *certifier) contestedIn(c *channel, items []feed.ID) (contests []difference.Version) {
	for _, id := range items {
		if m := c.leader.marks[id]; m.contested {
			contests = append(contests, difference.Version{ID: id, Hash: m.hash})
		}
	}
	return contests
}

// certificates returns the sightings that settle items, in one certificate for all items that the same sightings
// settle.
func (ce *certifier) certificates(c *channel, owners []env.PeerID) (all [][]*difference.Sighting) {
	l := c.leader
	for _, o := range ce.open(c) {
		var of []*difference.Sighting
		for _, owner := range owners {
			if s := ce.sightingOf(c, owner, o); s != nil {
				of = append(of, s)
			}
		}
		var m marks
		m.add(of, func(feed.ID) feed.Hash { return o.Hash }, owners)
		if settled, before := m.of(o.Version), l.marks.of(o.Version); settled != (mark{}) && (settled.vouches() || !before.contested) && !slices.ContainsFunc(all, func(other []*difference.Sighting) bool { return slices.Equal(other, of) }) {
			all = append(all, of)
		}
	}
	return all
}
