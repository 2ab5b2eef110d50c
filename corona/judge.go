package corona

import (
	"bytes"
	"encoding/binary"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"tidings/corona/coronapb"
	"tidings/difference"
	"tidings/internal/env"
	"tidings/internal/feed"
	"tidings/internal/wire"
	"tidings/overlay"
)

// The way of a finding, at the sequencer. Of the items of a document it has prints; those
// that are new it has, or asks for; then it is as if it had read the document itself.

const (
	// maxGather bounds the findings of one channel that wait for their items, maxGathers
	// those of all: further ones are dropped, and come again.
	maxGather  = 4
	maxGathers = 256
	// wantAgain is waited for items that were asked for; wantTries is how often they are as
	// long as nothing comes of them. In all it takes no longer than their poller holds them.
	wantAgain = 3 * time.Second
	wantTries = 3
	// hurried is how long it takes at most while others of the channel wait: who sends its items a
	// little at a time must not keep everybody's out.
	hurried = 30 * time.Second
	// maxReporters bounds the pollers of a channel whose last report is remembered. At the bound all are
	// forgotten; few channels have so many pollers.
	maxReporters = 1024
)

// A gather is a finding whose items are on their way.
type gather struct {
	from   env.Peer
	nonce  uint64
	prints []imprint
	lacks  []bool // of each item: only its print is here
	headed bool   // the head of the document is here
	reading
	wanted []uint32 // items that were asked for; nil: nothing was yet
	packed []byte   // what has come of them
	size   int      // of all of it; 0: not known yet
	tries  int
	due    time.Time
	since  time.Time // when they were asked for first; zero: they were not yet
}

// onChange takes what a poller says it has read. Only a member that can stand in the channel's
// wedge is heard, and only with its own signature on what it says, which has to be of late: a
// forged reading would become an entry that all readers see. from is empty if the report was
// routed here; else it is the poller itself, or the root of the key, which passes on what was
// routed to it.
func (c *Corona) onChange(l *lead, from env.PeerID, m *coronapb.ChangeReport) {
	signed, err := c.verifier.Open(wire.DomainReading, m.Reading)
	if err != nil {
		c.stats.Garbage++
		return
	}
	r, err := parseReading(signed.Payload)
	if err != nil || overlay.ID(r.Key) != l.key {
		c.stats.Garbage++
		return
	}
	poller, err := c.node.OpenRecord(r.Poller)
	if err != nil || poller.Peer.ID != wire.PeerIDOf(signed.Key) {
		c.stats.Garbage++
		return
	}
	sent := from == "" || from == poller.Peer.ID || c.mayLead(overlay.NodeID(c.cfg.Network, from), l.key)
	told := time.UnixMilli(int64(min(r.AtMs, maxMillis)))
	if !sent || !c.mayReport(l, poller.ID, r.Ticket) || !c.timely(l, poller.Peer.ID, told, r.Ticket) {
		c.stats.Strangers++
		return
	}
	c.onReading(l, poller.Peer, r)
}

// timely says whether a report is of now, and no copy of an earlier one that somebody sends again. If one of
// the clocks is wrong, it has to be later than all others that the poller has made with this sequencer's
// ticket: a sequencer must not be deaf because its clock is wrong.
func (c *Corona) timely(l *lead, poller env.PeerID, told time.Time, ticket uint64) bool {
	near := c.clock.Now().Sub(told).Abs() <= clockSlack+heldFor
	if !near && (ticket != l.ticket || !told.After(l.spoke[poller])) {
		return false
	}
	if told.After(l.spoke[poller]) {
		if len(l.spoke) >= maxReporters {
			clear(l.spoke)
		}
		l.spoke[poller] = told
	}
	return true
}

// couldPoll says whether a node can have a rank in the wedge of a channel that is led here. Ids
// near the key are cheap, so a node that would stand in this node's leaf has to be a member of it:
// all members there are known.
func (c *Corona) couldPoll(id overlay.ID, l *lead) bool {
	if leaf := c.node.Leaf(); leaf.Covers(id) && leaf.Has(id) == nil {
		return false
	}
	return c.couldStand(id, l.key, l.pollers)
}

// mayReport says whether a node may bring news of a channel that is led here. Members of this node's
// leaf are known. A node beyond it could be anybody whose id lies well; it shows the ticket that the
// sequencer has told the channel's pollers, and nobody else.
func (c *Corona) mayReport(l *lead, id overlay.ID, ticket uint64) bool {
	return c.couldPoll(id, l) && (c.node.Leaf().Covers(id) || ticket == l.ticket)
}

// ticketOf makes a ticket that nobody else can guess.
func (c *Corona) ticketOf(key overlay.ID, epoch uint64) uint64 {
	return binary.BigEndian.Uint64(c.signer.Signature(wire.DomainTicket, binary.BigEndian.AppendUint64(key[:], epoch)))
}

