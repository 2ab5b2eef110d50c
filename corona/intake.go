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

// Change reports, at the sequencer. A report has the fingerprints of all items of a document. The
// sequencer has the new items already or requests them; then it continues as if it had fetched the
// document itself.

const (
	// maxItemFetches bounds the change reports of one channel that wait for their items, and
	// maxAllItemFetches those of all channels. Further reports are dropped; their pollers repeat
	// them.
	maxItemFetches    = 4
	maxAllItemFetches = 256
	// itemRetry is the delay before items are requested again, and maxItemTries the number of
	// requests without any progress. Together they are shorter than keepReportFor.
	itemRetry    = 3 * time.Second
	maxItemTries = 3
	// sharedFetchLimit bounds the duration of an item fetch while other reports of the channel
	// wait, so that a slow poller cannot block the others.
	sharedFetchLimit = 30 * time.Second
	// maxReporters bounds the pollers of a channel whose last report is remembered. At the bound
	// all of them are forgotten; few channels have so many pollers.
	maxReporters = 1024
)

// itemFetch is a change report whose items are being fetched.
type itemFetch struct {
	from         env.Peer
	nonce        uint64
	fingerprints []fingerprint
	missing      []bool // for each item: only its fingerprint is known
	hasHead      bool   // the head of the document has arrived
	observation
	wanted []uint32 // indexes of the requested items; nil: none yet
	packed []byte   // bytes received so far
	size   int      // size of the whole answer; 0: not known yet
	tries  int
	due    time.Time
	since  time.Time // when items were first requested; zero: not yet
}

// onChange receives a change report. Its poller must be able to have a rank in the channel's wedge,
// and must have signed the observation recently: a forged observation would become an entry that
// all readers see. from is empty if the report was routed to this node; otherwise it is the poller,
// or the root of the key, which forwards routed reports.
func (c *Corona) onChange(l *leaderState, from env.PeerID, m *coronapb.ChangeReport) {
	signed, err := c.verifier.Open(wire.DomainObservation, m.Observation)
	if err != nil {
		c.stats.Garbage++
		return
	}
	r, err := parseObservation(signed.Payload)
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
	sentAt := time.UnixMilli(int64(min(r.AtMs, maxMillis)))
	if !sent || !c.mayReport(l, poller.ID, r.Ticket) || !c.timely(l, poller.Peer.ID, sentAt, r.Ticket) {
		c.stats.Strangers++
		return
	}
	c.onObservation(l, poller.Peer, r)
}

// timely says whether an observation was signed recently, so that a copy sent again later is
// rejected. If the clocks differ by more than clockSlack, an observation with this sequencer's
// ticket is accepted if it is later than all earlier ones of its poller. Without that rule, a
// sequencer with a wrong clock would reject every report.
func (c *Corona) timely(l *leaderState, poller env.PeerID, sentAt time.Time, ticket uint64) bool {
	near := c.clock.Now().Sub(sentAt).Abs() <= clockSlack+keepReportFor
	if !near && (ticket != l.ticket || !sentAt.After(l.lastReport[poller])) {
		return false
	}
	if sentAt.After(l.lastReport[poller]) {
		if len(l.lastReport) >= maxReporters {
			clear(l.lastReport)
		}
		l.lastReport[poller] = sentAt
	}
	return true
}

// couldPoll says whether a node can have a rank in the wedge of a channel that is led here. Ids
// near a key are cheap to make, so a node whose id falls into the leaf set must be a known member
// of it.
func (c *Corona) couldPoll(id overlay.ID, l *leaderState) bool {
	if leaf := c.node.Leaf(); leaf.Covers(id) && leaf.Has(id) == nil {
		return false
	}
	return c.couldBeNearest(id, l.key, l.pollers)
}

// mayReport says whether a node may report changes of a channel that is led here. A member of the
// leaf set may. A node beyond it could be anybody with a suitable id, so it must show the ticket
// that the sequencer gives only to the channel's pollers.
func (c *Corona) mayReport(l *leaderState, id overlay.ID, ticket uint64) bool {
	return c.couldPoll(id, l) && (c.node.Leaf().Covers(id) || ticket == l.ticket)
}

// makeTicket makes a ticket that nobody else can guess.
func (c *Corona) makeTicket(key overlay.ID, epoch uint64) uint64 {
	return binary.BigEndian.Uint64(c.signer.Signature(wire.DomainTicket, binary.BigEndian.AppendUint64(key[:], epoch)))
}

// onObservation begins to fetch the items of an observation.
func (c *Corona) onObservation(l *leaderState, from env.Peer, m *coronapb.Observation) {
	of := parseFingerprints(m.Fingerprints)
	for _, g := range l.itemFetches {
		if g.from.ID == from.ID {
			return // a repeated report
		}
	}
	if len(l.itemFetches) >= maxItemFetches || c.itemFetchCount >= maxAllItemFetches {
		c.stats.Crowded++
		return
	}
	g := &itemFetch{from: from, hasHead: l.page, nonce: m.Nonce, fingerprints: of, missing: make([]bool, len(of)), observation: observationFrom(m, of)}
	for i := range of {
		g.missing[i] = true
	}
	l.itemFetches = append(l.itemFetches, g)
	c.itemFetchCount++
	c.addItems(l, g, m.Delta)
}

