package news

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"tidings/internal/env"
)

// A Courier brings the events of a journal to targets: each event at least once and in order, as long as the journal keeps
// it. What it has brought is durable. A target that fails is tried again, less and less often, and does not hold up the
// others. An event that a target refuses, or does not take for days, goes to the target's dead letters.
type Courier struct {
	journal *Journal
	log     *slog.Logger

	mu      sync.Mutex // guards the fields below
	targets map[string]*delivery
	start   func(*delivery) // nil: Run has not begun, or has ended
}

// A Target takes events.
type Target struct {
	// ID names the target in the store. It is never given to another one.
	ID string
	// Wants chooses the events.
	Wants func(*Event) bool
	// Send delivers events, the oldest first. If it returns a *Refusal, the events are dead letters; after any other
	// error the same events, and perhaps more, come again.
	Send func(context.Context, []Event) error
	// Batch is the largest number of events of one Send, at least 1.
	Batch int
	// Pause is the shortest time between two calls of Send. Default 0.
	Pause time.Duration
	// HeldUntil, if it is not nil, returns when Send may be called for events of which the oldest came at a time: a time
	// that is not after now means at once.
	HeldUntil func(now, oldest time.Time) time.Time
	// HeldIsAway says that a target that is held is away, which is no failure.
	HeldIsAway bool
}

// A Refusal is the error of a target that will never take an event.
type Refusal struct{ Reason error }

func (r *Refusal) Error() string { return r.Reason.Error() }
func (r *Refusal) Unwrap() error { return r.Reason }

// A RetryAfter is the error of a target that names the time after which it may be tried again.
type RetryAfter struct {
	Reason error
	Wait   time.Duration
}

func (r *RetryAfter) Error() string { return r.Reason.Error() }
func (r *RetryAfter) Unwrap() error { return r.Reason }

const (
	// firstRetry and lastRetry are the shortest and the longest pause before a target that failed is tried again. The
	// pause doubles.
	firstRetry = 5 * time.Second
	lastRetry  = time.Hour
	// maxTries is how long an event is offered to a target that fails: longer than a weekend. It is then a dead letter.
	maxTries = 3 * 24 * time.Hour
	// maxUnstored is the number of events of no interest to a target after which it is stored that they are done with.
	maxUnstored = 1000
	// sendGrace is how much longer a Send may take when the courier stops: what a target has already taken is then known
	// to be delivered, and does not come again.
	sendGrace = 2 * time.Second
	// MaxDeadLetters bounds the dead letters of one target. Beyond it the oldest are dropped.
	MaxDeadLetters = 1000
)

// The keys of records of targets.
const (
	targetPrefix = "t" // then the id
	deadPrefix   = "d" // then the id, a zero byte, and the number of the event, 8 bytes
)

// A TargetState says how the deliveries to a target go. It is stored.
type TargetState struct {
	Delivered uint64    `json:"delivered"`          // number of the last event that is done with
	Offered   uint64    `json:"offered,omitempty"`  // greater: events up to this number were begun to be sent together
	Since     time.Time `json:"since,omitzero"`     // when the target began to fail; zero: it does not
	Error     string    `json:"error,omitempty"`    // of the last attempt
	Next      time.Time `json:"next,omitzero"`      // next attempt while it fails
	Missed    bool      `json:"missed,omitempty"`   // events were dropped before they could be delivered
	Dead      int       `json:"dead,omitempty"`     // dead letters
	Sent      uint64    `json:"sent,omitempty"`     // events that the target took
	LastSent  time.Time `json:"last_sent,omitzero"` // when it took the last one
}

// A DeadLetter is an event that a target did not take.
type DeadLetter struct {
	Time  time.Time       `json:"time"`
	Error string          `json:"error"`
	Event json.RawMessage `json:"event"`
}

// A delivery is the work for one target.
type delivery struct {
	Target
	cancel context.CancelFunc
	ended  chan struct{} // closed when the work has stopped
	woken  chan struct{} // holds one token after Wake

	mu     sync.Mutex // guards the fields below; the work alone writes them
	state  TargetState
	stored uint64        // state.Delivered, as it is stored
	pause  time.Duration // before the next attempt while the target fails
}

// NewCourier returns the courier of a journal. It delivers while Run runs.
func NewCourier(j *Journal, log *slog.Logger) *Courier {
	return &Courier{journal: j, log: log, targets: map[string]*delivery{}}
}

// Run delivers until ctx ends. A Send that has begun then has a moment to end by itself.
func (c *Courier) Run(ctx context.Context) {
	var running sync.WaitGroup
	c.mu.Lock()
	c.start = func(d *delivery) {
		ctx, cancel := context.WithCancel(ctx)
		d.cancel, d.ended = cancel, make(chan struct{})
		running.Go(func() {
			defer close(d.ended)
			defer cancel()
			c.deliver(ctx, d)
		})
	}
	for _, d := range c.targets {
		c.start(d)
	}
	c.mu.Unlock()
	<-ctx.Done()
	c.mu.Lock()
	c.start = nil
	c.mu.Unlock()
	running.Wait()
}

