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
	witnesses = 3
	// claimAgain is waited for their answers before they are asked again, claimTries is how
	// often they are.
	claimAgain = 10 * time.Second
	claimTries = 6
	// maxLooks is how many origins a node looks at for others at a time; lookTime is how
	// long it waits for one.
	maxLooks = 64
	lookTime = time.Minute
	// lagTime is how long a replica of an origin may name a former key. An origin that names it
	// later takes the present key back as any other: the owners of then may have lied.
	lagTime = time.Hour
)

// A claim is a key that the origin names in place of the one that is pinned.
type claim struct {
	said  feed.Publisher
	by    map[env.PeerID][]byte // who has seen it, and their word
	tries int
	again time.Time
}

// A look is a sequencer's question about an origin.
type look struct {
	to    env.PeerID
	asked ed25519.PublicKey
	since time.Time
}

// Saw takes the head of a document as this node has just got it from its origin; secure says
// that nobody on the way could have changed it.
func (f *FeedTree) Saw(key overlay.ID, head *feed.Head, secure bool) {
	c := f.feeds[key]
	if c != nil && c.lead != nil && c.lead.ready {
		c.lead.head = head // of a feed without items, too, which are yet to be published
	}
	said, ok := head.Publisher()
	if !ok || !secure {
		return // without a word nobody's key is taken back: a site may be made anew
	}
	f.testify(key, said)
	if c != nil && c.subscribed {
		f.sighted(c, said)
	}
	if c == nil || c.lead == nil || !c.lead.ready {
		return
	}
	l, now := c.lead, f.clock.Now()
	switch pin := l.pin; {
	case pin == nil:
		f.repin(c, &difference.Pin{
			Key: said.Key, Next: said.Next, Since: now.UTC().Truncate(time.Millisecond), Beat: said.Beat,
			Certificate: said.Certificate, Fingerprint: said.Fingerprint,
		})
	case bytes.Equal(pin.Key, said.Key):
		l.claim = nil
		next := *pin
		next.Beat, next.Certificate, next.Fingerprint = said.Beat, said.Certificate, said.Fingerprint
		if next.Next == (feed.Hash{}) { // one that was named stays: a thief would name another
			next.Next = said.Next
		}
		if next.Beat != pin.Beat || next.Certificate != pin.Certificate || next.Fingerprint != pin.Fingerprint || next.Next != pin.Next {
			f.repin(c, &next)
		}
	case pin.Had(said.Key) && now.Sub(pin.Since) < lagTime:
		// A replica that lags.
	case pin.Next != (feed.Hash{}) && difference.KeyHash(said.Key) == pin.Next:
		f.repin(c, pin.Change(said.Key, said.Next, now, nil))
	default:
		if l.claim == nil || !bytes.Equal(l.claim.said.Key, said.Key) {
			l.claim = &claim{said: said, by: map[env.PeerID][]byte{}}
			f.log.Info("web server names another key", "url", c.url, "pinned", difference.Fingerprint(pin.Key), "found", difference.Fingerprint(said.Key))
			own := difference.Attest(f.signer, c.url, said.Key, now)
			l.claim.by[f.signer.PeerID()] = own.Raw
			f.claimOn(c, now)
		}
	}
}

// repin says whose the feed is from now on.
func (f *FeedTree) repin(c *channel, p *difference.Pin) {
	f.appendAccepted(c) // their keys and numbers are those of the pin before
	p.Since = p.Since.UTC().Truncate(time.Millisecond)
	c.lead.pin, c.lead.claim = p, nil
	f.stats.Pinned++
	if !f.Append(c.key, difference.Delta{Pin: p}, nil, func(bool) {}) {
		f.log.Warn("publisher's key could not be added to the log yet", "url", c.url) // it goes with the next entry
	}
}

// seek asks the origin whose the feed is, because somebody says that it is his. Anybody can say
// so: it is asked seldom.
func (f *FeedTree) seek(c *channel) {
	l, now := c.lead, f.clock.Now()
	if !l.looked.IsZero() && now.Sub(l.looked) < f.cfg.PollInterval/6 {
		return
	}
	l.looked = now
	f.app.Fetch(c.key, c.url)
}

// needed is how many of a feed's owners have to have seen a key.
func needed(owners int) int { return min(witnesses, owners/2+1) }

// claimOn asks the owners who have not answered to look at the origin, and takes the key when
// enough of them have seen it.
func (f *FeedTree) claimOn(c *channel, now time.Time) {
	l := c.lead
	if l.claim == nil || now.Before(l.claim.again) {
		return
	}
	v, ok := f.owners.View(c.key)
	if !ok || v.Epoch == nil {
		return
	}
	var words [][]byte
	for _, id := range v.Epoch.Owners { // in their order
		if w := l.claim.by[id]; w != nil && len(words) < difference.MaxWitnesses {
			words = append(words, w)
		}
	}
	if len(words) >= needed(len(v.Epoch.Owners)) {
		p := l.pin.Change(l.claim.said.Key, l.claim.said.Next, now, words)
		p.Beat, p.Certificate, p.Fingerprint = l.claim.said.Beat, l.claim.said.Certificate, l.claim.said.Fingerprint
		f.repin(c, p)
		return
	}
	if l.claim.tries++; l.claim.tries > claimTries {
		l.claim = nil // the next document begins it anew
		return
	}
	l.claim.again = now.Add(claimAgain)
	f.cal.Add(l.claim.again, task{kind: taskClaim, key: c.key})
	for _, id := range v.Epoch.Owners {
		if l.claim.by[id] == nil {
			to := env.Peer{ID: id}
			if known := f.node.Contact(id); known != nil {
				to = known.Peer
			}
			f.send(to, &feedtreepb.Message{Body: &feedtreepb.Message_Look{Look: &feedtreepb.Look{Key: c.key[:], Publisher: l.claim.said.Key}}})
		}
	}
}

