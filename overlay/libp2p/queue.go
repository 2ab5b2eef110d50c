package libp2p

import "sync"

const (
	// What may wait for one link and class. Beyond, the oldest frame goes:
	// the newest says most about the present.
	maxQueue      = 1024
	maxQueueBytes = 4 << 20

	// What is urgent waits apart, for as many frames as an inbox holds of it: a peer that
	// is sent thousands of others has to hear all the same who lives.
	maxUrgent      = 256
	maxUrgentBytes = 1 << 20
)

// A queue holds the frames that wait for a link: those that are urgent, which go first,
// and the others.
type queue struct {
	nonEmpty chan struct{} // holds one token if frames may wait

	mu     sync.Mutex // guards what follows
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

// push appends a frame and returns how many had to go for it.
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

// pop removes the frame that goes next, if there is one.
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

// clear removes all frames and returns how many they were.
func (q *queue) clear() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.urgent.clear() + q.normal.clear()
}

// A ring holds frames in their order, so many and so large at most.
type ring struct {
	maxFrames, maxBytes int

	frames [][]byte
	head   int
	count  int
	bytes  int
}

// push appends a frame and returns how many of the oldest had to go for it.
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

// grow makes room: most links never hold more than a few frames.
func (r *ring) grow() {
	room := make([][]byte, max(8, 2*len(r.frames)))
	n := copy(room, r.frames[r.head:])
	copy(room[n:], r.frames[:r.head])
	r.frames, r.head = room, 0
}

// shift removes the oldest frame. There is one.
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
