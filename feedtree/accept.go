package feedtree

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"tidings/difference"
	"tidings/feedtree/feedtreepb"
	"tidings/internal/env"
	"tidings/internal/feed"
	"tidings/internal/wire"
	"tidings/overlay"
)

// An acceptor accepts publications of feeds that this node leads, in the order of their numbers, none twice and none
// left out. It also decides which key is their publisher's (pin.go).
type acceptor struct {
	*common
	keyQuestions *keyQuestions
	pusher       *pusher
	contents     *contents
	entries      *entries
	cal          plans // feeds whose owners are to be asked again for witnesses of a new key
	waiting      int   // bytes of all feeds' publications that wait for a quorum; at most maxAllAcceptedBytes
	spread       func(c *channel, p *difference.Publication)
}

func newAcceptor(m *common, questions *keyQuestions, pusher *pusher, entries *entries) *acceptor {
	ac := &acceptor{common: m, keyQuestions: questions, pusher: pusher, entries: entries, contents: &contents{m, map[source]*wantedContent{}}}
	ac.cal = m.feedPlans(ac.continueKeyChange)
	pusher.accept = ac.accept
	return ac
}

// accepting is what an acceptor keeps of a feed with a publisher.
type accepting struct {
	receipts map[uint64]receipt // by number: the publications in the log and on their way into it
	// accepted holds the publications that wait for an entry. appending is set while an entry of earlier ones waits
	// for a quorum.
	accepted         []acceptedPublication
	appending        bool
	waiting          int       // bytes of publications that wait for a quorum, those of accepted included
	publisherHeardAt time.Time // when the publisher last spoke; zero: unknown
	publisherTime    time.Time // latest time that the publisher has signed
}

const (
	// silentIntervals is the number of beat intervals without a message after which a publisher counts as silent.
	// Then readers get what polls find, as with any other feed.
	silentIntervals = 2
	// maxReceipts bounds the publications that are remembered by their numbers. An older publication that comes
	// again counts as old, not as a conflict.
	maxReceipts = 512
	// maxAcceptedBytes bounds the publications of one feed that wait for a quorum: as many large items as a publisher's
	// node sends at once (maxInFlightBytes of internal/daemon). At the limit it is told to try again.
	maxAcceptedBytes = 8 << 20
	// maxAllAcceptedBytes bounds those of all feeds. A feed may have as much of it as it leaves free, so that some is left
	// for the others: of n feeds that want more than their share, each gets one part in n+1.
	maxAllAcceptedBytes = 32 << 20
)

// A receipt records a publication that was accepted.
type receipt struct {
	hash      feed.Hash
	committed bool // stored by a quorum
}

// addReceipt records a publication, and forgets the one with the lowest number beyond maxReceipts.
func (l *accepting) addReceipt(p *difference.Publication, committed bool) {
	if l.receipts == nil {
		l.receipts = map[uint64]receipt{}
	}
	l.receipts[p.Seq] = receipt{p.Hash, committed}
	if len(l.receipts) > maxReceipts {
		least := p.Seq
		for seq := range l.receipts {
			least = min(least, seq)
		}
		delete(l.receipts, least)
	}
}

// hearPublisher records that a publisher has spoken, at a time that other nodes may have noted by a clock that is
// ahead. A repeated heartbeat, which anybody may have replayed, does not count; an accepted item always does.
func (l *accepting) hearPublisher(p *difference.Publication, at, now time.Time) {
	if at.After(now) {
		at = now
	}
	fresh := p.Time.After(l.publisherTime)
	if fresh {
		l.publisherTime = p.Time
	}
	if fresh || !p.IsBeat() {
		l.publisherHeardAt = at
	}
}

