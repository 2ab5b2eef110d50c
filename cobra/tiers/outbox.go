package tiers

import (
	"cmp"
	"encoding/binary"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"tidings/cobra/tiers/tierspb"
	"tidings/internal/env"
	"tidings/internal/wire"
)

const (
	logKey       = "tiers/log"
	queuedPrefix = "tiers/out/"  // then the position, 8 bytes
	linkPrefix   = "tiers/link/" // then the receiver's peer id
)

// An outbox is the log of a sender and its links.
type outbox struct {
	*base
	log         uint64
	last        uint64 // position of the last article or change of plans
	links       []*outLink
	outstanding []*queued  // not durable yet, and those after them
	lost        []*outLink // to receivers that have left the plan and are gone
}

// A queued article waits until all its receivers have acknowledged it.
type queued struct {
	position uint64
	article  []byte
	waiting  int  // receivers that have not acknowledged it
	durable  bool // it is on disk, and may be sent
}

// An outLink is the way to one receiver.
type outLink struct {
	to      neighbour
	pending []*queued // not acknowledged as done, in order
	bytes   int       // of pending
	acked   uint64    // position up to which the receiver is done
	dropped uint64

	told     uint64 // acked, as the receiver was last told
	received uint64 // position up to which the receiver has everything in memory
	sent     int    // articles of pending that were sent
	session  uint64 // of the receiver; 0: it has not answered yet
	acks     uint64 // number of its last acknowledgement
	room     int    // bytes after received that the receiver takes
	waitsFor string
	plan     string    // digest of the receiver's
	settled  bool      // nothing of an earlier plan is under way to the receiver
	heardAt  time.Time // of the last acknowledgement
	retryAt  time.Time // when to send again or to ask for an acknowledgement
	backoff  time.Duration
	full     bool
	fullAt   time.Time // since when the queue is full
}

const (
	firstRetry = time.Second      // more than a round trip and a commit take
	maxRetry   = 15 * time.Second // between two attempts to reach a silent receiver
	heartbeat  = 30 * time.Second // of an idle link, so that both sides know that it works
)

// load reads the log, or begins one.
func (o *outbox) load(down []neighbour) error {
	value, err := o.store.Get([]byte(logKey))
	if err != nil {
		return err
	}
	var l tierspb.Log
	if err := proto.Unmarshal(value, &l); err != nil {
		return err
	}
	if o.log = l.Log; o.log == 0 {
		o.log = o.rand.Uint64() | 1
		o.store.Commit([]env.Op{{Key: []byte(logKey), Value: wire.Encode(&tierspb.Log{Log: o.log})}}, o.failed("log"))
	}
	records, err := o.linkRecords()
	if err != nil {
		return err
	}
	for _, n := range down {
		r := records[n.Peer.ID]
		o.links = append(o.links, &outLink{to: n, acked: r.GetAcked(), received: r.GetAcked(), dropped: r.GetDropped(), retryAt: env.AtOnce})
		o.last = max(o.last, r.GetAcked())
	}
	o.last = max(o.last, o.plans.since)
	var unwanted []env.Op
	var broken error
	named := map[env.PeerID]bool{}
	err = o.store.Range([]byte(queuedPrefix), func(key, value []byte) bool {
		var m tierspb.Queued
		if broken = proto.Unmarshal(value, &m); broken != nil {
			return false
		}
		q := &queued{position: binary.BigEndian.Uint64(key[len(queuedPrefix):]), article: m.Article, durable: true}
		o.last = max(o.last, q.position)
		for _, to := range m.To {
			id := env.PeerID(to)
			named[id] = true
			if records[id].GetAcked() >= q.position {
				continue
			}
			l := o.link(id)
			if l == nil {
				l = o.lostLink(id)
			}
			l.add(q)
		}
		if q.waiting == 0 { // all its receivers are done
			unwanted = append(unwanted, env.Op{Key: slices.Clone(key)})
		}
		return true
	})
	for _, id := range slices.Sorted(maps.Keys(records)) {
		if !named[id] && o.link(id) == nil {
			unwanted = append(unwanted, env.Op{Key: linkKey(id)})
		}
	}
	if len(unwanted) > 0 {
		o.store.Commit(unwanted, o.failed("delivered articles"))
	}
	return cmp.Or(err, broken)
}

// lostLink returns the link to a receiver that has left the plan.
func (o *outbox) lostLink(id env.PeerID) *outLink {
	for _, l := range o.lost {
		if l.to.Peer.ID == id {
			return l
		}
	}
	l := &outLink{to: neighbour{Node: Node{Peer: env.Peer{ID: id}}}}
	o.lost = append(o.lost, l)
	return l
}

