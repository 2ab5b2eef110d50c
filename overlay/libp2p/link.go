package libp2p

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/peerstore"

	"tidings/internal/env"
)

const (
	// maxLinks bounds the outgoing links of a host, one per peer and class. Frames for further peers are dropped.
	maxLinks = 1024

	// maxDials bounds the dials in progress. Further links wait for their turn.
	maxDials = 32

	// linkIdleTime is how long a link stays open without a frame.
	linkIdleTime = 3 * time.Minute

	// writeTime is how long a write may block before the link is broken.
	writeTime = 10 * time.Second

	// minPause is the shortest pause of a link that has used up its rate limit. During the pause a packet fills up,
	// so that frames are not sent one by one.
	minPause = 20 * time.Millisecond

	// closeTime is how long links may continue to send when the host closes.
	closeTime = 2 * time.Second

	// After a failure a link waits before the next dial, twice as long after each failure. A stream that lasted
	// longer than maxBackoff resets the wait.
	minBackoff, maxBackoff = time.Second, 30 * time.Second
)

// errStreamClosed says that the peer closed a stream.
var errStreamClosed = errors.New("the peer closed the stream")

// links holds the outgoing links of a host.
type links struct {
	wg   sync.WaitGroup
	open atomic.Int64 // number of open streams

	mu     sync.Mutex // guards the fields below, and wg.Add
	closed bool
	all    map[linkKey]*link
}

type linkKey struct {
	peer  peer.ID
	class env.Class
}

func (l *links) init() { l.all = map[linkKey]*link{} }

// wait lets no more frames in, and returns when all links have ended. The host's context must have ended before.
func (l *links) wait() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.wg.Wait()
}

// A link carries the frames of one class to one peer. One goroutine serves it, from the first frame until the link
// has been idle for linkIdleTime.
type link struct {
	host  *Host
	key   linkKey
	count *classCounters
	queue *queue
	pacer *limiter
	wake  chan struct{}            // holds one token if the peer opened a stream to this host
	addrs atomic.Pointer[[]string] // the peer's addresses, from the last Send
}

// Send queues a frame for a peer; see [env.Network]. It panics if the frame is larger than env.MaxFrame.
func (h *Host) Send(to env.Peer, class env.Class, frame []byte) {
	if len(frame) > env.MaxFrame {
		panic(fmt.Sprintf("libp2p: frame of %d bytes", len(frame)))
	}
	count := &h.count.classes[class]
	urgent := class == env.Control && h.config.Urgent(frame)
	h.links.mu.Lock()
	defer h.links.mu.Unlock()
	key := linkKey{peer.ID(to.ID), class}
	l := h.links.all[key]
	if l == nil {
		if h.links.closed || len(h.links.all) >= maxLinks {
			count.noRoom.Add(1)
			return
		}
		l = &link{host: h, key: key, count: count, queue: newQueue(), pacer: newLimiter(sendLimit(class)), wake: make(chan struct{}, 1)}
		h.links.all[key] = l
		h.links.wg.Go(l.run)
	}
	if len(to.Addrs) > 0 {
		l.addrs.Store(&to.Addrs)
	}
	count.queueFull.Add(uint64(l.queue.push(frame, urgent)))
}

// retire removes a link if no frame waits for it, and reports whether it did.
func (l *link) retire() bool {
	l.host.links.mu.Lock()
	defer l.host.links.mu.Unlock()
	if l.queue.len() > 0 && !l.host.links.closed {
		return false
	}
	delete(l.host.links.all, l.key)
	return true
}

// run carries frames until the link retires. It opens a stream, writes frames, and starts again when the stream
// breaks.
func (l *link) run() {
	ctx := l.host.ctx
	backoff := minBackoff
	failed := false // the last attempt could not open a stream
	for l.waitForFrame(ctx) {
		if l.isBlocked() {
			l.count.refused.Add(uint64(l.queue.clear()))
			continue
		}
		select {
		case <-l.wake: // the peer was seen before this attempt
		default:
		}
		begun := time.Now()
		welcomed, err := l.session(ctx)
		if err == nil {
			backoff, failed = minBackoff, false
			continue
		}
		l.host.log.Debug("link to a peer broke", "peer", l.key.peer, "class", l.key.class, "err", err)
		if !welcomed {
			l.count.unreachable.Add(uint64(l.queue.clear()))
			if !failed && ctx.Err() == nil {
				l.host.reportDown(l.key.peer)
			}
			failed = true
		} else if failed = false; time.Since(begun) > maxBackoff {
			backoff = minBackoff
		}
		l.backOff(ctx, backoff)
		backoff = min(2*backoff, maxBackoff)
	}
	l.count.unreachable.Add(uint64(l.queue.clear()))
}

// backOff waits for about d. It returns early when the peer opens a stream, or when ctx ends.
func (l *link) backOff(ctx context.Context, d time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, jitter(d))
	defer cancel()
	select {
	case <-ctx.Done():
	case <-l.wake:
	}
}

// wakeAll ends the back-off of all links.
func (l *links) wakeAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, way := range l.all {
		signal(way.wake)
	}
}

// wake ends the back-off of the links to a peer, because the peer has opened a stream itself.
func (l *links) wake(p peer.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for class := range classProtocols {
		if way := l.all[linkKey{p, env.Class(class)}]; way != nil {
			signal(way.wake)
		}
	}
}

// reportDown reports that a peer cannot be reached.
func (h *Host) reportDown(p peer.ID) {
	if e := h.events.Load(); e != nil {
		e.PeerDown(env.PeerID(p))
	}
}

// sleepAbout waits for about d, or until ctx ends.
func sleepAbout(ctx context.Context, d time.Duration) { sleep(ctx, jitter(d)) }