// onPush accepts or refuses publications. A node that is not the sequencer passes on publications that were routed
// to it.
func (ac *acceptor) onPush(from env.PeerID, m *feedtreepb.Push, routed bool) error {
	all, err := difference.OpenPublications(append([][]byte{m.Publication}, m.More...))
	lacking := errors.Is(err, difference.ErrNoContent) && len(m.More) == 0
	if lacking {
		all = make([]*difference.Publication, 1)
		all[0], err = difference.OpenAnnounced(m.Publication)
	}
	if err == nil && slices.ContainsFunc(all, func(p *difference.Publication) bool { return p.URL != all[0].URL }) {
		err = fmt.Errorf("%w: of more than one feed", difference.ErrPublication)
	}
	if err != nil {
		ac.refusals.add(Refusal{Why: err.Error()})
		return err
	}
	to := env.Peer{ID: from}
	if routed || len(m.Record) > 0 {
		record, err := ac.node.OpenRecord(m.Record)
		if err != nil {
			return err
		}
		to = record.Peer
	}
	key := overlay.Key(ac.node.Network(), all[0].URL)
	c := ac.feeds[key]
	if c == nil || c.leader == nil {
		v, ok := ac.owners.View(key)
		if routed && ok && v.Epoch != nil && v.Epoch.Sequencer != ac.signer.PeerID() {
			ac.net.Send(ac.peer(v.Epoch.Sequencer), env.Control, wire.AppendFrame(nil, wire.Feed, &feedtreepb.Message{Body: &feedtreepb.Message_Push{Push: m}}))
		}
		return nil // the publisher's node sends it again
	}
	switch {
	case !c.leader.ready:
	case lacking:
		ac.acceptLarge(c, all[0], to)
	default:
		ac.accept(c, all, to)
	}
	return nil
}

// acceptLarge accepts a publication whose item is not here yet, by fetching the item first, or refuses it.
func (ac *acceptor) acceptLarge(c *channel, p *difference.Publication, to env.Peer) {
	v := judge(c.leader.pin, c.leader.receipts, p, ac.clock.Now())
	switch {
	case v.reason != "" || v.repeated || ac.lacksRoom(c, p) != "":
		ac.acceptOne(c, p, to)
	case !ac.contents.want(c.key, p, to):
		ac.answer(c, to, feedtreepb.PushReply_BUSY, "too many large items are on their way to the feed's sequencer", p)
	}
}

// onContent accepts a large item when the last part of it comes.
func (ac *acceptor) onContent(from env.PeerID, m *feedtreepb.Content) error {
	key, p, to, err := ac.contents.receive(from, m)
	if c := ac.feeds[key]; p != nil && c != nil && c.leader != nil && c.leader.ready {
		ac.accept(c, []*difference.Publication{p}, to)
	}
	return err
}

// lacksRoom returns why a feed does not take a publication now; "": it does.
func (ac *acceptor) lacksRoom(c *channel, p *difference.Publication) string {
	size := len(p.Raw)
	if p.Item == nil {
		size += p.ContentSize() // which is not here yet
	}
	switch l := c.leader; {
	case len(l.accepted) >= ac.owners.Room(c.key) || l.waiting >= maxAcceptedBytes:
		return noRoom
	case l.waiting+size > maxAllAcceptedBytes-ac.waiting:
		return noShare
	}
	return ""
}

// wait counts bytes of publications that begin to wait for a quorum or, if negative, wait no longer. Nothing waits for a
// leader that has ended.
func (ac *acceptor) wait(l *leaderState, bytes int) {
	bytes = max(bytes, -l.waiting)
	l.waiting += bytes
	ac.waiting += bytes
}

// accept accepts publications of a feed that this node leads, or refuses them with a reason. Those that come together
// share an entry.
func (ac *acceptor) accept(c *channel, all []*difference.Publication, to env.Peer) {
	for _, p := range all {
		ac.acceptOne(c, p, to)
	}
	if c.leader != nil && !c.leader.appending {
		ac.appendBatch(c)
	}
}

// answer tells a publisher's node what became of publications.
func (ac *acceptor) answer(c *channel, to env.Peer, v feedtreepb.PushReply_Verdict, reason string, all ...*difference.Publication) {
	m := &feedtreepb.PushReply{Hash: all[0].Hash[:], Verdict: v, Reason: reason}
	for _, p := range all[1:] {
		m.More = append(m.More, p.Hash[:])
	}
	if l := c.leader; l != nil && l.pin != nil {
		m.Pubseq = l.pin.Seq
	}
	if to.ID == ac.signer.PeerID() {
		ac.pusher.onPushReply(to.ID, m)
		return
	}
	ac.send(to, &feedtreepb.Message{Body: &feedtreepb.Message_PushReply{PushReply: m}})
}

