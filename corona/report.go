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

// reportChange tells the sequencer about a document with news.
func (c *Corona) reportChange(d *assignment, r observation, now time.Time) {
	c.keepReport(&pendingReport{nonce: c.rand.Uint64(), key: d.key(), observation: r, fingerprints: fingerprintsOf(r.f), since: now})
}

// keepReport keeps a document so that the sequencer can request its items, and sends the report.
func (c *Corona) keepReport(w *pendingReport) {
	for _, old := range c.pendingReports {
		if old.key == w.key {
			c.dropReport(old) // the new document replaces it
			break
		}
	}
	if len(c.pendingReports) == maxPendingReports {
		c.dropReport(c.pendingReports[0])
	}
	c.stats.Sightings++
	c.pendingReports = append(c.pendingReports, w)
	c.sendReport(w, c.assignments.Get(w.key), w.since)
}

func (c *Corona) dropReport(w *pendingReport) {
	for i, other := range c.pendingReports {
		if other == w {
			c.pendingReports = append(c.pendingReports[:i:i], c.pendingReports[i+1:]...)
			return
		}
	}
}

// sendReport routes a change report to the sequencer, and plans to repeat it.
func (c *Corona) sendReport(w *pendingReport, d *assignment, now time.Time) {
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
			if size += len(it.Raw); known[w.fingerprints[i]] {
				size -= len(it.Raw)
			} else if size <= 4*maxInline {
				delta.Changes = append(delta.Changes, difference.Change{Item: it, After: before})
			}
			before = it.ID
		}
	}
	m, again := w.message(w.key, w.fingerprints), w.tries > 0
	m.Nonce, m.Poller, m.AtMs = w.nonce, c.node.Self().Raw, uint64(now.UnixMilli())
	if d != nil && d.target != nil {
		m.Ticket = d.target.params.ticket
	}
	var packed []byte
	c.worker.Do(func() { packed, _ = w.encode(delta) }, func() {
		if len(packed) <= min(maxInline, overlay.MaxPayload-proto.Size(m)-deltaOverhead) {
			m.Delta = packed
		}
		signed := c.signer.Sign(wire.DomainObservation, marshal(m))
		c.tell(w.key, &coronapb.Message{Body: &coronapb.Message_Change{Change: &coronapb.ChangeReport{Key: m.Key, Observation: signed.Raw}}}, again)
	})
	c.retryCalendar.Add(env.Sooner(now.Add(reportRetry<<w.tries), w.since.Add(keepReportFor)), retry{key: w.key, nonce: w.nonce})
	w.tries++
}

// retryReport repeats a change report that the sequencer has not answered.
func (c *Corona) retryReport(nonce uint64, now time.Time) {
	w := c.pendingReport(nonce)
	if w == nil {
		return
	}
	l, d := c.leaders[w.key], c.assignments.Get(w.key)
	switch {
	case l != nil: // this node has become the sequencer
		c.dropReport(w)
		c.accept(l, env.Peer{}, w.observation, w.nonce, now)
	case (d != nil || w.handedOver) && now.Sub(w.since) < keepReportFor:
		c.sendReport(w, d, now)
	default:
		c.dropReport(w)
	}
}

// pendingReport returns the pending report with a nonce; nil if there is none.
func (c *Corona) pendingReport(nonce uint64) *pendingReport {
	for _, w := range c.pendingReports {
		if w.nonce == nonce {
			return w
		}
	}
	return nil
}

