package feedtree

import (
	"bytes"
	"crypto/ed25519"
	"slices"
	"time"

	"tidings/difference"
	"tidings/feedtree/feedtreepb"
	"tidings/internal/env"
	"tidings/internal/feed"
	"tidings/internal/wire"
	"tidings/overlay"
)

// This file determines the publisher's key of a feed. The origin's document names the first key. From then on the
// log names it, in pins, and each follower remembers the pin that it trusts. A key that was named in advance by the
// one before may replace it at once. Any other new key must be seen at the origin, over HTTPS or at a private
// address, by several owners of the feed.

const (
	// requiredWitnesses is the number of owners that must see a new key at the origin. If fewer are a quorum, a
	// quorum suffices.
	requiredWitnesses = 3
	// keyChangePause is the time between two requests for witnesses to owners that do not answer, and
	// keyChangeTries bounds the requests.
	keyChangePause = 10 * time.Second
	keyChangeTries = 6
	// maxWitnessRequests bounds the origins that a node checks for sequencers at a time. A request that finds no
	// free place is not answered. witnessTimeout is how long a request occupies its place.
	maxWitnessRequests = 64
	witnessTimeout     = time.Minute
	// originLag is how long a mirror or cache of an origin may still name a former key. If the origin names the
	// former key for longer, that is a change of the key like any other: the owners of that time may have lied.
	originLag = time.Hour
)

// A keyChange is a key that the origin names in place of the pinned one, until enough owners have witnessed it.
type keyChange struct {
	publisher feed.Publisher
	witnesses map[env.PeerID][]byte // signed witnesses by owner
	tries     int
	retryAt   time.Time
}

// A witnessRequest is a sequencer's request to check the key at an origin.
type witnessRequest struct {
	to        env.PeerID
	publisher ed25519.PublicKey
	since     time.Time
}

// HeadFetched handles the head of a document that this node has just fetched from its origin. secure means that
// nobody on the way could have changed the document.
func (f *FeedTree) HeadFetched(key overlay.ID, head *feed.Head, secure bool) {
	c := f.feeds[key]
	if c != nil && c.leader != nil && c.leader.ready {
		c.leader.head = head // also of a feed without items, which a publisher may still send
	}
	publisher, ok := head.Publisher()
	if !ok || !secure {
		return // a document that names no key withdraws none: the site may have been rebuilt
	}
	f.answerWitnessRequest(key, publisher)
	if c != nil && c.subscribed {
		f.keySeen(c, publisher)
	}
	if c == nil || c.leader == nil || !c.leader.ready {
		return
	}
	l, now := c.leader, f.clock.Now()
	switch pin := l.pin; {
	case pin == nil:
		f.setPin(c, &difference.Pin{
			Key: publisher.Key, Next: publisher.Next, Since: now.UTC().Truncate(time.Millisecond), Beat: publisher.Beat,
			Certificate: publisher.Certificate, Fingerprint: publisher.Fingerprint,
		})
	case bytes.Equal(pin.Key, publisher.Key):
		l.keyChange = nil
		next := *pin
		next.Beat, next.Certificate, next.Fingerprint = publisher.Beat, publisher.Certificate, publisher.Fingerprint
		if next.Next == (feed.Hash{}) { // a next key that was named before stays, because a thief of the key would name another
			next.Next = publisher.Next
		}
		if next.Beat != pin.Beat || next.Certificate != pin.Certificate || next.Fingerprint != pin.Fingerprint || next.Next != pin.Next {
			f.setPin(c, &next)
		}
	case pin.IsFormer(publisher.Key) && now.Sub(pin.Since) < originLag:
		// A mirror or cache of the origin is behind.
	case pin.Next != (feed.Hash{}) && difference.KeyHash(publisher.Key) == pin.Next:
		f.setPin(c, pin.Rotate(publisher.Key, publisher.Next, now, nil))
	default:
		if l.keyChange == nil || !bytes.Equal(l.keyChange.publisher.Key, publisher.Key) {
			l.keyChange = &keyChange{publisher: publisher, witnesses: map[env.PeerID][]byte{}}
			f.log.Info("web server names another key", "url", c.url, "pinned", difference.Fingerprint(pin.Key), "found", difference.Fingerprint(publisher.Key))
			own := difference.Attest(f.signer, c.url, publisher.Key, now)
			l.keyChange.witnesses[f.signer.PeerID()] = own.Raw
			f.continueKeyChange(c, now)
		}
	}
}

