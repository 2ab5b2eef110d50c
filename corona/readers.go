package corona

import (
	"time"

	"tidings/corona/coronapb"
	"tidings/internal/env"
	"tidings/overlay"
)

// The leader of a channel claims how many readers the channel has. The root of the channel's own tree tells it, and it may
// be that root itself. A channel has a second tree with another root, at the other end of the id space. The budget leader
// of the channel's domain asks that root how many readers it knows of, and no more count in the budget.

const (
	// auditFactor is the factor by which a claim may exceed the count of the second root: the two trees do not learn at the
	// same moment that readers come and go.
	auditFactor = 4. / 3
	// unauditedReaders of a channel always count. Most channels have no more, and cost no question.
	unauditedReaders = 4
	// auditOneIn is one in so many claims about which the second root is asked although they are below its last count, so
	// that the count falls when readers go. More questions would let it fall sooner.
	auditOneIn = 32
	// auditWait is how long the grant of a channel waits for the answer to such a question.
	auditWait = 5 * time.Second
	// auditTime is how long an answer may take. The overlay tries for a minute to reach the root.
	auditTime = 75 * time.Second
	// maxSilent is the number of questions in a row without an answer after which a claim counts in full. So one answer
	// that is lost does not free a liar.
	maxSilent = 2
	// maxAudits bounds the questions of one steward that have no answer yet. Further ones are asked with the next claim.
	maxAudits = 4096
	// maxEarlyAnswers bounds the answers to one question that come before the receipt, which names the one that counts. Any
	// member on the way of the question can answer, and there are about five.
	maxEarlyAnswers = 16
)

// Trees knows the second trees of channels.
type Trees interface {
	// Shadow returns the key of the second tree of a channel.
	Shadow(channel overlay.ID) overlay.ID

	// Corroborated returns the number of clients in a tree, as far as no single member below its root has made it up; ok is
	// false if this node is not the root of the tree.
	Corroborated(tree overlay.ID) (clients int, ok bool)
}

// audited is what the root of the second tree has said about a channel's readers.
type audited struct {
	most       float64   // readers that count, if known
	known      bool      // there was an answer
	lower      bool      // the last answer was lower than most
	silent     int       // questions in a row without an answer
	nonce      uint64    // of the question under way; 0: none
	answeredAt time.Time // when the last question was answered or given up
	waitUntil  time.Time // until when grants wait for the answer to the question under way
}

// An audit is a question to the root of a channel's second tree, or of its first one where the leader is the root of the second.
// An answer counts if the overlay's receipt names its sender as the root.
type audit struct {
	domain, channel overlay.ID
	leader          overlay.ID // of the channel: if it is the root, too, its answer says nothing
	first           bool       // the question is to the root of the first tree
	askedAt         time.Time
	root            overlay.ID             // by the receipt
	received        bool                   // there is a receipt
	answers         map[overlay.ID]float64 // readers, by who answered; at most maxEarlyAnswers
}

// AuditReaders makes a steward compare the readers that are claimed for channels with those in their second trees, and this
// node answer such questions. Without it claims count in full.
func (c *Corona) AuditReaders(trees Trees) {
	c.steward.trees, c.steward.audits = trees, map[uint64]*audit{}
}

// limit returns how many readers of a channel count at most; ok is false if there is no limit. Readers that a grant in
// force was given for go on counting: an earlier budget leader may have audited them. A first claim does not count before it
// was asked about and the answer came, or auditWait is over: grants for other channels may be due meanwhile.
func (a *budgetAccount) limit(now time.Time) (most float64, ok bool) {
	switch last, granted := a.last(); {
	case a.silent >= maxSilent:
		return 0, false
	case a.known:
		return a.most, true
	default:
		return max(last.readers, unauditedReaders), granted || a.nonce == 0 && a.silent == 0 || now.Before(a.waitUntil)
	}
}

// counted returns the readers of a claim that count.
func (a *budgetAccount) counted(now time.Time) float64 {
	if most, ok := a.limit(now); ok {
		return min(a.claim.readers, most)
	}
	return a.claim.readers
}

// auditClaim asks the root of a channel's second tree about the claim of a leader, if there is a reason or by chance. The grant
// waits for the answer.
func (st *steward) auditClaim(o *stewardState, a *budgetAccount, leader overlay.ID, now time.Time) {
	if q := st.audits[a.nonce]; q != nil && now.Sub(q.askedAt) > auditTime {
		st.endAudit(a.nonce, q, now)
	}
	most, ok := a.limit(now)
	doubtful := !ok || !a.known || a.lower || a.claim.readers > most
	switch {
	case st.trees == nil:
		a.silent = maxSilent // nobody is asked
	case a.claim.readers <= unauditedReaders || a.nonce != 0 || len(st.audits) >= maxAudits:
	case now.Sub(a.answeredAt) < st.cfg.MaintenanceInterval/2 || !doubtful && st.rand.IntN(auditOneIn) > 0:
	default:
		st.stats.Audited++
		st.ask(a, &audit{domain: o.key, channel: a.key, leader: leader}, o.domain, now)
	}
}

