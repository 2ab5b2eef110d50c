package libp2p

import "sync"

const (
	// What may wait for one link and class. Beyond, the oldest frame goes:
	// the newest says most about the present.
	maxQueue      = 1024
	maxQueueBytes = 4 << 20
)

// A queue holds the frames that wait for a link.
type queue struct {
	some chan struct{} // holds one token if frames may wait

	mu     sync.Mutex // guards what follows
	frames [][]byte   // a ring
	head   int
	count  int
	bytes  int
}

func newQueue() *queue { return &queue{some: make(chan struct{}, 1)} }

// push appends a frame and returns how many had to go for it.
func (q *queue) push(frame []byte) (dropped int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.count == maxQueue || q.count > 0 && q.bytes+len(frame) > maxQueueBytes {
		q.shift()
		dropped++
	}
	if q.count == len(q.frames) {
		q.grow()
	}
	q.frames[(q.head+q.count)%len(q.frames)] = frame
	q.count++
	q.bytes += len(frame)
	select {
	case q.some <- struct{}{}:
	default:
	}
	return dropped
}

// grow makes room: most links never hold more than a few frames. The mutex is
// held.
func (q *queue) grow() {
	room := make([][]byte, max(8, 2*len(q.frames)))
	n := copy(room, q.frames[q.head:])
	copy(room[n:], q.frames[:q.head])
	q.frames, q.head = room, 0
}

// shift removes the oldest frame. The mutex is held, and there is one.
func (q *queue) shift() []byte {
	frame := q.frames[q.head]
	q.frames[q.head] = nil
	q.head = (q.head + 1) % len(q.frames)
	q.count--
	q.bytes -= len(frame)
	return frame
}

// pop removes the oldest frame, if there is one.
func (q *queue) pop() ([]byte, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.count == 0 {
		return nil, false
	}
	return q.shift(), true
}

func (q *queue) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.count
}

// clear removes all frames and returns how many they were.
func (q *queue) clear() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := q.count
	q.frames, q.head, q.count, q.bytes = nil, 0, 0, 0
	return n
}