// addItems adds received items to an item fetch, and continues with dedupe.
func (c *Corona) addItems(l *leaderState, g *itemFetch, packed []byte) {
	var d difference.Delta
	var seen *pageView
	var err error
	c.worker.Do(func() {
		if d, err = difference.Decode(packed); err == nil && d.Page != nil {
			seen, err = pageViewFrom(&d)
		}
	}, func() {
		switch {
		case c.leaders[l.key] != l || !slices.Contains(l.itemFetches, g):
			return
		case len(packed) > 0 && err != nil:
			c.stats.Garbage++
			c.dropItemFetch(l, g)
			return
		}
		if d.Head != nil {
			g.f.Head, g.hasHead = *d.Head, true
		}
		if seen != nil && l.page && len(g.fingerprints) == 1 && seen.fingerprint() == g.fingerprints[0] {
			g.page, g.missing[0] = seen, false
		}
		for _, change := range d.Changes {
			i := slices.Index(g.fingerprints, fingerprintOf(&change.Item))
			if i < 0 {
				continue
			}
			g.f.Items[i], g.missing[i] = change.Item, false
			// An item's place is known from the full identity of the item before it.
			if i > 0 && [16]byte(change.After[:16]) == g.fingerprints[i-1].id {
				g.f.Items[i-1].ID = change.After
			}
		}
		c.dedupe(l, g)
	})
}

// dedupe finds the items that the sequencer still lacks. It requests them, or accepts the
// observation if there are none. If several pollers report the same document, one after the other
// is asked.
func (c *Corona) dedupe(l *leaderState, g *itemFetch) {
	now := c.clock.Now()
	fading := c.app.Fading(l.key, len(g.fingerprints))
	var want []uint32
	for i, it := range g.f.Items {
		if !g.missing[i] || l.page && l.sameText(&g.observation) {
			continue
		}
		_, version := l.known.Has(it.ID, it.Hash)
		if !version || slices.ContainsFunc(fading, func(id feed.ID) bool { return [16]byte(id[:16]) == g.fingerprints[i].id }) {
			want = append(want, uint32(i))
		}
	}
	fresh := slices.Contains(g.missing, false)
	switch {
	case len(want) == 0 && (g.hasHead || !fresh):
		c.dropItemFetch(l, g)
		c.accept(l, g.from, g.observation, g.nonce, now)
	case len(want) == 0:
		c.stats.Garbage++ // items without the requested head: nobody could read the entry
		c.dropItemFetch(l, g)
	case l.itemFetches[0] != g:
	case slices.Equal(want, g.wanted):
		c.stats.Garbage++ // the answer lacks requested items
		c.dropItemFetch(l, g)
	default:
		g.wanted, g.packed, g.size, g.tries = want, nil, 0, 0
		c.requestItems(l, g, now)
	}
}

// requestItems requests items, or the rest of them.
func (c *Corona) requestItems(l *leaderState, g *itemFetch, now time.Time) {
	if g.since.IsZero() {
		g.since = now
	}
	longest := keepReportFor
	if len(l.itemFetches) > 1 {
		longest = sharedFetchLimit
	}
	if g.tries++; g.tries > maxItemTries || now.Sub(g.since) > longest {
		c.dropItemFetch(l, g)
		return
	}
	g.due = now.Add(itemRetry)
	c.retryCalendar.Add(g.due, retry{key: l.key, nonce: g.nonce})
	c.send(g.from, env.Control, &coronapb.Message{Body: &coronapb.Message_ItemRequest{ItemRequest: &coronapb.ItemRequest{
		Key: l.key[:], Nonce: g.nonce, Items: g.wanted, Offset: uint32(len(g.packed)), Head: !g.hasHead,
	}}})
}

// onItemChunk receives a chunk of requested items.
func (c *Corona) onItemChunk(l *leaderState, from env.PeerID, m *coronapb.ItemChunk) {
	i := slices.IndexFunc(l.itemFetches, func(g *itemFetch) bool { return g.nonce == m.Nonce && g.from.ID == from && g.wanted != nil })
	if i < 0 {
		return
	}
	g, now := l.itemFetches[i], c.clock.Now()
	switch {
	case m.Size == 0:
		c.dropItemFetch(l, g)
		return
	case g.size != 0 && g.size != int(m.Size):
		return // an answer to an earlier request
	case int(m.Offset) != len(g.packed) || len(m.Data) != min(chunkSize, int(m.Size-m.Offset)):
		return // out of order: it will be sent again
	}
	g.size, g.tries = int(m.Size), 0
	g.packed = append(g.packed, m.Data...)
	switch {
	case len(g.packed) == g.size:
		packed := g.packed
		g.packed = nil
		c.addItems(l, g, packed)
	case len(g.packed)%(chunksAhead*chunkSize) == 0:
		c.requestItems(l, g, now)
	}
}

