package feedtree

import (
	"errors"
	"fmt"
	"time"

	"tidings/difference"
	"tidings/feedtree/feedtreepb"
	"tidings/internal/env"
	"tidings/internal/feed"
	"tidings/internal/wire"
	"tidings/overlay"
)

const (
	// pushRetry is the time before a publication is sent again. It is doubled each time, up to maxPushRetry. After
	// pushTimeout the node gives up; in that time the death of a sequencer is noticed and another one takes over.
	// An answer takes a round trip to a quorum of owners.
	pushRetry    = time.Second
	maxPushRetry = 2 * time.Second
	pushTimeout  = time.Minute
	// maxPushes bounds the publications of one feed that wait for an answer, and maxAllPushes those of all feeds,
	// so that a feed without a sequencer does not block the others. At the limit Publish fails with ErrNotAccepted,
	// and the publisher sends the publication again later.
	maxPushes    = 64
	maxAllPushes = 512
)

// These errors say why a publication was not committed. A refused publication needs its publisher's attention; one
// that was not accepted should be pushed again.
var (
	ErrNotFollowed = errors.New("this node does not follow the feed; subscribe to it first")
	ErrNotAccepted = errors.New("not accepted")
	ErrRefused     = errors.New("refused")
)

// A push is a publication on its way to the sequencer.
type push struct {
	key         overlay.ID
	publication *difference.Publication
	tries       int
	retryAt     time.Time // next attempt
	deadline    time.Time
	// reason is the sequencer's reason for not accepting the publication yet. unknownKeyTry is the number of the
	// last attempt that was answered with an unknown key; if it is the last attempt at all, the push ends with
	// ErrRefused.
	reason        string
	unknownKeyTry int
	waiters       []func(error)
}

// A pusher sends publications of this node to the sequencers of their feeds until a quorum of the owners stores them.
// The node also follows the feed and sees a publication in its own log, so a lost answer does no harm.
type pusher struct {
	*common
	pushes map[feed.Hash]*push // publications that no sequencer has committed yet, by their hash
	cal    plans
	accept func(c *channel, all []*difference.Publication, to env.Peer) // accepts publications of a feed that this node leads
}

func newPusher(m *common) *pusher {
	pu := &pusher{common: m, pushes: map[feed.Hash]*push{}}
	pu.cal = m.newPlans(pu.retry)
	return pu
}

// Publish brings a publication into its feed, which this node must follow. done is called when a quorum of the
// feed's owners stores the publication, or with the reason why not.
func (pu *pusher) Publish(envelope []byte, done func(error)) {
	p, err := difference.OpenPublication(envelope)
	if err != nil {
		pu.refusals.add(Refusal{Why: err.Error()})
		done(fmt.Errorf("publish: %w", err))
		return
	}
	pu.PublishAll([]*difference.Publication{p}, func(errs []error) { done(errs[0]) })
}

// PublishAll is Publish for publications of one feed whose envelopes were opened before, in the order of their numbers.
// They travel together. done gets an error for each.
func (pu *pusher) PublishAll(all []*difference.Publication, done func([]error)) {
	errs, open := make([]error, len(all)), len(all)
	var fresh []*push
	for i, p := range all {
		say := func(err error) {
			if err != nil {
				errs[i] = fmt.Errorf("publish number %d in %s: %w", p.Seq, p.URL, err)
			}
			if open--; open == 0 {
				done(errs)
			}
		}
		if added := pu.add(p, say); added != nil {
			fresh = append(fresh, added)
		}
	}
	pu.send(fresh)
}

// add begins a push. It returns nil if there is nothing to send.
func (pu *pusher) add(p *difference.Publication, say func(error)) *push {
	key := overlay.Key(pu.node.Network(), p.URL)
	c := pu.feeds[key]
	if c == nil || !c.subscribed {
		say(ErrNotFollowed)
		return nil
	}
	pending := pu.pushes[p.Hash]
	switch {
	case pending != nil && len(pending.waiters) < maxPushes: // the daemon and a command may push the same publication
		pending.waiters = append(pending.waiters, say)
		return nil
	case pending != nil || pu.tooManyPushes(key):
		say(fmt.Errorf("%w: too many publications wait for an answer", ErrNotAccepted))
		return nil
	}
	pending = &push{key: key, publication: p, deadline: pu.after(pushTimeout), waiters: []func(error){say}}
	pu.pushes[p.Hash] = pending
	return pending
}

// tooManyPushes reports whether no further publication of a feed may wait for an answer.
func (pu *pusher) tooManyPushes(key overlay.ID) bool {
	n := 0
	for _, p := range pu.pushes {
		if p.key == key {
			n++
		}
	}
	return n >= maxPushes || len(pu.pushes) >= maxAllPushes
}

// retry sends a publication again that was not answered.
func (pu *pusher) retry(hash overlay.ID) {
	if p := pu.pushes[feed.Hash(hash)]; p != nil && !p.retryAt.After(pu.clock.Now()) {
		pu.continuePush(p)
	}
}