// onItemRequest sends items of a pending report, and its head if requested.
func (c *Corona) onItemRequest(from env.PeerID, m *coronapb.ItemRequest) {
	w := c.pendingReport(m.Nonce)
	if w == nil {
		c.send(env.Peer{ID: from}, env.Control, &coronapb.Message{Body: &coronapb.Message_ItemChunk{ItemChunk: &coronapb.ItemChunk{Key: m.Key, Nonce: m.Nonce}}})
		return
	}
	if w.packed != nil && slices.Equal(w.items, m.Items) && w.hasHead == m.Head {
		c.sendChunks(from, w, int(m.Offset))
		return
	}
	var delta difference.Delta
	if m.Head && w.page == nil {
		delta.Head = &w.f.Head
	}
	last := -1
	for _, i := range m.Items {
		if int(i) >= len(w.f.Items) || int(i) <= last {
			c.stats.Garbage++
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
	c.worker.Do(func() { packed, err = w.encode(delta) }, func() {
		if err != nil || len(packed) > maxItemBytes {
			c.log.Warn("change report could not be sent", "err", err, "bytes", len(packed))
			return
		}
		w.items, w.hasHead, w.packed = m.Items, m.Head, packed
		c.sendChunks(from, w, int(m.Offset)) // the sequencer may request the same items again
	})
}

// sendChunks sends the next chunks of a packed delta, starting at an offset.
func (c *Corona) sendChunks(to env.PeerID, w *pendingReport, offset int) {
	for range chunksAhead {
		if offset >= len(w.packed) {
			return
		}
		data := w.packed[offset:min(offset+chunkSize, len(w.packed))]
		c.send(env.Peer{ID: to}, env.Bulk, &coronapb.Message{Body: &coronapb.Message_ItemChunk{ItemChunk: &coronapb.ItemChunk{
			Key: w.key[:], Nonce: w.nonce, Size: uint32(len(w.packed)), Offset: uint32(offset), Data: data,
		}}})
		offset += len(data)
	}
}

// onSnapshot learns which document the log holds completely. A snapshot with the nonce of a pending
// report answers that report.
func (c *Corona) onSnapshot(key overlay.ID, t snapshotNotice) {
	if w := c.pendingReport(t.nonce); w != nil && w.key == key && w.handedOver {
		c.dropReport(w)
		return
	}
	d := c.assignments.Get(key)
	if d == nil || d.leader != nil { // this node's log may lack what the log of another branch holds
		return
	}
	s := t.snapshot
	if w := c.pendingReport(t.nonce); w != nil && w.key == key {
		// Either the document had nothing new, or the log holds all of it by now.
		c.dropReport(w)
		switch of := digest(w.fingerprints); {
		case w.page != nil:
			d.acknowledgePage()
			s = &snapshot{valid: w.valid, fingerprints: s.fingerprints, digest: s.digest}
		case of != s.digest:
			x := d.ensureExtra()
			x.staleDigest, x.staleSince = of, momentOf(c.clock.Now())
		default:
			s = &snapshot{valid: w.valid, fingerprints: w.fingerprints, digest: s.digest}
		}
	}
	// The limit applies to this channel alone. Its sequencer has no authority over other channels
	// of the domain.
	var limitedUntil time.Time
	if t.limitedFor > 0 {
		limitedUntil = c.clock.Now().Add(t.limitedFor)
	}
	d.setSnapshot(s, limitedUntil)
}

// reportStatus tells the sequencer about a failed poll, or that polls succeed again.
func (c *Corona) reportStatus(d *assignment, s State, now time.Time) {
	i := d.extras().failure
	if l := c.leaders[d.key()]; l != nil {
		l.private = d.private
		if i != nil {
			l.fails = i.fails
		}
		c.noteFailure(l, "", s, now)
		return
	}
	if i != nil {
		if i.reportedKind == s.Kind && now.Sub(i.reportedAt) < minStateGap {
			return
		}
		i.reportedAt, i.reportedKind = now, s.Kind
	}
	c.tell(d.key(), c.signStatus(d.key(), s), false)
}

// signStatus signs a status report. Without a signature, a few forged reports would make a healthy
// feed look broken to all of its readers.
func (c *Corona) signStatus(key overlay.ID, s State) *coronapb.Message {
	signed := c.signer.Sign(wire.DomainReport, marshal(&coronapb.PollStatus{Key: key[:], State: s.wire()}))
	return &coronapb.Message{Body: &coronapb.Message_Status{Status: &coronapb.StatusReport{Key: key[:], Status: signed.Raw}}}
}
