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
	urgent frameList
	normal frameList
}

func newQueue() *queue {
	return &queue{
		nonEmpty: make(chan struct{}, 1),
		urgent:   frameList{maxFrames: maxUrgent, maxBytes: maxUrgentBytes},
		normal:   frameList{maxFrames: maxQueue, maxBytes: maxQueueBytes},
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
	signal(q.nonEmpty)
	return dropped
}

// pop removes and returns the frame to send next. It returns false if the queue is empty.
func (q *queue) pop() ([]byte, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, l := range []*frameList{&q.urgent, &q.normal} {
		if len(l.frames) > 0 {
			return l.shift(), true
		}
	}
	return nil, false
}

func (q *queue) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.urgent.frames) + len(q.normal.frames)
}

// clear removes all frames and returns their number.
func (q *queue) clear() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.urgent.clear() + q.normal.clear()
}

// signal puts a token into a channel that holds at most one.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default: // a token is there already
	}
}

// A frameList holds frames in order, up to maxFrames and maxBytes.
type frameList struct {
	maxFrames, maxBytes int

	frames [][]byte
	bytes  int
}

// push appends a frame, and returns the number of the oldest frames that were dropped to make room.
func (l *frameList) push(frame []byte) (dropped int) {
	for len(l.frames) == l.maxFrames || len(l.frames) > 0 && l.bytes+len(frame) > l.maxBytes {
		l.shift()
		dropped++
	}
	l.frames = append(l.frames, frame)
	l.bytes += len(frame)
	return dropped
}

// shift removes and returns the oldest frame. The list must not be empty.
func (l *frameList) shift() []byte {
	frame := l.frames[0]
	l.frames[0] = nil // the array would keep the frame
	l.frames = l.frames[1:]
	l.bytes -= len(frame)
	return frame
}

func (l *frameList) clear() int {
	n := len(l.frames)
	l.frames, l.bytes = nil, 0
	return n
}
