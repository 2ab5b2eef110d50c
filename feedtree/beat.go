package feedtree

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"tidings/feedtree/feedtreepb"
	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/owner"
)

var errBeat = errors.New("malformed heartbeat")

// A beat is a heartbeat of a feed: the sequencer's signed statement where the log ends.
type beat struct {
	branch     uint64
	epoch      uint32
	number     uint64
	seq        uint64
	head       [32]byte
	time       time.Time
	state      []byte
	signer     env.PeerID
	raw        []byte
	receivedAt time.Time
}

func (f *FeedTree) openBeat(raw []byte) (overlay.ID, *beat, error) {
	signed, err := f.verify.Open(wire.DomainHeartbeat, raw)
	if err != nil {
		return overlay.ID{}, nil, err
	}
	m := new(feedtreepb.BeatStatement)
	if err := proto.Unmarshal(signed.Payload, m); err != nil {
		return overlay.ID{}, nil, fmt.Errorf("%w: %w", errBeat, err)
	}
	if !isKey(m.Key) || len(m.Head) != 32 || len(m.State) > maxState || m.TimeMs > maxMillis {
		return overlay.ID{}, nil, errBeat
	}
	return overlay.ID(m.Key), &beat{
		branch: m.Branch, epoch: m.Epoch, number: m.Number, seq: m.Seq, head: [32]byte(m.Head),
		time: time.UnixMilli(int64(m.TimeMs)), state: m.State,
		signer: wire.PeerIDOf(signed.Key), raw: signed.Raw, receivedAt: f.clock.Now(),
	}, nil
}

// laterThan reports whether b is later than a. A heartbeat of another branch always is. Within an epoch the length
// of the log decides before the number, because the number comes from the sequencer's clock, which may have been
// set back between two of its lives.
func (b *beat) laterThan(a *beat) bool {
	if a == nil || b.branch != a.branch {
		return true
	}
	return cmp.Or(cmp.Compare(b.epoch, a.epoch), cmp.Compare(b.seq, a.seq), cmp.Compare(b.number, a.number)) > 0
}

// onBeat handles a heartbeat. A heartbeat that names an entry which this node does not have shows a gap.
func (f *FeedTree) onBeat(raw []byte) error {
	key, b, err := f.openBeat(raw)
	if err != nil {
		return err
	}
	c := f.feeds[key]
	if c == nil {
		// An owner that does not subscribe keeps the heartbeat for its children.
		if v, ok := f.owners.View(key); !ok || !v.Owns {
			return nil
		}
		c = f.channel(key, "")
	}
	v, ok := f.owners.View(key)
	if !ok || v.Epoch == nil || b.branch == v.Epoch.Branch && b.epoch < v.Epoch.Number {
		return nil
	}
	if b.branch != v.Epoch.Branch || b.epoch > v.Epoch.Number {
		f.startRepair(c, owner.Hash{}) // the nodes that are asked know whether this is true
		return nil
	}
	if b.signer != v.Epoch.Sequencer {
		f.stats.Untrusted++
		return nil
	}
	if !b.laterThan(c.beat) {
		return nil
	}
	c.beat = b
	f.reportState(c, b.state, b.time)
	if !c.subscribed {
		return nil
	}
	if b.seq > 0 && !f.owners.Has(key, owner.Hash(b.head)) {
		f.startRepair(c, owner.Hash(b.head))
		return nil
	}
	c.confirmed = b.receivedAt
	f.markHeard(c)
	f.owners.HeardFromSequencer(key)
	f.owners.MarkCommitted(key, owner.Hash(b.head))
	return nil
}

// reportState reports a new state of a feed's polls to the application.
func (f *FeedTree) reportState(c *channel, state []byte, at time.Time) {
	if string(c.state) == string(state) {
		return
	}
	c.state = state
	f.app.StateChanged(c.key, state, at)
}

