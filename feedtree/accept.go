package feedtree

import (
	"bytes"
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

// This file handles publications at the sequencer. It accepts the publisher's items in the order of their numbers,
// none twice and none left out.

const (
	// silentIntervals is the number of beat intervals without a message after which a publisher counts as silent.
	// Then readers get what polls find, as with any other feed.
	silentIntervals = 2
	// maxReceipts bounds the publications that are remembered by their numbers. An older publication that comes
	// again counts as old, not as a conflict.
	maxReceipts = 512
	// maxRefusals bounds the refusals that are kept for people. The oldest is dropped.
	maxRefusals = 16
)

// A receipt records a publication that was accepted.
type receipt struct {
	hash      feed.Hash
	committed bool // stored by a quorum
}

// addReceipt records a publication, and forgets the one with the lowest number beyond maxReceipts.
func (l *leaderState) addReceipt(p *difference.Publication, committed bool) {
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

// hearPublisher records that a publisher has spoken. A repeated heartbeat, which anybody may have replayed, does
// not count; an accepted item always does.
func (l *leaderState) hearPublisher(p *difference.Publication, at time.Time) {
	fresh := p.Time.After(l.publisherTime)
	if fresh {
		l.publisherTime = p.Time
	}
	if fresh || p.Item != nil {
		l.publisherHeardAt = at
	}
}

// onPush accepts or refuses a publication. A node that is not the sequencer passes on a publication that was routed
// to it.
func (f *FeedTree) onPush(from env.PeerID, m *feedtreepb.Push, routed bool) error {
	p, err := difference.OpenPublication(m.Publication)
	if err != nil {
		f.addRefusal(Refusal{Why: err.Error()})
		return err
	}
	to := env.Peer{ID: from}
	if routed || len(m.Record) > 0 {
		record, err := f.node.OpenRecord(m.Record)
		if err != nil {
			return err
		}
		to = record.Peer
	}
	key := overlay.Key(f.node.Network(), p.URL)
	c := f.feeds[key]
	if c == nil || c.leader == nil {
		v, ok := f.owners.View(key)
		if routed && ok && v.Epoch != nil && v.Epoch.Sequencer != f.signer.PeerID() {
			next := env.Peer{ID: v.Epoch.Sequencer}
			if known := f.node.Contact(next.ID); known != nil {
				next = known.Peer
			}
			f.net.Send(next, env.Control, wire.AppendFrame(nil, wire.Feed, &feedtreepb.Message{Body: &feedtreepb.Message_Push{Push: m}}))
		}
		return nil // the publisher's node sends it again
	}
	if c.leader.ready {
		f.accept(c, p, to)
	}
	return nil
}

// accept accepts a publication of a feed that this node leads, or refuses it with a reason.
func (f *FeedTree) accept(c *channel, p *difference.Publication, to env.Peer) {
	l := c.leader
	answer := func(v feedtreepb.PushReply_Verdict, reason string) {
		m := &feedtreepb.PushReply{Hash: p.Hash[:], Verdict: v, Reason: reason}
		if l.pin != nil {
			m.Pubseq = l.pin.Seq
		}
		if to.ID == f.signer.PeerID() {
			f.onPushReply(to.ID, m)
			return
		}
		f.send(to, &feedtreepb.Message{Body: &feedtreepb.Message_PushReply{PushReply: m}})
	}
	refuse := func(v feedtreepb.PushReply_Verdict, format string, args ...any) {
		reason := fmt.Sprintf(format, args...)
		f.refuse(c, p, reason)
		answer(v, reason)
	}
	if l.pin.Revoked(p.Key) {
		f.fetchForKey(c) // earlier owners may have lied about the key
		refuse(feedtreepb.PushReply_REVOKED, "the feed has withdrawn this key")
		return
	}
	if l.pin.IsFormer(p.Key) && f.clock.Now().Sub(l.pin.Since) < originLag {
		refuse(feedtreepb.PushReply_REVOKED, "another key has replaced this one: publish with the file of the new key")
		return
	}
	if l.pin == nil || !p.SignedBy(l.pin.Key) {
		if l.pin == nil || l.pin.Next == (feed.Hash{}) || difference.KeyHash(p.Key) != l.pin.Next {
			f.fetchForKey(c)
			refuse(feedtreepb.PushReply_UNKNOWN, "the feed's document does not name this key yet: the document is being fetched, and counts only over HTTPS or from a private address")
			return
		}
		if f.inOrder(l, p) == "" {
			f.setPin(c, l.pin.Rotate(p.Key, feed.Hash{}, f.clock.Now(), nil)) // the former key has named this one
		}
	}
	if was, known := l.receipts[p.Seq]; known && was.hash == p.Hash {
		if was.committed {
			answer(feedtreepb.PushReply_COMMITTED, "") // the first answer was lost
		}
		return
	}
	if why := f.inOrder(l, p); why != "" {
		v := feedtreepb.PushReply_CONFLICT
		if p.Seq > l.pin.Seq {
			v = feedtreepb.PushReply_GAP
		}
		if p.Seq == l.pin.Seq+1 {
			v = feedtreepb.PushReply_CONFLICT
		}
		refuse(v, "%s", why)
		return
	}
	if p.Item == nil {
		l.hearPublisher(p, f.clock.Now())
		f.forgetRefusal(c, p, f.clock.Now())
		answer(feedtreepb.PushReply_COMMITTED, "")
		return
	}
	if len(l.accepted) >= f.owners.Room(c.key) {
		answer(feedtreepb.PushReply_BUSY, noRoom)
		return
	}
	l.accepted = append(l.accepted, acceptedPublication{p, l.pin, answer})
	l.pin = l.pin.Advance(p)
	l.addReceipt(p, false)
	l.hearPublisher(p, f.clock.Now())
	f.stats.Accepted++
	if !l.appending {
		f.appendBatch(c)
	}
}

const noRoom = "the feed's log has no room now"

// An accepted publication waits for its entry.
type acceptedPublication struct {
	*difference.Publication
	before *difference.Pin // the feed's pin before this publication
	answer func(v feedtreepb.PushReply_Verdict, reason string)
}

// appendAccepted makes entries of all accepted publications. It runs before anything else is appended, because the
// numbers in later entries count them.
func (f *FeedTree) appendAccepted(c *channel) {
	for l := c.leader; len(l.accepted) > 0; {
		f.appendBatch(c)
	}
}

// appendBatch makes one entry of accepted publications. Only one such entry waits for a quorum at a time, and the
// publications that come meanwhile share the next one. So many writers do not wait for equally many entries. A
// batch is small enough to travel with its entry down the tree, unless it is a single publication, and has at most
// one version of an item.
func (f *FeedTree) appendBatch(c *channel) {
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
	if f.append(c, d, func(ok bool) {
		l.appending = false
		for _, p := range batch {
			if ok { // otherwise the publisher's node sends it again, to the next sequencer
				l.addReceipt(p.Publication, true)
				f.forgetRefusal(c, p.Publication, f.clock.Now())
				p.answer(feedtreepb.PushReply_COMMITTED, "")
			}
		}
		if c.leader == l && !l.appending {
			f.appendBatch(c)
		}
	}) {
		return
	}
	l.appending, l.pin, l.accepted = false, batch[0].before, nil
	for _, p := range slices.Concat(batch, rest) {
		delete(l.receipts, p.Seq)
		p.answer(feedtreepb.PushReply_BUSY, noRoom)
	}
}

// inOrder returns the reason why a publication is not the next one, or "" if it is. The first known publication of
// a feed may have any number.
func (f *FeedTree) inOrder(l *leaderState, p *difference.Publication) string {
	last := l.pin.Seq
	switch {
	case last == 0:
	case p.Item == nil && p.Seq == last && p.Prev == l.pin.Head:
	case p.Item == nil && p.Seq <= last:
		return fmt.Sprintf("the heartbeat says that number %d is the last one, but the network has number %d: this publisher's record is old, or somebody else has its key", p.Seq, last)
	case p.Seq <= last:
		return fmt.Sprintf("number %d was used before, and the network has number %d: this publisher's record is old, or somebody else has its key", p.Seq, last)
	case p.Item == nil && p.Seq == last+1, p.Seq > last+1:
		return fmt.Sprintf("the network has number %d and this is number %d: items are missing", last, p.Seq)
	case p.Prev != l.pin.Head:
		return fmt.Sprintf("this does not continue number %d as the network has it: somebody else has this key, or the publisher's record was lost", last)
	}
	return ""
}

// A Refusal describes something that this node refused: a publication, as the sequencer of its feed, or a message
// that is not a valid publication or entry.
type Refusal struct {
	URL string // "" if unknown, or if only an unverified message names it
	Seq uint64 // number of the publication
	Key []byte // key that signed the publication; nil: no valid signature
	Why string
	At  time.Time

	retryable, beat bool // the publication may be accepted later; it is a heartbeat of the publisher
}

// refuse counts and records a refused publication.
func (f *FeedTree) refuse(c *channel, p *difference.Publication, why string) {
	f.stats.Refused++
	f.addRefusal(Refusal{URL: c.url, Seq: p.Seq, Key: p.Key, Why: why, retryable: true, beat: p.Item == nil})
}

// forgetRefusal drops the refusals of a publication that was accepted later, at a given time: at first its key was
// unknown, or the publications before it were missing.
func (f *FeedTree) forgetRefusal(c *channel, p *difference.Publication, at time.Time) {
	f.refusals = slices.DeleteFunc(f.refusals, func(r Refusal) bool {
		return r.retryable && r.URL == c.url && r.Seq == p.Seq && p.SignedBy(r.Key) && (r.beat || p.Item != nil) && !r.At.After(at)
	})
}

// addRefusal records a refusal. A repeated one replaces the first.
func (f *FeedTree) addRefusal(r Refusal) {
	r.At = f.clock.Now()
	f.refusals = slices.DeleteFunc(f.refusals, func(old Refusal) bool {
		return old.URL == r.URL && old.Seq == r.Seq && bytes.Equal(old.Key, r.Key) && old.beat == r.beat && old.Why == r.Why
	})
	f.refusals = append(f.refusals, r)
	f.refusals = f.refusals[max(0, len(f.refusals)-maxRefusals):]
}

// Refusals returns the latest refusals, the oldest first.
func (f *FeedTree) Refusals() []Refusal { return slices.Clone(f.refusals) }

// backstopChanges returns the changes of a poll that are for the log. An item that its publisher has signed
// stays as it is. Other items are left to the publisher, unless it is silent or cannot sign them. If some are left
// to it, all is false, and the next poll reports them again.
func (f *FeedTree) backstopChanges(c *channel, d difference.Delta) (_ difference.Delta, all bool) {
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
	if len(rest) == 0 || f.publisherSilent(l) {
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
func (f *FeedTree) publisherSilent(l *leaderState) bool {
	beat := l.pin.Beat
	if beat == 0 {
		beat = f.cfg.BeatInterval
	}
	return l.publisherHeardAt.IsZero() || f.clock.Now().Sub(l.publisherHeardAt) > silentIntervals*beat
}
