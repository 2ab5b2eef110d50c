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
	silentFor = 2
	// maxTaken is how many publications are remembered by their numbers: what was taken longer
	// ago and comes again is no conflict, but old.
	maxTaken = 512
	// maxRefusals is how many refusals are kept for people.
	maxRefusals = 16
)

// A receipt is what is remembered of a publication that was taken.
type receipt struct {
	hash feed.Hash
	held bool // by a quorum
}

// take notes a publication.
func (l *lead) take(p *difference.Publication, held bool) {
	if l.taken == nil {
		l.taken = map[uint64]receipt{}
	}
	l.taken[p.Seq] = receipt{p.Hash, held}
	if len(l.taken) > maxTaken {
		least := p.Seq
		for seq := range l.taken {
			least = min(least, seq)
		}
		delete(l.taken, least)
	}
}

// hears notes that a publisher has spoken. A heartbeat that is said again, perhaps by others, is old;
// an item that was taken is not.
func (l *lead) hears(p *difference.Publication, at time.Time) {
	fresh := p.Time.After(l.said)
	if fresh {
		l.said = p.Time
	}
	if fresh || p.Item != nil {
		l.heard = at
	}
}

// onPush takes a publication, or passes it on to the sequencer if it was routed here.
func (f *FeedTree) onPush(from env.PeerID, m *feedtreepb.Push, routed bool) error {
	p, err := difference.OpenPublication(m.Publication)
	if err != nil {
		f.note(Refusal{Why: err.Error()})
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
	if c == nil || c.lead == nil {
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
	if c.lead.ready {
		f.accept(c, p, to)
	}
	return nil
}

// accept takes a publication of a feed that is led here, or refuses it and says why.
func (f *FeedTree) accept(c *channel, p *difference.Publication, to env.Peer) {
	l := c.lead
	answer := func(v feedtreepb.Pushed_Verdict, words string) {
		m := &feedtreepb.Pushed{Hash: p.Hash[:], Verdict: v, Words: words}
		if l.pin != nil {
			m.Pubseq = l.pin.Seq
		}
		if to.ID == f.signer.PeerID() {
			f.onPushed(to.ID, m)
			return
		}
		f.send(to, &feedtreepb.Message{Body: &feedtreepb.Message_Pushed{Pushed: m}})
	}
	refuse := func(v feedtreepb.Pushed_Verdict, format string, args ...any) {
		words := fmt.Sprintf(format, args...)
		f.refuse(c, p, words)
		answer(v, words)
	}
	if l.pin.Revoked(p.Key) {
		f.seek(c) // the owners of before may have lied
		refuse(feedtreepb.Pushed_REVOKED, "the feed has withdrawn this key")
		return
	}
	if l.pin.Had(p.Key) && f.clock.Now().Sub(l.pin.Since) < lagTime {
		refuse(feedtreepb.Pushed_REVOKED, "another key has replaced this one: publish with the file of the new key")
		return
	}
	if l.pin == nil || !p.By(l.pin.Key) {
		if l.pin == nil || l.pin.Next == (feed.Hash{}) || difference.KeyHash(p.Key) != l.pin.Next {
			f.seek(c)
			refuse(feedtreepb.Pushed_UNKNOWN, "the feed's document does not name this key yet: it is being read, and counts only over HTTPS or from a private address")
			return
		}
		if f.inOrder(l, p) == "" {
			f.repin(c, l.pin.Change(p.Key, feed.Hash{}, f.clock.Now(), nil)) // it was named before
		}
	}
	if was, known := l.taken[p.Seq]; known && was.hash == p.Hash {
		if was.held {
			answer(feedtreepb.Pushed_HELD, "") // the answer was lost
		}
		return
	}
	if why := f.inOrder(l, p); why != "" {
		v := feedtreepb.Pushed_CONFLICT
		if p.Seq > l.pin.Seq {
			v = feedtreepb.Pushed_GAP
		}
		if p.Seq == l.pin.Seq+1 {
			v = feedtreepb.Pushed_CONFLICT
		}
		refuse(v, "%s", why)
		return
	}
	if p.Item == nil {
		l.hears(p, f.clock.Now())
		f.taken(c, p, f.clock.Now())
		answer(feedtreepb.Pushed_HELD, "")
		return
	}
	if len(l.accepted) >= f.owners.Room(c.key) {
		answer(feedtreepb.Pushed_BUSY, noRoom)
		return
	}
	l.accepted = append(l.accepted, accepted{p, l.pin, answer})
	l.pin = l.pin.After(p)
	l.take(p, false)
	l.hears(p, f.clock.Now())
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
	answer func(v feedtreepb.Pushed_Verdict, words string)
}

// appendAccepted makes entries of all publications that were accepted: whatever else is appended to the
// log is counted from them.
func (f *FeedTree) appendAccepted(c *channel) {
	for l := c.lead; len(l.accepted) > 0; {
		f.appendBatch(c)
	}
}

// appendBatch makes an entry of publications that were accepted. One entry is on its way to a quorum at a
// time, and those that come meanwhile go together into the next one, so that many writers do not wait for as
// many entries. A batch is so large that it travels beside its entry, or it is one publication; it has one version of an item.
func (f *FeedTree) appendBatch(c *channel) {
	l := c.lead
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
				l.take(p.Publication, true)
				f.taken(c, p.Publication, f.clock.Now())
				p.answer(feedtreepb.Pushed_HELD, "")
			}
		}
		if c.lead == l && !l.appending {
			f.appendBatch(c)
		}
	}) {
		return
	}
	l.appending, l.pin, l.accepted = false, batch[0].before, nil
	for _, p := range slices.Concat(batch, rest) {
		delete(l.taken, p.Seq)
		p.answer(feedtreepb.Pushed_BUSY, noRoom)
	}
}