// onLook looks at the origin of a feed, of which this node is an owner, for its sequencer.
func (f *FeedTree) onLook(from env.PeerID, m *feedtreepb.Look) {
	key, now := overlay.ID(m.Key), f.clock.Now()
	v, ok := f.owners.View(key)
	if !ok || !v.Owns || v.Epoch == nil || v.Epoch.Sequencer != from {
		return
	}
	for other, l := range f.looks {
		if now.Sub(l.since) > lookTime {
			delete(f.looks, other)
		}
	}
	if f.looks[key] != nil || len(f.looks) >= maxLooks {
		return
	}
	f.looks[key] = &look{from, m.Publisher, now}
	f.app.Fetch(key, v.URL)
}

// testify answers a look.
func (f *FeedTree) testify(key overlay.ID, said feed.Publisher) {
	l := f.looks[key]
	if l == nil {
		return
	}
	delete(f.looks, key)
	v, ok := f.owners.View(key)
	if !ok || !bytes.Equal(said.Key, l.asked) {
		return
	}
	f.stats.Witnessed++
	w := difference.Attest(f.signer, v.URL, said.Key, f.clock.Now())
	f.send(env.Peer{ID: l.to}, &feedtreepb.Message{Body: &feedtreepb.Message_Looked{Looked: &feedtreepb.Looked{Witness: w.Raw}}})
}

// onLooked takes what an owner has seen.
func (f *FeedTree) onLooked(from env.PeerID, m *feedtreepb.Looked) error {
	w, err := difference.OpenWitness(f.verify, m.Witness)
	if err != nil {
		return err
	}
	c := f.feeds[overlay.Key(f.node.Network(), w.URL)]
	if c == nil || c.lead == nil || c.lead.claim == nil || wire.PeerIDOf(w.By) != from || !bytes.Equal(w.Key, c.lead.claim.said.Key) {
		return nil
	}
	if v, ok := f.owners.View(c.key); ok && v.Epoch != nil && slices.Contains(v.Epoch.Owners, from) {
		c.lead.claim.by[from] = w.Raw
		c.lead.claim.again = time.Time{}
		f.claimOn(c, f.clock.Now())
	}
	return nil
}

// believe takes the log's word on whose a feed is if it follows on what this node believes. Any other key is
// doubted, whoever has seen it at the origin, until this node has seen it there itself.
func (f *FeedTree) believe(c *channel, p *difference.Pin) {
	old := c.trust
	switch {
	case old == nil, p.Follows(old), bytes.Equal(p.Key, old.Key):
	case old.Had(p.Key):
		return // of before: a log is read again in each life
	default:
		if c.doubt == nil || !bytes.Equal(c.doubt.Key, p.Key) {
			f.stats.Doubted++
			f.log.Warn("publisher's key changed without confirmation by the old key", "url", c.url, "from", difference.Fingerprint(old.Key), "to", difference.Fingerprint(p.Key))
			defer f.believed(c)
		}
		c.doubt = p
		f.sightSoon(c)
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
	c.doubt, c.sight.objectors = nil, nil
	if f.mayName(c, &trust, p) {
		f.sightSoon(c)
	}
	if old != nil && bytes.Equal(old.Append(), trust.Append()) {
		if doubted {
			f.believed(c)
		}
		return
	}
	c.trust = &trust
	f.keep(c)
	f.believed(c)
}

// believed tells that what is shown of a feed is another, as it is somebody else's.
func (f *FeedTree) believed(c *channel) {
	c.window.version++
	f.app.Told(c.key, c.state, f.clock.Now())
}

// keep writes down what is believed of a feed, beside its subscription. While that changes it waits
// until it is known what has become of it.
func (f *FeedTree) keep(c *channel) {
	if c.unkept = c.writing > 0; c.unkept || !c.subscribed {
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
func (f *FeedTree) change(c *channel, op env.Op, then func(error)) {
	if c != nil {
		c.writing++
	}
	f.store.Commit([]env.Op{op}, func(err error) {
		then(err)
		if c == nil {
			return
		}
		if c.writing--; c.writing == 0 && c.unkept {
			f.keep(c)
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
	return len(by) >= needed(len(v.Epoch.Owners))
}

// Trust believes what the log of a feed says of whose it is, because a person has said so.
func (f *FeedTree) Trust(key overlay.ID) bool {
	c := f.feeds[key]
	if c == nil || c.doubt == nil {
		return false
	}
	p := c.doubt
	c.trust = nil
	f.believe(c, p)
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
