package libp2p

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"golang.org/x/time/rate"

	"tidings/internal/env"
)

const (
	// maxPages bounds the peers a host remembers. The one longest unused goes
	// first; a gated one only if there is no other.
	maxReputations = 4096

	// maxFaults bad frames within faultWindow close a peer's links, and it is
	// gated for gateTime.
	maxViolations   = 16
	violationWindow = 10 * time.Minute
	blockTime       = time.Hour

	// refusedTime is how long a refusal is remembered: the peer is not
	// dialled, and the words are not logged again.
	refusalTime = 10 * time.Minute

	// refusalShown is how long a refusal is reported. The peer is dialled again between the two times, so a refusal
	// that goes on is reported without a break.
	refusalReportTime = refusalTime + 2*aloneSearchInterval
)

// An allowance is what one peer may send in a class, a second and at once.
type rateLimit struct {
	frames, frameBurst int
	bytes, byteBurst   int
}

// taken is what a host takes of one peer by class. What is more waits in the stream
// until its turn comes, so that the sender feels it, and is no fault: who has much
// to do is no vandal. Subscribing to a feed costs about seven control frames of
// 200 bytes, so the burst is that of some thousand feeds at once.
var receiveLimits = [...]rateLimit{
	env.Control: {4000, 16000, 2 << 20, 16 << 20},
	env.Bulk:    {2000, 8000, 16 << 20, 64 << 20},
}

// sent is what a host sends to one peer: half of what is taken, so that a peer that
// keeps to it is never made to wait, not even when it was started anew.
func sendLimit(class env.Class) rateLimit {
	limit := receiveLimits[class]
	return rateLimit{limit.frames / 2, limit.frameBurst / 2, limit.bytes / 2, limit.byteBurst / 2}
}

// A Refusal is what one side of a link said to the other when it would not have
// it.
type Refusal struct {
	Peer   env.PeerID
	Reason string
	ByUs   bool // this host refused; else the peer did
	At     time.Time

	Network   bool // the two belong to different networks
	Bootstrap bool // the peer is one of Config.Bootstrap
}

// A ledger remembers what peers did, across their connections.
type reputations struct {
	mu     sync.Mutex
	byPeer map[peer.ID]*reputation
}

type reputation struct {
	lastUsed     time.Time
	violations   []time.Time                  // the last, at most maxFaults
	blockedUntil time.Time                    // until then
	refusal      Refusal                      // zero: none
	dialBacks    *rate.Limiter                // dial-backs
	limiters     [len(receiveLimits)]*limiter // by class
}

// A budget is what of an allowance is left.
type limiter struct{ frames, bytes *rate.Limiter }

func newLimiter(limit rateLimit) *limiter {
	return &limiter{rate.NewLimiter(rate.Limit(limit.frames), limit.frameBurst), rate.NewLimiter(rate.Limit(limit.bytes), limit.byteBurst)}
}

func newReputations() *reputations { return &reputations{byPeer: map[peer.ID]*reputation{}} }

// page returns the page of a peer and makes room for it. The mutex is held.
func (l *reputations) of(p peer.ID, now time.Time) *reputation {
	r := l.byPeer[p]
	if r == nil {
		if len(l.byPeer) >= maxReputations {
			l.evictOne(now)
		}
		r = &reputation{dialBacks: rate.NewLimiter(rate.Every(dialBackInterval), dialBackBurst)}
		for class, a := range receiveLimits {
			r.limiters[class] = newLimiter(a)
		}
		l.byPeer[p] = r
	}
	r.lastUsed = now
	return r
}

// forget drops the page that is missed least. The mutex is held.
func (l *reputations) evictOne(now time.Time) {
	var worstPeer peer.ID
	var worst *reputation
	for p, r := range l.byPeer {
		blocked := r.blockedUntil.After(now)
		switch {
		case worst == nil,
			worst.blockedUntil.After(now) && !blocked,
			worst.blockedUntil.After(now) == blocked && r.lastUsed.Before(worst.lastUsed):
			worstPeer, worst = p, r
		}
	}
	delete(l.byPeer, worstPeer)
}

// budget returns what a peer may still send in a class.
func (l *reputations) limiter(p peer.ID, class env.Class, now time.Time) *limiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.of(p, now).limiters[class]
}

// spend takes a frame from the budget, and returns how long it has to wait until
// the budget has grown to it.
func (b *limiter) reserve(size int, now time.Time) time.Duration {
	return max(b.frames.ReserveN(now, 1).DelayFrom(now), b.bytes.ReserveN(now, size).DelayFrom(now))
}

// fault counts a bad frame against a peer. It returns true when that gates it.
func (l *reputations) violation(p peer.ID, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.of(p, now)
	if r.blockedUntil.After(now) {
		return false
	}
	r.violations = slices.DeleteFunc(append(r.violations, now), func(t time.Time) bool { return now.Sub(t) > violationWindow })
	if len(r.violations) < maxViolations {
		return false
	}
	r.violations, r.blockedUntil = nil, now.Add(blockTime)
	return true
}

// gated says whether a peer is shut out.
func (l *reputations) isBlocked(p peer.ID, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.byPeer[p]
	return r != nil && r.blockedUntil.After(now)
}

// refuse remembers a refusal. It returns true if the words should be logged.
func (l *reputations) addRefusal(p peer.ID, r Refusal, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	entry := l.of(p, now)
	fresh := now.Sub(entry.refusal.At) > refusalTime
	if fresh || entry.refusal.Reason != r.Reason {
		r.Peer, r.At = env.PeerID(p), entry.refusal.At
		if fresh {
			r.At = now
		}
		entry.refusal = r
	}
	return fresh
}

// refused says whether a refusal to or by a peer is remembered.
func (l *reputations) isRefused(p peer.ID, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.byPeer[p]
	return r != nil && now.Sub(r.refusal.At) <= refusalTime
}

// refusals returns those to report, the latest first.
func (l *reputations) refusals(now time.Time) []Refusal {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []Refusal
	for _, r := range l.byPeer {
		if now.Sub(r.refusal.At) <= refusalReportTime {
			out = append(out, r.refusal)
		}
	}
	slices.SortFunc(out, func(a, b Refusal) int {
		return cmp.Or(b.At.Compare(a.At), cmp.Compare(a.Peer, b.Peer))
	})
	return out
}

// gates counts the peers that are shut out.
func (l *reputations) countBlocked(now time.Time) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.byPeer {
		if r.blockedUntil.After(now) {
			n++
		}
	}
	return n
}

// serve says whether a peer's wish to be dialled back may be fulfilled, and
// remembers that it was.
func (l *reputations) allowDialBack(p peer.ID, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.of(p, now).dialBacks.AllowN(now, 1)
}
