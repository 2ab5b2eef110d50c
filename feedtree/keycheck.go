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

// Owners of a feed may lie about its key, all of them together: ids are cheap. So a follower believes a
// key that the former one has not named only after its own node has seen that key at the origin. Until then
// the change is shown as a problem, items of the new key are unconfirmed, and those of the former key
// stay the publisher's. A follower that sees the former key at the origin objects: it signs what it saw, and
// sends that down both trees of the feed, because the root of one of them may be a liar, and to the owners.

const (
	// maxSightPause bounds how far apart looks at an origin are that come to nothing: each time the pause
	// is doubled, up to 1<<4 polling intervals. Otherwise owners could have all followers of a feed ask
	// its origin again and again, with a new key each time.
	maxKeyCheckDoublings = 4
	// sightFor is after how many polling intervals what was seen at the origin is seen too long ago for a key
	// that the log names only now.
	keySeenIntervals = 2
	// forgetSights is how long after the last look the pause begins anew.
	keyCheckReset = 24 * time.Hour
	// enoughObjectors is how many objections have to be heard for a follower to add none of its own.
	enoughObjectors = 3
	// maxObjectors is how many objections to one change are remembered; further ones are not counted.
	maxObjectors = 16
	// objectionTime is how old an objection may be: it is no proof of what the origin names later.
	maxObjectionAge = time.Hour
)

// A sight is what a follower's own node has seen of a feed's key at the origin.
type keyCheck struct {
	publisher    feed.Publisher // as the origin named it last; the key is nil if it was not seen in this life
	seenAt       time.Time
	scheduled    bool                     // a look is planned
	contradicted bool                     // somebody has seen another key there than the believed one
	checks       int                      // that were made and settled nothing
	checkedAt    time.Time                // when the last of them was made
	checkedNext  feed.Hash                // a key that the log says was named, and that was looked for already
	objectors    map[env.PeerID]time.Time // and when they were heard last
	objectedAt   time.Time                // when this node objected last
}

// mayName says whether the log says that the believed key has named the next one, which this node
// has not seen at the origin yet.
func (f *FeedTree) hasUncheckedNext(c *channel, trust, p *difference.Pin) bool {
	return trust != nil && p != nil && trust.Next == (feed.Hash{}) && p.Next != (feed.Hash{}) && p.Next != c.keyCheck.checkedNext && bytes.Equal(trust.Key, p.Key)
}

// sightSoon plans a look at the origin, within a polling interval: the many followers of a feed must not
// all ask it at one time.
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

// sightNow looks at the origin, if it still has to be known whose the feed is.
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

// sighted takes what this node has seen of a feed's key at its origin.
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
	if right := bytes.Equal(c.trust.Key, publisher.Key); right && c.doubt != nil {
		f.sendObjection(c, now)
	}
	if !bytes.Equal(before, publisher.Key) && (c.doubt != nil || !bytes.Equal(c.trust.Key, publisher.Key)) {
		f.trustChanged(c) // what is shown of it is another matter
	}
}

// confirm believes the key that the log names last, if this node has seen it at the origin lately.
func (f *FeedTree) confirmPin(c *channel) {
	old, pin, s := c.trust, c.window.log.Pin(), &c.keyCheck
	if old == nil || pin == nil || !bytes.Equal(pin.Key, s.publisher.Key) || bytes.Equal(pin.Key, old.Key) ||
		f.clock.Now().Sub(s.seenAt) > keySeenIntervals*f.cfg.PollInterval {
		return
	}
	f.log.Warn("publisher's key changed on the web server", "url", c.url, "from", difference.Fingerprint(old.Key), "to", difference.Fingerprint(pin.Key))
	trust := pin.Onto(old)
	trust.Next = s.publisher.Next
	if !f.attested(c, pin) {
		trust.Witnesses = nil
	}
	c.trust, c.doubt = trust, nil
	s.objectors, s.checks = nil, 0
	f.storeTrust(c)
	f.trustChanged(c)
}

// object signs that the origin names the believed key, and not the one in the log. A follower that has heard
// it from enough others is silent: all would say so.
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

// onObjection takes what another node has seen at the origin of a feed. It proves nothing, as ids are
// cheap: the sequencer looks at the origin, as seldom as ever, and a follower that doubts its log says so.
func (f *FeedTree) onObjection(raw []byte) error {
	w, err := difference.OpenWitness(f.verify, raw)
	if err != nil {
		return err
	}
	now, by := f.clock.Now(), wire.PeerIDOf(w.By)
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
