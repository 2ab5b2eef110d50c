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

// This file determines the publisher's key of a feed. The origin's document names the first key. From then on the
// log names it, in pins, and each follower remembers the pin that it trusts. A key that was named in advance by the
// one before may replace it at once. Any other new key must be seen at the origin, over HTTPS or at a private
// address, by several owners of the feed.

const (
	// keyChangePause is the time between two requests for witnesses to owners that do not answer, and
	// keyChangeTries bounds the requests.
	keyChangePause = 10 * time.Second
	keyChangeTries = 6
)

// A keyChange is a key that the origin names in place of the pinned one, until enough owners have witnessed it.
type keyChange struct {
	publisher feed.Publisher
	witnesses map[env.PeerID][]byte // signed witnesses by owner
	tries     int
	retryAt   time.Time
}

// keySeen handles the publisher that this node has seen at the origin of a feed that it leads.
func (ac *acceptor) keySeen(c *channel, publisher feed.Publisher) {
	l, now := c.leader, ac.clock.Now()
	switch pin := l.pin; {
	case pin == nil:
		ac.setPin(c, described(difference.Pin{Key: publisher.Key, Next: publisher.Next, Since: now}, publisher))
	case bytes.Equal(pin.Key, publisher.Key):
		l.keyChange = nil
		next := described(*pin, publisher)
		if next.Next == (feed.Hash{}) { // a next key that was named before stays, because a thief of the key would name another
			next.Next = publisher.Next
		}
		if next.Beat != pin.Beat || next.Certificate != pin.Certificate || next.Fingerprint != pin.Fingerprint || next.Next != pin.Next {
			ac.setPin(c, next)
		}
	case pin.IsFormer(publisher.Key) && now.Sub(pin.Since) < originLag:
		// A mirror or cache of the origin is behind.
	case pin.Next != (feed.Hash{}) && difference.KeyHash(publisher.Key) == pin.Next:
		ac.setPin(c, pin.Rotate(publisher.Key, publisher.Next, now, nil))
	case l.keyChange == nil || !bytes.Equal(l.keyChange.publisher.Key, publisher.Key):
		ac.log.Info("web server names another key", "url", c.url, "pinned", difference.Fingerprint(pin.Key), "found", difference.Fingerprint(publisher.Key))
		own := difference.Attest(ac.signer, c.url, publisher.Key, now)
		l.keyChange = &keyChange{publisher: publisher, witnesses: map[env.PeerID][]byte{ac.signer.PeerID(): own.Raw}}
		ac.continueKeyChange(c)
	}
}

// objected handles an objection of another node to the key of a feed that this node leads.
func (ac *acceptor) objected(c *channel, w *difference.Witness) {
	if l := c.leader; l != nil && l.ready && l.pin != nil && !bytes.Equal(l.pin.Key, w.Key) {
		ac.keyQuestions.askNow(c)
	}
}

// described returns a pin with what the origin says about its publisher besides the keys.
func described(pin difference.Pin, p feed.Publisher) *difference.Pin {
	pin.Beat, pin.Certificate, pin.Fingerprint = p.Beat, p.Certificate, p.Fingerprint
	return &pin
}

// setPin makes p the feed's pin and appends it to the log.
func (ac *acceptor) setPin(c *channel, p *difference.Pin) {
	ac.appendAccepted(c) // their keys and numbers belong to the pin before
	p.Since = p.Since.UTC().Truncate(time.Millisecond)
	c.leader.pin, c.leader.keyChange = p, nil
	ac.stats.Pinned++
	if !ac.entries.append(c, difference.Delta{Pin: p}, func(bool) {}) {
		ac.log.Warn("publisher's key could not be added to the log yet", "url", c.url) // the next entry brings it
	}
}

// continueKeyChange asks the owners that have not answered for witnesses, and adopts the new key when there are
// enough. After keyChangeTries requests it gives up.
func (ac *acceptor) continueKeyChange(c *channel) {
	l, now := c.leader, ac.clock.Now()
	if l == nil || l.keyChange == nil || now.Before(l.keyChange.retryAt) {
		return
	}
	v, ok := ac.owners.View(c.key)
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
		p := l.keyChange.publisher
		ac.setPin(c, described(*l.pin.Rotate(p.Key, p.Next, now, witnesses), p))
		return
	}
	if l.keyChange.tries++; l.keyChange.tries > keyChangeTries {
		l.keyChange = nil // the next document that names the key starts again
		return
	}
	l.keyChange.retryAt = now.Add(keyChangePause)
	ac.cal.add(l.keyChange.retryAt, c.key)
	for _, id := range v.Epoch.Owners {
		if l.keyChange.witnesses[id] == nil {
			ac.send(ac.peer(id), &feedtreepb.Message{Body: &feedtreepb.Message_WitnessRequest{WitnessRequest: &feedtreepb.WitnessRequest{Key: c.key[:], Publisher: l.keyChange.publisher.Key}}})
		}
	}
}

// onWitnessReply handles a witness of an owner.
func (ac *acceptor) onWitnessReply(from env.PeerID, m *feedtreepb.WitnessReply) error {
	w, err := difference.OpenWitness(ac.verify, m.Witness)
	if err != nil {
		return err
	}
	c := ac.feeds[overlay.Key(ac.node.Network(), w.URL)]
	if c == nil || c.leader == nil || c.leader.keyChange == nil || wire.PeerIDOf(w.Owner) != from || !bytes.Equal(w.Key, c.leader.keyChange.publisher.Key) {
		return nil
	}
	if v, ok := ac.owners.View(c.key); ok && v.Epoch != nil && slices.Contains(v.Epoch.Owners, from) {
		c.leader.keyChange.witnesses[from] = w.Raw
		c.leader.keyChange.retryAt = time.Time{}
		ac.continueKeyChange(c)
	}
	return nil
}