// onReading takes a document that a poller has read.
func (c *Corona) onReading(l *lead, from env.Peer, m *coronapb.Reading) {
	of := parsePrints(m.Prints)
	for _, g := range l.gather {
		if g.from.ID == from.ID {
			return // it says so again
		}
	}
	if len(l.gather) >= maxGather || c.gathers >= maxGathers {
		c.stats.Crowded++
		return
	}
	g := &gather{from: from, headed: l.page, nonce: m.Nonce, prints: of, lacks: make([]bool, len(of)), reading: readingFrom(m, of)}
	for i := range of {
		g.lacks[i] = true
	}
	l.gather = append(l.gather, g)
	c.gathers++
	c.fill(l, g, m.Delta)
}

// fill puts items that have come in their places, and goes on.
func (c *Corona) fill(l *lead, g *gather, packed []byte) {
	var d difference.Delta
	var seen *sight
	var err error
	c.worker.Do(func() {
		if d, err = difference.Decode(packed); err == nil && d.Page != nil {
			seen, err = sightIn(&d)
		}
	}, func() {
		switch {
		case c.leads[l.key] != l || !slices.Contains(l.gather, g):
			return
		case len(packed) > 0 && err != nil:
			c.stats.Garbage++
			c.dropGather(l, g)
			return
		}
		if d.Head != nil {
			g.f.Head, g.headed = *d.Head, true
		}
		if seen != nil && l.page && len(g.prints) == 1 && seen.print() == g.prints[0] {
			g.page, g.lacks[0] = seen, false
		}
		for _, change := range d.Changes {
			i := slices.Index(g.prints, printOf(&change.Item))
			if i < 0 {
				continue
			}
			g.f.Items[i], g.lacks[i] = change.Item, false
			// Where it stands is told by the whole identity of the one before it.
			if i > 0 && [16]byte(change.After[:16]) == g.prints[i-1].id {
				g.f.Items[i-1].ID = change.After
			}
		}
		c.weigh(l, g)
	})
}

// weigh asks for what is still missing of a finding, or takes it. Of several who find the same,
// one after the other is asked.
func (c *Corona) weigh(l *lead, g *gather) {
	now := c.clock.Now()
	fading := c.app.Fading(l.key, len(g.prints))
	var want []uint32
	for i, it := range g.f.Items {
		if !g.lacks[i] || l.page && l.same(&g.reading) {
			continue
		}
		_, version := l.known.Has(it.ID, it.Hash)
		if !version || slices.ContainsFunc(fading, func(id feed.ID) bool { return [16]byte(id[:16]) == g.prints[i].id }) {
			want = append(want, uint32(i))
		}
	}
	fresh := slices.Contains(g.lacks, false)
	switch {
	case len(want) == 0 && (g.headed || !fresh):
		c.dropGather(l, g)
		c.accept(l, g.from, g.reading, g.nonce, now)
	case len(want) == 0:
		c.stats.Garbage++ // items without the head that was asked for: nobody could read the entry
		c.dropGather(l, g)
	case l.gather[0] != g:
	case slices.Equal(want, g.wanted):
		c.stats.Garbage++ // what came is not what was asked for
		c.dropGather(l, g)
	default:
		g.wanted, g.packed, g.size, g.tries = want, nil, 0, 0
		c.want(l, g, now)
	}
}

// want asks for items, or for what is missing of them.
func (c *Corona) want(l *lead, g *gather, now time.Time) {
	if g.since.IsZero() {
		g.since = now
	}
	longest := heldFor
	if len(l.gather) > 1 {
		longest = hurried
	}
	if g.tries++; g.tries > wantTries || now.Sub(g.since) > longest {
		c.dropGather(l, g)
		return
	}
	g.due = now.Add(wantAgain)
	c.mail.Add(g.due, post{key: l.key, nonce: g.nonce})
	c.send(g.from, env.Control, &coronapb.Message{Body: &coronapb.Message_Want{Want: &coronapb.Want{
		Key: l.key[:], Nonce: g.nonce, Items: g.wanted, Offset: uint32(len(g.packed)), Head: !g.headed,
	}}})
}

// onPart takes a part of items that were asked for.
func (c *Corona) onPart(l *lead, from env.PeerID, m *coronapb.Part) {
	i := slices.IndexFunc(l.gather, func(g *gather) bool { return g.nonce == m.Nonce && g.from.ID == from && g.wanted != nil })
	if i < 0 {
		return
	}
	g, now := l.gather[i], c.clock.Now()
	switch {
	case m.Size == 0:
		c.dropGather(l, g)
		return
	case g.size != 0 && g.size != int(m.Size):
		return // of what was asked for before
	case int(m.Offset) != len(g.packed) || len(m.Data) != min(partSize, int(m.Size-m.Offset)):
		return // out of turn: it comes again
	}
	g.size, g.tries = int(m.Size), 0
	g.packed = append(g.packed, m.Data...)
	switch {
	case len(g.packed) == g.size:
		packed := g.packed
		g.packed = nil
		c.fill(l, g, packed)
	case len(g.packed)%(partAhead*partSize) == 0:
		c.want(l, g, now)
	}
}