// setPin makes p the feed's pin and appends it to the log.
func (f *FeedTree) setPin(c *channel, p *difference.Pin) {
	f.appendAccepted(c) // their keys and numbers belong to the pin before
	p.Since = p.Since.UTC().Truncate(time.Millisecond)
	c.leader.pin, c.leader.keyChange = p, nil
	f.stats.Pinned++
	if !f.Append(c.key, difference.Delta{Pin: p}, nil, func(bool) {}) {
		f.log.Warn("publisher's key could not be added to the log yet", "url", c.url) // the next entry brings it
	}
}

// fetchForKey fetches the document of a feed to learn its publisher's key, because a node claims to be the
// publisher. Anybody can claim that, so the document is fetched at most once in a sixth of a polling interval.
func (f *FeedTree) fetchForKey(c *channel) {
	l, now := c.leader, f.clock.Now()
	if !l.keyFetchedAt.IsZero() && now.Sub(l.keyFetchedAt) < f.cfg.PollInterval/6 {
		return
	}
	l.keyFetchedAt = now
	f.app.Fetch(c.key, c.url)
}

// witnessesNeeded returns how many of a feed's owners must have seen a new key.
func witnessesNeeded(owners int) int { return min(requiredWitnesses, owners/2+1) }

// continueKeyChange asks the owners that have not answered for witnesses, and adopts the new key when there are
// enough. After keyChangeTries requests it gives up.
func (f *FeedTree) continueKeyChange(c *channel, now time.Time) {
	l := c.leader
	if l.keyChange == nil || now.Before(l.keyChange.retryAt) {
		return
	}
	v, ok := f.owners.View(c.key)
	if !ok || v.Epoch == nil {
		return
	}
	var witnesses [][]byte
	for _, id := range v.Epoch.Owners { // in a fixed order
		if w := l.keyChange.witnesses[id]; w != nil && len(witnesses) < difference.MaxWitnesses {
			witnesses = append(witnesses, w)
		}
	}
	if len(witnesses) >= witnessesNeeded(len(v.Epoch.Owners)) {
		p := l.pin.Rotate(l.keyChange.publisher.Key, l.keyChange.publisher.Next, now, witnesses)
		p.Beat, p.Certificate, p.Fingerprint = l.keyChange.publisher.Beat, l.keyChange.publisher.Certificate, l.keyChange.publisher.Fingerprint
		f.setPin(c, p)
		return
	}
	if l.keyChange.tries++; l.keyChange.tries > keyChangeTries {
		l.keyChange = nil // the next document that names the key starts again
		return
	}
	l.keyChange.retryAt = now.Add(keyChangePause)
	f.cal.Add(l.keyChange.retryAt, task{kind: taskKeyChange, key: c.key})
	for _, id := range v.Epoch.Owners {
		if l.keyChange.witnesses[id] == nil {
			to := env.Peer{ID: id}
			if known := f.node.Contact(id); known != nil {
				to = known.Peer
			}
			f.send(to, &feedtreepb.Message{Body: &feedtreepb.Message_WitnessRequest{WitnessRequest: &feedtreepb.WitnessRequest{Key: c.key[:], Publisher: l.keyChange.publisher.Key}}})
		}
	}
}

// onWitnessRequest fetches the document of a feed that this node owns, at its sequencer's request.
func (f *FeedTree) onWitnessRequest(from env.PeerID, m *feedtreepb.WitnessRequest) {
	key, now := overlay.ID(m.Key), f.clock.Now()
	v, ok := f.owners.View(key)
	if !ok || !v.Owns || v.Epoch == nil || v.Epoch.Sequencer != from {
		return
	}
	for other, l := range f.witnessRequests {
		if now.Sub(l.since) > witnessTimeout {
			delete(f.witnessRequests, other)
		}
	}
	if f.witnessRequests[key] != nil || len(f.witnessRequests) >= maxWitnessRequests {
		return
	}
	f.witnessRequests[key] = &witnessRequest{from, m.Publisher, now}
	f.app.Fetch(key, v.URL)
}

// answerWitnessRequest answers a request if the origin names the key in question.
func (f *FeedTree) answerWitnessRequest(key overlay.ID, publisher feed.Publisher) {
	l := f.witnessRequests[key]
	if l == nil {
		return
	}
	delete(f.witnessRequests, key)
	v, ok := f.owners.View(key)
	if !ok || !bytes.Equal(publisher.Key, l.publisher) {
		return
	}
	f.stats.Witnessed++
	w := difference.Attest(f.signer, v.URL, publisher.Key, f.clock.Now())
	f.send(env.Peer{ID: l.to}, &feedtreepb.Message{Body: &feedtreepb.Message_WitnessReply{WitnessReply: &feedtreepb.WitnessReply{Witness: w.Raw}}})
}

