package overlay

import (
	"time"

	"tidings/internal/env"
)

// A peer is what a node remembers of another as long as it has to do with it:
// a member of its leaf, a contact of its table, a client, or somebody it is
// getting to know. A node has about a hundred, so they are kept small.
type peer struct {
	id      env.PeerID
	contact *Contact // nil until its record came
	heard   moment

	// Round trips as TCP estimates them (RFC 6298): smoothed and variation.
	rtt, rttvar span

	nonce     uint64 // of the last probe, by which its reply is timed
	probeSent moment

	leaf *comparison // of its leaf with the node's own; nil: never made

	rowSent moment
	rowDue  moment // an answer to RowAsk is due then; never: none is out

	attached moment // a client's last word; never: not my client
	wanted   int32  // layers above that asked to know when it goes

	depth    int16 // of its leaf
	row      int16 // asked for by RowAsk
	attempts int8  // probes sent without an answer

	probing   bool // a probe is out
	broken    bool // its link broke, and it has not spoken since
	rough     bool // its round trip may hold a handshake
	cold      bool // what was asked last may have had to wait for a link
	told      bool // it has my record: it answered since I sent it
	toldNow   bool // my record is on its way
	suspect   bool // left something unanswered; spared while others will do
	hosts     bool // acts for me, who am a client
	candidate bool // has not answered a probe yet that it has to answer first
	acked     bool // answered a probe since I announced myself: it knows me
}

// A comparison is what a node remembers of another that may be of its leaf.
type comparison struct {
	digest   uint64 // of its leaf, as it last said
	said     moment // when that was
	differed uint64 // from the node's own, when it was last told what it lacks
	synced   moment // when it was last asked, or told, about the leaf
	gave     moment // when it was last told what the leaf holds, because it asked
	asks     int8   // questions since the node announced itself
	vain     int8   // and in all, since both last agreed
	due      bool   // an answer is
	whole    bool   // it knew nobody of its leaf, since the node announced itself, who is not known here
}

// compared returns what is remembered of comparing leaves with a peer.
func (p *peer) compared() *comparison {
	if p.leaf == nil {
		p.leaf = &comparison{}
	}
	return p.leaf
}

// A span is a length of time in half the space: microseconds, up to 35 minutes.
type span int32

func (s span) d() time.Duration { return time.Duration(s) * time.Microsecond }

// A moment is a time in a third of the space: nanoseconds of Unix time.
type moment int64

const never moment = 0

func momentOf(t time.Time) moment { return moment(t.UnixNano()) }

// time returns the moment as others know it, the zero time for never.
func (m moment) time() time.Time {
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
	return min(max((p.rtt+4*p.rttvar).d(), minRTO), maxRTO)
}

// linkIdle is after how much silence the link to a peer may have been closed, so
// that the next message waits for a handshake of two round trips.
const linkIdle = 2 * time.Minute

// patience is how long an answer to something sent at now may take. It notes whether a
// link has to be made first.
func (p *peer) patience(now time.Time) time.Duration {
	p.cold = now.Sub(p.heard.time()) >= linkIdle
	if !p.cold {
		return p.rto()
	}
	return min(p.rto()+2*max(p.rtt.d(), minRTO), maxRTO)
}

// sample takes one measured round trip into the estimate. What came later than any
// answer is waited for counts as no more than that. Where a link had to be made first, two
// round trips of a handshake and the work for it may be a part of it: that counts only as
// long as there is nothing better.
func (p *peer) sample(d time.Duration) {
	d = min(d, maxRTO)
	switch {
	case p.cold && p.rtt != 0 && !p.rough:
		return
	case p.cold:
		p.rough = true
		d = min(d, initialRTO)
	case p.rough:
		p.rough, p.rtt = false, 0
	}
	trip := span(d.Microseconds())
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