// inOrder says, in words, why a publication is not the next one; "" if it is. The first one that
// is known of a feed may have any number.
func (f *FeedTree) inOrder(l *lead, p *difference.Publication) string {
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

	may, beat bool // it may be taken later, when it comes again; it says that nothing is new
}

// refuse notes a publication that was refused.
func (f *FeedTree) refuse(c *channel, p *difference.Publication, why string) {
	f.stats.Refused++
	f.note(Refusal{URL: c.url, Seq: p.Seq, Key: p.Key, Why: why, may: true, beat: p.Item == nil})
}

// taken forgets that a publication was refused before it was taken, at a time: its key was not known then,
// or what came before it.
func (f *FeedTree) taken(c *channel, p *difference.Publication, at time.Time) {
	f.refused = slices.DeleteFunc(f.refused, func(r Refusal) bool {
		return r.may && r.URL == c.url && r.Seq == p.Seq && p.By(r.Key) && (r.beat || p.Item != nil) && !r.At.After(at)
	})
}

// note notes a refusal; the same one again is one.
func (f *FeedTree) note(r Refusal) {
	r.At = f.clock.Now()
	f.refused = slices.DeleteFunc(f.refused, func(old Refusal) bool {
		return old.URL == r.URL && old.Seq == r.Seq && bytes.Equal(old.Key, r.Key) && old.beat == r.beat && old.Why == r.Why
	})
	f.refused = append(f.refused, r)
	f.refused = f.refused[max(0, len(f.refused)-maxRefusals):]
}

// Refusals are the last ones, the oldest first.
func (f *FeedTree) Refusals() []Refusal { return slices.Clone(f.refused) }

// backstop returns what of a finding is for the log. An item that its publisher has signed stays
// as it is; others are left to the publisher, unless that is silent or cannot sign them: all is then
// false, and the next poll finds those that were left again.
func (f *FeedTree) backstop(c *channel, d difference.Delta) (_ difference.Delta, all bool) {
	l := c.lead
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
	if len(rest) == 0 || f.silent(l) {
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
func (f *FeedTree) silent(l *lead) bool {
	beat := l.pin.Beat
	if beat == 0 {
		beat = f.cfg.BeatInterval
	}
	return l.heard.IsZero() || f.clock.Now().Sub(l.heard) > silentFor*beat
}
