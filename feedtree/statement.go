package feedtree

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"tidings/difference"
	"tidings/feedtree/feedtreepb"
	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/owner"
)

// statements brings what publishers say themselves, "nothing follows number n", to every reader of their feeds. A
// sequencer that hides the end of a log cannot forge it: either the statement names a number that the log lacks, or
// it is missing itself, and the reader's node notices after one and a half of the intervals that the publisher has
// promised.
type statements struct {
	*common
	repairer *repairer
	late     plans // feeds whose log had fewer items than the publisher had stated
}

func newStatements(m *common, repairer *repairer) *statements {
	st := &statements{common: m, repairer: repairer}
	st.late = m.feedPlans(st.checkNumber)
	return st
}

// stated is what statements keeps of a feed.
type stated struct {
	listening env.Moment      // since when this node follows the feed, in this life
	publisher *publisherState // nil: nothing is known of it, as most feeds have none
}

// publisherState returns what is known from the publisher.
func (s *stated) publisherState() publisherState {
	if s.publisher == nil {
		return publisherState{}
	}
	return *s.publisher
}

// ensurePublisher returns what is known from the publisher, for changing it.
func (s *stated) ensurePublisher() *publisherState {
	if s.publisher == nil {
		s.publisher = new(publisherState)
	}
	return s.publisher
}

// publisherState is what statements knows from a feed's publisher.
type publisherState struct {
	statement  *difference.Publication // the latest one; nil: none has come
	statedAt   time.Time               // when it came
	signedAt   time.Time               // latest time in a signed item of the log
	silent     bool                    // the publisher is overdue
	unseen     uint64                  // publications that the publisher has stated and the log lacks at its end
	unseenFrom time.Time               // since when; zero: none are
}

const (
	// maxStatement is the largest size of a statement in bytes: an address and a little more. maxStatements is how many
	// travel together, so that they fit into a frame.
	maxStatement  = 3 << 10
	maxStatements = 16
	// maxStatementAhead is how far the clock of a publisher may be ahead.
	maxStatementAhead = time.Hour
	// statementGrace is how long an entry may take longer than the statement that counts it.
	statementGrace = 30 * time.Second
)

var errStatement = errors.New("not a publisher's statement")

// spread sends a statement that this node has accepted as the sequencer down the tree, and to the owners, which pass it
// on together with heartbeats.
func (st *statements) spread(c *channel, p *difference.Publication) {
	if len(p.Raw) > maxStatement || !st.take(c, p) {
		return
	}
	st.scribe.PublishWithID(c.key, messageID(owner.Hash(p.Hash)), wire.Encode(&feedtreepb.News{News: &feedtreepb.News_Statement{Statement: p.Raw}}), func(bool) {})
	st.sendOwners(c.key, &feedtreepb.Message{Body: &feedtreepb.Message_Beats{Beats: &feedtreepb.Beats{Statements: [][]byte{p.Raw}}}})
}

// onStatement handles a statement that came down a tree, in which case from is "", or from a peer.
func (st *statements) onStatement(from env.PeerID, raw []byte) error {
	p, err := difference.OpenPublication(raw)
	if err != nil {
		return err
	}
	if p.Item != nil {
		return fmt.Errorf("%w: it has an item", errStatement)
	}
	key := overlay.Key(st.node.Network(), p.URL)
	c := st.feeds[key]
	v, _ := st.owners.View(key)
	switch {
	case c != nil && c.subscribed:
		if c.trust == nil || !bytes.Equal(c.trust.Key, p.Key) {
			return nil // the key may have changed, which another part of this node judges
		}
	case v.Owns && v.Epoch != nil && v.Epoch.Sequencer == from: // an owner keeps it for its children
		c = st.channel(key, v.URL)
	default:
		return nil
	}
	st.take(c, p)
	return nil
}

// take keeps a statement if it is later than the one before.
func (st *statements) take(c *channel, p *difference.Publication) bool {
	now := st.clock.Now()
	if last := c.publisherState().statement; last != nil && !p.Time.After(last.Time) || p.Time.After(now.Add(maxStatementAhead)) {
		return false
	}
	s := c.ensurePublisher()
	s.statement, s.statedAt = p, now
	if c.subscribed {
		st.late.add(st.after(statementGrace), c.key)
		st.checkSilence(c, now)
	}
	return true
}

// checkNumber notes whether the log lacks what the publisher has stated.
func (st *statements) checkNumber(c *channel) {
	s := c.publisher
	if !c.subscribed || s == nil || s.statement == nil || c.trust == nil || !bytes.Equal(c.trust.Key, s.statement.Key) {
		return
	}
	var last uint64
	if pin := c.window.log.Pin(); pin != nil {
		last = pin.Seq
	}
	before := s.unseen
	if s.unseen = 0; s.statement.Seq > last {
		s.unseen = s.statement.Seq - last
	}
	switch {
	case s.unseen == before:
		return
	case s.unseen == 0:
		s.unseenFrom = time.Time{}
	case before == 0:
		s.unseenFrom = s.statement.Time
		st.stats.Unseen++
		st.refusals.add(Refusal{URL: c.url, Seq: s.statement.Seq, Key: s.statement.Key, Why: "its publisher has stated that there are items which the log does not have at its end; the web server is asked for them"})
		st.repairer.fetchMissing(c)
	}
	st.app.StateChanged(c.key, c.state, st.clock.Now())
}

// spokeAt returns when the publisher last signed something, as far as this node knows; at least when the node began to
// listen.
func (s *stated) spokeAt() time.Time {
	known := s.publisherState()
	at := later(s.listening.Time(), known.signedAt)
	switch p := known.statement; {
	case p == nil:
		return at
	case p.Time.After(known.statedAt): // the publisher's clock is ahead
		return later(at, known.statedAt)
	default:
		return later(at, p.Time)
	}
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// checkSilence notes whether a publisher that has promised to speak is overdue. Readers are told, because its node may
// be off, and a sequencer may as well hide what it says.
func (st *statements) checkSilence(c *channel, now time.Time) {
	silent := c.subscribed && c.trust != nil && c.trust.Beat > 0 && now.Sub(c.spokeAt()) > c.trust.Beat*3/2+2*st.cfg.DigestInterval
	if silent == c.publisherState().silent {
		return
	}
	if c.ensurePublisher().silent = silent; silent {
		st.stats.Unspoken++
		st.repairer.fetchMissing(c)
	}
	st.app.StateChanged(c.key, c.state, now)
}

// checkAll checks the publishers of all feeds.
func (st *statements) checkAll(all []*channel, now time.Time) {
	for _, c := range all {
		st.checkSilence(c, now)
	}
}

// applied notes the signed items of an entry.
func (st *statements) applied(c *channel, d *difference.Delta, at time.Time) {
	signed := false
	for _, ch := range d.Changes {
		if p := ch.Publication; p != nil && c.trust.Valid(p.Key) {
			signed = true
			s := c.ensurePublisher()
			if p.Time.Before(at) {
				s.signedAt = later(s.signedAt, p.Time)
			} else {
				s.signedAt = later(s.signedAt, at)
			}
		}
	}
	if signed && c.publisher.unseen > 0 {
		st.checkNumber(c)
	}
}
