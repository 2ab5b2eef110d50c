package libp2p

import "sync"

const (
	// maxQueue and maxQueueBytes bound the frames that wait for one link. At the bound the oldest frame is dropped,
	// because the newest frames describe the present best.
	maxQueue      = 1024
	maxQueueBytes = 4 << 20

	// maxUrgent and maxUrgentBytes bound the urgent frames that wait, which have a queue of their own. A peer that
	// is sent thousands of other frames must still learn which peers are alive. The bound is the same as that of
	// the node's inbox.
	maxUrgent      = 256
	maxUrgentBytes = 1 << 20
)

// A queue holds the frames that wait for a link. Urgent frames are sent first.
type queue struct {
	nonEmpty chan struct{} // holds one token if frames may wait

	mu     sync.Mutex // guards the fields below
	urgent ring
	normal ring
}

func newQueue() *queue {
	return &queue{
		nonEmpty: make(chan struct{}, 1),
		urgent:   ring{maxFrames: maxUrgent, maxBytes: maxUrgentBytes},
		normal:   ring{maxFrames: maxQueue, maxBytes: maxQueueBytes},
	}
}

// push appends a frame, and returns the number of frames that were dropped to make room.
func (q *queue) push(frame []byte, urgent bool) (dropped int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if urgent {
		dropped = q.urgent.push(frame)
	} else {
		dropped = q.normal.push(frame)
	}
	select {
	case q.nonEmpty <- struct{}{}:
	default:
	}
	return dropped
}

// pop removes and returns the frame to send next. It returns false if the queue is empty.
func (q *queue) pop() ([]byte, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.urgent.count > 0:
		return q.urgent.shift(), true
	case q.normal.count > 0:
		return q.normal.shift(), true
	}
	return nil, false
}

func (q *queue) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.urgent.count + q.normal.count
}

// clear removes all frames and returns their number.
func (q *queue) clear() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.urgent.clear() + q.normal.clear()
}

// A ring holds frames in order, up to maxFrames and maxBytes.
type ring struct {
	maxFrames, maxBytes int

	frames [][]byte
	head   int
	count  int
	bytes  int
}

// push appends a frame, and returns the number of the oldest frames that were dropped to make room.
func (r *ring) push(frame []byte) (dropped int) {
	for r.count == r.maxFrames || r.count > 0 && r.bytes+len(frame) > r.maxBytes {
		r.shift()
		dropped++
	}
	if r.count == len(r.frames) {
		r.grow()
	}
	r.frames[(r.head+r.count)%len(r.frames)] = frame
	r.count++
	r.bytes += len(frame)
	return dropped
}

// grow doubles the capacity. It starts small, because most links never hold more than a few frames.
func (r *ring) grow() {
	room := make([][]byte, max(8, 2*len(r.frames)))
	n := copy(room, r.frames[r.head:])
	copy(room[n:], r.frames[:r.head])
	r.frames, r.head = room, 0
}

// shift removes and returns the oldest frame. The ring must not be empty.
func (r *ring) shift() []byte {
	frame := r.frames[r.head]
	r.frames[r.head] = nil
	r.head = (r.head + 1) % len(r.frames)
	r.count--
	r.bytes -= len(frame)
	return frame
}

func (r *ring) clear() int {
	n := r.count
	r.frames, r.head, r.count, r.bytes = nil, 0, 0, 0
	return n
}