// dropItemFetch ends an item fetch, and continues with the channel's next one.
func (c *Corona) dropItemFetch(l *leaderState, g *itemFetch) {
	i := slices.Index(l.itemFetches, g)
	if i < 0 {
		return
	}
	l.itemFetches = slices.Delete(l.itemFetches, i, i+1)
	c.itemFetchCount--
	if i == 0 && len(l.itemFetches) > 0 {
		c.worker.Do(func() {}, func() {
			if c.leaders[l.key] == l && len(l.itemFetches) > 0 && l.itemFetches[0].wanted == nil {
				c.dedupe(l, l.itemFetches[0])
			}
		})
	}
}

// accept takes an observation whose new items are all here. It answers the poller at once if
// nothing is new, and otherwise when the log holds the news. from is empty if this node is the
// poller.
func (c *Corona) accept(l *leaderState, from env.Peer, r observation, nonce uint64, now time.Time) {
	switch {
	case r.handedOver:
		c.takeHanded(l, r, func() {
			if from.ID != "" {
				c.send(from, env.Control, c.snapshotMessage(l, nonce))
			}
		})
	case !c.takeObservation(l, from, r, now) || from.ID == "":
		// The poller repeats its report, or this node is the poller and needs no answer.
	case l.inFlight == 0 && l.snapshot() != nil:
		c.send(from, env.Control, c.snapshotMessage(l, nonce))
	default:
		l.wait(waiter{from, nonce})
	}
}

// wait notes that a poller waits for an answer to its last report. Beyond maxWaiters a poller gets
// none and reports the same document again.
func (l *leaderState) wait(w waiter) {
	i := slices.IndexFunc(l.waiters, func(other waiter) bool { return other.to.ID == w.to.ID })
	switch {
	case i >= 0:
		l.waiters[i] = w
	case len(l.waiters) < maxWaiters:
		l.waiters = append(l.waiters, w)
	}
}

// maxWaiters bounds the pollers of one channel that wait for an answer.
const maxWaiters = 1024

// waiter is a poller that is answered when the log holds its news.
type waiter struct {
	to    env.Peer
	nonce uint64
}

// snapshotMessage encodes the channel's snapshot in answer to the observation with a nonce.
func (c *Corona) snapshotMessage(l *leaderState, nonce uint64) *coronapb.Message {
	s := l.snapshot()
	if s == nil {
		s = &snapshot{}
	}
	return s.message(l.key, nonce, l.limitedUntil.Sub(c.clock.Now()))
}

// commitSnapshot notes that the log holds all items of a document, and tells the pollers.
func (c *Corona) commitSnapshot(l *leaderState, valid validators, shown []fingerprint) {
	if l.fingerprints != nil {
		l.pastSnapshots = append(l.pastSnapshots, pastSnapshot{digest(l.fingerprints), c.clock.Now()})
		l.pastSnapshots = l.pastSnapshots[max(len(l.pastSnapshots)-maxPastSnapshots, 0):]
	}
	l.valid, l.fingerprints = valid, shown
	c.note(l)
	if d := c.assignments.Get(l.key); d != nil {
		d.setSnapshot(l.snapshot(), l.limitedUntil)
	}
	if l.order.N > 0 {
		// A poller that misses the message learns the snapshot when it reports a known document.
		_ = c.wedges.Broadcast(l.key, marshal(c.snapshotMessage(l, 0)))
	}
	for _, w := range l.waiters {
		c.send(w.to, env.Control, c.snapshotMessage(l, w.nonce))
	}
	l.waiters = nil
}

// pastSnapshot is the digest of an earlier snapshot, and when it was replaced.
type pastSnapshot struct {
	digest uint64
	until  time.Time
}

// maxPastSnapshots bounds the earlier snapshots that are remembered. Replicas that lag further
// behind are rare.
const maxPastSnapshots = 4

// retryItems requests items again that have not arrived.
func (c *Corona) retryItems(l *leaderState, nonce uint64, now time.Time) {
	for _, g := range l.itemFetches {
		if g.nonce == nonce && !g.due.IsZero() && !now.Before(g.due) {
			c.requestItems(l, g, now)
			return
		}
	}
}

// onStatusReport receives a poller's report about its polls. The poller must have signed it
// recently and must be able to have a rank in the channel's wedge.
func (c *Corona) onStatusReport(l *leaderState, m *coronapb.StatusReport) {
	now, of := c.clock.Now(), new(coronapb.PollStatus)
	signed, err := c.verifier.Open(wire.DomainReport, m.Status)
	if err != nil || proto.Unmarshal(signed.Payload, of) != nil || !bytes.Equal(of.Key, l.key[:]) || breaksStatus(of) != "" {
		c.stats.Garbage++
		return
	}
	s, from := stateFrom(of.State), wire.PeerIDOf(signed.Key)
	if !c.couldPoll(overlay.NodeID(c.cfg.Network, from), l) || now.Sub(s.Polled).Abs() > clockSlack+minStateGap {
		c.stats.Unheard++
		return
	}
	if s.Kind == coronapb.State_OK {
		delete(l.failing, from)
		l.recoveredAt = now
		c.noteRecovery(l, now)
		return
	}
	c.noteFailure(l, from, s, now)
}
