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

// The way of a publication, at the publisher's node: it goes to the sequencer of the feed, again
// and again until a quorum of the owners holds it. The node follows the feed, so it sees that by
// its own log, too, and an answer that is lost, or cannot reach it, does no harm.

const (
	// pushFirst is waited for an answer before a publication is sent again, twice as long the next
	// time, up to pushAgain; pushTime for that of all: the feed may be without a sequencer for as
	// long as a silent death takes to be known. An answer takes a round trip to a quorum of owners.
	pushRetry    = time.Second
	maxPushRetry = 2 * time.Second
	pushTimeout  = time.Minute
	// maxPushes is how many publications of one feed wait for an answer, and maxAllPushes how many of all
	// feeds do: a feed that nobody answers for leaves room for the others. At the bound a publication is
	// not taken: its publisher keeps it, and sends it again.
	maxPushes    = 64
	maxAllPushes = 512
)

// Why a publication came to nothing. What was refused may be good for nothing; what was not taken is
// to be pushed again.
var (
	ErrNotFollowed = errors.New("this node does not follow the feed")
	ErrNotAccepted = errors.New("nobody has taken it")
	ErrRefused     = errors.New("refused")
)

// A push is a publication on its way.
type push struct {
	key         overlay.ID
	publication *difference.Publication
	tries       int
	retryAt     time.Time // when to try again
	deadline    time.Time
	// words say why it was not taken, though not for good; unnamed is the try of which it was said last
	// that its key is not the feed's, as far as is known. If that is the last one, it was not taken.
	reason        string
	unknownKeyTry int
	waiters       []func(error)
}

// Publish brings what a publisher has signed into its feed, which this node has to follow. done
// is called when a quorum of the feed's owners holds it, or with why it does not.
func (f *FeedTree) Publish(envelope []byte, done func(error)) {
	p, err := difference.OpenPublication(envelope)
	if err != nil {
		f.addRefusal(Refusal{Why: err.Error()})
		done(fmt.Errorf("publish: %w", err))
		return
	}
	say := func(err error) {
		if err != nil {
			err = fmt.Errorf("publish number %d in %s: %w", p.Seq, p.URL, err)
		}
		done(err)
	}
	key := overlay.Key(f.node.Network(), p.URL)
	c := f.feeds[key]
	switch {
	case c == nil || !c.subscribed:
		say(ErrNotFollowed)
		return
	}
	w := f.pushes[p.Hash]
	switch {
	case w != nil && len(w.waiters) < maxPushes: // a node and a command beside it may push the same
		w.waiters = append(w.waiters, say)
		return
	case w != nil || f.tooManyPushes(key):
		say(fmt.Errorf("%w: others are on their way", ErrNotAccepted))
		return
	}
	now := f.clock.Now()
	w = &push{key: key, publication: p, deadline: now.Add(pushTimeout), waiters: []func(error){say}}
	f.pushes[p.Hash] = w
	f.continuePush(w, now)
}

// full says whether so many publications of a feed, or of all, wait for an answer that there is no room
// for another one.
func (f *FeedTree) tooManyPushes(key overlay.ID) bool {
	n := 0
	for _, w := range f.pushes {
		if w.key == key {
			n++
		}
	}
	return n >= maxPushes || len(f.pushes) >= maxAllPushes
}

// pushOn sends a publication to whom this node takes for the sequencer, if it knows where that is;
// else, and every other time, to whom the root of the key takes for it.
func (f *FeedTree) continuePush(w *push, now time.Time) {
	if !now.Before(w.deadline) {
		switch {
		case w.unknownKeyTry == w.tries:
			f.endPush(w, fmt.Errorf("%w: %s", ErrRefused, w.reason))
		case w.reason != "":
			f.endPush(w, fmt.Errorf("%w within %v: %s", ErrNotAccepted, pushTimeout, w.reason))
		default:
			if c := f.feeds[w.key]; c != nil && c.subscribed {
				f.requestOwners(c) // perhaps nobody owns it any more
			}
			f.endPush(w, fmt.Errorf("%w within %v", ErrNotAccepted, pushTimeout))
		}
		return
	}
	w.retryAt = now.Add(min(pushRetry<<min(w.tries, 8), maxPushRetry))
	f.cal.Add(w.retryAt, task{kind: taskPush, key: overlay.ID(w.publication.Hash)})
	f.stats.Pushes++
	w.tries++
	v, ok := f.owners.View(w.key)
	var sequencer *overlay.Contact
	if ok && v.Epoch != nil {
		sequencer = f.node.Contact(v.Epoch.Sequencer)
	}
	switch {
	case ok && v.Leads:
		if c := f.feeds[w.key]; c != nil && c.leader != nil && c.leader.ready {
			f.accept(c, w.publication, f.node.Self().Peer)
		}
		return
	case sequencer != nil && w.tries%2 == 1:
		f.net.Send(sequencer.Peer, env.Control, wire.AppendFrame(nil, wire.Feed, f.pushMessage(w)))
	default:
		f.node.Route(wire.Feed, w.key, marshal(f.pushMessage(w)), func(overlay.Receipt, bool) {})
	}
}

func (f *FeedTree) pushMessage(w *push) *feedtreepb.Message {
	return &feedtreepb.Message{Body: &feedtreepb.Message_Push{Push: &feedtreepb.Push{Publication: w.publication.Raw, Record: f.node.Self().Raw}}}
}

// onPushed takes the sequencer's word; others on the way have seen the publication, too, and could
// say what they like of it. What may yet be taken is sent again until its time is over.
func (f *FeedTree) onPushReply(from env.PeerID, m *feedtreepb.PushReply) {
	w := f.pushes[feed.Hash(m.Hash)]
	if w == nil {
		return
	}
	if v, ok := f.owners.View(w.key); !ok || v.Epoch == nil || v.Epoch.Sequencer != from {
		return
	}
	switch m.Verdict {
	case feedtreepb.PushReply_COMMITTED:
		f.endPush(w, nil)
	case feedtreepb.PushReply_GAP:
		if f.pushes[w.publication.Prev] == nil {
			f.endPush(w, fmt.Errorf("%w: %s", ErrRefused, m.Reason))
		} // else it has overtaken the one before it, and is sent again
	case feedtreepb.PushReply_UNKNOWN, feedtreepb.PushReply_BUSY:
		if w.reason = m.Reason; m.Verdict == feedtreepb.PushReply_UNKNOWN {
			w.unknownKeyTry = w.tries
		}
	default:
		f.endPush(w, fmt.Errorf("%w: %s", ErrRefused, m.Reason))
	}
}

// pushed ends the way of a publication.
func (f *FeedTree) endPush(w *push, err error) {
	delete(f.pushes, w.publication.Hash)
	for _, done := range w.waiters {
		done(err)
	}
}

// hashOf names a publication; zero: there is none.
func publicationHash(p *difference.Publication) feed.Hash {
	if p == nil {
		return feed.Hash{}
	}
	return p.Hash
}
