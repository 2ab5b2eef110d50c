package corona

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"time"

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
	channel      *leaderState
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

// intake takes the change reports of other pollers, and fetches the items that they lack.
type intake struct {
	*base
	accept func(l *leaderState, from env.Peer, r observation, nonce uint64, now time.Time) // takes a complete observation
	verify func(l *leaderState, now time.Time)                                             // looks whether a report is true

	secret   []byte                   // of which tickets are made; nil: no channel has been led yet
	fetching int                      // change reports whose items are being fetched; at most maxAllItemFetches
	calendar env.Calendar[*itemFetch] // requests for items to repeat
}

// reporting is what the intake knows of a channel.
type reporting struct {
	ticket      uint64                   // proof of appointment that pollers beyond the leaf set include in reports
	lastReport  map[env.PeerID]time.Time // time of each poller's last change report, by the poller's clock
	itemFetches []*itemFetch             // change reports whose items are being fetched; the first one is active
	blame
}

// run repeats the requests for items that are due.
func (in *intake) run(now time.Time) {
	for g, _, ok := in.calendar.Pop(now); ok; g, _, ok = in.calendar.Pop(now) {
		if !g.channel.ceased && slices.Contains(g.channel.itemFetches, g) && !now.Before(g.due) {
			in.requestItems(g.channel, g, now)
		}
	}
}

// begin makes ready for the reports of a channel in a term of this node.
func (in *intake) begin(key overlay.ID, epoch uint64) reporting {
	return reporting{ticket: in.makeTicket(key, epoch)}
}

// onChange receives a change report. Its poller must be able to have a rank in the channel's wedge,
// and must have signed the observation recently: a forged observation would become an entry that
// all readers see. from is empty if the report was routed to this node; otherwise it is the poller,
// or the root of the key, which forwards routed reports.
func (in *intake) onChange(l *leaderState, from env.PeerID, m *coronapb.ChangeReport) {
	signed, err := in.verifier.Open(wire.DomainObservation, m.Observation)
	if err != nil {
		in.stats.Garbage++
		return
	}
	r, err := parseObservation(signed.Payload)
	if err != nil || overlay.ID(r.Key) != l.key {
		in.stats.Garbage++
		return
	}
	poller, err := in.node.OpenMember(r.Poller)
	if err != nil || poller.Peer.ID != wire.PeerIDOf(signed.Key) {
		in.stats.Garbage++
		return
	}
	sent := from == "" || from == poller.Peer.ID || in.mayLead(in.node.IDOf(from), l.key)
	sentAt := time.UnixMilli(int64(min(r.AtMs, wire.MaxMillis)))
	if !sent || !in.mayReport(l, poller.ID, r.Ticket) || !in.timely(l, poller.Peer.ID, sentAt, r.Ticket) {
		in.stats.Strangers++
		return
	}
	if now := in.clock.Now(); l.distrusts(poller.Peer.ID, now) {
		in.verify(l, now)
		return
	}
	in.onObservation(l, poller.Peer, r)
}

// timely says whether an observation was signed recently, so that a copy sent again later is
// rejected. If the clocks differ by more than clockSlack, an observation with this sequencer's
// ticket is accepted if it is later than all earlier ones of its poller. Without that rule, a
// sequencer with a wrong clock would reject every report.
func (in *intake) timely(l *leaderState, poller env.PeerID, sentAt time.Time, ticket uint64) bool {
	near := in.clock.Now().Sub(sentAt).Abs() <= clockSlack+keepReportFor
	if !near && (ticket != l.ticket || !sentAt.After(l.lastReport[poller])) {
		return false
	}
	if sentAt.After(l.lastReport[poller]) {
		if len(l.lastReport) >= maxReporters {
			clear(l.lastReport)
		} else if l.lastReport == nil {
			l.lastReport = map[env.PeerID]time.Time{}
		}
		l.lastReport[poller] = sentAt
	}
	return true
}

// mayReport says whether a node may report changes of a channel that is led here. The member that subscribes at its hub
// may, and a member of the leaf set. A node beyond it could be anybody with a suitable id, so it must show the ticket
// that the sequencer gives only to the channel's pollers.
func (in *intake) mayReport(l *leaderState, id overlay.ID, ticket uint64) bool {
	return l.push != nil && l.push.member != "" && id == in.node.IDOf(l.push.member) || in.couldPoll(id, l) && (in.node.Leaf().Covers(id) || ticket == l.ticket)
}

// makeTicket makes a ticket that nobody else can guess, and which is the same after a restart.
func (in *intake) makeTicket(key overlay.ID, epoch uint64) uint64 {
	if in.secret == nil {
		in.secret = in.signer.Signature(wire.DomainTicket, nil)
	}
	ticket := sha256.Sum256(binary.BigEndian.AppendUint64(slices.Concat(in.secret, key[:]), epoch))
	return binary.BigEndian.Uint64(ticket[:])
}