// onWitnessReply handles a witness of an owner.
func (f *FeedTree) onWitnessReply(from env.PeerID, m *feedtreepb.WitnessReply) error {
	w, err := difference.OpenWitness(f.verify, m.Witness)
	if err != nil {
		return err
	}
	c := f.feeds[overlay.Key(f.node.Network(), w.URL)]
	if c == nil || c.leader == nil || c.leader.keyChange == nil || wire.PeerIDOf(w.Owner) != from || !bytes.Equal(w.Key, c.leader.keyChange.publisher.Key) {
		return nil
	}
	if v, ok := f.owners.View(c.key); ok && v.Epoch != nil && slices.Contains(v.Epoch.Owners, from) {
		c.leader.keyChange.witnesses[from] = w.Raw
		c.leader.keyChange.retryAt = time.Time{}
		f.continueKeyChange(c, f.clock.Now())
	}
	return nil
}

// considerPin trusts a pin of the log if the trusted pin leads to it. Any other key is doubted, however many owners
// have witnessed it, until this node has seen it at the origin itself.
func (f *FeedTree) considerPin(c *channel, p *difference.Pin) {
	old := c.trust
	switch {
	case old == nil, p.Follows(old), bytes.Equal(p.Key, old.Key):
	case old.IsFormer(p.Key):
		return // an earlier pin: a log is read again after each restart
	default:
		if c.doubt == nil || !bytes.Equal(c.doubt.Key, p.Key) {
			f.stats.Doubted++
			f.log.Warn("publisher's key changed without confirmation by the old key", "url", c.url, "from", difference.Fingerprint(old.Key), "to", difference.Fingerprint(p.Key))
			defer f.trustChanged(c)
		}
		c.doubt = p
		f.scheduleKeyCheck(c)
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
	c.doubt, c.keyCheck.objectors = nil, nil
	if f.hasUncheckedNext(c, &trust, p) {
		f.scheduleKeyCheck(c)
	}
	if old != nil && bytes.Equal(old.Append(), trust.Append()) {
		if doubted {
			f.trustChanged(c)
		}
		return
	}
	c.trust = &trust
	f.storeTrust(c)
	f.trustChanged(c)
}

// trustChanged reports that the provenance of a feed's items has changed.
func (f *FeedTree) trustChanged(c *channel) {
	c.window.version++
	f.app.StateChanged(c.key, c.state, f.clock.Now())
}

// storeTrust stores the trusted pin with the subscription. While a change of the subscription is being written,
// storeTrust waits for its result.
func (f *FeedTree) storeTrust(c *channel) {
	if c.trustUnstored = c.pendingWrites > 0; c.trustUnstored || !c.subscribed {
		return
	}
	f.store.Commit([]env.Op{{Key: subscriptionKey(c.key), Value: marshal(c.record())}}, func(err error) {
		if err != nil {
			f.log.Warn("publisher's key could not be stored", "url", c.url, "err", err) // the next life of the node decides on the pin again
		}
	})
}

// commitSubscription writes a new, changed or ended subscription to the disk; c is nil if the node does not know
// the feed yet.
func (f *FeedTree) commitSubscription(c *channel, op env.Op, then func(error)) {
	if c != nil {
		c.pendingWrites++
	}
	f.store.Commit([]env.Op{op}, func(err error) {
		then(err)
		if c == nil {
			return
		}
		if c.pendingWrites--; c.pendingWrites == 0 && c.trustUnstored {
			f.storeTrust(c)
		}
	})
}

// attested reports whether enough owners of a feed have signed that they saw a key at its origin.
func (f *FeedTree) attested(c *channel, p *difference.Pin) bool {
	v, ok := f.owners.View(c.key)
	if !ok || v.Epoch == nil {
		return false
	}
	var witnesses []env.PeerID
	for _, raw := range p.Witnesses {
		w, err := difference.OpenWitness(f.verify, raw)
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
func (f *FeedTree) Trust(key overlay.ID) bool {
	c := f.feeds[key]
	if c == nil || c.doubt == nil {
		return false
	}
	p := c.doubt
	c.trust = nil
	f.considerPin(c, p)
	return true
}

// The provenance of an item says what vouches for it.
const (
	ByPublisher = "publisher"   // the item's envelope is signed by the feed's publisher
	Single      = "single"      // a node found it at the origin
	Revoked     = "revoked"     // signed by a key that the origin has withdrawn since
	Unconfirmed = "unconfirmed" // signed by a key that only the log attributes to the feed
)

// provenance returns what vouches for an item that came in publication p, nil if it is unsigned.
func provenance(p *difference.Publication, trust *difference.Pin) string {
	switch {
	case p == nil:
		return Single
	case trust.Valid(p.Key):
		return ByPublisher
	case trust.Revoked(p.Key):
		return Revoked
	}
	return Unconfirmed
}