// Add begins deliveries to a target, with the first event that it has not had. A new target begins with the next event.
func (c *Courier) Add(t Target) error {
	state, known, err := c.journal.targetState(t.ID)
	if err == nil && !known {
		state.Delivered = c.journal.Last()
		err = c.journal.commit([]env.Op{targetOp(t.ID, state)})
	}
	if err != nil {
		return fmt.Errorf("deliver events to %s: %w", t.ID, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.targets[t.ID] != nil {
		return fmt.Errorf("deliver events to %s: it is a target already", t.ID)
	}
	d := &delivery{Target: t, woken: make(chan struct{}, 1), state: state, stored: state.Delivered, pause: firstRetry}
	c.targets[t.ID] = d
	if c.start != nil {
		c.start(d)
	}
	return nil
}

// Remove ends deliveries to a target and forgets it, with its dead letters.
func (c *Courier) Remove(id string) error {
	c.mu.Lock()
	d := c.targets[id]
	delete(c.targets, id)
	c.mu.Unlock()
	if d != nil && d.cancel != nil {
		d.cancel()
		<-d.ended
	}
	ops := []env.Op{{Key: []byte(targetPrefix + id)}}
	err := c.journal.store.Range(deadKeys(id), func(key, _ []byte) bool {
		ops = append(ops, env.Op{Key: key})
		return true
	})
	if err == nil || errors.Is(err, env.ErrDamaged) {
		err = c.journal.commit(ops)
	}
	if err != nil {
		return fmt.Errorf("forget the deliveries to %s: %w", id, err)
	}
	return nil
}

// Wake ends the pause of a target that was held, or that failed: it can take events again.
func (c *Courier) Wake(id string) {
	c.mu.Lock()
	d := c.targets[id]
	c.mu.Unlock()
	if d == nil {
		return
	}
	select {
	case d.woken <- struct{}{}:
	default:
	}
}

// State returns the state of a target; ok is false if there is none with the id.
func (c *Courier) State(id string) (state TargetState, ok bool) {
	c.mu.Lock()
	d := c.targets[id]
	c.mu.Unlock()
	if d == nil {
		return state, false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.state, true
}

// DeadLetters returns the dead letters of a target, the oldest first.
func (c *Courier) DeadLetters(id string) (letters []DeadLetter, err error) {
	err = c.journal.store.Range(deadKeys(id), func(_, value []byte) bool {
		var l DeadLetter
		if json.Unmarshal(value, &l) == nil {
			letters = append(letters, l)
		}
		return true
	})
	if errors.Is(err, env.ErrDamaged) {
		err = nil // what is left is worth seeing
	}
	return letters, err
}

// deliver works for one target until ctx ends.
func (c *Courier) deliver(ctx context.Context, d *delivery) {
	for {
		changed := c.journal.Changed()
		events, last, missed, err := c.next(d)
		var wait time.Duration
		switch {
		case err != nil:
			c.log.Error("events cannot be read", "err", err)
			wait = firstRetry
		case last == d.state.Delivered && !missed:
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
		case len(events) == 0 && !missed && last-d.stored < maxUnstored:
			d.skip(last)
		default:
			wait = c.offer(ctx, d, events, last, missed)
		}
		if !d.sleep(ctx, wait) {
			return
		}
	}
}

// skip notes that the target wants no event up to a number.
func (d *delivery) skip(last uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.state.Delivered = last
}

// hold notes that the target is away. A target that is away does not fail.
func (d *delivery) hold() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.state.Since, d.state.Error, d.state.Next, d.pause = time.Time{}, "", time.Time{}, firstRetry
}

// next returns the events for the next Send, and the number up to which they are all that the target wants.
func (c *Courier) next(d *delivery) (events []Event, last uint64, missed bool, err error) {
	last = d.state.Delivered
	for len(events) < d.Batch {
		chunk, gap, err := c.journal.After(last, d.Batch)
		missed = missed || gap
		if err != nil || len(chunk) == 0 {
			if gap && err == nil {
				last = max(last, c.journal.Last())
			}
			return events, last, missed, err
		}
		for i := range chunk {
			if len(events) == d.Batch || len(events) > 0 && d.state.Offered > d.state.Delivered && chunk[i].Number > d.state.Offered {
				return events, last, missed, nil
			}
			if last = chunk[i].Number; d.Wants(&chunk[i]) {
				events = append(events, chunk[i])
			}
		}
	}
	return events, last, missed, nil
}

// begin stores which events are offered together, so that they come again together, and whoever gets them knows them.
func (c *Courier) begin(d *delivery, events []Event) error {
	if d.Batch == 1 || len(events) == 0 || events[len(events)-1].Number == d.state.Offered {
		return nil
	}
	next := d.state
	next.Offered = events[len(events)-1].Number
	if err := c.journal.commit([]env.Op{targetOp(d.ID, next)}); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.state, d.stored = next, next.Delivered
	return nil
}

// offer offers events to a target, and stores the outcome. It returns how long the target is left alone.
func (c *Courier) offer(ctx context.Context, d *delivery, events []Event, last uint64, missed bool) (wait time.Duration) {
	now := c.journal.clock()
	if len(events) > 0 && d.HeldUntil != nil {
		if until := d.HeldUntil(now, events[0].Time); until.After(now) {
			if d.HeldIsAway {
				d.hold()
			}
			return until.Sub(now)
		}
	}
	err := c.begin(d, events)
	if len(events) > 0 && err == nil {
		sending, cancel := linger(ctx, sendGrace)
		err = d.Send(sending, events)
		cancel()
	}
	if err != nil && ctx.Err() != nil {
		return 0
	}
	now = c.journal.clock()
	d.mu.Lock()
	defer d.mu.Unlock()
	next := d.state
	next.Missed = next.Missed || missed
	var ops []env.Op
	refusal, refused := errors.AsType[*Refusal](err)
	switch {
	case err == nil:
		next.Since, next.Error, next.Next = time.Time{}, "", time.Time{}
		next.Delivered = last
		if len(events) > 0 {
			next.Sent += uint64(len(events))
			next.LastSent = now
			wait = d.Pause
		}
		d.pause = firstRetry
	case refused || !d.state.Since.IsZero() && now.Sub(d.state.Since) >= maxTries:
		reason := err
		if refused { // the target answers
			reason, next.Since, next.Next = refusal.Reason, time.Time{}, time.Time{}
			d.pause = firstRetry
		} else {
			next.Since = now // the next event has its own days
		}
		ops = c.deadLetters(d, &next, events, reason, now)
		next.Error, next.Delivered, wait = reason.Error(), last, d.Pause
		c.log.Warn("a target did not take events", "target", d.ID, "events", len(events), "err", reason)
	default:
		if next.Since.IsZero() {
			next.Since = now
			c.log.Warn("events cannot be delivered", "target", d.ID, "err", err)
		}
		wait = time.Duration(float64(d.pause) * (0.75 + rand.Float64()/2))
		if later, ok := errors.AsType[*RetryAfter](err); ok {
			wait = max(wait, min(later.Wait, maxTries))
		}
		next.Error, next.Next = err.Error(), now.Add(wait)
		d.pause = min(2*d.pause, lastRetry)
	}
	if err := c.journal.commit(append(ops, targetOp(d.ID, next))); err != nil {
		c.log.Error("what was delivered cannot be stored, so it may come again", "target", d.ID, "err", err)
		return max(wait, firstRetry)
	}
	d.state, d.stored = next, next.Delivered
	return wait
}

// linger returns a context that ends some time after ctx.
func linger(ctx context.Context, grace time.Duration) (context.Context, context.CancelFunc) {
	lingering, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(grace, cancel) })
	return lingering, func() { stop(); cancel() }
}

