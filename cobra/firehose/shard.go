package firehose

import (
	"time"

	"tidings/cobra/firehose/firehosepb"
	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/owner"
)

// A shard is what one node does for one shard. It passes messages and time to its components, of which each uses those above it
// in this list only:
type shard struct {
	*place
	epochs    *epochCache // of all channels
	transfers *transfers  // of all shards

	topic    *topic
	keeper   *keeper   // this node as an owner of the shard
	reporter *reporter // this node as a sequencer of channels
	filter   *filter   // this node as a filter
	requests *requests // entries that this node lacks

	wantedAt time.Time // when a filter last asked this node, as the root of the shard's key, for owners
}

func newShard(b *base, number int, topics env.Topics, tr *transfers, pr *progress, epochs *epochCache, app Application) *shard {
	url := overlay.ShardURL(number)
	p := &place{base: b, number: number, key: overlay.Key(b.node.Network(), url)}
	s := &shard{place: p, epochs: epochs, transfers: tr}
	s.topic = newTopic(p, topics, s.onBroadcast)
	s.keeper = newKeeper(p, s.topic)
	s.reporter = &reporter{place: p, transfers: tr, toSelf: s.reportToSelf, reports: map[owner.Hash]*report{}}
	s.filter = newFilter(p, s.keeper, pr, app)
	s.requests = newRequests(p)
	// A filter asks that the shard has owners, and verifies them by a lookup, because a filter that listens to the wrong
	// nodes hears nothing. Sequencers rely on the word of the root of the shard's key.
	wanted := ""
	if b.cfg.Filter {
		wanted = url
	}
	p.tracker = b.owners.Track(p.key, wanted, func() bool { return b.cfg.Filter }, s.onOwnersChanged)
	return s
}

// onOwnersChanged turns to the new owners of the shard. A nil epoch means that the shard has no owners, because no filter
// listens. At a filter it means that the root of the key is finding owners.
func (s *shard) onOwnersChanged(e *owner.Epoch) {
	now := s.clock.Now()
	if e == nil {
		if !s.cfg.Filter {
			s.tracker.Forget()
			s.reporter.pause(now)
		}
		return
	}
	if s.cfg.Filter {
		s.filter.switchBranch(e.Branch, now)
		s.filter.sendListen(now)
		s.topic.update()
	}
	s.reporter.sendReports(now)
}

// maintain follows what this node is for the shard.
func (s *shard) maintain(now time.Time) {
	for _, m := range s.keeper.run(now) {
		s.stats.Digests++
		s.topic.broadcast(m)
		if s.cfg.Filter { // the topic does not return a node's own frames
			s.onDigest(s.self, m.Digest, now)
		}
	}
	if !s.keeper.owned {
		clear(s.requests.unobtainable)
	}
	if s.cfg.Filter {
		s.filter.run(now)
	}
	if s.keeper.owned || s.cfg.Filter {
		s.topic.update()
	} else {
		s.topic.leave()
	}
}

// onListenAck handles an owner's answer to a Listen.
func (s *shard) onListenAck(from env.PeerID, m *firehosepb.ListenAck) error {
	if !s.cfg.Filter || !s.tracker.Owned(from) {
		return nil
	}
	s.filter.onListenAck(from, m, s.clock.Now())
	return s.topic.introduce(m.Records)
}

// onBroadcast handles a broadcast, as a filter or as an owner. The verdict decides whether the topic relays it.
func (s *shard) onBroadcast(raw []byte) env.Verdict {
	signed, err := s.verify.Open(wire.DomainShard, raw)
	if err != nil {
		s.stats.Garbage++
		return env.Reject
	}
	m, err := openBroadcast(signed.Payload, s.number)
	if err != nil {
		s.stats.Garbage++
		return env.Reject
	}
	now := s.clock.Now()
	by := wire.PeerIDOf(signed.Key)
	if by == s.self {
		return env.Ignore
	}
	if !s.tracker.Owned(by) {
		s.stats.Strange++
		s.tracker.Refresh() // there may be another epoch
		return env.Ignore
	}
	if at := time.UnixMilli(int64(m.TimeMs)); at.Sub(now).Abs() > maxEntryAge {
		return env.Ignore
	}
	switch {
	case m.Digest != nil:
		s.keeper.onDigest(by, m.Digest.Sums, now)
		s.onDigest(by, m.Digest, now)
		return env.Accept
	case m.List != nil:
		if s.keeper.owned && len(m.List.Minutes) > 0 {
			s.keeper.sendList(by, m.List.Minutes, false, now)
		}
		s.onList(by, m.List.Entries, now)
		return env.Accept
	}
	return s.onDispatch(m.Dispatch, now)
}

// onDispatch handles an entry that an owner has broadcast. An entry that this node has from another owner is not relayed.
func (s *shard) onDispatch(raw []byte, now time.Time) env.Verdict {
	d, err := openDispatch(s.verify, s.node.Network(), raw)
	if err != nil {
		s.stats.Garbage++
		return env.Reject
	}
	if shardOf(d.Entry.Key, s.cfg.Shards) != s.number {
		return env.Ignore
	}
	news := s.deliver(d, now)
	if s.keeper.owned && s.keeper.onPublished(d, raw, now) {
		news = true
	}
	if !news {
		return env.Ignore
	}
	return env.Accept
}

