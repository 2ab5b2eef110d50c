package feedtree

import (
	"bytes"
	"slices"
	"time"

	"tidings/difference"
	"tidings/feedtree/feedtreepb"
	"tidings/internal/env"
	"tidings/internal/feed"
	"tidings/internal/wire"
	"tidings/overlay"
)

const (
	// keySeenIntervals is the number of polling intervals for which a key seen at the origin confirms a key that
	// the log names later.
	keySeenIntervals = 2
	// enoughObjectors is the number of recent objections of others after which a follower sends none of its own.
	enoughObjectors = 3
	// maxObjectors bounds the objectors of one change that are remembered. Further ones are not counted.
	maxObjectors = 16
	// maxObjectionAge is the largest age of an objection. An old one proves nothing about what the origin names
	// now.
	maxObjectionAge = time.Hour
)

// trusts decides which publisher's key of a followed feed this node trusts.
//
// All owners of a feed together may lie about its key, because ids are cheap. So a follower trusts a key that the
// former one has not named only after its own node has seen the key at the origin. Until then the change is shown
// as a problem, items of the new key are unconfirmed, and items of the former key remain the publisher's. A
// follower that sees the former key at the origin objects: it signs what it saw and sends that to the owners and
// down both trees of the feed, because the root of one tree may be a liar.
type trusts struct {
	*common
	keyQuestions *keyQuestions
	save         func(c *channel) // stores the trusted pin with the subscription
}

func newTrusts(m *common, questions *keyQuestions) *trusts {
	tr := &trusts{common: m, keyQuestions: questions}
	questions.open = tr.open
	return tr
}

// keyTrust is what trusts keeps of a feed.
type keyTrust struct {
	trust    *difference.Pin // the pin that this node trusts; nil: the feed has no publisher
	doubt    *difference.Pin // the pin in the log, if this node does not trust it; nil: there is none
	keyCheck *keyCheck       // nil: this node knows nothing of the key at the origin
}

// ensureCheck returns what this node knows about the key at the origin, for changing it.
func (t *keyTrust) ensureCheck() *keyCheck {
	if t.keyCheck == nil {
		t.keyCheck = new(keyCheck)
	}
	return t.keyCheck
}

// A keyCheck is what a follower's own node knows about a feed's key at the origin.
type keyCheck struct {
	publisher    feed.Publisher // as the origin last named it; without a key if not seen since the start
	seenAt       time.Time
	contradicted bool                     // another node has seen a key other than the trusted one there
	checkedNext  feed.Hash                // next key in the log that was checked already
	objectors    map[env.PeerID]time.Time // when each objector was last heard
	objectedAt   time.Time                // last objection of this node
}

// hasUncheckedNext reports whether the log says that the trusted key has named its successor, which this node has
// not yet looked for at the origin.
func (tr *trusts) hasUncheckedNext(c *channel, trust, p *difference.Pin) bool {
	return trust != nil && p != nil && trust.Next == (feed.Hash{}) && p.Next != (feed.Hash{}) && (c.keyCheck == nil || p.Next != c.keyCheck.checkedNext) && bytes.Equal(trust.Key, p.Key)
}

// open reports whether there is a question about a feed's key that its origin can answer, and whether the question
// remains if it does not.
func (tr *trusts) open(c *channel) (ask, again bool) {
	if !c.subscribed || c.trust == nil {
		return false, false
	}
	s, pin := c.ensureCheck(), c.window.log.Pin()
	if c.doubt == nil && !s.contradicted && !tr.hasUncheckedNext(c, c.trust, pin) {
		return false, false
	}
	if s.contradicted = false; c.doubt == nil && pin != nil {
		s.checkedNext = pin.Next
	}
	return true, c.doubt != nil
}

// keySeen handles the publisher that this node has seen at a feed's origin.
func (tr *trusts) keySeen(c *channel, publisher feed.Publisher) {
	s, now := c.ensureCheck(), tr.clock.Now()
	before := s.publisher.Key
	s.publisher, s.seenAt = publisher, now
	if t := c.trust; t != nil && bytes.Equal(t.Key, publisher.Key) && (publisher.Beat != t.Beat || t.Next == (feed.Hash{}) && publisher.Next != (feed.Hash{})) {
		next := *t
		if next.Beat = publisher.Beat; next.Next == (feed.Hash{}) {
			next.Next = publisher.Next
		}
		c.trust = &next
		tr.save(c)
	}
	tr.confirm(c)
	if c.trust == nil {
		return
	}
	if trusted := bytes.Equal(c.trust.Key, publisher.Key); trusted && c.doubt != nil {
		tr.sendObjection(c, now)
	}
	if !bytes.Equal(before, publisher.Key) && (c.doubt != nil || !bytes.Equal(c.trust.Key, publisher.Key)) {
		tr.changed(c) // the problem that readers see has changed
	}
}

// confirm trusts the pin of the log, if this node has recently seen its key at the origin.
func (tr *trusts) confirm(c *channel) {
	old, pin, s := c.trust, c.window.log.Pin(), c.keyCheck
	if old == nil || pin == nil || s == nil || !bytes.Equal(pin.Key, s.publisher.Key) || bytes.Equal(pin.Key, old.Key) ||
		tr.clock.Now().Sub(s.seenAt) > keySeenIntervals*tr.cfg.PollInterval {
		return
	}
	tr.log.Warn("publisher's key changed on the web server", "url", c.url, "from", difference.Fingerprint(old.Key), "to", difference.Fingerprint(pin.Key))
	trust := pin.Rebase(old)
	trust.Next = s.publisher.Next
	if !tr.attested(c, pin) {
		trust.Witnesses = nil
	}
	c.trust, c.doubt = trust, nil
	s.objectors, c.checks = nil, 0
	tr.save(c)
	tr.changed(c)
}

