// Package loop is the goroutine that owns a node: the real world's clock, its
// worker, and the one place from which a node is called.
//
// Everything that happens to a node comes in as a function and runs here, one
// at a time: frames and hints from the network through [Loop.Post] and
// [Loop.PostUrgent], which drop what does not fit; answers to what the node itself
// asked for through [Loop.Deliver], which never drops; snapshots for pages through
// [Loop.Call].
// After each batch, and when the node asked to be woken, its Run is called.
//
// A node needs its doors before it exists, so a loop is made first and given
// its node when it runs:
//
//	l := loop.New(loop.Config{})
//	n := node.New(env.Env{Clock: l, Worker: l, ...}, ...)
//	err := l.Run(ctx, n)
//
// The package leaves to others what the functions do. sim keeps the same
// promises in virtual time, without a goroutine.
package loop

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"tidings/internal/env"
)

// Config bounds a loop. Zeros are filled with the defaults.
type Config struct {
	Urgent  int // calls posted ahead of control that may wait; 256, since a node has few neighbours to hear from
	Control int // posted control calls that may wait; 2048
	Bulk    int // posted bulk calls that may wait; 512, so that bulk is dropped first
	Workers int // goroutines that compute; one for each processor, at least 2
}

// batch is how many calls may run before the node's Run gets its turn.
const batch = 128

// ErrStopped says that the loop has ended and runs nothing any more.
var ErrStopped = errors.New("loop has stopped")

var (
	_ env.Clock  = (*Loop)(nil)
	_ env.Worker = (*Loop)(nil)
)

// A Runner is what a loop owns, as it sees it: a node, or a part of one that has a loop of its own.
type Runner interface {
	// Run is that of [env.Node].
	Run(now time.Time) (next time.Time)
}

// A Loop owns one node. It is an [env.Clock] and an [env.Worker].
type Loop struct {
	config Config
	clock  clock
	pool   pool
	wake   chan struct{} // holds one token if a queue may have become non-empty
	gone   chan struct{} // closed when nothing runs any more

	mu      sync.Mutex // guards what follows
	closed  bool
	answers fifo // from Deliver and Call
	urgent  fifo // from PostUrgent
	control fifo
	bulk    fifo
	stats   Stats
}

// Stats counts what a loop did since it was made.
type Stats struct {
	Calls          uint64 // functions run
	DroppedUrgent  uint64 // urgent messages dropped because their queue was full
	DroppedControl uint64 // control messages dropped because their queue was full
	DroppedBulk    uint64 // bulk messages dropped because their queue was full
	WaitingAnswers int    // answers waiting now
	WaitingUrgent  int    // urgent messages waiting now
	WaitingControl int    // control messages waiting now
	WaitingBulk    int    // bulk messages waiting now
	WaitingJobs    int    // computations waiting for a worker
}

// New returns a loop. Its clock goes from now on; calls may be posted, and
// wait for Run.
func New(c Config) *Loop {
	if c.Urgent <= 0 {
		c.Urgent = 256
	}
	if c.Control <= 0 {
		c.Control = 2048
	}
	if c.Bulk <= 0 {
		c.Bulk = 512
	}
	if c.Workers <= 0 {
		c.Workers = max(2, runtime.GOMAXPROCS(0))
	}
	l := &Loop{config: c, clock: clock{begin: time.Now()}, wake: make(chan struct{}, 1), gone: make(chan struct{})}
	l.pool.init()
	return l
}

// Now returns the wall time at which the loop was made plus the time that has
// passed since, the machine's sleep included, so that it never goes back. The value
// has no monotonic reading: it survives UnixNano and back, and compares with ==.
func (l *Loop) Now() time.Time { return l.clock.now() }