// onObservation begins to fetch the items of an observation.
func (in *intake) onObservation(l *leaderState, from env.Peer, m *coronapb.Observation) {
	of := parseFingerprints(m.Fingerprints)
	for _, g := range l.itemFetches {
		if g.from.ID == from.ID {
			return // a repeated report
		}
	}
	if len(l.itemFetches) >= maxItemFetches || in.fetching >= maxAllItemFetches {
		in.stats.Crowded++
		return
	}
	g := &itemFetch{channel: l, from: from, hasHead: l.page, nonce: m.Nonce, fingerprints: of, missing: make([]bool, len(of)), observation: observationFrom(m, of)}
	for i := range of {
		g.missing[i] = true
	}
	l.itemFetches = append(l.itemFetches, g)
	in.fetching++
	in.addItems(l, g, m.Delta)
}

// addItems adds received items to an item fetch, and continues with dedupe.
func (in *intake) addItems(l *leaderState, g *itemFetch, packed []byte) {
	var d difference.Delta
	var seen *pageView
	var err error
	in.worker.Do(func() {
		if d, err = difference.Decode(packed); err == nil && d.Page != nil {
			seen, err = pageViewFrom(&d)
		}
	}, func() {
		switch {
		case l.ceased || !slices.Contains(l.itemFetches, g):
			return
		case len(packed) > 0 && err != nil:
			in.stats.Garbage++
			in.dropItemFetch(l, g)
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
		in.dedupe(l, g)
	})
}

// dedupe finds the items that the sequencer still lacks. It requests them, or accepts the
// observation if there are none. If several pollers report the same document, one after the other
// is asked.
func (in *intake) dedupe(l *leaderState, g *itemFetch) {
	now := in.clock.Now()
	fading := in.app.Fading(l.key, len(g.fingerprints))
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
		in.dropItemFetch(l, g)
		in.accept(l, g.from, g.observation, g.nonce, now)
	case len(want) == 0:
		in.stats.Garbage++ // items without the requested head: nobody could read the entry
		in.dropItemFetch(l, g)
	case l.itemFetches[0] != g:
	case slices.Equal(want, g.wanted):
		in.stats.Garbage++ // the answer lacks requested items
		in.dropItemFetch(l, g)
	default:
		g.wanted, g.packed, g.size, g.tries = want, nil, 0, 0
		in.requestItems(l, g, now)
	}
}

// requestItems requests items, or the rest of them.
func (in *intake) requestItems(l *leaderState, g *itemFetch, now time.Time) {
	if g.since.IsZero() {
		g.since = now
	}
	longest := keepReportFor
	if len(l.itemFetches) > 1 {
		longest = sharedFetchLimit
	}
	if g.tries++; g.tries > maxItemTries || now.Sub(g.since) > longest {
		in.dropItemFetch(l, g)
		return
	}
	g.due = now.Add(itemRetry)
	in.calendar.Add(g.due, g)
	in.send(g.from, env.Control, &coronapb.Message{Body: &coronapb.Message_ItemRequest{ItemRequest: &coronapb.ItemRequest{
		Key: l.key[:], Nonce: g.nonce, Items: g.wanted, Offset: uint32(len(g.packed)), Head: !g.hasHead,
	}}})
}

// onItemChunk receives a chunk of requested items.
func (in *intake) onItemChunk(l *leaderState, from env.PeerID, m *coronapb.ItemChunk) {
	i := slices.IndexFunc(l.itemFetches, func(g *itemFetch) bool { return g.nonce == m.Nonce && g.from.ID == from && g.wanted != nil })
	if i < 0 {
		return
	}
	g, now := l.itemFetches[i], in.clock.Now()
	switch {
	case m.Size == 0:
		in.dropItemFetch(l, g)
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
		in.addItems(l, g, packed)
	case len(g.packed)%(chunksAhead*chunkSize) == 0:
		in.requestItems(l, g, now)
	}
}

// dropItemFetch ends an item fetch, and continues with the channel's next one.
func (in *intake) dropItemFetch(l *leaderState, g *itemFetch) {
	i := slices.Index(l.itemFetches, g)
	if i < 0 {
		return
	}
	l.itemFetches = slices.Delete(l.itemFetches, i, i+1)
	in.fetching--
	if i == 0 && len(l.itemFetches) > 0 {
		in.worker.Do(func() {}, func() {
			if !l.ceased && len(l.itemFetches) > 0 && l.itemFetches[0].wanted == nil {
				in.dedupe(l, l.itemFetches[0])
			}
		})
	}
}
