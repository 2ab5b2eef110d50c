package feedtree

import (
	"bytes"
	"crypto/ed25519"
	"maps"
	"time"

	"tidings/difference"
	"tidings/feedtree/feedtreepb"
	"tidings/internal/env"
	"tidings/internal/feed"
	"tidings/overlay"
)

// keyQuestions decides when the origin of a feed is asked for the publisher's key. Sequencers, owners and followers
// all ask, each at a pace of its own, because other nodes cause the questions. The answer comes by Fetched.
type keyQuestions struct {
	*common
	requests map[overlay.ID]*witnessRequest // of sequencers; at most maxWitnessRequests
	cal      plans                          // feeds about which this node has a question as a follower
	// open reports whether a follower's question is still open, and whether it may remain so after the answer.
	open func(c *channel) (ask, again bool)
}

func newKeyQuestions(m *common) *keyQuestions {
	q := &keyQuestions{common: m, requests: map[overlay.ID]*witnessRequest{}}
	q.cal = m.feedPlans(q.askIfOpen)
	return q
}

// asking is what keyQuestions keeps of a feed that this node follows.
type asking struct {
	scheduled bool
	checks    int        // number of checks that settled nothing
	checkedAt env.Moment // last of these checks
}

// claims is what keyQuestions keeps of a feed that this node leads.
type claims struct {
	keyFetchedAt env.Moment // when the origin was last asked because another node named another key
}

const (
	// maxKeyCheckDoublings bounds the pause between checks at an origin that settle nothing: it is doubled each
	// time, up to 1<<4 polling intervals. Otherwise owners could make all followers of a feed ask its origin again
	// and again, with a new key each time.
	maxKeyCheckDoublings = 4
	// keyCheckReset is the time without checks after which the pause starts again from its shortest.
	keyCheckReset = 24 * time.Hour
	// maxWitnessRequests bounds the origins that a node checks for sequencers at a time. A request that finds no
	// free place is not answered. witnessTimeout is how long a request occupies its place.
	maxWitnessRequests = 64
	witnessTimeout     = time.Minute
	// requiredWitnesses is the number of owners that must see a new key at the origin. If fewer are a quorum, a
	// quorum suffices.
	requiredWitnesses = 3
)

// askIfOpen asks the origin if there is still a question.
func (q *keyQuestions) askIfOpen(c *channel) {
	c.scheduled = false
	if ask, again := q.open(c); ask {
		c.checks, c.checkedAt = c.checks+1, env.MomentOf(q.clock.Now())
		q.stats.Sights++
		q.app.Fetch(c.key, c.url)
		if again {
			q.askLater(c)
		}
	}
}

// askNow asks the origin of a feed that this node leads, because a node claims to be the publisher or objects to the
// key. Anybody can do that, so the origin is asked at most once in a sixth of a polling interval.
func (q *keyQuestions) askNow(c *channel) {
	l, now := c.leader, q.clock.Now()
	if l.keyFetchedAt == env.Never || now.Sub(l.keyFetchedAt.Time()) >= q.cfg.PollInterval/6 {
		l.keyFetchedAt = env.MomentOf(now)
		q.app.Fetch(c.key, c.url)
	}
}

// askLater asks the origin of a feed that this node follows at a random time within a polling interval, because a
// feed's many followers must not ask at the same time. Questions that settle nothing are further apart each time.
func (q *keyQuestions) askLater(c *channel) {
	now := q.clock.Now()
	if c.scheduled || !c.subscribed {
		return
	}
	if now.Sub(c.checkedAt.Time()) > keyCheckReset {
		c.checks = 0
	}
	wait := time.Duration(q.rand.Int64N(int64(q.cfg.PollInterval) + 1))
	if c.checks > 0 {
		wait += max(0, c.checkedAt.Time().Add(q.cfg.PollInterval<<min(c.checks-1, maxKeyCheckDoublings)).Sub(now))
	}
	c.scheduled = true
	q.cal.add(q.after(wait), c.key)
}

// A witnessRequest is a sequencer's request to check the key at an origin.
type witnessRequest struct {
	to        env.PeerID
	publisher ed25519.PublicKey
	since     time.Time
}

// witnessesNeeded returns how many of a feed's owners must have seen a new key.
func witnessesNeeded(owners int) int { return min(requiredWitnesses, owners/2+1) }

// onWitnessRequest fetches the document of a feed that this node owns, at its sequencer's request.
func (q *keyQuestions) onWitnessRequest(from env.PeerID, m *feedtreepb.WitnessRequest) {
	key, now := overlay.ID(m.Key), q.clock.Now()
	v, ok := q.owners.View(key)
	if !ok || !v.Owns || v.Epoch == nil || v.Epoch.Sequencer != from {
		return
	}
	maps.DeleteFunc(q.requests, func(_ overlay.ID, l *witnessRequest) bool { return now.Sub(l.since) > witnessTimeout })
	if q.requests[key] != nil || len(q.requests) >= maxWitnessRequests {
		return
	}
	q.requests[key] = &witnessRequest{from, m.Publisher, now}
	q.app.Fetch(key, v.URL)
}

// answerWitnessRequest answers a request if the origin names the key in question.
func (q *keyQuestions) answerWitnessRequest(key overlay.ID, publisher feed.Publisher) {
	l := q.requests[key]
	if l == nil {
		return
	}
	delete(q.requests, key)
	v, ok := q.owners.View(key)
	if !ok || !bytes.Equal(publisher.Key, l.publisher) {
		return
	}
	q.stats.Witnessed++
	w := difference.Attest(q.signer, v.URL, publisher.Key, q.clock.Now())
	q.send(env.Peer{ID: l.to}, &feedtreepb.Message{Body: &feedtreepb.Message_WitnessReply{WitnessReply: &feedtreepb.WitnessReply{Witness: w.Raw}}})
}
