package overlay

import (
	"time"

	"tidings/internal/env"
	"tidings/overlay/overlaypb"
)

// maxAttempts is the number of unanswered probes after which a peer is declared dead, and
// leafAttempts the number for a member of the leaf, because a node that declares such a member
// dead may act as root in its place. With 1 % loss in each direction a live member misses four
// probes in a row once in six million times, and three once in 130,000.
const (
	maxAttempts  = 3
	leafAttempts = 4
)

// maxProbeTimeout is the longest that one probe waits. However slow a peer seemed when it was
// last measured, four probes are over after 15 s.
const maxProbeTimeout = 4 * time.Second

// liveness finds out which peers are alive: by what it hears of them, by its own probes, and by
// reports of others, which it verifies. A member that is alive gets its place in leaf or table.
type liveness struct {
	*neighbours
	lastHeard     time.Time // when any peer last spoke; the start time until then
	watchList     watchList
	tombstones    tombstones
	deathReports  deathReports
	gossipLeft    int       // remaining rounds of gossip about the leaf
	tableProbedAt time.Time // when the whole table was last probed
	deadProbedAt  time.Time // when all tombstones were last probed
}

func newLiveness(ns *neighbours) *liveness {
	return &liveness{
		neighbours:   ns,
		lastHeard:    ns.started,
		deathReports: deathReports{pending: map[env.PeerID]env.PeerID{}, falseReports: map[env.PeerID]falseReportCount{}},
	}
}

// probe asks a peer whether it is alive, unless a probe is already outstanding. Any message
// from the peer counts as an answer.
func (lv *liveness) probe(p *peer) {
	if p.probing {
		return
	}
	p.attempts = 0
	lv.sendProbe(p)
}

func (lv *liveness) sendProbe(p *peer) {
	now := lv.clock.Now()
	wait := p.answerTimeout(now)
	if !p.linkBroken { // a broken link is no reason to wait longer
		wait = min(wait<<p.attempts, maxProbeTimeout)
	}
	p.nonce = lv.rand.Uint64() | 1
	p.probing = true
	p.attempts++
	p.probeSent = env.MomentOf(now)
	lv.stats.Probes++
	lv.at(now.Add(wait), task{kind: taskProbe, peer: p.id, n: p.nonce})
	m := &overlaypb.Probe{
		Nonce:      p.nonce,
		WantRecord: p.contact == nil,
		Depth:      uint32(lv.leaf.Depth()),
		Digest:     lv.leaf.Digest(),
		Decided:    lv.leaf.decided,
		Attach:     p.isHost && lv.state != Active,

		Revocations: lv.revocations.digest,
	}
	if !p.knowsMe && p.contact != nil { // neither node may know the other
		m.KnownIssued = uint32(p.contact.Issued)
	}
	lv.send(p, &overlaypb.Message{Body: &overlaypb.Message_Probe{Probe: m}})
}

func (lv *liveness) probeReply(m *overlaypb.Probe, granted bool) *overlaypb.Message {
	r := &overlaypb.Message{Body: &overlaypb.Message_Probe{Probe: &overlaypb.Probe{
		Nonce:   m.Nonce,
		Reply:   true,
		Depth:   uint32(lv.leaf.Depth()),
		Digest:  lv.leaf.Digest(),
		Decided: lv.leaf.decided,
		Attach:  granted,

		Revocations: lv.revocations.digest,
	}}}
	if m.WantRecord {
		r.Record = lv.self.Raw
	}
	return r
}

// probeUnanswered continues when a probe has timed out. It reports whether that was the last
// one, so that the peer is dead.
func (lv *liveness) probeUnanswered(p *peer, nonce uint64) (dead bool) {
	if p == nil || !p.probing || p.nonce != nonce {
		return false
	}
	p.suspect = true
	limit := int8(maxAttempts)
	if p.contact != nil && lv.leaf.Has(p.contact.ID) != nil {
		limit = leafAttempts
	}
	if p.attempts < limit {
		lv.sendProbe(p)
		return false
	}
	p.probing = false
	return true
}

// probeTable probes every contact that has not just spoken, at most once per burstInterval.
func (lv *liveness) probeTable() {
	now := lv.clock.Now()
	if !lv.tableProbedAt.IsZero() && now.Sub(lv.tableProbedAt) < burstInterval {
		return
	}
	lv.tableProbedAt = now
	lv.table.eachPeer(lv.leaf.Depth(), func(p *peer) {
		if now.Sub(p.lastHeard.Time()) > p.rto() {
			lv.probe(p)
		}
	})
}

// remove ends the probes of a peer that is dead or has left, and takes it out of the leaf. It
// reports whether it was there.
func (lv *liveness) remove(p *peer) bool {
	delete(lv.deathReports.pending, p.id)
	p.candidate, p.probing, p.attempts, p.leafSync = false, false, 0, nil
	p.lastHeard, p.knowsMe = env.Never, false
	if p.contact == nil || !lv.leaf.Remove(p.contact.ID) {
		return false
	}
	lv.noteLeafChange()
	return true
}

// Suspect makes the node probe a peer from which a layer misses an answer.
func (lv *liveness) Suspect(id env.PeerID) {
	if p := lv.peers.get(id); p != nil {
		lv.probe(p)
	}
}

// PeerDown takes a hint that the link to a peer broke, and probes the peer. A peer that said
// that it leaves closes its links as well, and is not probed.
func (lv *liveness) PeerDown(id env.PeerID) {
	if p := lv.peers.get(id); p != nil && p.lastHeard != env.Never && lv.inUse(p) {
		p.linkBroken = true
		lv.probe(p)
	}
}