// continuePush sends a publication again, or gives it up.
func (pu *pusher) continuePush(p *push) {
	if pu.clock.Now().Before(p.deadline) {
		pu.send([]*push{p})
		return
	}
	switch {
	case p.unknownKeyTry == p.tries:
		pu.end(p, fmt.Errorf("%w: %s", ErrRefused, p.reason))
	case p.reason != "":
		pu.end(p, fmt.Errorf("%w within %v: %s", ErrNotAccepted, pushTimeout, p.reason))
	default:
		if c := pu.feeds[p.key]; c != nil && c.subscribed {
			pu.requestOwners(c) // perhaps the feed has no owners any more
		}
		pu.end(p, fmt.Errorf("%w within %v", ErrNotAccepted, pushTimeout))
	}
}

// send sends publications of one feed to its sequencer if this node knows its address. Otherwise, and at every
// second attempt, they are routed to the feed's key, whose root passes them on to the sequencer that it knows.
func (pu *pusher) send(all []*push) {
	for _, p := range all {
		p.retryAt = pu.after(min(pushRetry<<min(p.tries, 8), maxPushRetry))
		pu.cal.add(p.retryAt, overlay.ID(p.publication.Hash))
		pu.stats.Pushes++
		p.tries++
	}
	for len(all) > 0 {
		n, size := 0, 0
		for ; n < len(all) && (n == 0 || size+len(all[n].publication.Raw) <= maxInline); n++ {
			size += len(all[n].publication.Raw)
		}
		pu.sendTogether(all[:n])
		all = all[n:]
	}
}

// sendTogether sends publications that fit in one frame, or one whose item the sequencer requests.
func (pu *pusher) sendTogether(all []*push) {
	key, publications := all[0].key, make([]*difference.Publication, len(all))
	m := &feedtreepb.Push{Record: pu.node.Self().Raw}
	for i, p := range all {
		if publications[i] = p.publication; i == 0 {
			m.Publication = p.publication.Envelope()
		} else {
			m.More = append(m.More, p.publication.Envelope())
		}
	}
	message := &feedtreepb.Message{Body: &feedtreepb.Message_Push{Push: m}}
	v, ok := pu.owners.View(key)
	var sequencer *overlay.Contact
	if ok && v.Epoch != nil {
		sequencer = pu.node.Contact(v.Epoch.Sequencer)
	}
	switch {
	case ok && v.Leads:
		if c := pu.feeds[key]; c != nil && c.leader != nil && c.leader.ready {
			pu.accept(c, publications, pu.node.Self().Peer)
		}
	case sequencer != nil && all[0].tries%2 == 1:
		pu.net.Send(sequencer.Peer, env.Control, wire.AppendFrame(nil, wire.Feed, message))
	default:
		pu.node.Route(wire.Feed, key, wire.Encode(message), func(overlay.Receipt, bool) {})
	}
}

// onPushReply handles the sequencer's verdict. Other nodes on the route have seen the publication, too, so their
// verdicts are ignored. A publication that may still be accepted is sent again until its deadline.
func (pu *pusher) onPushReply(from env.PeerID, m *feedtreepb.PushReply) {
	for _, hash := range append([][]byte{m.Hash}, m.More...) {
		p := pu.pushes[feed.Hash(hash)]
		if p == nil {
			continue
		}
		if v, ok := pu.owners.View(p.key); ok && v.Epoch != nil && v.Epoch.Sequencer == from {
			pu.heed(p, m)
		}
	}
}

// heed does what the verdict about a publication says.
func (pu *pusher) heed(p *push, m *feedtreepb.PushReply) {
	switch m.Verdict {
	case feedtreepb.PushReply_COMMITTED:
		pu.end(p, nil)
	case feedtreepb.PushReply_GAP:
		if pu.pushes[p.publication.Prev] == nil {
			pu.end(p, fmt.Errorf("%w: %s", ErrRefused, m.Reason))
		} // otherwise it has overtaken the one before it, and is sent again
	case feedtreepb.PushReply_UNKNOWN, feedtreepb.PushReply_BUSY:
		if p.reason = m.Reason; m.Verdict == feedtreepb.PushReply_UNKNOWN {
			p.unknownKeyTry = p.tries
		}
	default:
		pu.end(p, fmt.Errorf("%w: %s", ErrRefused, m.Reason))
	}
}

// end reports the result of a push; nil: a quorum stores the publication.
func (pu *pusher) end(p *push, err error) {
	delete(pu.pushes, p.publication.Hash)
	for _, done := range p.waiters {
		done(err)
	}
}

// committed ends the push of a publication, because a quorum stores it.
func (pu *pusher) committed(hash feed.Hash) {
	if p := pu.pushes[hash]; p != nil {
		pu.end(p, nil)
	}
}