// SetState sets the state of the polls of a feed that this node leads. The state goes out with the next heartbeat.
// With beat set, that heartbeat is made now and travels with the digests; with urgent set, it also goes down the
// tree at once.
func (f *FeedTree) SetState(key overlay.ID, state []byte, beat, urgent bool) {
	c := f.feeds[key]
	if c == nil || c.leader == nil || len(state) > maxState {
		return
	}
	c.leader.state = state
	if beat {
		f.sendBeat(c)
	}
	if urgent && c.beat != nil {
		f.scribe.Publish(key, marshal(&feedtreepb.News{News: &feedtreepb.News_Beat{Beat: c.beat.raw}}), func(bool) {})
	}
}

// BranchMerged sends a heartbeat down the tree of a feed whose other branch has ended in that of this node.
// Followers of the other branch below a parent that keeps no log may otherwise hear nothing for long.
func (f *FeedTree) BranchMerged(key overlay.ID) {
	if c := f.feeds[key]; c != nil && c.leader != nil && (c.beat == nil || f.clock.Now().Sub(c.beat.receivedAt) > mergeBeatPause) {
		f.SetState(key, c.leader.state, true, true)
	}
}

// mergeBeatPause is the shortest time between two such heartbeats.
const mergeBeatPause = 5 * time.Second

// signBeat signs where the log ends. It returns nil if this node knows no epoch of the feed.
func (f *FeedTree) signBeat(c *channel) *beat {
	v, ok := f.owners.View(c.key)
	if !ok || v.Epoch == nil {
		return nil
	}
	now := f.clock.Now()
	m := &feedtreepb.BeatStatement{
		Key: c.key[:], Branch: v.Epoch.Branch, Epoch: v.Epoch.Number, Head: make([]byte, 32),
		Number: uint64(now.UnixMilli()), TimeMs: uint64(now.UnixMilli()), State: c.leader.state,
	}
	if log := f.owners.LastCommitted(c.key); log != nil {
		m.Seq, m.Head = log.At.Seq, log.Hash[:]
	}
	signed := f.signer.Sign(wire.DomainHeartbeat, marshal(m))
	_, b, err := f.openBeat(signed.Raw)
	if err != nil {
		panic(fmt.Sprintf("feedtree: own heartbeat is invalid: %v", err))
	}
	return b
}

// sendBeat makes a heartbeat and sends it to the owners, one of which is the root of the tree.
func (f *FeedTree) sendBeat(c *channel) {
	b := f.signBeat(c)
	if b == nil {
		return
	}
	f.stats.Beats++
	c.beat, c.confirmed, c.leader.sentAt = b, b.receivedAt, b.receivedAt
	f.reportState(c, b.state, b.time)
	msg := &feedtreepb.Message{Body: &feedtreepb.Message_Beats{Beats: &feedtreepb.Beats{Beats: [][]byte{b.raw}}}}
	v, _ := f.owners.View(c.key)
	for _, p := range v.Epoch.Owners {
		if p != f.signer.PeerID() {
			f.send(f.peer(p), msg)
		}
	}
}

// beatIfSilent sends a heartbeat if nothing was published in a feed for a beat interval.
func (f *FeedTree) beatIfSilent(c *channel, now time.Time) {
	due := c.leader.sentAt.Add(f.cfg.BeatInterval)
	if !due.After(now) {
		f.sendBeat(c)
		due = now.Add(f.cfg.BeatInterval)
	}
	f.cal.Add(due, task{kind: taskBeat, key: c.key})
}

// checkOverdue starts a repair if a heartbeat is overdue. A heartbeat takes up to half an interval and a few
// digests to arrive.
func (f *FeedTree) checkOverdue(c *channel, now time.Time) {
	if c.repair == nil && c.leader == nil && now.Sub(c.confirmed) > f.cfg.BeatInterval*3/2+5*f.cfg.DigestInterval {
		f.stats.Overdue++
		c.confirmed = now // so that the next one is overdue only after another interval
		f.startRepair(c, owner.Hash{})
	}
}
