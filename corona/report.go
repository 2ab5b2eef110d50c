package corona

import (
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

// Change reports, at the poller. A poller routes its observation to the sequencer, with the new
// items if they are small. It sends further items on request, and repeats the report until the
// sequencer answers with a snapshot.

const (
	// keepReportFor is how long a poller keeps a document so that the sequencer can request its
	// items. It keeps at most maxPendingReports documents and drops the oldest; the next poll finds
	// a dropped document again.
	keepReportFor     = 2 * time.Minute
	maxPendingReports = 64
	// reportRetry is the delay before a report without an answer is repeated. It doubles each time.
	reportRetry = 10 * time.Second
	// maxInline bounds the items that travel with a change report, in bytes. With many fingerprints
	// there may be room for fewer.
	maxInline = 24 << 10
	// chunkSize is the size of an item chunk in bytes. A poller sends chunksAhead chunks for each
	// request.
	chunkSize   = 48 << 10
	chunksAhead = 4
	// maxItemBytes bounds the answer to one item request, in bytes. If the items are larger, the first
	// ones are sent, up to maxUnpacked bytes before compression. Incompressible data grows by less
	// than the difference of the two.
	maxItemBytes = 2 << 20
	maxUnpacked  = maxItemBytes - 64<<10
)

// deltaOverhead bounds the bytes around a delta in a change report: tags and lengths, the channel's
// key once more, and the signature with its key.
const deltaOverhead = 256

// pendingReport is a document with news that the sequencer has not acknowledged.
type pendingReport struct {
	nonce uint64
	key   overlay.ID
	observation
	fingerprints []fingerprint
	tries        int
	since        time.Time
	items        []uint32 // indexes of the items in packed
	hasHead      bool     // packed has the head
	packed       []byte
}

// reports are the change reports of this node that their sequencers have not acknowledged.
type reports struct {
	*base
	pending  []*pendingReport     // oldest first; at most maxPendingReports
	calendar env.Calendar[uint64] // nonces of reports to repeat

	fetchWhole func(key overlay.ID) // has the next poll of a channel fetch the whole document
}

// keep keeps a document so that the sequencer can request its items, and reports it. d is the
// channel's assignment, if there is one.
func (rs *reports) keep(key overlay.ID, r observation, d *assignment, now time.Time) {
	w := &pendingReport{nonce: rs.rand.Uint64(), key: key, observation: r, fingerprints: fingerprintsOf(r.f), since: now}
	for _, old := range rs.pending {
		if old.key == key && !r.pushed && !old.pushed {
			rs.drop(old) // the new document replaces it
			break
		}
	}
	if len(rs.pending) == maxPendingReports {
		rs.drop(rs.pending[0])
	}
	rs.stats.UpdatesReported++
	rs.pending = append(rs.pending, w)
	rs.sendReport(w, d, now)
}

func (rs *reports) drop(w *pendingReport) {
	for i, other := range rs.pending {
		if other == w {
			rs.pending = append(rs.pending[:i:i], rs.pending[i+1:]...)
			return
		}
	}
}

// sendReport routes a change report to the sequencer, and plans to repeat it.
func (rs *reports) sendReport(w *pendingReport, d *assignment, now time.Time) {
	delta := difference.Delta{Head: &w.f.Head}
	if w.page != nil {
		delta.Head = nil
	} else if w.handedOver {
		for _, it := range w.f.Items {
			if len(it.Raw) > 0 {
				delta.Changes = append(delta.Changes, difference.Change{Item: it})
			}
		}
	} else if s := d.snapshot; s != nil && s.fingerprints != nil {
		known := map[fingerprint]bool{}
		for _, p := range s.fingerprints {
			known[p] = true
		}
		var before feed.ID
		size := len(w.f.Head.Raw)
		for i, it := range w.f.Items {
			if size += len(it.Raw); known[w.fingerprints[i]] || known[w.fingerprints[i].withoutNumbers()] {
				size -= len(it.Raw)
			} else if size <= 4*maxInline {
				delta.Changes = append(delta.Changes, difference.Change{Item: it, After: before})
			}
			before = it.ID
		}
	}
	m, again := w.message(w.key, w.fingerprints), w.tries > 0
	m.Nonce, m.Poller, m.AtMs = w.nonce, rs.node.Self().Raw, uint64(now.UnixMilli())
	if d != nil && d.target != nil {
		m.Ticket = d.target.params.ticket
	}
	var packed []byte
	rs.worker.Do(func() { packed, _ = w.encode(delta) }, func() {
		if len(packed) <= min(maxInline, overlay.MaxPayload-proto.Size(m)-deltaOverhead) {
			m.Delta = packed
		}
		signed := rs.signer.Sign(wire.DomainObservation, wire.Encode(m))
		rs.tell(w.key, &coronapb.Message{Body: &coronapb.Message_Change{Change: &coronapb.ChangeReport{Key: m.Key, Observation: signed.Raw}}}, again)
	})
	rs.calendar.Add(env.Sooner(now.Add(reportRetry<<w.tries), w.since.Add(keepReportFor)), w.nonce)
	w.tries++
}

// byNonce returns the pending report with a nonce; nil if there is none.
func (rs *reports) byNonce(nonce uint64) *pendingReport {
	for _, w := range rs.pending {
		if w.nonce == nonce {
			return w
		}
	}
	return nil
}

// onItemRequest sends items of a pending report, and its head if requested.
func (rs *reports) onItemRequest(from env.PeerID, m *coronapb.ItemRequest) {
	w := rs.byNonce(m.Nonce)
	if w != nil && w.partial && slices.ContainsFunc(m.Items, func(i uint32) bool { return int(i) < len(w.f.Items) && len(w.f.Items[i].Raw) == 0 }) {
		rs.fetchWhole(w.key) // the log lacks what the partial document left out
		rs.drop(w)
		w = nil
	}
	if w == nil {
		rs.send(env.Peer{ID: from}, env.Control, &coronapb.Message{Body: &coronapb.Message_ItemChunk{ItemChunk: &coronapb.ItemChunk{Key: m.Key, Nonce: m.Nonce}}})
		return
	}
	if w.packed != nil && slices.Equal(w.items, m.Items) && w.hasHead == m.Head {
		rs.sendChunks(from, w, int(m.Offset))
		return
	}
	var delta difference.Delta
	if m.Head && w.page == nil {
		delta.Head = &w.f.Head
	}
	last := -1
	for _, i := range m.Items {
		if int(i) >= len(w.f.Items) || int(i) <= last {
			rs.stats.Garbage++
			return
		}
		last = int(i)
		if w.page != nil {
			break // a page has a single version to send
		}
		change := difference.Change{Item: w.f.Items[i]}
		if i > 0 {
			change.After = w.f.Items[i-1].ID
		}
		delta.Changes = append(delta.Changes, change)
	}
	delta = delta.Split(maxUnpacked)[0] // the sequencer requests the others when it has these
	var packed []byte
	var err error
	rs.worker.Do(func() { packed, err = w.encode(delta) }, func() {
		if err != nil || len(packed) > maxItemBytes {
			rs.log.Warn("change report could not be sent", "err", err, "bytes", len(packed))
			return
		}
		w.items, w.hasHead, w.packed = m.Items, m.Head, packed
		rs.sendChunks(from, w, int(m.Offset)) // the sequencer may request the same items again
	})
}

// sendChunks sends the next chunks of a packed delta, starting at an offset.
func (rs *reports) sendChunks(to env.PeerID, w *pendingReport, offset int) {
	for range chunksAhead {
		if offset >= len(w.packed) {
			return
		}
		data := w.packed[offset:min(offset+chunkSize, len(w.packed))]
		rs.send(env.Peer{ID: to}, env.Bulk, &coronapb.Message{Body: &coronapb.Message_ItemChunk{ItemChunk: &coronapb.ItemChunk{
			Key: w.key[:], Nonce: w.nonce, Size: uint32(len(w.packed)), Offset: uint32(offset), Data: data,
		}}})
		offset += len(data)
	}
}

// signStatus signs a status report. Without a signature, a few forged reports would make a healthy
// feed look broken to all of its readers.
func (rs *reports) signStatus(key overlay.ID, s State, declined bool) *coronapb.Message {
	signed := rs.signer.Sign(wire.DomainReport, wire.Encode(&coronapb.PollStatus{Key: key[:], State: s.wire(), Declined: declined}))
	return &coronapb.Message{Body: &coronapb.Message_Status{Status: &coronapb.StatusReport{Key: key[:], Status: signed.Raw, Record: rs.node.Proof()}}}
}
