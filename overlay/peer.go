package overlay

import (
	"time"

	"tidings/internal/env"
)

// A peer is what a node remembers of another node: a member of its leaf, a contact of its
// table, a client, or a node that it is getting to know. A node has about a hundred, so the
// struct is kept small.
type peer struct {
	id        env.PeerID
	contact   *Contact // nil until its record arrives
	lastHeard env.Moment

	// Round-trip time as TCP estimates it (RFC 6298), smoothed, and its variation.
	rtt, rttvar microseconds

	nonce     uint64 // of the last probe, to match and time its reply; 0: answered
	probeSent env.Moment

	leafSync *leafSync // comparison of its leaf with the node's own; nil: never made

	rowSent env.Moment
	rowDue  env.Moment // when the answer to RowRequest is due; never: none is outstanding

	newsAt     env.Moment // when it was last sent the lists of revocations; only of peers with a place
	attached   env.Moment // when this client last attached, or this host agreed; never: not attached
	watchCount int32      // number of Watch calls of layers above

	depth    int16 // depth of its leaf, in bits
	row      int16 // row of the last RowRequest
	attempts int8  // probes sent without an answer

	probing    bool // a probe is outstanding
	linkBroken bool // its link broke, and it has not spoken since
	roughRTT   bool // rtt may include a handshake
	coldLink   bool // the last request may have had to wait for a handshake
	knowsMe    bool // it has this node's record, because it answered after the record was sent
	recordSent bool // this node's record was sent, and not yet answered
	suspect    bool // left something unanswered; used only if there is no other
	isHost     bool // acts for this node, which is a client
	candidate  bool // has not answered the probe that it must answer before it gets a place
	acked      bool // answered a probe after this node announced itself, so it knows this node
}

// leafSync is the state of comparing leaves with one peer.
type leafSync struct {
	digest     uint64     // digest of the peer's leaf, as last stated
	digestAt   env.Moment // when digest was stated
	explained  uint64     // difference of digests when the peer was last told what it lacks
	syncedAt   env.Moment // when the peer was last asked or told about the leaf
	answeredAt env.Moment // when the peer was last sent the leaf at its request
	joinAsks   int8       // requests since this node announced itself
	backoff    int8       // requests since both sides last agreed; each doubles the pause
	answerDue  bool       // an answer is outstanding
	complete   bool       // since this node announced itself, the peer named no member of its leaf that is unknown here
}

// syncState returns the state of comparing leaves with a peer.
func (p *peer) syncState() *leafSync {
	if p.leafSync == nil {
		p.leafSync = &leafSync{}
	}
	return p.leafSync
}

// microseconds is a duration of up to 35 minutes in half the space of time.Duration.
type microseconds int32

func (s microseconds) duration() time.Duration { return time.Duration(s) * time.Microsecond }

// These constants bound the time that a peer is given to answer.
const (
	minRTO     = 300 * time.Millisecond
	maxRTO     = 3 * time.Second
	initialRTO = time.Second
)

// rto returns the time after which an answer of the peer counts as missing.
func (p *peer) rto() time.Duration {
	if p.rtt == 0 {
		return initialRTO
	}
	return min(max((p.rtt+4*p.rttvar).duration(), minRTO), maxRTO)
}

// linkIdle is the silence after which the link to a peer may have been closed. The next
// message then waits for a handshake of two round trips.
const linkIdle = 2 * time.Minute

// answerTimeout returns the time that an answer to a message sent at now may take. It records
// whether a link may have to be made first.
func (p *peer) answerTimeout(now time.Time) time.Duration {
	p.coldLink = now.Sub(p.lastHeard.Time()) >= linkIdle
	if !p.coldLink {
		return p.rto()
	}
	return min(p.rto()+2*max(p.rtt.duration(), minRTO), maxRTO)
}

// sample adds one measured round trip to the estimate. A round trip longer than maxRTO counts
// as maxRTO. If a link had to be made first, the measurement may include a handshake of two
// round trips and its computation; such a sample counts only until there is a better one.
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
	sample := microseconds(d.Microseconds())
	if p.rtt == 0 {
		p.rtt, p.rttvar = max(sample, 1), sample/2
		return
	}
	p.rttvar += (max(p.rtt-sample, sample-p.rtt) - p.rttvar) / 4
	p.rtt += (sample - p.rtt) / 8
}

// addr returns the address by which the network dials the peer.
func (p *peer) addr() env.Peer {
	if p.contact != nil {
		return p.contact.Peer
	}
	return env.Peer{ID: p.id}
}
