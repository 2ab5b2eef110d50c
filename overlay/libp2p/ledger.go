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
	maxPages = 4096

	// maxFaults bad frames within faultWindow close a peer's links, and it is
	// gated for gateTime.
	maxFaults   = 16
	faultWindow = 10 * time.Minute
	gateTime    = time.Hour

	// refusedTime is how long a refusal is remembered: the peer is not
	// dialled, and the words are not logged again.
	refusedTime = 10 * time.Minute

	// refusalShown is how long a refusal is reported. The peer is dialled again between the two times, so a refusal
	// that goes on is reported without a break.
	refusalShown = refusedTime + 2*lookAlone
)

// An allowance is what one peer may send in a class, a second and at once.
type allowance struct {
	frames, frameBurst int
	bytes, byteBurst   int
}

// taken is what a host takes of one peer by class. What is more waits in the stream
// until its turn comes, so that the sender feels it, and is no fault: who has much
// to do is no vandal. Subscribing to a feed costs about seven control frames of
// 200 bytes, so the burst is that of some thousand feeds at once.
var taken = [...]allowance{
	env.Control: {4000, 16000, 2 << 20, 16 << 20},
	env.Bulk:    {2000, 8000, 16 << 20, 64 << 20},
}

// sent is what a host sends to one peer: half of what is taken, so that a peer that
// keeps to it is never made to wait, not even when it was started anew.
func sent(class env.Class) allowance {
	a := taken[class]
	return allowance{a.frames / 2, a.frameBurst / 2, a.bytes / 2, a.byteBurst / 2}
}

// A Refusal is what one side of a link said to the other when it would not have
// it.
type Refusal struct {
	Peer  env.PeerID
	Reason string
	ByUs  bool // this host refused; else the peer did
	At    time.Time

	Network   bool // the two belong to different networks
	Bootstrap bool // the peer is one of Config.Bootstrap
}

// A ledger remembers what peers did, across their connections.
type ledger struct {
	mu    sync.Mutex
	pages map[peer.ID]*page
}

type page struct {
	used    time.Time
	faults  []time.Time         // the last, at most maxFaults
	gated   time.Time           // until then
	refusal Refusal             // zero: none
	backs   *rate.Limiter       // dial-backs
	budgets [len(taken)]*budget // by class
}

// A budget is what of an allowance is left.
type budget struct{ frames, bytes *rate.Limiter }

func newBudget(a allowance) *budget {
	return &budget{rate.NewLimiter(rate.Limit(a.frames), a.frameBurst), rate.NewLimiter(rate.Limit(a.bytes), a.byteBurst)}
}

func newLedger() *ledger { return &ledger{pages: map[peer.ID]*page{}} }

// page returns the page of a peer and makes room for it. The mutex is held.
func (l *ledger) page(p peer.ID, now time.Time) *page {
	g := l.pages[p]
	if g == nil {
		if len(l.pages) >= maxPages {
			l.forget(now)
		}
		g = &page{backs: rate.NewLimiter(rate.Every(dialBackEvery), dialBackBurst)}
		for class, a := range taken {
			g.budgets[class] = newBudget(a)
		}
		l.pages[p] = g
	}
	g.used = now
	return g
}

// forget drops the page that is missed least. The mutex is held.
func (l *ledger) forget(now time.Time) {
	var least peer.ID
	var found *page
	for p, g := range l.pages {
		gated := g.gated.After(now)
		switch {
		case found == nil,
			found.gated.After(now) && !gated,
			found.gated.After(now) == gated && g.used.Before(found.used):
			least, found = p, g
		}
	}
	delete(l.pages, least)
}

// budget returns what a peer may still send in a class.
func (l *ledger) budget(p peer.ID, class env.Class, now time.Time) *budget {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.page(p, now).budgets[class]
}

// spend takes a frame from the budget, and returns how long it has to wait until
// the budget has grown to it.
func (b *budget) spend(size int, now time.Time) time.Duration {
	return max(b.frames.ReserveN(now, 1).DelayFrom(now), b.bytes.ReserveN(now, size).DelayFrom(now))
}

// fault counts a bad frame against a peer. It returns true when that gates it.
func (l *ledger) fault(p peer.ID, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.page(p, now)
	if g.gated.After(now) {
		return false
	}
	g.faults = slices.DeleteFunc(append(g.faults, now), func(t time.Time) bool { return now.Sub(t) > faultWindow })
	if len(g.faults) < maxFaults {
		return false
	}
	g.faults, g.gated = nil, now.Add(gateTime)
	return true
}

// gated says whether a peer is shut out.
func (l *ledger) gated(p peer.ID, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.pages[p]
	return g != nil && g.gated.After(now)
}

// refuse remembers a refusal. It returns true if the words should be logged.
func (l *ledger) refuse(p peer.ID, r Refusal, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.page(p, now)
	fresh := now.Sub(g.refusal.At) > refusedTime
	if fresh || g.refusal.Reason != r.Reason {
		r.Peer, r.At = env.PeerID(p), g.refusal.At
		if fresh {
			r.At = now
		}
		g.refusal = r
	}
	return fresh
}

// refused says whether a refusal to or by a peer is remembered.
func (l *ledger) refused(p peer.ID, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.pages[p]
	return g != nil && now.Sub(g.refusal.At) <= refusedTime
}

// refusals returns those to report, the latest first.
func (l *ledger) refusals(now time.Time) []Refusal {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []Refusal
	for _, g := range l.pages {
		if now.Sub(g.refusal.At) <= refusalShown {
			out = append(out, g.refusal)
		}
	}
	slices.SortFunc(out, func(a, b Refusal) int {
		return cmp.Or(b.At.Compare(a.At), cmp.Compare(a.Peer, b.Peer))
	})
	return out
}

// gates counts the peers that are shut out.
func (l *ledger) gates(now time.Time) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, g := range l.pages {
		if g.gated.After(now) {
			n++
		}
	}
	return n
}

// serve says whether a peer's wish to be dialled back may be fulfilled, and
// remembers that it was.
func (l *ledger) serve(p peer.ID, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.page(p, now).backs.AllowN(now, 1)
}