// Run drives node until ctx ends and returns why it did, once all goroutines of
// the loop are gone; a computation under way is waited for. What still waits
// then is dropped. A loop runs once.
func (l *Loop) Run(ctx context.Context, node Runner) error {
	var workers sync.WaitGroup
	for range l.config.Workers {
		workers.Go(l.pool.work)
	}
	defer workers.Wait()
	defer l.pool.close()
	defer close(l.gone)
	defer l.close()

	timer := time.NewTimer(0)
	defer timer.Stop()
	calls := make([]func(), 0, batch)
	for {
		l.arm(timer, node.Run(l.Now()))
		if calls = l.take(calls[:0]); len(calls) == 0 {
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-timer.C:
			case <-l.wake:
				calls = l.take(calls)
			}
		}
		for i, f := range calls {
			f()
			calls[i] = nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

// arm sets the timer to next; the zero time is never.
func (l *Loop) arm(timer *time.Timer, next time.Time) {
	if next.IsZero() {
		timer.Stop()
		return
	}
	timer.Reset(max(0, next.Sub(l.Now())))
}

// take moves a batch of waiting calls to calls: answers first, since the node
// asked for them, then what is urgent, then control, then bulk.
func (l *Loop) take(calls []func()) []func() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, q := range []*fifo{&l.answers, &l.urgent, &l.control, &l.bulk} {
		for len(calls) < batch && q.len() > 0 {
			calls = append(calls, q.pop())
		}
	}
	l.stats.Calls += uint64(len(calls))
	if l.answers.len()+l.urgent.len()+l.control.len()+l.bulk.len() == 0 {
		select {
		case <-l.wake: // nothing is left to wake for
		default:
		}
	}
	return calls
}

// close makes the loop refuse calls and forgets those that wait.
func (l *Loop) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.answers, l.urgent, l.control, l.bulk = fifo{}, fifo{}, fifo{}, fifo{}
}

// Post runs f on the loop, control ahead of bulk, in order within a class. It
// never blocks. False means that f was dropped: the queue of its class is
// full, or the loop has stopped.
func (l *Loop) Post(class env.Class, f func()) bool {
	if class == env.Bulk {
		return l.post(f, &l.bulk, l.config.Bulk, &l.stats.DroppedBulk)
	}
	return l.post(f, &l.control, l.config.Control, &l.stats.DroppedControl)
}

// PostUrgent is Post for what comes ahead of all that others send: few calls by which the
// node knows who lives.
func (l *Loop) PostUrgent(f func()) bool {
	return l.post(f, &l.urgent, l.config.Urgent, &l.stats.DroppedUrgent)
}

func (l *Loop) post(f func(), q *fifo, limit int, dropped *uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	if q.len() >= limit {
		*dropped++
		return false
	}
	q.push(f)
	l.ring()
	return true
}

// Deliver runs f on the loop ahead of what was posted. It never blocks, and
// drops f only when the loop has stopped. It is for answers to what the node
// asked for, whose number the node bounds; it is what a store is given as post.
func (l *Loop) Deliver(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.answers.push(f)
		l.ring()
	}
}

// ring wakes the loop.
func (l *Loop) ring() {
	select {
	case l.wake <- struct{}{}:
	default: // it is about to look anyway
	}
}

// Call runs f on the loop and returns when it has run. The error is that of
// ctx, or ErrStopped; f has then not run and never will. Call waits for a loop
// that does not run yet. It must not be called from the loop itself.
func (l *Loop) Call(ctx context.Context, f func()) error {
	var taken atomic.Bool // by the loop, to run f, or by the caller, to give up
	ran := make(chan struct{})
	l.Deliver(func() {
		if taken.CompareAndSwap(false, true) {
			f()
			close(ran)
		}
	})
	var err error
	select {
	case <-ran:
		return nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-l.gone:
		err = ErrStopped
	}
	if taken.CompareAndSwap(false, true) {
		return err
	}
	<-ran // it had begun
	return nil
}

// Do computes pure on a worker and then runs done on the loop; see
// [env.Worker]. It never blocks: what waits for a worker is bounded by what
// the node asks for. A panic of pure ends the program.
func (l *Loop) Do(pure, done func()) {
	l.pool.add(func() {
		pure()
		l.Deliver(done)
	})
}

// Stats returns the loop's counters.
func (l *Loop) Stats() Stats {
	jobs := l.pool.len()
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.stats
	s.WaitingAnswers, s.WaitingUrgent = l.answers.len(), l.urgent.len()
	s.WaitingControl, s.WaitingBulk = l.control.len(), l.bulk.len()
	s.WaitingJobs = jobs
	return s
}