// linkRecords reads how far each receiver is done, also those that have left the plan.
func (o *outbox) linkRecords() (map[env.PeerID]*tierspb.Link, error) {
	records := map[env.PeerID]*tierspb.Link{}
	var broken error
	err := o.store.Range([]byte(linkPrefix), func(key, value []byte) bool {
		r := new(tierspb.Link)
		broken = proto.Unmarshal(value, r)
		records[env.PeerID(key[len(linkPrefix):])] = r
		return broken == nil
	})
	return records, cmp.Or(err, broken)
}

func (l *outLink) add(q *queued) {
	q.waiting++
	l.pending = append(l.pending, q)
	l.bytes += len(q.article)
}

func (o *outbox) link(id env.PeerID) *outLink {
	for _, l := range o.links {
		if l.to.Peer.ID == id {
			return l
		}
	}
	return nil
}

// isFull reports whether a link's queue takes no more articles.
func (o *outbox) isFull(l *outLink) bool {
	return l.bytes >= o.cfg.Buffer || len(l.pending) >= o.cfg.Items
}

// waiting returns a link with a full queue for which the node does not go on. Receivers that have left the plan get nothing
// new, so nobody waits for them.
func (o *outbox) waiting() *outLink {
	for _, l := range o.links {
		if !o.cfg.Drop && o.isFull(l) && has(o.plans.current.down, l.to.Peer.ID) {
			return l
		}
	}
	return nil
}

// appendTo queues an article for receivers and returns the operations that make it durable. The caller commits them and
// then calls written. With dropping, full links do not get it.
func (o *outbox) appendTo(links []*outLink, article []byte) (q *queued, ops []env.Op) {
	q = &queued{position: o.last + 1, article: article}
	m := &tierspb.Queued{Article: article}
	for _, l := range links {
		if o.cfg.Drop && o.isFull(l) {
			l.dropped++
			ops = append(ops, l.record())
			continue
		}
		l.add(q)
		m.To = append(m.To, []byte(l.to.Peer.ID))
		o.stats.Sent++
	}
	if q.waiting == 0 {
		return q, ops
	}
	o.last++
	o.outstanding = append(o.outstanding, q)
	return q, append(ops, env.Op{Key: queuedKey(q.position), Value: wire.Encode(m)})
}

// mark takes a position in the log for something else than an article. The caller commits it and then calls written.
func (o *outbox) mark() *queued {
	o.last++
	q := &queued{position: o.last}
	o.outstanding = append(o.outstanding, q)
	return q
}

// durable returns the position up to which the log is on disk, so that a crash cannot give it to another article.
func (o *outbox) durable() uint64 {
	for len(o.outstanding) > 0 && o.outstanding[0].durable {
		o.outstanding = o.outstanding[1:]
	}
	if len(o.outstanding) > 0 {
		return o.outstanding[0].position - 1
	}
	return o.last
}

// relink makes the links those to a list of nodes. The others are lost.
func (o *outbox) relink(down []neighbour) {
	old := o.links
	o.links = nil
	for _, n := range down {
		l := &outLink{to: n}
		if at := slices.IndexFunc(old, func(l *outLink) bool { return l.to.Peer.ID == n.Peer.ID }); at >= 0 {
			l = old[at]
			old = slices.Delete(old, at, at+1)
		}
		l.to, l.retryAt, l.backoff = n, env.AtOnce, 0
		o.links = append(o.links, l)
	}
	o.lost = append(o.lost, old...)
}

func queuedKey(position uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte(queuedPrefix), position)
}

func linkKey(to env.PeerID) []byte { return []byte(linkPrefix + string(to)) }

func (l *outLink) record() env.Op {
	return env.Op{Key: linkKey(l.to.Peer.ID), Value: wire.Encode(&tierspb.Link{Acked: l.acked, Dropped: l.dropped})}
}

// written lets articles be sent. They stay in memory if the disk has failed.
func (o *outbox) written(all []*queued, err error) {
	for _, q := range all {
		q.durable = true
	}
	o.failed("articles")(err)
	o.wake()
}

