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

// heartbeats makes the heartbeats of feeds that this node leads, and handles those of others.
type heartbeats struct {
	*common
	cutOffs  *cutOffs
	repairer *repairer
	cal      plans // feeds that need a heartbeat, if they were silent
	heads    plans // feeds whose head is to be published
}

func newHeartbeats(m *common, cutOffs *cutOffs, repairer *repairer) *heartbeats {
	hb := &heartbeats{common: m, cutOffs: cutOffs, repairer: repairer}
	hb.cal, hb.heads = m.feedPlans(hb.beatIfSilent), m.feedPlans(hb.publishHead)
	return hb
}

// announced is what a feed's sequencer has said in heartbeats.
type announced struct {
	beat  *beat  // the latest heartbeat; nil: none has come
	state []byte // state of the polls
}

// announcing is what heartbeats keeps of a feed that this node leads.
type announcing struct {
	sentAt        env.Moment // when the last entry or heartbeat was published
	headScheduled bool       // publishHead is scheduled
	state         []byte     // state of the polls, for the next heartbeat
}

var errBeat = errors.New("malformed heartbeat")

// A beat is a heartbeat of a feed: the sequencer's signed statement where the log ends.
type beat struct {
	branch     uint64
	epoch      uint32
	number     uint64
	seq        uint64
	head       [32]byte
	time       env.Moment
	state      []byte
	signer     env.PeerID
	receivedAt env.Moment
	proof      wire.Proof // a node keeps a heartbeat of each feed
}

// raw returns the signed envelope of a heartbeat of a feed.
func (b *beat) raw(key overlay.ID) []byte {
	return b.proof.Envelope(b.signer, func() []byte { return b.statement(key) })
}

// statement encodes what is signed.
func (b *beat) statement(key overlay.ID) []byte {
	return wire.Encode(&feedtreepb.BeatStatement{
		Key: key[:], Branch: b.branch, Epoch: b.epoch, Seq: b.seq, Head: b.head[:], Number: b.number, TimeMs: b.time.Millis(), State: b.state,
	})
}

func (hb *heartbeats) open(raw []byte) (overlay.ID, *beat, error) {
	signed, err := hb.verify.Open(wire.DomainHeartbeat, raw)
	if err != nil {
		return overlay.ID{}, nil, err
	}
	return hb.parse(signed)
}

