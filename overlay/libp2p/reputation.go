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
	// maxReputations bounds the peers that a host remembers. At the bound the peer unused for longest is forgotten,
	// and a blocked peer only if all are blocked.
	maxReputations = 4096

	// maxViolations bad frames within violationWindow close a peer's links and block it for blockTime.
	maxViolations   = 16
	violationWindow = 10 * time.Minute
	blockTime       = time.Hour

	// refusalTime is how long a refusal is remembered. During that time the peer is not dialled, and its refusals
	// are not logged again.
	refusalTime = 10 * time.Minute

	// refusalReportTime is how long a refusal is reported. The peer is dialled again before that time is over, so a
	// refusal that persists is reported without a gap.
	refusalReportTime = refusalTime + 2*aloneSearchInterval
)

// A rateLimit is what one peer may send in a class: frames and bytes per second, and as a burst.
type rateLimit struct {
	frames, frameBurst int
	bytes, byteBurst   int
}

// receiveLimits are what a host accepts from one peer, by class. More than that waits in the stream, which slows
// the sender down and is no violation: a peer with much to do is not an attacker. Subscribing to a feed costs about
// seven control frames of 200 bytes, so a burst has room for some thousand feeds at once.
var receiveLimits = [...]rateLimit{
	env.Control: {4000, 16000, 2 << 20, 16 << 20},
	env.Bulk:    {2000, 8000, 16 << 20, 64 << 20},
}

// sendLimit returns what a host sends to one peer: half of what the peer accepts. A peer that keeps to this limit
// never has to wait, not even after a restart.
func sendLimit(class env.Class) rateLimit {
	limit := receiveLimits[class]
	return rateLimit{limit.frames / 2, limit.frameBurst / 2, limit.bytes / 2, limit.byteBurst / 2}
}

// A Refusal says that one side of a link refused the other in the handshake.
type Refusal struct {
	Peer   env.PeerID
	Reason string
	ByUs   bool // this host refused the peer; otherwise the peer refused this host
	At     time.Time

	Network   bool // the two belong to different networks
	Bootstrap bool // the peer is in Config.Bootstrap
}

// reputations remembers how peers behaved, across their connections.
type reputations struct {
	mu     sync.Mutex
	byPeer map[peer.ID]*reputation
}

type reputation struct {
	lastUsed     time.Time
	violations   []time.Time                  // the last ones, at most maxViolations
	blockedUntil time.Time                    // zero if never blocked
	refusal      Refusal                      // zero if there was none
	dialBacks    *rate.Limiter                // limits dial-backs
	limiters     [len(receiveLimits)]*limiter // limits incoming frames, by class
}

// A limiter enforces a rateLimit.
type limiter struct{ frames, bytes *rate.Limiter }

func newLimiter(limit rateLimit) *limiter {
	return &limiter{rate.NewLimiter(rate.Limit(limit.frames), limit.frameBurst), rate.NewLimiter(rate.Limit(limit.bytes), limit.byteBurst)}
}

func newReputations() *reputations { return &reputations{byPeer: map[peer.ID]*reputation{}} }

// get returns the reputation of a peer, and creates it if necessary. The caller holds mu.
func (l *reputations) get(p peer.ID, now time.Time) *reputation {
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

// evictOne forgets the peer that was unused for longest, blocked peers last. The caller holds mu.
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

// limiter returns the limiter for the frames of a class from a peer.
func (l *reputations) limiter(p peer.ID, class env.Class, now time.Time) *limiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.get(p, now).limiters[class]
}

// reserve counts a frame, and returns how long it has to wait until the rate limit allows it.
func (l *limiter) reserve(size int, now time.Time) time.Duration {
	return max(l.frames.ReserveN(now, 1).DelayFrom(now), l.bytes.ReserveN(now, size).DelayFrom(now))
}

// violation counts a bad frame against a peer. It returns true if the peer is now blocked.
func (l *reputations) violation(p peer.ID, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.get(p, now)
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

// isBlocked reports whether a peer is blocked.
func (l *reputations) isBlocked(p peer.ID, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.byPeer[p]
	return r != nil && r.blockedUntil.After(now)
}

// addRefusal remembers a refusal. It returns true if the refusal should be logged.
func (l *reputations) addRefusal(p peer.ID, r Refusal, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	entry := l.get(p, now)
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

// isRefused reports whether a refusal by or of a peer is remembered.
func (l *reputations) isRefused(p peer.ID, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.byPeer[p]
	return r != nil && now.Sub(r.refusal.At) <= refusalTime
}

// refusals returns the refusals to report, the latest first.
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

// countBlocked returns the number of blocked peers.
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

// allowDialBack reports whether a peer's request to be dialled back may be served now, and counts it.
func (l *reputations) allowDialBack(p peer.ID, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.get(p, now).dialBacks.AllowN(now, 1)
}