// sendObjection signs that the origin names the trusted key and not the one in the log. A follower that has heard
// enough objections stays silent, because all followers would send one.
func (tr *trusts) sendObjection(c *channel, now time.Time) {
	s, heard := c.ensureCheck(), 0
	for _, at := range s.objectors {
		if now.Sub(at) < tr.cfg.PollInterval {
			heard++
		}
	}
	if heard >= enoughObjectors || !s.objectedAt.IsZero() && now.Sub(s.objectedAt) < tr.cfg.PollInterval {
		return
	}
	s.objectedAt = now
	tr.stats.Objected++
	raw := difference.Attest(tr.signer, c.url, c.trust.Key, now).Raw
	news := wire.Encode(&feedtreepb.News{News: &feedtreepb.News_Objection{Objection: raw}})
	for _, group := range []overlay.ID{c.key, ShadowOf(c.key)} {
		tr.scribe.Publish(group, news, func(bool) {})
	}
	tr.sendOwners(c.key, &feedtreepb.Message{Body: &feedtreepb.Message_Objection{Objection: &feedtreepb.Objection{Witness: raw}}})
}

// objected handles another node's objection to the key that the log of a feed names. A follower that doubts the key
// counts the objector. One that trusts it checks the origin, too.
func (tr *trusts) objected(c *channel, w *difference.Witness) {
	if !c.subscribed || c.trust == nil {
		return
	}
	s, by := c.ensureCheck(), wire.PeerIDOf(w.Owner)
	if c.doubt == nil && !bytes.Equal(w.Key, c.trust.Key) {
		s.contradicted = true
		tr.keyQuestions.askLater(c) // the first key that this node heard of may have been a lie
	}
	if c.doubt == nil || !bytes.Equal(w.Key, c.trust.Key) {
		return
	}
	_, known := s.objectors[by]
	if !known && len(s.objectors) >= maxObjectors {
		return
	}
	if s.objectors == nil {
		s.objectors = map[env.PeerID]time.Time{}
	}
	s.objectors[by] = tr.clock.Now()
	if !known {
		tr.changed(c)
	}
}

// consider trusts a pin of the log if the trusted pin leads to it. Any other key is doubted, however many owners
// have witnessed it, until this node has seen it at the origin itself.
func (tr *trusts) consider(c *channel, p *difference.Pin) {
	old := c.trust
	switch {
	case old == nil, p.Follows(old), bytes.Equal(p.Key, old.Key):
	case old.IsFormer(p.Key):
		return // an earlier pin: a log is read again after each restart
	default:
		if c.doubt == nil || !bytes.Equal(c.doubt.Key, p.Key) {
			tr.stats.Doubted++
			tr.log.Warn("publisher's key changed without confirmation by the old key", "url", c.url, "from", difference.Fingerprint(old.Key), "to", difference.Fingerprint(p.Key))
			defer tr.changed(c)
		}
		c.doubt = p
		tr.keyQuestions.askLater(c)
		return
	}
	trust := *p
	if old != nil {
		trust = *p.Rebase(old)
	}
	if old == nil || !bytes.Equal(old.Key, p.Key) {
		trust.Witnesses = nil // they are not why this node trusts it
	}
	doubted := c.doubt != nil
	if c.doubt = nil; c.keyCheck != nil {
		c.keyCheck.objectors = nil
	}
	if tr.hasUncheckedNext(c, &trust, p) {
		tr.keyQuestions.askLater(c)
	}
	if old != nil && bytes.Equal(old.Append(), trust.Append()) {
		if doubted {
			tr.changed(c)
		}
		return
	}
	c.trust = &trust
	tr.save(c)
	tr.changed(c)
}

// changed reports that the provenance of a feed's items has changed.
func (tr *trusts) changed(c *channel) {
	c.window.version++
	tr.app.StateChanged(c.key, c.state, tr.clock.Now())
}

// attested reports whether enough owners of a feed have signed that they saw a key at its origin.
func (tr *trusts) attested(c *channel, p *difference.Pin) bool {
	v, ok := tr.owners.View(c.key)
	if !ok || v.Epoch == nil {
		return false
	}
	var witnesses []env.PeerID
	for _, raw := range p.Witnesses {
		w, err := difference.OpenWitness(tr.verify, raw)
		if err != nil || w.URL != c.url || !bytes.Equal(w.Key, p.Key) {
			continue
		}
		if id := wire.PeerIDOf(w.Owner); slices.Contains(v.Epoch.Owners, id) && !slices.Contains(witnesses, id) {
			witnesses = append(witnesses, id)
		}
	}
	return len(witnesses) >= witnessesNeeded(len(v.Epoch.Owners))
}

// Trust trusts the pin that the log names, because a person has decided so. It returns false if there is no doubted
// pin.
func (tr *trusts) Trust(key overlay.ID) bool {
	c := tr.feeds[key]
	if c == nil || c.doubt == nil {
		return false
	}
	p := c.doubt
	c.trust = nil
	tr.consider(c, p)
	return true
}
