package loop

import "sync"

// A fifo is a queue of functions. It gives memory back when it is empty.
type fifo struct {
	waiting []func()
	head    int // those before it were popped
}

func (q *fifo) len() int { return len(q.waiting) - q.head }

func (q *fifo) push(f func()) {
	if q.head > len(q.waiting)/2 { // at most half of what is moved is ever moved again
		n := copy(q.waiting, q.waiting[q.head:])
		clear(q.waiting[n:])
		q.waiting, q.head = q.waiting[:n], 0
	}
	q.waiting = append(q.waiting, f)
}

// pop takes the oldest; there must be one.
func (q *fifo) pop() func() {
	f := q.waiting[q.head]
	q.waiting[q.head] = nil
	if q.head++; q.head == len(q.waiting) {
		*q = fifo{waiting: reuse(q.waiting)}
	}
	return f
}

// reuse keeps the room of a queue of ordinary size.
func reuse(s []func()) []func() {
	if cap(s) > 4096 {
		return nil
	}
	return s[:0]
}

// A pool hands jobs to the goroutines that call work.
type pool struct {
	mu     sync.Mutex // guards jobs and closed
	some   sync.Cond
	jobs   fifo
	closed bool
}

func (p *pool) init() { p.some.L = &p.mu }

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
		p.some.Signal()
	}
}

// close forgets the jobs that wait and lets work return.
func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.jobs, p.closed = fifo{}, true
	p.some.Broadcast()
}

// work does jobs until the pool is closed.
func (p *pool) work() {
	for {
		p.mu.Lock()
		for p.jobs.len() == 0 && !p.closed {
			p.some.Wait()
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