// dropGather ends a finding, and goes on with the next one of the channel.
func (c *Corona) dropGather(l *lead, g *gather) {
	i := slices.Index(l.gather, g)
	if i < 0 {
		return
	}
	l.gather = slices.Delete(l.gather, i, i+1)
	c.gathers--
	if i == 0 && len(l.gather) > 0 {
		c.worker.Do(func() {}, func() {
			if c.leads[l.key] == l && len(l.gather) > 0 && l.gather[0].wanted == nil {
				c.weigh(l, l.gather[0])
			}
		})
	}
}

// accept takes a finding whose news is all here. It answers the poller at once if nothing is new, otherwise
// when the log holds the news. from is empty if this node is the poller.
func (c *Corona) accept(l *lead, from env.Peer, r reading, nonce uint64, now time.Time) {
	switch {
	case r.handed:
		c.takeHanded(l, r, func() {
			if from.ID != "" {
				c.send(from, env.Control, c.standingOf(l, nonce))
			}
		})
	case !c.read(l, from, r, now) || from.ID == "":
		// Its poller tells it again; or the poller is here, and has no answer to wait for.
	case l.handing == 0 && l.standing() != nil:
		c.send(from, env.Control, c.standingOf(l, nonce))
	default:
		l.wait(waiter{from, nonce})
	}
}

// wait notes that a poller waits for an answer, to the last that it has told. Further ones
// find the same again.
func (l *lead) wait(w waiter) {
	i := slices.IndexFunc(l.waiters, func(other waiter) bool { return other.to.ID == w.to.ID })
	switch {
	case i >= 0:
		l.waiters[i] = w
	case len(l.waiters) < maxWaiters:
		l.waiters = append(l.waiters, w)
	}
}

// maxWaiters bounds the pollers of one channel that are to be told when its log holds what
// they found.
const maxWaiters = 1024

// A waiter is a poller that is to be told when the log holds what it has found.
type waiter struct {
	to    env.Peer
	nonce uint64
}

// standingOf is what a poller is told of a channel that has a document.
func (c *Corona) standingOf(l *lead, nonce uint64) *coronapb.Message {
	s := l.standing()
	if s == nil {
		s = &standing{}
	}
	return s.message(l.key, nonce, l.rest.Sub(c.clock.Now()))
}

// stand notes that the log holds all of a document, and tells the pollers.
func (c *Corona) stand(l *lead, valid validators, shown []imprint) {
	if l.prints != nil {
		l.past = append(l.past, past{digest(l.prints), c.clock.Now()})
		l.past = l.past[max(len(l.past)-maxPast, 0):]
	}
	l.valid, l.prints = valid, shown
	c.note(l)
	if d := c.duties.Get(l.key); d != nil {
		d.know(l.standing(), l.rest)
	}
	if l.order.N > 0 {
		// Whom it does not reach hears it when it finds what is known.
		_ = c.wedges.Down(l.key, marshal(c.standingOf(l, 0)))
	}
	for _, w := range l.waiters {
		c.send(w.to, env.Control, c.standingOf(l, w.nonce))
	}
	l.waiters = nil
}

// A past is a document that stood before, and until when.
type past struct {
	digest uint64
	until  time.Time
}

// maxPast is how many of them are remembered: replicas that lag further behind are not met.
const maxPast = 4

// wantDue asks again for items that have not come.
func (c *Corona) wantDue(l *lead, nonce uint64, now time.Time) {
	for _, g := range l.gather {
		if g.nonce == nonce && !g.due.IsZero() && !now.Before(g.due) {
			c.want(l, g, now)
			return
		}
	}
}

// onReport takes the word of a poller about its polls, if it has signed it, of late, and can
// stand in the channel's wedge.
func (c *Corona) onReport(l *lead, m *coronapb.Report) {
	now, of := c.clock.Now(), new(coronapb.Told)
	signed, err := c.verifier.Open(wire.DomainReport, m.Told)
	if err != nil || proto.Unmarshal(signed.Payload, of) != nil || !bytes.Equal(of.Key, l.key[:]) || breaksTold(of) != "" {
		c.stats.Garbage++
		return
	}
	s, from := stateFrom(of.State), wire.PeerIDOf(signed.Key)
	if !c.couldPoll(overlay.NodeID(c.cfg.Network, from), l) || now.Sub(s.Polled).Abs() > clockSlack+retell {
		c.stats.Unheard++
		return
	}
	if s.Kind == coronapb.State_OK {
		delete(l.ill, from)
		l.wellAt = now
		c.mend(l, now)
		return
	}
	c.heard(l, from, s, now)
}