// sleep waits for d, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// jitter returns d plus or minus up to a quarter, so that hosts do not act in step.
func jitter(d time.Duration) time.Duration {
	return d*3/4 + rand.N(d/2+1)
}

// waitForFrame waits until a frame is queued. It returns false when the link has retired.
func (l *link) waitForFrame(ctx context.Context) bool {
	idle := time.NewTimer(linkIdleTime)
	defer idle.Stop()
	for l.queue.len() == 0 || ctx.Err() != nil {
		if ctx.Err() != nil {
			return !l.retire()
		}
		select {
		case <-ctx.Done():
		case <-l.queue.nonEmpty:
		case <-idle.C:
			if l.retire() {
				return false
			}
		}
	}
	return true
}

// isBlocked reports whether the peer is not to be dialled now, because of a refusal or because it is blocked.
func (l *link) isBlocked() bool {
	now := time.Now()
	return l.host.reputations.isRefused(l.key.peer, now) || l.host.reputations.isBlocked(l.key.peer, now)
}

// session opens a stream and writes frames to it until the link has been idle or the host closes; in these cases
// err is nil. welcomed reports whether the handshake succeeded.
func (l *link) session(ctx context.Context) (welcomed bool, err error) {
	if addrs := l.addrs.Load(); addrs != nil {
		l.host.host.Peerstore().AddAddrs(l.key.peer, multiaddrs(*addrs), peerstore.AddressTTL)
	}
	w, err := l.host.openStream(ctx, l.key.peer, l.key.class)
	if err != nil {
		return false, err
	}
	l.host.links.open.Add(1)
	l.host.neighbours.addStream(l.host, l.key.peer)
	// The connection must not be trimmed while a link uses it, because the link would only dial again.
	tag := "link/" + l.key.class.String()
	l.host.conns.Protect(l.key.peer, tag)
	defer func() {
		l.host.conns.Unprotect(l.key.peer, tag)
		l.host.neighbours.removeStream(l.host, l.key.peer)
		l.host.links.open.Add(-1)
	}()

	// The peer never writes to this stream, so a read returns only when the peer closes it.
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		if _, err := w.reader.ReadByte(); err == nil {
			l.host.violation(l.key.peer, "data on a stream that is not for it")
		}
	}()
	err = l.writeFrames(ctx, w.stream, closed)
	if err == nil {
		l.finish(w.stream, closed)
	}
	_ = w.stream.Reset()
	<-closed
	return true, err
}

// writeFrames writes frames from the queue to a stream, at most as fast as the peer accepts them. Frames that have
// to wait stay in the queue. It flushes when the queue is empty. It returns without an error when the link has been
// idle, or when the host is closing and the queue is empty.
func (l *link) writeFrames(ctx context.Context, s network.Stream, closed <-chan struct{}) error {
	stop := context.AfterFunc(ctx, func() { _ = l.setDeadline(s) }) // also sets the deadline of a write in progress
	defer stop()
	idle := time.NewTimer(linkIdleTime)
	defer idle.Stop()
	for {
		if err := l.writeQueue(ctx, s); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return nil
		}
		idle.Reset(linkIdleTime)
		select {
		case <-l.queue.nonEmpty:
		case <-ctx.Done():
		case <-closed:
			return errStreamClosed
		case <-idle.C:
			return nil
		}
	}
}

// writeBuffers are borrowed only while there are frames to write, because a node has many links and most of them
// are silent.
var writeBuffers = sync.Pool{New: func() any { return bufio.NewWriterSize(nil, 16<<10) }}

// writeQueue writes the frames that wait in the queue.
func (l *link) writeQueue(ctx context.Context, s network.Stream) error {
	frame, ok := l.queue.pop()
	if !ok {
		return nil
	}
	b := writeBuffers.Get().(*bufio.Writer)
	b.Reset(s)
	defer func() {
		b.Reset(nil)
		writeBuffers.Put(b)
	}()
	for ; ok; frame, ok = l.queue.pop() {
		if err := l.writeFrame(s, b, frame); err != nil {
			l.count.unreachable.Add(1)
			return err
		}
		// A closing host does not wait for the rate limit: the frames that are left are fewer than a burst.
		if wait := l.pacer.reserve(len(frame), time.Now()); wait > 0 && ctx.Err() == nil {
			if err := b.Flush(); err != nil {
				return err
			}
			l.count.paced.Add(1)
			sleep(ctx, max(wait, minPause))
		}
	}
	return b.Flush()
}

// writeFrame writes one frame.
func (l *link) writeFrame(s network.Stream, b *bufio.Writer, frame []byte) error {
	if err := l.setDeadline(s); err != nil {
		return err
	}
	if _, err := b.Write(binary.AppendUvarint(b.AvailableBuffer(), uint64(len(frame)))); err != nil {
		return err
	}
	if _, err := b.Write(frame); err != nil {
		return err
	}
	l.count.framesOut.Add(1)
	l.count.bytesOut.Add(uint64(len(frame)))
	return nil
}

// setDeadline sets the time by which the next bytes must be written to a stream.
func (l *link) setDeadline(s network.Stream) error {
	err := s.SetWriteDeadline(time.Now().Add(writeTime))
	if by := l.host.closeBy.Load(); by != nil {
		err = s.SetWriteDeadline(*by)
	}
	return err
}

// finish closes a stream, and waits up to closeTime for the peer to have read everything.
func (l *link) finish(s network.Stream, closed <-chan struct{}) {
	if s.CloseWrite() != nil {
		return
	}
	by := time.Now().Add(closeTime)
	if limit := l.host.closeBy.Load(); limit != nil {
		by = *limit
	}
	timer := time.NewTimer(time.Until(by))
	defer timer.Stop()
	select {
	case <-closed:
	case <-timer.C:
	}
}
