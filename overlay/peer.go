package overlay

import (
	"time"

	"tidings/internal/env"
)

// A peer is what a node remembers of another as long as it has to do with it:
// a member of its leaf, a contact of its table, a client, or somebody it is
// getting to know. A node has about a hundred, so they are kept small.
type peer struct {
	id        env.PeerID
	contact   *Contact // nil until its record came
	lastHeard timestamp

	// Round trips as TCP estimates them (RFC 6298): smoothed and variation.
	rtt, rttvar microseconds

	nonce     uint64 // of the last probe, by which its reply is timed
	probeSent timestamp

	leafSync *leafSync // of its leaf with the node's own; nil: never made

	rowSent timestamp
	rowDue  timestamp // an answer to RowRequest is due then; never: none is out

	attached   timestamp // a client's last word; never: not my client
	watchCount int32     // layers above that asked to know when it goes

	depth    int16 // of its leaf
	row      int16 // asked for by RowRequest
	attempts int8  // probes sent without an answer

	probing    bool // a probe is out
	linkBroken bool // its link broke, and it has not spoken since
	roughRTT   bool // its round trip may hold a handshake
	coldLink   bool // what was asked last may have had to wait for a link
	knowsMe    bool // it has my record: it answered since I sent it
	recordSent bool // my record is on its way
	suspect    bool // left something unanswered; spared while others will do
	isHost     bool // acts for me, who am a client
	candidate  bool // has not answered a probe yet that it has to answer first
	acked      bool // answered a probe since I announced myself: it knows me
}

// A comparison is what a node remembers of another that may be of its leaf.
type leafSync struct {
	digest     uint64    // of its leaf, as it last said
	digestAt   timestamp // when that was
	explained  uint64    // from the node's own, when it was last told what it lacks
	syncedAt   timestamp // when it was last asked, or told, about the leaf
	answeredAt timestamp // when it was last told what the leaf holds, because it asked
	joinAsks   int8      // questions since the node announced itself
	backoff    int8      // and in all, since both last agreed
	answerDue  bool      // an answer is
	complete   bool      // it knew nobody of its leaf, since the node announced itself, who is not known here
}

// compared returns what is remembered of comparing leaves with a peer.
func (p *peer) syncState() *leafSync {
	if p.leafSync == nil {
		p.leafSync = &leafSync{}
	}
	return p.leafSync
}

// A span is a length of time in half the space: microseconds, up to 35 minutes.
type microseconds int32

func (s microseconds) duration() time.Duration { return time.Duration(s) * time.Microsecond }

// A moment is a time in a third of the space: nanoseconds of Unix time.
type timestamp int64

const never timestamp = 0

func timestampOf(t time.Time) timestamp { return timestamp(t.UnixNano()) }

// time returns the moment as others know it, the zero time for never.
func (m timestamp) time() time.Time {
	if m == never {
		return time.Time{}
	}
	return time.Unix(0, int64(m)).UTC()
}

// Bounds of the time that a peer is given to answer.
const (
	minRTO     = 300 * time.Millisecond
	maxRTO     = 3 * time.Second
	initialRTO = time.Second
)

// rto is how long an answer of the peer may take before it counts as missing.
func (p *peer) rto() time.Duration {
	if p.rtt == 0 {
		return initialRTO
	}
	return min(max((p.rtt+4*p.rttvar).duration(), minRTO), maxRTO)
}

// linkIdle is after how much silence the link to a peer may have been closed, so
// that the next message waits for a handshake of two round trips.
const linkIdle = 2 * time.Minute

// patience is how long an answer to something sent at now may take. It notes whether a
// link has to be made first.
func (p *peer) answerTimeout(now time.Time) time.Duration {
	p.coldLink = now.Sub(p.lastHeard.time()) >= linkIdle
	if !p.coldLink {
		return p.rto()
	}
	return min(p.rto()+2*max(p.rtt.duration(), minRTO), maxRTO)
}

// sample takes one measured round trip into the estimate. What came later than any
// answer is waited for counts as no more than that. Where a link had to be made first, two
// round trips of a handshake and the work for it may be a part of it: that counts only as
// long as there is nothing better.
func (p *peer) sample(d time.Duration) {
	d = min(d, maxRTO)
	switch {
	case p.coldLink && p.rtt != 0 && !p.roughRTT:
		return
	case p.coldLink:
		p.roughRTT = true
		d = min(d, initialRTO)
	case p.roughRTT:
		p.roughRTT, p.rtt = false, 0
	}
	trip := microseconds(d.Microseconds())
	if p.rtt == 0 {
		p.rtt, p.rttvar = max(trip, 1), trip/2
		return
	}
	p.rttvar += (max(p.rtt-trip, trip-p.rtt) - p.rttvar) / 4
	p.rtt += (trip - p.rtt) / 8
}

// addr is the peer as the network dials it.
func (p *peer) addr() env.Peer {
	if p.contact != nil {
		return p.contact.Peer
	}
	return env.Peer{ID: p.id}
}
