package fetch

import (
	"errors"
	"slices"
	"time"

	"tidings/internal/env"
)

// Why a fetch is not even queued. It is this node's doing and not the origin's.
var (
	errQueueFull = errors.New("too many requests of this node are waiting")
	errHostFull  = errors.New("too many requests of this node are waiting for this host")
)

// A job is one fetch on its way from Fetch to its answer.
type job struct {
	handle  env.Handle
	request env.Request
	then    func(env.Answer) // takes the answer, in place of who made the client; nil: nobody
	at      target           // what is asked next

	hops    []string      // the addresses that redirected
	moved   bool          // each of them for good
	public  bool          // one of them on a public address: the rest must be too
	private bool          // the last one asked was on a private address
	spent   time.Duration // time under way
}

// failed is the answer to a job that ends with an error.
func (j *job) failed(class, words string) env.Answer {
	return env.Answer{Err: class, Words: words, FinalURL: j.at.url, Private: j.private}
}

// A queue holds the jobs that wait, for each host apart, and says whose turn it
// is. It has one owner and no clock.
type queue struct {
	config  Config
	hosts   map[string]*host
	plan    env.Calendar[*host] // counts only for a host whose at it is
	waiting int
	running int
	closed  bool
}

// A host is remembered while jobs of it wait or run, and until the next could
// begin.
type host struct {
	name    string
	jobs    []*job
	running int
	free    time.Time // when the next request may begin
	at      time.Time // when the plan looks at the host; zero: not at all
	exempt  bool      // on a private address: needs no pause
}

func newQueue(c Config) queue { return queue{config: c, hosts: map[string]*host{}} }

// enter lets a job wait. A closed queue forgets it.
func (q *queue) enter(j *job, ahead bool, now time.Time) error {
	if q.closed {
		return nil
	}
	h := q.hosts[j.at.queue]
	switch {
	case q.waiting >= q.config.Waiting:
		return errQueueFull
	case h == nil:
		h = &host{name: j.at.queue, free: now}
		q.hosts[h.name] = h
	case len(h.jobs) >= q.config.HostWaiting:
		return errHostFull
	}
	q.waiting++
	if ahead {
		h.jobs = slices.Insert(h.jobs, 0, j)
	} else {
		h.jobs = append(h.jobs, j)
	}
	q.look(h, now)
	return nil
}

// look plans when a host is looked at next: when a job of it may begin, or when
// it can be forgotten.
func (q *queue) look(h *host, now time.Time) {
	if h.running >= hostRequests || h.running > 0 && len(h.jobs) == 0 {
		return // done looks again
	}
	at := h.free
	if at.Before(now) || h.exempt {
		at = now
	}
	if h.at.IsZero() || at.Before(h.at) {
		h.at = at
		q.plan.Add(at, h)
	}
}

// next takes out the job whose turn it is. If there is none it returns when to
// look again; the zero time is when something has changed.
func (q *queue) next(now time.Time) (*job, time.Time) {
	if q.closed || q.running >= q.config.Workers {
		return nil, time.Time{}
	}
	for {
		h, at, ok := q.plan.Pop(now)
		if !ok {
			return nil, q.plan.Next()
		}
		if !at.Equal(h.at) {
			continue // planned anew since
		}
		h.at = time.Time{}
		switch {
		case len(h.jobs) == 0 && h.running == 0:
			delete(q.hosts, h.name)
		case len(h.jobs) > 0 && h.running < hostRequests:
			j := h.jobs[0]
			h.jobs = slices.Delete(h.jobs, 0, 1)
			h.running++
			h.free = now.Add(max(0, q.config.Spacing))
			q.waiting--
			q.running++
			q.look(h, now)
			return j, time.Time{}
		}
	}
}

// done ends a request of a job.
func (q *queue) done(j *job, now time.Time) {
	h := q.hosts[j.at.queue]
	h.running--
	h.exempt = j.private
	q.running--
	q.look(h, now)
}

// close forgets what waits.
func (q *queue) close() {
	q.closed = true
	for _, h := range q.hosts {
		h.jobs = nil
	}
	q.waiting = 0
}