// onAck handles an acknowledgement. Those of an earlier life of the receiver, or overtaken by a later one, count for what
// the receiver has done only.
func (o *outbox) onAck(l *outLink, m *tierspb.Ack, now time.Time) {
	if m.Log != o.log || m.Done > o.last || m.Received > o.last {
		o.stats.Garbage++
		return
	}
	o.done(l, m.Done)
	if m.Session == l.session && m.Number <= l.acks {
		return
	}
	restarted := m.Session != l.session
	l.session, l.acks, l.heardAt, l.backoff = m.Session, m.Number, now, 0
	l.room, l.waitsFor, l.plan, l.settled = int(min(m.Room, maxBuffer)), m.WaitsFor, m.Plan, m.Settled
	if m.Received < l.received || restarted {
		l.sent = 0 // what was in the receiver's memory is lost
	}
	l.received = max(m.Received, l.acked)
	for l.sent < len(l.pending) && l.pending[l.sent].position <= l.received {
		l.sent++
	}
	l.retryAt = now.Add(firstRetry)
	if len(l.pending) == 0 {
		l.retryAt = now.Add(heartbeat)
	}
}

// done deletes what a receiver has passed on.
func (o *outbox) done(l *outLink, position uint64) {
	n := 0
	var ops []env.Op
	for n < len(l.pending) && l.pending[n].position <= position {
		q := l.pending[n]
		l.bytes -= len(q.article)
		if q.waiting--; q.waiting == 0 {
			ops = append(ops, env.Op{Key: queuedKey(q.position)})
		}
		n++
	}
	if n == 0 {
		return
	}
	l.acked = l.pending[n-1].position
	l.pending = slices.Delete(l.pending, 0, n)
	l.sent = max(0, l.sent-n)
	l.received = max(l.received, l.acked)
	o.store.Commit(append(ops, l.record()), o.failed("acknowledgements"))
}

// inFlight returns the bytes that were sent and not received yet.
func (l *outLink) inFlight() (bytes int) {
	for _, q := range l.pending[:l.sent] {
		if q.position > l.received {
			bytes += len(q.article)
		}
	}
	return bytes
}

// run sends what receivers have room for, and returns when to send again.
func (o *outbox) run(now time.Time) (next time.Time) {
	durable := o.durable()
	for _, l := range o.links {
		if len(l.pending) == 0 { // nothing up to there is for the receiver
			l.acked = max(l.acked, durable)
			l.received = max(l.received, l.acked)
			if l.acked >= o.plans.since && l.told < o.plans.since {
				l.retryAt = now // the receiver waits to hear that nothing of the plan before comes any more
			}
		}
		if full := o.isFull(l); full != l.full {
			l.full, l.fullAt = full, now
		}
		flying := l.inFlight()
		if !l.retryAt.After(now) { // the receiver is silent, or the link is idle
			l.backoff = min(max(2*l.backoff, firstRetry), maxRetry)
			l.retryAt = now.Add(l.backoff)
			if l.session != 0 && flying > 0 {
				o.stats.Resent++
			}
			l.sent, flying = 0, 0
			for l.sent < len(l.pending) && l.pending[l.sent].position <= l.received {
				l.sent++
			}
			o.send(l, o.message(l, l.previous())) // asks for an acknowledgement
		}
		for l.session != 0 && l.backoff <= firstRetry {
			m, size := o.message(l, l.previous()), 0
			for l.sent < len(l.pending) {
				q := l.pending[l.sent]
				if !q.durable || flying+len(q.article) > l.room || size > 0 && size+len(q.article) > maxBatch {
					break
				}
				m.Items = append(m.Items, &tierspb.Item{Position: q.position, Article: q.article})
				size += len(q.article) + itemOverhead
				flying += len(q.article)
				l.sent++
			}
			if len(m.Items) == 0 {
				break
			}
			o.send(l, m)
			if at := now.Add(firstRetry); l.retryAt.After(at) {
				l.retryAt = at
			}
		}
		next = env.Sooner(next, l.retryAt)
	}
	return next
}

// previous returns the position before the next article that is sent.
func (l *outLink) previous() uint64 {
	if l.sent > 0 {
		return l.pending[l.sent-1].position
	}
	return l.acked
}

func (o *outbox) message(l *outLink, previous uint64) *tierspb.Send {
	return &tierspb.Send{Log: o.log, Acked: l.acked, Previous: previous, Dropped: l.dropped, Plan: o.plans.plan.Digest, Since: o.plans.since}
}

func (o *outbox) send(l *outLink, m *tierspb.Send) {
	l.told = m.Acked
	o.base.send(l.to.Peer, env.Bulk, &tierspb.Message{Body: &tierspb.Message_Send{Send: m}})
}
