package feedtree

import (
	"bytes"
	"time"

	"tidings/difference"
	"tidings/feedtree/feedtreepb"
	"tidings/internal/env"
	"tidings/internal/feed"
	"tidings/internal/wire"
	"tidings/overlay"
)

// All owners of a feed together may lie about its key, because ids are cheap. So a follower trusts a key that the
// former one has not named only after its own node has seen the key at the origin. Until then the change is shown
// as a problem, items of the new key are unconfirmed, and items of the former key remain the publisher's. A
// follower that sees the former key at the origin objects: it signs what it saw and sends that to the owners and
// down both trees of the feed, because the root of one tree may be a liar.

const (
	// maxKeyCheckDoublings bounds the pause between checks at an origin that settle nothing: it is doubled each
	// time, up to 1<<4 polling intervals. Otherwise owners could make all followers of a feed ask its origin again
	// and again, with a new key each time.
	maxKeyCheckDoublings = 4
	// keySeenIntervals is the number of polling intervals for which a key seen at the origin confirms a key that
	// the log names later.
	keySeenIntervals = 2
	// keyCheckReset is the time without checks after which the pause starts again from its shortest.
	keyCheckReset = 24 * time.Hour
	// enoughObjectors is the number of recent objections of others after which a follower sends none of its own.
	enoughObjectors = 3
	// maxObjectors bounds the objectors of one change that are remembered. Further ones are not counted.
	maxObjectors = 16
	// maxObjectionAge is the largest age of an objection. An old one proves nothing about what the origin names
	// now.
	maxObjectionAge = time.Hour
)

// A keyCheck is what a follower's own node knows about a feed's key at the origin.
type keyCheck struct {
	publisher    feed.Publisher // as the origin last named it; without a key if not seen since the start
	seenAt       time.Time
	scheduled    bool                     // runKeyCheck is scheduled
	contradicted bool                     // another node has seen a key other than the trusted one there
	checks       int                      // number of checks that settled nothing
	checkedAt    time.Time                // last of these checks
	checkedNext  feed.Hash                // next key in the log that was checked already
	objectors    map[env.PeerID]time.Time // when each objector was last heard
	objectedAt   time.Time                // last objection of this node
}

// hasUncheckedNext reports whether the log says that the trusted key has named its successor, which this node has
// not yet looked for at the origin.
func (f *FeedTree) hasUncheckedNext(c *channel, trust, p *difference.Pin) bool {
	return trust != nil && p != nil && trust.Next == (feed.Hash{}) && p.Next != (feed.Hash{}) && p.Next != c.keyCheck.checkedNext && bytes.Equal(trust.Key, p.Key)
}

// scheduleKeyCheck schedules a check at the origin at a random time within a polling interval, because a feed's
// many followers must not ask its origin at the same time. Checks that settle nothing are further apart each time.
func (f *FeedTree) scheduleKeyCheck(c *channel) {
	s, now := &c.keyCheck, f.clock.Now()
	if s.scheduled || !c.subscribed {
		return
	}
	if now.Sub(s.checkedAt) > keyCheckReset {
		s.checks = 0
	}
	wait := time.Duration(f.rand.Int64N(int64(f.cfg.PollInterval) + 1))
	if s.checks > 0 {
		wait += max(0, s.checkedAt.Add(f.cfg.PollInterval<<min(s.checks-1, maxKeyCheckDoublings)).Sub(now))
	}
	s.scheduled = true
	f.after(wait, task{kind: taskKeyCheck, key: c.key})
}

// runKeyCheck fetches the origin's document, if there is still a question about the feed's key.
func (f *FeedTree) runKeyCheck(c *channel, now time.Time) {
	s := &c.keyCheck
	s.scheduled = false
	pin := c.window.log.Pin()
	if !c.subscribed || c.trust == nil || c.doubt == nil && !s.contradicted && !f.hasUncheckedNext(c, c.trust, pin) {
		return
	}
	if s.contradicted = false; c.doubt == nil && pin != nil {
		s.checkedNext = pin.Next
	}
	s.checks, s.checkedAt = s.checks+1, now
	f.stats.Sights++
	f.app.Fetch(c.key, c.url)
	if c.doubt != nil {
		f.scheduleKeyCheck(c)
	}
}

