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

// Whose a feed is. The origin's document names the key once; from then on it is the log that
// says so, in pins, and who follows it remembers. A key that was named before may follow by
// itself. Any other has to be seen at the origin, over HTTPS or at a private address, by some owners of
// the feed.

const (
	// witnesses is how many owners have to see at the origin that a key was taken back: fewer
	// where these are a quorum.
	requiredWitnesses = 3
	// claimAgain is waited for their answers before they are asked again, claimTries is how
	// often they are.
	keyChangePause = 10 * time.Second
	keyChangeTries = 6
	// maxLooks is how many origins a node looks at for others at a time; lookTime is how
	// long it waits for one.
	maxWitnessRequests = 64
	witnessTimeout     = time.Minute
	// lagTime is how long a replica of an origin may name a former key. An origin that names it
	// later takes the present key back as any other: the owners of then may have lied.
	originLag = time.Hour
)

// A claim is a key that the origin names in place of the one that is pinned.
type keyChange struct {
	publisher feed.Publisher
	witnesses map[env.PeerID][]byte // who has seen it, and their word
	tries     int
	retryAt   time.Time
}

// A look is a sequencer's question about an origin.
type witnessRequest struct {
	to        env.PeerID
	publisher ed25519.PublicKey
	since     time.Time
}

// Saw takes the head of a document as this node has just got it from its origin; secure says
// that nobody on the way could have changed it.
func (f *FeedTree) HeadFetched(key overlay.ID, head *feed.Head, secure bool) {
	c := f.feeds[key]
	if c != nil && c.leader != nil && c.leader.ready {
		c.leader.head = head // of a feed without items, too, which are yet to be published
	}
	publisher, ok := head.Publisher()
	if !ok || !secure {
		return // without a word nobody's key is taken back: a site may be made anew
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
		if next.Next == (feed.Hash{}) { // one that was named stays: a thief would name another
			next.Next = publisher.Next
		}
		if next.Beat != pin.Beat || next.Certificate != pin.Certificate || next.Fingerprint != pin.Fingerprint || next.Next != pin.Next {
			f.setPin(c, &next)
		}
	case pin.Had(publisher.Key) && now.Sub(pin.Since) < originLag:
		// A replica that lags.
	case pin.Next != (feed.Hash{}) && difference.KeyHash(publisher.Key) == pin.Next:
		f.setPin(c, pin.Change(publisher.Key, publisher.Next, now, nil))
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

// repin says whose the feed is from now on.
func (f *FeedTree) setPin(c *channel, p *difference.Pin) {
	f.appendAccepted(c) // their keys and numbers are those of the pin before
	p.Since = p.Since.UTC().Truncate(time.Millisecond)
	c.leader.pin, c.leader.keyChange = p, nil
	f.stats.Pinned++
	if !f.Append(c.key, difference.Delta{Pin: p}, nil, func(bool) {}) {
		f.log.Warn("publisher's key could not be added to the log yet", "url", c.url) // it goes with the next entry
	}
}

// seek asks the origin whose the feed is, because somebody says that it is his. Anybody can say
// so: it is asked seldom.
func (f *FeedTree) fetchForKey(c *channel) {
	l, now := c.leader, f.clock.Now()
	if !l.keyFetchedAt.IsZero() && now.Sub(l.keyFetchedAt) < f.cfg.PollInterval/6 {
		return
	}
	l.keyFetchedAt = now
	f.app.Fetch(c.key, c.url)
}

// needed is how many of a feed's owners have to have seen a key.
func witnessesNeeded(owners int) int { return min(requiredWitnesses, owners/2+1) }

// claimOn asks the owners who have not answered to look at the origin, and takes the key when
// enough of them have seen it.
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
	for _, id := range v.Epoch.Owners { // in their order
		if w := l.keyChange.witnesses[id]; w != nil && len(witnesses) < difference.MaxWitnesses {
			witnesses = append(witnesses, w)
		}
	}
	if len(witnesses) >= witnessesNeeded(len(v.Epoch.Owners)) {
		p := l.pin.Change(l.keyChange.publisher.Key, l.keyChange.publisher.Next, now, witnesses)
		p.Beat, p.Certificate, p.Fingerprint = l.keyChange.publisher.Beat, l.keyChange.publisher.Certificate, l.keyChange.publisher.Fingerprint
		f.setPin(c, p)
		return
	}
	if l.keyChange.tries++; l.keyChange.tries > keyChangeTries {
		l.keyChange = nil // the next document begins it anew
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

// onLook looks at the origin of a feed, of which this node is an owner, for its sequencer.
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

// testify answers a look.
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

// onLooked takes what an owner has seen.
func (f *FeedTree) onWitnessReply(from env.PeerID, m *feedtreepb.WitnessReply) error {
	w, err := difference.OpenWitness(f.verify, m.Witness)
	if err != nil {
		return err
	}
	c := f.feeds[overlay.Key(f.node.Network(), w.URL)]
	if c == nil || c.leader == nil || c.leader.keyChange == nil || wire.PeerIDOf(w.By) != from || !bytes.Equal(w.Key, c.leader.keyChange.publisher.Key) {
		return nil
	}
	if v, ok := f.owners.View(c.key); ok && v.Epoch != nil && slices.Contains(v.Epoch.Owners, from) {
		c.leader.keyChange.witnesses[from] = w.Raw
		c.leader.keyChange.retryAt = time.Time{}
		f.continueKeyChange(c, f.clock.Now())
	}
	return nil
}

// believe takes the log's word on whose a feed is if it follows on what this node believes. Any other key is
// doubted, whoever has seen it at the origin, until this node has seen it there itself.
func (f *FeedTree) considerPin(c *channel, p *difference.Pin) {
	old := c.trust
	switch {
	case old == nil, p.Follows(old), bytes.Equal(p.Key, old.Key):
	case old.Had(p.Key):
		return // of before: a log is read again in each life
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
		trust = *p.Onto(old)
	}
	if old == nil || !bytes.Equal(old.Key, p.Key) {
		trust.Witnesses = nil // it is believed for another reason
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

// believed tells that what is shown of a feed is another, as it is somebody else's.
func (f *FeedTree) trustChanged(c *channel) {
	c.window.version++
	f.app.StateChanged(c.key, c.state, f.clock.Now())
}

// keep writes down what is believed of a feed, beside its subscription. While that changes it waits
// until it is known what has become of it.
func (f *FeedTree) storeTrust(c *channel) {
	if c.trustUnstored = c.pendingWrites > 0; c.trustUnstored || !c.subscribed {
		return
	}
	f.store.Commit([]env.Op{{Key: subscriptionKey(c.key), Value: marshal(c.record())}}, func(err error) {
		if err != nil {
			f.log.Warn("publisher's key could not be stored", "url", c.url, "err", err) // it is believed anew in the next life
		}
	})
}

// change writes down that a subscription begins, ends or is another; c is nil if there is no such
// feed here yet.
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

// attested says whether enough owners of a feed have seen a key at its origin.
func (f *FeedTree) attested(c *channel, p *difference.Pin) bool {
	v, ok := f.owners.View(c.key)
	if !ok || v.Epoch == nil {
		return false
	}
	var by []env.PeerID
	for _, raw := range p.Witnesses {
		w, err := difference.OpenWitness(f.verify, raw)
		if err != nil || w.URL != c.url || !bytes.Equal(w.Key, p.Key) {
			continue
		}
		if id := wire.PeerIDOf(w.By); slices.Contains(v.Epoch.Owners, id) && !slices.Contains(by, id) {
			by = append(by, id)
		}
	}
	return len(by) >= witnessesNeeded(len(v.Epoch.Owners))
}

// Trust believes what the log of a feed says of whose it is, because a person has said so.
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

// What vouches for an item.
const (
	ByPublisher = "publisher"   // it came in an envelope of the feed's publisher
	Single      = "single"      // somebody has found it at the origin
	Revoked     = "revoked"     // it is signed by a key that the origin has taken back since
	Unconfirmed = "unconfirmed" // it is signed by a key that its log says is the feed's, and nobody else
)

// provenance is what vouches for an item.
func provenance(p *difference.Publication, trust *difference.Pin) string {
	switch {
	case p == nil:
		return Single
	case trust.Good(p.Key):
		return ByPublisher
	case trust.Revoked(p.Key):
		return Revoked
	}
	return Unconfirmed
}