func (ac *acceptor) acceptOne(c *channel, p *difference.Publication, to env.Peer) {
	l, now := c.leader, ac.clock.Now()
	v := judge(l.pin, l.receipts, p, now)
	if v.askOrigin {
		ac.keyQuestions.askNow(c)
	}
	if v.newKey {
		ac.setPin(c, l.pin.Rotate(p.Key, feed.Hash{}, now, nil)) // the former key has named this one
	}
	switch {
	case v.reason != "":
		ac.stats.Refused++
		ac.refusals.add(Refusal{URL: c.url, Seq: p.Seq, Key: p.Key, Why: v.reason, retryable: true, beat: p.IsBeat()})
		ac.answer(c, to, v.answer, v.reason, p)
	case v.repeated && l.receipts[p.Seq].committed:
		ac.answer(c, to, feedtreepb.PushReply_COMMITTED, "", p) // the first answer was lost
	case v.repeated: // the answer follows with the entry
	case p.IsBeat():
		l.hearPublisher(p, now, now)
		ac.spread(c, p)
		ac.refusals.forget(c.url, p, now)
		ac.answer(c, to, feedtreepb.PushReply_COMMITTED, "", p)
	case ac.lacksRoom(c, p) != "":
		ac.answer(c, to, feedtreepb.PushReply_BUSY, ac.lacksRoom(c, p), p)
	default:
		l.accepted = append(l.accepted, acceptedPublication{p, l.pin, to})
		ac.wait(l, len(p.Raw))
		l.pin = l.pin.Advance(p)
		l.addReceipt(p, false)
		l.hearPublisher(p, now, now)
		ac.stats.Accepted++
	}
}

// answerAll tells the nodes of accepted publications what became of them.
func (ac *acceptor) answerAll(c *channel, v feedtreepb.PushReply_Verdict, reason string, all []acceptedPublication) {
	for len(all) > 0 {
		var same []*difference.Publication // from the node of the first one
		for len(same) < len(all) && all[len(same)].from.ID == all[0].from.ID {
			same = append(same, all[len(same)].Publication)
		}
		ac.answer(c, all[0].from, v, reason, same...)
		all = all[len(same):]
	}
}

// Reasons why a publication is not accepted now. The publisher's node sends it again.
const (
	noRoom  = "the feed's log has no room now"
	noShare = "the member that leads the feed has too many items waiting, of this and of other feeds, and takes this one when some are stored: publish again later, or smaller items"
)

// An accepted publication waits for its entry.
type acceptedPublication struct {
	*difference.Publication
	before *difference.Pin // the feed's pin before this publication
	from   env.Peer        // the node that pushed it
}

// appendAccepted makes entries of all accepted publications. It runs before anything else is appended, because the
// numbers in later entries count them.
func (ac *acceptor) appendAccepted(c *channel) {
	for l := c.leader; len(l.accepted) > 0; {
		ac.appendBatch(c)
	}
}

// appendBatch makes one entry of accepted publications. Only one such entry waits for a quorum at a time, and the
// publications that come meanwhile share the next one. So many writers do not wait for equally many entries. A
// batch is small enough to travel with its entry down the tree, unless it is a single publication, and has at most
// one version of an item.
func (ac *acceptor) appendBatch(c *channel) {
	l := c.leader
	n, size := 0, 0
	inBatch := map[feed.ID]bool{} // an entry cannot hold two versions of an item
	for n < len(l.accepted) && (n == 0 || size+len(l.accepted[n].Raw) <= maxInline) && !inBatch[l.accepted[n].Item.ID] {
		size += len(l.accepted[n].Raw)
		inBatch[l.accepted[n].Item.ID] = true
		n++
	}
	batch, rest := l.accepted[:n], l.accepted[n:]
	if l.accepted = rest; len(batch) == 0 {
		return
	}
	var d difference.Delta
	for _, p := range batch {
		_, edited := l.window.Entry(p.Item.ID)
		d.Changes = append(d.Changes, difference.Change{Item: *p.Item, Publication: p.Publication, Edited: edited})
	}
	l.appending = true
	if ac.entries.append(c, d, func(ok bool) {
		l.appending = false
		ac.wait(l, -size)
		if ok { // otherwise the publisher's node sends them again, to the next sequencer
			for _, p := range batch {
				l.addReceipt(p.Publication, true)
				ac.refusals.forget(c.url, p.Publication, ac.clock.Now())
			}
			ac.answerAll(c, feedtreepb.PushReply_COMMITTED, "", batch)
		}
		if c.leader == l && !l.appending {
			ac.appendBatch(c)
		}
	}) {
		return
	}
	l.appending, l.pin, l.accepted = false, batch[0].before, nil
	refused := slices.Concat(batch, rest)
	for _, p := range refused {
		delete(l.receipts, p.Seq)
		ac.wait(l, -len(p.Raw))
	}
	ac.answerAll(c, feedtreepb.PushReply_BUSY, noRoom, refused)
}