// keySeen handles the publisher that this node has seen at a feed's origin.
func (f *FeedTree) keySeen(c *channel, publisher feed.Publisher) {
	s, now := &c.keyCheck, f.clock.Now()
	before := s.publisher.Key
	s.publisher, s.seenAt = publisher, now
	if t := c.trust; t != nil && bytes.Equal(t.Key, publisher.Key) && t.Next == (feed.Hash{}) && publisher.Next != (feed.Hash{}) {
		next := *t
		next.Next = publisher.Next
		c.trust = &next
		f.storeTrust(c)
	}
	f.confirmPin(c)
	if c.trust == nil {
		return
	}
	if trusted := bytes.Equal(c.trust.Key, publisher.Key); trusted && c.doubt != nil {
		f.sendObjection(c, now)
	}
	if !bytes.Equal(before, publisher.Key) && (c.doubt != nil || !bytes.Equal(c.trust.Key, publisher.Key)) {
		f.trustChanged(c) // the problem that readers see has changed
	}
}

// confirmPin trusts the pin of the log, if this node has recently seen its key at the origin.
func (f *FeedTree) confirmPin(c *channel) {
	old, pin, s := c.trust, c.window.log.Pin(), &c.keyCheck
	if old == nil || pin == nil || !bytes.Equal(pin.Key, s.publisher.Key) || bytes.Equal(pin.Key, old.Key) ||
		f.clock.Now().Sub(s.seenAt) > keySeenIntervals*f.cfg.PollInterval {
		return
	}
	f.log.Warn("publisher's key changed on the web server", "url", c.url, "from", difference.Fingerprint(old.Key), "to", difference.Fingerprint(pin.Key))
	trust := pin.Rebase(old)
	trust.Next = s.publisher.Next
	if !f.attested(c, pin) {
		trust.Witnesses = nil
	}
	c.trust, c.doubt = trust, nil
	s.objectors, s.checks = nil, 0
	f.storeTrust(c)
	f.trustChanged(c)
}

// sendObjection signs that the origin names the trusted key and not the one in the log. A follower that has heard
// enough objections stays silent, because all followers would send one.
func (f *FeedTree) sendObjection(c *channel, now time.Time) {
	s, heard := &c.keyCheck, 0
	for _, at := range s.objectors {
		if now.Sub(at) < f.cfg.PollInterval {
			heard++
		}
	}
	if heard >= enoughObjectors || !s.objectedAt.IsZero() && now.Sub(s.objectedAt) < f.cfg.PollInterval {
		return
	}
	s.objectedAt = now
	f.stats.Objected++
	raw := difference.Attest(f.signer, c.url, c.trust.Key, now).Raw
	news := marshal(&feedtreepb.News{News: &feedtreepb.News_Objection{Objection: raw}})
	for _, group := range []overlay.ID{c.key, shadowOf(c.key)} {
		f.scribe.Publish(group, news, func(bool) {})
	}
	v, ok := f.owners.View(c.key)
	if !ok || v.Epoch == nil {
		return
	}
	for _, id := range v.Epoch.Owners {
		if id != f.signer.PeerID() {
			f.send(f.peer(id), &feedtreepb.Message{Body: &feedtreepb.Message_Objection{Objection: &feedtreepb.Objection{Witness: raw}}})
		}
	}
}

// onObjection handles an objection. It proves nothing, because ids are cheap. The sequencer checks the origin, at
// its usual low rate. A follower that doubts the log's key counts the objector. One that trusts it checks the
// origin, too.
func (f *FeedTree) onObjection(raw []byte) error {
	w, err := difference.OpenWitness(f.verify, raw)
	if err != nil {
		return err
	}
	now, by := f.clock.Now(), wire.PeerIDOf(w.Owner)
	c := f.feeds[overlay.Key(f.node.Network(), w.URL)]
	if c == nil || now.Sub(w.Time).Abs() > maxObjectionAge || by == f.signer.PeerID() {
		return nil
	}
	if l := c.leader; l != nil && l.ready && l.pin != nil && !bytes.Equal(l.pin.Key, w.Key) {
		f.fetchForKey(c)
	}
	s := &c.keyCheck
	if c.subscribed && c.trust != nil && c.doubt == nil && !bytes.Equal(w.Key, c.trust.Key) {
		s.contradicted = true
		f.scheduleKeyCheck(c) // the first key that this node heard of may have been a lie
	}
	if !c.subscribed || c.doubt == nil || !bytes.Equal(w.Key, c.trust.Key) {
		return nil
	}
	_, known := s.objectors[by]
	if !known && len(s.objectors) >= maxObjectors {
		return nil
	}
	if s.objectors == nil {
		s.objectors = map[env.PeerID]time.Time{}
	}
	s.objectors[by] = now
	if !known {
		f.trustChanged(c)
	}
	return nil
}