// deadLetters returns the operations that make events dead letters. The caller holds the mutex of the delivery.
func (c *Courier) deadLetters(d *delivery, next *TargetState, events []Event, reason error, now time.Time) (ops []env.Op) {
	for i := range events {
		ops = append(ops, env.Op{
			Key:   binary.BigEndian.AppendUint64(deadKeys(d.ID), events[i].Number),
			Value: marshal(DeadLetter{now, reason.Error(), events[i].JSON()}), Body: true,
		})
	}
	next.Dead += len(events)
	surplus := next.Dead - MaxDeadLetters
	if surplus <= 0 {
		return ops
	}
	_ = c.journal.store.Range(deadKeys(d.ID), func(key, _ []byte) bool { // what cannot be read stays
		if surplus == 0 {
			return false
		}
		ops = append(ops, env.Op{Key: key})
		surplus, next.Dead = surplus-1, next.Dead-1
		return true
	})
	return ops
}

// sleep waits until the time has passed or the target is woken, and reports whether ctx goes on.
func (d *delivery) sleep(ctx context.Context, wait time.Duration) bool {
	if wait <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-d.woken:
		return true
	case <-ctx.Done():
		return false
	}
}

func deadKeys(id string) []byte { return append([]byte(deadPrefix+id), 0) }

func targetOp(id string, s TargetState) env.Op {
	return env.Op{Key: []byte(targetPrefix + id), Value: marshal(s)}
}

// targetState reads the state of a target. A damaged one counts as unknown.
func (j *Journal) targetState(id string) (s TargetState, known bool, err error) {
	value, err := j.store.Get([]byte(targetPrefix + id))
	if errors.Is(err, env.ErrDamaged) || err == nil && value == nil {
		return s, false, nil
	}
	if err == nil {
		known = json.Unmarshal(value, &s) == nil
	}
	return s, known, err
}