// ask routes a question about the readers of a channel to a root.
func (st *steward) ask(a *budgetAccount, q *audit, domain string, now time.Time) {
	nonce := st.rand.Uint64() | 1
	q.askedAt, q.answers = now, map[overlay.ID]float64{}
	a.nonce, a.waitUntil, st.audits[nonce] = nonce, now.Add(auditWait), q
	tree, other := st.trees.Shadow(a.key), a.key
	if q.first {
		tree, other = other, tree
	}
	st.routePoliteness(tree, domain, &coronapb.Politeness{Body: &coronapb.Politeness_ReadersRequest{ReadersRequest: &coronapb.ReadersRequest{
		Key: other[:], Record: st.node.Self().Raw, Nonce: nonce,
	}}}, func(r overlay.Receipt, ok bool) {
		q.root, q.received = r.Root, ok
		if _, answered := q.answers[q.root]; st.audits[nonce] == q && (!ok || answered || q.root == q.leader) {
			st.endAudit(nonce, q, st.clock.Now())
		}
	})
}

// onReadersRequest answers as the root of a tree, which is the second one of the key in the question. A root without a tree
// knows of no readers.
func (st *steward) onReadersRequest(key overlay.ID, domain string, m *coronapb.ReadersRequest) {
	asker, err := st.node.OpenMember(m.Record)
	if err != nil || st.trees == nil || st.trees.Shadow(overlay.ID(m.Key)) != key {
		st.stats.Garbage++
		return
	}
	clients, _ := st.trees.Corroborated(key)
	answer := &coronapb.ReadersResponse{Nonce: m.Nonce, Readers: uint32(clients), Record: st.node.Proof()}
	if asker.ID == st.node.ID() {
		st.onReadersResponse(asker.Peer.ID, answer, st.clock.Now())
		return
	}
	st.sendPoliteness(asker.Peer, domain, &coronapb.Politeness{Body: &coronapb.Politeness_ReadersResponse{ReadersResponse: answer}})
}

// onReadersResponse takes an answer. It may come before the receipt.
func (st *steward) onReadersResponse(from env.PeerID, m *coronapb.ReadersResponse, now time.Time) {
	q := st.audits[m.Nonce]
	if q == nil {
		return
	}
	id, err := st.node.IDWith(from, m.Record)
	if err != nil || q.received && id != q.root || len(q.answers) >= maxEarlyAnswers {
		st.stats.Garbage++
		return
	}
	q.answers[id] = st.plausibleReaders(m.Readers)
	if q.received {
		st.endAudit(m.Nonce, q, now)
	}
}

// endAudit takes what is known of a question when it ends. An answer that takes readers away must be confirmed by the next
// one, because a root that has just come does not know its tree yet. There is nothing to lose before the first grant.
func (st *steward) endAudit(nonce uint64, q *audit, now time.Time) {
	delete(st.audits, nonce)
	o := st.states[q.domain]
	if o == nil {
		return
	}
	a := o.account(q.channel)
	if a == nil || a.nonce != nonce {
		return
	}
	before, limited := a.limit(now)
	a.nonce, a.answeredAt = 0, now
	readers, answered := q.answers[q.root]
	switch {
	case q.received && q.root == q.leader && !q.first:
		st.ask(a, &audit{domain: q.domain, channel: q.channel, leader: q.leader, first: true}, o.domain, now)
		return
	case q.received && q.root == q.leader:
		st.stats.Unaudited++
		a.silent = maxSilent // in a tiny network one node is the root of both trees
		return
	case !q.received || !answered:
		st.stats.Unaudited++
		a.silent++
		return
	}
	most := readers*auditFactor + unauditedReaders
	if most < a.claim.readers {
		st.stats.Overclaimed++
	}
	a.silent, a.known = 0, true
	if a.lower = limited && most < before && !a.lower; a.lower {
		most = before
	}
	a.most = most
}

// endAudits ends the questions that nobody has answered in time.
func (st *steward) endAudits(now time.Time) {
	for nonce, q := range st.audits {
		if now.Sub(q.askedAt) > auditTime {
			st.endAudit(nonce, q, now)
		}
	}
}