// parse reads a heartbeat whose signature is valid.
func (hb *heartbeats) parse(signed wire.Signed) (overlay.ID, *beat, error) {
	m := new(feedtreepb.BeatStatement)
	if err := proto.Unmarshal(signed.Payload, m); err != nil {
		return overlay.ID{}, nil, fmt.Errorf("%w: %w", errBeat, err)
	}
	if !isKey(m.Key) || len(m.Head) != 32 || len(m.State) > maxState || m.TimeMs > wire.MaxMillis {
		return overlay.ID{}, nil, errBeat
	}
	key, b := overlay.ID(m.Key), &beat{
		branch: m.Branch, epoch: m.Epoch, number: m.Number, seq: m.Seq, head: [32]byte(m.Head),
		time: env.MomentOf(time.UnixMilli(int64(m.TimeMs))), state: m.State,
		signer: wire.PeerIDOf(signed.Key), receivedAt: env.MomentOf(hb.clock.Now()),
	}
	b.proof = signed.Proof(b.statement(key))
	return key, b, nil
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
func (hb *heartbeats) onBeat(raw []byte) error {
	key, b, err := hb.open(raw)
	if err != nil {
		return err
	}
	c := hb.feeds[key]
	if c == nil {
		// An owner that does not subscribe keeps the heartbeat for its children.
		if v, ok := hb.owners.View(key); !ok || !v.Owns {
			return nil
		}
		c = hb.channel(key, "")
	}
	v, ok := hb.owners.View(key)
	if !ok || v.Epoch == nil || b.branch == v.Epoch.Branch && b.epoch < v.Epoch.Number {
		return nil
	}
	if b.branch != v.Epoch.Branch || b.epoch > v.Epoch.Number {
		hb.repairer.start(c, owner.Hash{}) // the nodes that are asked know whether this is true
		return nil
	}
	if b.signer != v.Epoch.Sequencer {
		hb.stats.Untrusted++
		return nil
	}
	b.signer = v.Epoch.Sequencer // the same string
	if !b.laterThan(c.beat) {
		return nil
	}
	c.beat = b
	hb.reportState(c, b.state, b.time.Time())
	if !c.subscribed {
		return nil
	}
	if b.seq > 0 && !hb.owners.Has(key, owner.Hash(b.head)) {
		hb.repairer.start(c, owner.Hash(b.head))
		return nil
	}
	hb.cutOffs.markCertain(c)
	hb.owners.HeardFromSequencer(key)
	hb.owners.MarkCommitted(key, owner.Hash(b.head))
	return nil
}

// reportState reports a new state of a feed's polls to the application.
func (hb *heartbeats) reportState(c *channel, state []byte, at time.Time) {
	if string(c.state) == string(state) {
		return
	}
	c.state = state
	hb.app.StateChanged(c.key, state, at)
}

// SetState sets the state of the polls of a feed that this node leads. The state goes out with the next heartbeat.
// With beat set, that heartbeat is made now and travels with the digests; with urgent set, it also goes down the
// tree at once.
func (hb *heartbeats) SetState(key overlay.ID, state []byte, beat, urgent bool) {
	c := hb.feeds[key]
	if c == nil || c.leader == nil || len(state) > maxState {
		return
	}
	c.leader.state = state
	if beat {
		hb.sendBeat(c)
	}
	if urgent && c.beat != nil {
		hb.scribe.Publish(key, wire.Encode(&feedtreepb.News{News: &feedtreepb.News_Beat{Beat: c.beat.raw(c.key)}}), func(bool) {})
	}
}

// BranchMerged sends a heartbeat down the tree of a feed whose other branch has ended in that of this node.
// Followers of the other branch below a parent that keeps no log may otherwise hear nothing for long.
func (hb *heartbeats) BranchMerged(key overlay.ID) {
	if c := hb.feeds[key]; c != nil && c.leader != nil && (c.beat == nil || hb.clock.Now().Sub(c.beat.receivedAt.Time()) > mergeBeatPause) {
		hb.SetState(key, c.leader.state, true, true)
	}
}

// headPause is how long a sequencer waits for further entries before it publishes the head.
const headPause = time.Second

// mergeBeatPause is the shortest time between two such heartbeats.
const mergeBeatPause = 5 * time.Second

// sign signs where the log ends. It returns nil if this node knows no epoch of the feed.
func (hb *heartbeats) sign(c *channel) *beat {
	v, ok := hb.owners.View(c.key)
	if !ok || v.Epoch == nil {
		return nil
	}
	now := hb.clock.Now()
	m := &feedtreepb.BeatStatement{
		Key: c.key[:], Branch: v.Epoch.Branch, Epoch: v.Epoch.Number, Head: make([]byte, 32),
		Number: uint64(now.UnixMilli()), TimeMs: uint64(now.UnixMilli()), State: c.leader.state,
	}
	if log := hb.owners.LastCommitted(c.key); log != nil {
		m.Seq, m.Head = log.At.Seq, log.Hash[:]
	}
	_, b, err := hb.parse(hb.signer.Sign(wire.DomainHeartbeat, wire.Encode(m)))
	if err != nil {
		panic(fmt.Sprintf("feedtree: own heartbeat is invalid: %v", err))
	}
	b.state, b.signer = m.State, hb.signer.PeerID() // which are kept anyway
	return b
}

// sendBeat makes a heartbeat and sends it to the owners, one of which is the root of the tree.
func (hb *heartbeats) sendBeat(c *channel) {
	b := hb.sign(c)
	if b == nil {
		return
	}
	hb.stats.Beats++
	c.beat, c.confirmed, c.leader.sentAt = b, b.receivedAt, b.receivedAt
	hb.reportState(c, b.state, b.time.Time())
	hb.sendOwners(c.key, &feedtreepb.Message{Body: &feedtreepb.Message_Beats{Beats: &feedtreepb.Beats{Beats: [][]byte{b.raw(c.key)}}}})
}

// beatIfSilent sends a heartbeat if nothing was published in a feed for a beat interval.
func (hb *heartbeats) beatIfSilent(c *channel) {
	if c.leader == nil {
		return
	}
	now := hb.clock.Now()
	due := c.leader.sentAt.Time().Add(hb.cfg.BeatInterval)
	if !due.After(now) {
		hb.sendBeat(c)
		due = now.Add(hb.cfg.BeatInterval)
	}
	hb.cal.add(due, c.key)
}

// checkOverdue starts a repair of each feed whose heartbeat is overdue. A heartbeat takes up to half an interval and
// a few digests to arrive.
func (hb *heartbeats) checkOverdue(all []*channel, now time.Time) {
	for _, c := range all {
		if c.subscribed && c.repair == nil && c.leader == nil && now.Sub(c.confirmed.Time()) > hb.cfg.BeatInterval*3/2+5*hb.cfg.DigestInterval {
			hb.stats.Overdue++
			c.confirmed = env.MomentOf(now) // so that the next one is overdue only after another interval
			hb.repairer.start(c, owner.Hash{})
		}
	}
}

// lead starts the heartbeats of a feed that this node leads from now on.
func (hb *heartbeats) lead(c *channel) {
	c.leader.sentAt = env.MomentOf(hb.clock.Now())
	hb.cal.add(hb.after(hb.cfg.BeatInterval), c.key)
}

// published announces a new entry in the shadow tree after a short pause, together with entries that follow soon.
func (hb *heartbeats) published(c *channel) {
	if c.leader.sentAt = env.MomentOf(hb.clock.Now()); !c.leader.headScheduled {
		c.leader.headScheduled = true
		hb.heads.add(hb.after(headPause), c.key)
	}
}

// publishHead announces in the shadow tree where the log ends.
func (hb *heartbeats) publishHead(c *channel) {
	if c.leader == nil {
		return
	}
	c.leader.headScheduled = false
	if b := hb.sign(c); b != nil && b.seq > 0 {
		hb.stats.Heads++
		payload := wire.Encode(&feedtreepb.News{News: &feedtreepb.News_Beat{Beat: b.raw(c.key)}})
		hb.scribe.PublishWithID(ShadowOf(c.key), messageID(owner.Hash(b.head)), payload, func(bool) {})
	}
}