// backstopChanges returns the changes of a poll that are for the log. An item that its publisher has signed
// stays as it is. Other items are left to the publisher, unless it is silent or cannot sign them. If some are left
// to it, all is false, and the next poll reports them again.
func (ac *acceptor) backstopChanges(c *channel, d difference.Delta) (_ difference.Delta, all bool) {
	l := c.leader
	if l.pin == nil {
		return d, true
	}
	rest := make([]difference.Change, 0, len(d.Changes))
	for _, ch := range d.Changes {
		if e, known := l.window.Entry(ch.Item.ID); !known || !e.Signed && e.Hash != ch.Item.Hash {
			rest = append(rest, ch)
		}
	}
	d.Changes = rest
	if len(rest) == 0 || ac.publisherSilent(l) {
		return d, true
	}
	var unsigned []difference.Change
	for _, ch := range rest {
		if difference.Publishable(c.url, &ch.Item) != nil {
			unsigned = append(unsigned, ch)
		}
	}
	d.Changes = unsigned
	return d, len(unsigned) == len(rest)
}

// publisherSilent reports whether the publisher has been silent for so long that polls take its place.
func (ac *acceptor) publisherSilent(l *leaderState) bool {
	beat := l.pin.Beat
	if beat == 0 {
		beat = ac.cfg.BeatInterval
	}
	return l.publisherHeardAt.IsZero() || ac.clock.Now().Sub(l.publisherHeardAt) > silentIntervals*beat
}

// A verdict is what a sequencer decides about a publication. The zero value accepts it.
type verdict struct {
	answer    feedtreepb.PushReply_Verdict
	reason    string // of a refusal; "": the publication is not refused
	askOrigin bool   // the origin is to be asked for the publisher's key
	newKey    bool   // the publication is the first one of a key that the former key has named
	repeated  bool   // the publication was accepted before
}

// originLag is how long a mirror or cache of an origin may still name a former key. If the origin names the former
// key for longer, that is a change of the key like any other: the owners of that time may have lied.
const originLag = time.Hour

// judge decides about a publication from the feed's pin and the publications that were accepted before, by number.
func judge(pin *difference.Pin, receipts map[uint64]receipt, p *difference.Publication, now time.Time) (v verdict) {
	why := outOfOrder(pin, p)
	switch {
	case pin.Revoked(p.Key):
		// Earlier owners may have lied about the key.
		return verdict{answer: feedtreepb.PushReply_REVOKED, reason: "the feed has withdrawn this key", askOrigin: true}
	case pin.IsFormer(p.Key) && now.Sub(pin.Since) < originLag:
		return verdict{answer: feedtreepb.PushReply_REVOKED, reason: "another key has replaced this one: publish with the file of the new key"}
	case pin != nil && p.SignedBy(pin.Key):
	case pin == nil || pin.Next == (feed.Hash{}) || difference.KeyHash(p.Key) != pin.Next:
		return verdict{answer: feedtreepb.PushReply_UNKNOWN, askOrigin: true,
			reason: "the feed's document does not name this key yet: the document is being fetched, and counts only over HTTPS or from a private address"}
	default:
		v.newKey = why == ""
	}
	if was, known := receipts[p.Seq]; known && was.hash == p.Hash {
		v.repeated = true
		return v
	}
	if v.reason = why; why != "" {
		v.answer = feedtreepb.PushReply_CONFLICT
		if p.Seq > pin.Seq+1 {
			v.answer = feedtreepb.PushReply_GAP
		}
	}
	return v
}

// outOfOrder returns the reason why a publication is not the next one, or "" if it is. The first known publication
// of a feed may have any number.
func outOfOrder(pin *difference.Pin, p *difference.Publication) string {
	if pin == nil || pin.Seq == 0 {
		return ""
	}
	last := pin.Seq
	switch {
	case p.IsBeat() && p.Seq == last && p.Prev == pin.Head:
	case p.IsBeat() && p.Seq <= last:
		return fmt.Sprintf("the heartbeat says that number %d is the last one, but the network has number %d: this publisher's record is old, or somebody else has its key", p.Seq, last)
	case p.Seq <= last:
		return fmt.Sprintf("number %d was used before, and the network has number %d: this publisher's record is old, or somebody else has its key", p.Seq, last)
	case p.IsBeat() && p.Seq == last+1, p.Seq > last+1:
		return fmt.Sprintf("the network has number %d and this is number %d: items are missing", last, p.Seq)
	case p.Prev != pin.Head:
		return fmt.Sprintf("this does not continue number %d as the network has it: somebody else has this key, or the publisher's record was lost", last)
	}
	return ""
}
