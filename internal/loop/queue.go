package loop

import "sync"

// A fifo is a queue of functions. It frees its memory when it becomes empty after a burst.
type fifo struct {
	waiting []func()
	head    int // index of the oldest; those before it were popped
}

func (q *fifo) len() int { return len(q.waiting) - q.head }

func (q *fifo) push(f func()) {
	if q.head > len(q.waiting)/2 { // so each push moves less than one element on average
		n := copy(q.waiting, q.waiting[q.head:])
		clear(q.waiting[n:])
		q.waiting, q.head = q.waiting[:n], 0
	}
	q.waiting = append(q.waiting, f)
}

// pop removes and returns the oldest function. The queue must not be empty.
func (q *fifo) pop() func() {
	f := q.waiting[q.head]
	q.waiting[q.head] = nil
	if q.head++; q.head == len(q.waiting) {
		*q = fifo{waiting: reuse(q.waiting)}
	}
	return f
}

// reuse keeps the memory of a queue of ordinary size.
func reuse(s []func()) []func() {
	if cap(s) > 4096 {
		return nil
	}
	return s[:0]
}

// A pool passes jobs to the goroutines that call work.
type pool struct {
	mu       sync.Mutex // guards jobs and closed
	nonEmpty sync.Cond
	jobs     fifo
	closed   bool
}

func (p *pool) init() { p.nonEmpty.L = &p.mu }

func (p *pool) len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.jobs.len()
}

func (p *pool) add(job func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.jobs.push(job)
		p.nonEmpty.Signal()
	}
}

// close drops the waiting jobs and lets work return.
func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.jobs, p.closed = fifo{}, true
	p.nonEmpty.Broadcast()
}

// work runs jobs until the pool is closed.
func (p *pool) work() {
	for {
		p.mu.Lock()
		for p.jobs.len() == 0 && !p.closed {
			p.nonEmpty.Wait()
		}
		if p.closed {
			p.mu.Unlock()
			return
		}
		job := p.jobs.pop()
		p.mu.Unlock()
		job()
	}
}
