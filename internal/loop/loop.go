// Package loop runs the goroutine that owns a node. It provides the real clock and worker, and is
// the only place from which a node is called.
//
// Every event of a node is a function that runs here, one at a time. Frames and hints from the
// network come through [Loop.Post] and [Loop.PostUrgent], which drop calls when a queue is full.
// Answers to the node's own requests come through [Loop.Deliver], which never drops. Pages read
// snapshots through [Loop.Call]. The node's Run is called after each batch, and at the time for
// which it asked.
//
// A node needs its I/O interfaces before it exists. A loop is therefore made first and is given its
// node when it runs:
//
//	l := loop.New(loop.Config{})
//	n := node.New(env.Env{Clock: l, Worker: l, ...}, ...)
//	err := l.Run(ctx, n)
//
// The package does not know what the functions do. sim does the same in virtual time, without a
// goroutine.
package loop

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"tidings/internal/check"
	"tidings/internal/env"
)

// Config bounds a loop. A zero field means its default. Longer queues hold bursts that shorter ones drop,
// at the cost of memory and of a longer wait.
type Config struct {
	// Urgent is the length of the queue of PostUrgent, in calls, at least 1. Default 256, since few
	// neighbours send urgent frames.
	Urgent int
	// Control is the length of the queue of control calls, at least 1. Default 2048.
	Control int
	// Bulk is the length of the queue of bulk calls, at least 1. Default 512, so that bulk is dropped
	// first.
	Bulk int
	// Workers is the number of goroutines that compute, at least 1. Default one for each processor,
	// but 2 at least. More take processors away from the loop itself.
	Workers int
}

func (c Config) withDefaults() Config {
	c.Urgent = cmp.Or(c.Urgent, 256)
	c.Control = cmp.Or(c.Control, 2048)
	c.Bulk = cmp.Or(c.Bulk, 512)
	c.Workers = cmp.Or(c.Workers, max(2, runtime.GOMAXPROCS(0)))
	return c
}

// Validate returns an error that names the first wrong field.
func (c Config) Validate() error {
	c = c.withDefaults()
	return cmp.Or(
		check.AtLeast("loop: Urgent", c.Urgent, 1),
		check.AtLeast("loop: Control", c.Control, 1),
		check.AtLeast("loop: Bulk", c.Bulk, 1),
		check.AtLeast("loop: Workers", c.Workers, 1),
	)
}

// batch is the maximum number of calls before the node's Run is called.
const batch = 128

// ErrStopped says that the loop has ended and runs no more functions.
var ErrStopped = errors.New("loop has stopped")

var (
	_ env.Clock  = (*Loop)(nil)
	_ env.Worker = (*Loop)(nil)
)

// A Runner is the part of a node that a loop needs. It is a node, or a part of one with its own
// loop.
type Runner interface {
	// Run is that of [env.Node].
	Run(now time.Time) (next time.Time)
}

// A Loop owns one node. It is an [env.Clock] and an [env.Worker].
type Loop struct {
	config  Config
	clock   clock
	pool    pool
	wake    chan struct{} // holds one token if a queue may have become non-empty
	stopped chan struct{} // closed when no more functions run

	mu      sync.Mutex // guards the fields below
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

// New returns a loop. Its clock starts now. Calls may be posted at once and wait for Run. New panics if
// the configuration is invalid, which is a bug of the program.
func New(c Config) *Loop {
	if err := c.Validate(); err != nil {
		panic(err)
	}
	c = c.withDefaults()
	l := &Loop{config: c, clock: clock{start: time.Now()}, wake: make(chan struct{}, 1), stopped: make(chan struct{})}
	l.pool.init()
	return l
}

// Now returns the wall time at which the loop was made plus the time that has passed since,
// including the machine's sleep, and never goes back. The value has no monotonic reading: it
// survives UnixNano and back, and compares with ==.
func (l *Loop) Now() time.Time { return l.clock.now() }

// Run drives node until ctx ends and returns the cause, after all goroutines of the loop have
// ended. It waits for a running computation and drops all waiting calls. A loop runs once.
func (l *Loop) Run(ctx context.Context, node Runner) error {
	var workers sync.WaitGroup
	for range l.config.Workers {
		workers.Go(l.pool.work)
	}
	defer workers.Wait()
	defer l.pool.close()
	defer close(l.stopped)
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

// arm sets the timer to next. The zero time means never.
func (l *Loop) arm(timer *time.Timer, next time.Time) {
	if next.IsZero() {
		timer.Stop()
		return
	}
	timer.Reset(max(0, next.Sub(l.Now())))
}

// take moves a batch of waiting calls to calls: answers first, since the node asked for them, then
// urgent, control and bulk calls.
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
		case <-l.wake: // the queues are empty: no need to wake
		default:
		}
	}
	return calls
}

// close makes the loop refuse calls and drops the waiting ones.
func (l *Loop) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.answers, l.urgent, l.control, l.bulk = fifo{}, fifo{}, fifo{}, fifo{}
}

// Post runs f on the loop, control before bulk, in order within a class. It never blocks. False
// means that f was dropped: the queue of its class is full, or the loop has stopped.
func (l *Loop) Post(class env.Class, f func()) bool {
	if class == env.Bulk {
		return l.post(f, &l.bulk, l.config.Bulk, &l.stats.DroppedBulk)
	}
	return l.post(f, &l.control, l.config.Control, &l.stats.DroppedControl)
}

// PostUrgent is Post for the few calls by which the node learns which peers live. They run before
// all other posted calls.
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
	l.signal()
	return true
}

// Deliver runs f on the loop before all posted calls. It never blocks, and drops f only when the
// loop has stopped. Use it for answers to the node's requests, whose number the node bounds. A
// store gets it as its post function.
func (l *Loop) Deliver(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.answers.push(f)
		l.signal()
	}
}

// signal wakes the loop.
func (l *Loop) signal() {
	select {
	case l.wake <- struct{}{}:
	default: // the loop will look at its queues anyway
	}
}

// Call runs f on the loop and returns after f has run. Otherwise it returns the error of ctx or
// ErrStopped, and f never runs. Call waits for a loop that does not run yet. It must not be called
// from the loop itself.
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
	case <-l.stopped:
		err = ErrStopped
	}
	if taken.CompareAndSwap(false, true) {
		return err
	}
	<-ran // f is running
	return nil
}

// Do computes pure on a worker and then runs done on the loop; see [env.Worker]. It never blocks.
// The queue has no limit of its own: the node bounds its requests. A panic of pure ends the
// program.
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