// deliver delivers an entry, if this node is a filter and does not have it. Otherwise it returns false.
func (s *shard) deliver(d Dispatch, now time.Time) bool {
	if !s.filter.deliver(d, now) {
		return false
	}
	delete(s.requests.missing, d.Entry.Hash)
	return true
}

func (s *shard) onDigest(by env.PeerID, m *firehosepb.Digest, now time.Time) {
	s.filter.onDigest(by, m, now)
	s.onList(by, m.Entries, now)
}

// onList requests the entries that an owner names and that this node lacks.
func (s *shard) onList(by env.PeerID, refs []*firehosepb.EntryRef, now time.Time) {
	for _, ref := range refs {
		hash := owner.Hash(ref.Entry)
		if s.requests.missing[hash] != nil || !s.filter.lacks(ref, now) && (!s.keeper.owned || s.keeper.entries[hash] != nil || s.requests.unobtainable[hash]) {
			continue
		}
		if len(s.requests.missing) >= maxMissing {
			break
		}
		s.requests.add(ref, by)
	}
}

// retryRequest requests an entry again. An entry that no node could send is remembered, so that it counts as missed once.
func (s *shard) retryRequest(hash owner.Hash, now time.Time) {
	if s.requests.retry(hash) {
		return
	}
	if s.cfg.Filter {
		s.filter.received[hash] = now
	}
	if s.keeper.owned && len(s.requests.unobtainable) < maxMissing {
		s.requests.unobtainable[hash] = true
	}
}

// onPart handles a part of a report. A complete report is for an owner of the shard, or contains an entry that this node
// has requested.
func (s *shard) onPart(from env.PeerID, m *firehosepb.Part) {
	now := s.clock.Now()
	ack := &firehosepb.PartAck{Shard: m.Shard, Report: m.Report}
	if !s.keeper.owned && len(s.requests.missing) == 0 {
		ack.Refused = true
	} else if report := s.transfers.receive(from, m, ack, now); report != nil {
		if owner.HashOf(report) == owner.Hash(m.Report) && s.onReport(report, from, now) {
			ack.Received, ack.Idle = uint32(len(report)), s.keeper.idle(now)
		} else {
			s.stats.Garbage++
			ack.Refused = true
		}
	}
	s.send(s.peer(from), env.Control, &firehosepb.Message{Body: &firehosepb.Message_PartAck{PartAck: ack}})
}

func (s *shard) reportToSelf(report []byte, now time.Time) answer {
	a := answer{accepted: true, idle: s.keeper.idle(now)}
	s.onReport(report, s.self, now)
	return a
}

// onReport handles a report, and returns false if it is invalid or this node has no use for it.
func (s *shard) onReport(report []byte, from env.PeerID, now time.Time) bool {
	m, d, err := openReport(s.verify, s.node.Network(), report)
	if err != nil || shardOf(d.Entry.Key, s.cfg.Shards) != s.number {
		return false
	}
	hash := d.Entry.Hash
	if e := s.requests.missing[hash]; e != nil && e.key == d.Entry.Key {
		delete(s.requests.missing, hash)
		s.stats.Lacked++
		s.deliver(d, now)
		if s.keeper.owned && s.keeper.entries[hash] == nil {
			s.keeper.add(d, m.Dispatch, now, false)
		}
		return true
	}
	if len(m.Epoch) == 0 { // the answer to a request of this node, if it has the entry by now
		return s.filter.has(hash) || s.keeper.entries[hash] != nil
	}
	if !s.keeper.owned {
		return false
	}
	if s.keeper.entries[hash] != nil {
		return true
	}
	e, err := s.epochs.open(s.owners, m.Epoch)
	if err != nil || e.Key != d.Entry.Key || e.Sequencer != from || !mayContain(e, d.Entry) || now.Sub(d.Entry.Time) > maxEntryAge+time.Minute {
		s.stats.Forged++
		return false
	}
	s.stats.Carried++
	s.deliver(d, now) // an owner may be a filter too
	s.keeper.add(d, m.Dispatch, now, false)
	return true
}

// mayContain reports whether a log whose latest epoch is e may contain an entry. For an entry of an earlier epoch or of
// another branch it does not know the sequencer, and takes the word of the present one.
func mayContain(e *owner.Epoch, n *owner.Entry) bool {
	if n.At.Branch == e.Branch && n.At.Epoch == e.Number {
		return n.Signer == e.Sequencer
	}
	return n.At.Branch != e.Branch || n.At.Epoch < e.Number
}

// onRequest answers a node that lacks an entry. An owner of the shard has the entry, or an owner of its channel.
func (s *shard) onRequest(from env.PeerID, m *firehosepb.Request) {
	answer := func(dispatch []byte) {
		s.transfers.start(s.number, s.peer(from), wire.Encode(&firehosepb.Report{Dispatch: dispatch}), func(answer) {})
	}
	if e := s.keeper.entries[owner.Hash(m.Entry)]; e != nil && e.dispatch != nil {
		answer(e.dispatch)
		return
	}
	v, ok := s.owners.View(overlay.ID(m.Key))
	if !ok {
		return
	}
	for _, e := range s.owners.Log(overlay.ID(m.Key)) {
		if e.Hash == owner.Hash(m.Entry) {
			s.owners.Body(e, func(body []byte) {
				if body != nil {
					answer((&Dispatch{URL: v.URL, Entry: e, Body: body}).bytes())
				}
			})
			return
		}
	}
}
