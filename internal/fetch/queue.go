package fetch

import (
	"errors"
	"fmt"
	"net/http/cookiejar"
	"slices"
	"time"

	"tidings/internal/env"
)

const (
	// maxHold is the longest time for which a host is held back. The caller plans longer pauses itself.
	maxHold = time.Hour
	// defaultHold is how long a host is held back that asks for fewer requests and does not say for how
	// long.
	defaultHold = time.Minute
)

// errHeld says that a host has asked for no requests until a time.
type errHeld struct {
	host  string
	until time.Time
}

func (e errHeld) Error() string {
	return fmt.Sprintf("%s allows no more requests before %s UTC", e.host, e.until.UTC().Format("15:04:05"))
}

// These errors are caused by this node and not by the origin.
var (
	errQueueFull = errors.New("too many requests of this node are waiting")
	errHostFull  = errors.New("too many requests of this node are waiting for this host")
)

// A job is one fetch, from Fetch to its answer.
type job struct {
	handle  env.Handle
	request env.Request
	done    func(env.Answer) // takes the answer in place of Client.answered; nil: none
	target  target           // target of the next request

	hops    []string       // requests that were redirected; see visit
	jar     *cookiejar.Jar // cookies of this fetch; nil: there are none
	started bool           // at least one request has been made
	moved   bool           // all redirects were permanent
	plain   string         // address to which an HTTPS address redirected by HTTP; "": there is none
	other   bool           // another address of the host has been tried, because the first one was silent
	public  bool           // private addresses are not allowed, by the request or because a public address redirected
	private bool           // the last request went to a private address
	spent   time.Duration  // duration of the requests so far
	asked   int            // requests so far, with that for the robots.txt
}

// errorAnswer returns the answer to a job that ends with an error.
func (j *job) errorAnswer(class, message string) env.Answer {
	return env.Answer{Err: class, Message: message, FinalURL: j.target.url, Private: j.private}
}

// A queue holds the waiting jobs by host, and decides which is next. It is not safe for concurrent use,
// and has no clock.
type queue struct {
	config   Config
	hosts    map[string]*host
	calendar env.Calendar[*host] // an entry counts only if its time is the host's planned time
	waiting  int
	running  int
	closed   bool
}

// A host is remembered while it has waiting or running jobs, and until its next request could start.
type host struct {
	name      string
	jobs      []*job
	running   int
	nextStart time.Time // when the next request may start
	heldUntil time.Time // until when the host wants no requests
	planned   time.Time // when the calendar returns the host; zero: never
	noPause   bool      // on a private address, which needs no pause
}

func newQueue(c Config) queue { return queue{config: c, hosts: map[string]*host{}} }

// add queues a job. A closed queue drops it.
func (q *queue) add(j *job, ahead bool, now time.Time) error {
	if q.closed {
		return nil
	}
	h := q.hosts[j.target.queue]
	switch {
	case q.waiting >= q.config.Waiting:
		return errQueueFull
	case h == nil:
		h = &host{name: j.target.queue, nextStart: now}
		q.hosts[h.name] = h
	case h.heldUntil.After(now):
		return errHeld{h.name, h.heldUntil}
	case len(h.jobs) >= q.config.HostWaiting:
		return errHostFull
	}
	q.waiting++
	if ahead {
		h.jobs = slices.Insert(h.jobs, 0, j)
	} else {
		h.jobs = append(h.jobs, j)
	}
	q.schedule(h, now)
	return nil
}

// schedule plans the next visit of a host: when a job of it may start, or when it can be forgotten.
func (q *queue) schedule(h *host, now time.Time) {
	if h.running >= hostRequests || h.running > 0 && len(h.jobs) == 0 {
		return // done schedules the host again
	}
	at := h.nextStart
	if at.Before(now) || h.noPause && !h.heldUntil.After(now) {
		at = now
	}
	if h.planned.IsZero() || at.Before(h.planned) {
		h.planned = at
		q.calendar.Add(at, h)
	}
}

// next removes and returns the job that is next. If there is none it returns the time of the next
// attempt. The zero time means: not until something changes.
func (q *queue) next(now time.Time) (*job, time.Time) {
	if q.closed || q.running >= q.config.Workers {
		return nil, time.Time{}
	}
	for {
		h, at, ok := q.calendar.Pop(now)
		if !ok {
			return nil, q.calendar.Next()
		}
		if !at.Equal(h.planned) { // planned anew since then
			continue
		}
		h.planned = time.Time{}
		switch {
		case h.heldUntil.After(now):
			q.schedule(h, now)
		case len(h.jobs) == 0 && h.running == 0:
			delete(q.hosts, h.name)
		case len(h.jobs) > 0 && h.running < hostRequests:
			j := h.jobs[0]
			h.jobs = slices.Delete(h.jobs, 0, 1)
			h.running++
			h.nextStart = now.Add(max(0, q.config.Spacing))
			q.waiting--
			q.running++
			q.schedule(h, now)
			return j, time.Time{}
		}
	}
}

// hold holds a host back whose answer to a job says that it wants no requests for some time. It removes
// and returns the jobs that wait for the host.
func (q *queue) hold(j *job, wait time.Duration, now time.Time) (waiting []*job) {
	h := q.hosts[j.target.queue]
	if h == nil || q.closed {
		return nil
	}
	h.heldUntil = now.Add(min(wait, maxHold))
	if h.nextStart.Before(h.heldUntil) {
		h.nextStart = h.heldUntil // the host is remembered until then
	}
	waiting, h.jobs = h.jobs, nil
	q.waiting -= len(waiting)
	return waiting
}

// done ends a request of a job.
func (q *queue) done(j *job, now time.Time) {
	h := q.hosts[j.target.queue]
	h.running--
	h.noPause = j.private
	q.running--
	q.schedule(h, now)
}

// close drops the waiting jobs.
func (q *queue) close() {
	q.closed = true
	for _, h := range q.hosts {
		h.jobs = nil
	}
	q.waiting = 0
}
