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

// The way of a publication, at the sequencer: it takes what the feed's publisher has signed, in
// the order of the publisher's numbers, none of them twice and none left out.

const (
	// silentFor is after how many beat intervals a publisher is silent: then what polls find is
	// for readers, as with any feed.
	silentIntervals = 2
	// maxTaken is how many publications are remembered by their numbers: what was taken longer
	// ago and comes again is no conflict, but old.
	maxReceipts = 512
	// maxRefusals is how many refusals are kept for people.
	maxRefusals = 16
)

// A receipt is what is remembered of a publication that was taken.
type receipt struct {
	hash      feed.Hash
	committed bool // by a quorum
}

// take notes a publication.
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

// hears notes that a publisher has spoken. A heartbeat that is said again, perhaps by others, is old;
// an item that was taken is not.
func (l *leaderState) hearPublisher(p *difference.Publication, at time.Time) {
	fresh := p.Time.After(l.publisherTime)
	if fresh {
		l.publisherTime = p.Time
	}
	if fresh || p.Item != nil {
		l.publisherHeardAt = at
	}
}

// onPush takes a publication, or passes it on to the sequencer if it was routed here.
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
		return nil // it comes again
	}
	if c.leader.ready {
		f.accept(c, p, to)
	}
	return nil
}

// accept takes a publication of a feed that is led here, or refuses it and says why.
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
		f.fetchForKey(c) // the owners of before may have lied
		refuse(feedtreepb.PushReply_REVOKED, "the feed has withdrawn this key")
		return
	}
	if l.pin.Had(p.Key) && f.clock.Now().Sub(l.pin.Since) < originLag {
		refuse(feedtreepb.PushReply_REVOKED, "another key has replaced this one: publish with the file of the new key")
		return
	}
	if l.pin == nil || !p.By(l.pin.Key) {
		if l.pin == nil || l.pin.Next == (feed.Hash{}) || difference.KeyHash(p.Key) != l.pin.Next {
			f.fetchForKey(c)
			refuse(feedtreepb.PushReply_UNKNOWN, "the feed's document does not name this key yet: it is being read, and counts only over HTTPS or from a private address")
			return
		}
		if f.inOrder(l, p) == "" {
			f.setPin(c, l.pin.Change(p.Key, feed.Hash{}, f.clock.Now(), nil)) // it was named before
		}
	}
	if was, known := l.receipts[p.Seq]; known && was.hash == p.Hash {
		if was.committed {
			answer(feedtreepb.PushReply_COMMITTED, "") // the answer was lost
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
	l.accepted = append(l.accepted, accepted{p, l.pin, answer})
	l.pin = l.pin.After(p)
	l.addReceipt(p, false)
	l.hearPublisher(p, f.clock.Now())
	f.stats.Accepted++
	if !l.appending {
		f.appendBatch(c)
	}
}

const noRoom = "there is no room for it now"

// An accepted publication is on its way into the log.
type accepted struct {
	*difference.Publication
	before *difference.Pin // without it
	answer func(v feedtreepb.PushReply_Verdict, reason string)
}

// appendAccepted makes entries of all publications that were accepted: whatever else is appended to the
// log is counted from them.
func (f *FeedTree) appendAccepted(c *channel) {
	for l := c.leader; len(l.accepted) > 0; {
		f.appendBatch(c)
	}
}

// appendBatch makes an entry of publications that were accepted. One entry is on its way to a quorum at a
// time, and those that come meanwhile go together into the next one, so that many writers do not wait for as
// many entries. A batch is so large that it travels beside its entry, or it is one publication; it has one version of an item.
func (f *FeedTree) appendBatch(c *channel) {
	l := c.leader
	n, size := 0, 0
	here := map[feed.ID]bool{} // one entry cannot have two versions of an item
	for n < len(l.accepted) && (n == 0 || size+len(l.accepted[n].Raw) <= maxInline) && !here[l.accepted[n].Item.ID] {
		size += len(l.accepted[n].Raw)
		here[l.accepted[n].Item.ID] = true
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
			if ok { // else it is sent again, to who leads now
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

// inOrder says, in words, why a publication is not the next one; "" if it is. The first one that
// is known of a feed may have any number.
func (f *FeedTree) inOrder(l *leaderState, p *difference.Publication) string {
	last := l.pin.Seq
	switch {
	case last == 0:
	case p.Item == nil && p.Seq == last && p.Prev == l.pin.Head:
	case p.Item == nil && p.Seq <= last:
		return fmt.Sprintf("it says that nothing came after number %d, and the network has number %d: this publisher's record is old, or somebody else has its key", p.Seq, last)
	case p.Seq <= last:
		return fmt.Sprintf("number %d was given before, and the network has number %d: this publisher's record is old, or somebody else has its key", p.Seq, last)
	case p.Item == nil && p.Seq == last+1, p.Seq > last+1:
		return fmt.Sprintf("the network has number %d: what came between that and number %d is missing", last, p.Seq)
	case p.Prev != l.pin.Head:
		return fmt.Sprintf("it does not follow on number %d as the network has it: somebody else has this key, or its record was lost", last)
	}
	return ""
}

// A Refusal is what was refused by this node: a publication, by the sequencer of its feed, or what
// came in place of one, or of an entry.
type Refusal struct {
	URL string // "": it does not say, or nobody can be believed to have said so
	Seq uint64 // a publication's number
	Key []byte // of who has signed that; nil: nobody has
	Why string
	At  time.Time

	retryable, beat bool // it may be taken later, when it comes again; it says that nothing is new
}

// refuse notes a publication that was refused.
func (f *FeedTree) refuse(c *channel, p *difference.Publication, why string) {
	f.stats.Refused++
	f.addRefusal(Refusal{URL: c.url, Seq: p.Seq, Key: p.Key, Why: why, retryable: true, beat: p.Item == nil})
}

// taken forgets that a publication was refused before it was taken, at a time: its key was not known then,
// or what came before it.
func (f *FeedTree) forgetRefusal(c *channel, p *difference.Publication, at time.Time) {
	f.refusals = slices.DeleteFunc(f.refusals, func(r Refusal) bool {
		return r.retryable && r.URL == c.url && r.Seq == p.Seq && p.By(r.Key) && (r.beat || p.Item != nil) && !r.At.After(at)
	})
}

// note notes a refusal; the same one again is one.
func (f *FeedTree) addRefusal(r Refusal) {
	r.At = f.clock.Now()
	f.refusals = slices.DeleteFunc(f.refusals, func(old Refusal) bool {
		return old.URL == r.URL && old.Seq == r.Seq && bytes.Equal(old.Key, r.Key) && old.beat == r.beat && old.Why == r.Why
	})
	f.refusals = append(f.refusals, r)
	f.refusals = f.refusals[max(0, len(f.refusals)-maxRefusals):]
}

// Refusals are the last ones, the oldest first.
func (f *FeedTree) Refusals() []Refusal { return slices.Clone(f.refusals) }

// backstop returns what of a finding is for the log. An item that its publisher has signed stays
// as it is; others are left to the publisher, unless that is silent or cannot sign them: all is then
// false, and the next poll finds those that were left again.
func (f *FeedTree) withoutPublishersItems(c *channel, d difference.Delta) (_ difference.Delta, all bool) {
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

// silent says whether a publisher was not heard for so long that polls have to do.
func (f *FeedTree) publisherSilent(l *leaderState) bool {
	beat := l.pin.Beat
	if beat == 0 {
		beat = f.cfg.BeatInterval
	}
	return l.publisherHeardAt.IsZero() || f.clock.Now().Sub(l.publisherHeardAt) > silentIntervals*beat
}
