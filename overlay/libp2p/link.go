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
	// maxLinks bounds the links of a host, counting each peer and class; to
	// further peers nothing is sent.
	maxLinks = 1024

	// maxDials bounds the dials under way at once; further links wait.
	maxDials = 32

	// linkIdle is how long a link lives without a frame.
	linkIdleTime = 3 * time.Minute

	// writeTime is how long a peer may take no byte before its link is broken.
	writeTime = 10 * time.Second

	// leastPause is the shortest pause of a link that has sent what it may: after
	// it a packet is filled, and not a frame sent at a time.
	minPause = 20 * time.Millisecond

	// closeTime is how long links may still send when the host closes.
	closeTime = 2 * time.Second

	// After a failure a link waits before it dials again, twice as long each
	// time; a stream that lasted longPause makes it forget.
	minBackoff, maxBackoff = time.Second, 30 * time.Second
)

// errGone says that the peer ended a stream.
var errStreamClosed = errors.New("the peer closed the stream")

// links are the ways out of a host.
type links struct {
	wg   sync.WaitGroup
	open atomic.Int64 // streams open

	mu     sync.Mutex // guards what follows, and wg.Add
	closed bool
	all    map[linkKey]*link
}

type linkKey struct {
	peer  peer.ID
	class env.Class
}

func (l *links) init() { l.all = map[linkKey]*link{} }

// wait lets no more frames in and returns when all links are gone. The host's
// context has ended.
func (l *links) wait() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.wg.Wait()
}

// A link is the way out to one peer in one class. One goroutine serves it, from
// the first frame until it has been idle.
type link struct {
	host  *Host
	key   linkKey
	count *classCounters
	queue *queue
	pacer *limiter
	wake  chan struct{}            // holds one token if the peer has come by
	addrs atomic.Pointer[[]string] // where the peer can be dialled, as last told
}

// Send queues a frame for a peer; see [env.Network]. It panics if the frame is
// over env.MaxFrame.
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

// retire ends a link for which nothing waits.
func (l *link) retire() bool {
	l.host.links.mu.Lock()
	defer l.host.links.mu.Unlock()
	if l.queue.len() > 0 && !l.host.links.closed {
		return false
	}
	delete(l.host.links.all, l.key)
	return true
}

// run carries frames as long as there are any: it opens a stream, writes, and
// begins anew when the stream breaks.
func (l *link) run() {
	ctx := l.host.ctx
	backoff := minBackoff
	failed := false // since the last stream
	for l.waitForFrame(ctx) {
		if l.isBlocked() {
			l.count.refused.Add(uint64(l.queue.clear()))
			continue
		}
		select {
		case <-l.wake: // it came by before this attempt
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

// rest waits for about d, for the peer to come by, or for the end of ctx.
func (l *link) backOff(ctx context.Context, d time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, jitter(d))
	defer cancel()
	select {
	case <-ctx.Done():
	case <-l.wake:
	}
}

// wakeAll has all links that wait after a failure dial again now.
func (l *links) wakeAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, way := range l.all {
		select {
		case way.wake <- struct{}{}:
		default:
		}
	}
}

// wake tells the links to a peer that it is there: it has opened one itself.
func (l *links) wake(p peer.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for class := range classProtocols {
		if way := l.all[linkKey{p, env.Class(class)}]; way != nil {
			select {
			case way.wake <- struct{}{}:
			default:
			}
		}
	}
}

// down passes on that a peer cannot be reached.
func (h *Host) reportDown(p peer.ID) {
	if e := h.events.Load(); e != nil {
		e.PeerDown(env.PeerID(p))
	}
}

// sleep waits for about d, or the end of ctx.
func sleepAbout(ctx context.Context, d time.Duration) { sleep(ctx, jitter(d)) }

// linger waits for d, or the end of ctx.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// jitter returns d, give or take a quarter, so that hosts do not move in step.
func jitter(d time.Duration) time.Duration {
	return d*3/4 + rand.N(d/2+1)
}

// await waits for a frame; false when the link has retired.
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

// shunned says whether the peer is not to be dialled for now.
func (l *link) isBlocked() bool {
	now := time.Now()
	return l.host.reputations.isRefused(l.key.peer, now) || l.host.reputations.isBlocked(l.key.peer, now)
}

// session opens a stream and writes frames to it until it has been idle or the
// host closes, which is no error. met says whether the peer welcomed us.
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
	// Whom the host speaks to is not trimmed: the link would only dial again.
	tag := "link/" + l.key.class.String()
	l.host.conns.Protect(l.key.peer, tag)
	defer func() {
		l.host.conns.Unprotect(l.key.peer, tag)
		l.host.neighbours.removeStream(l.host, l.key.peer)
		l.host.links.open.Add(-1)
	}()

	// The peer never writes: a read ends when it closes the stream.
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		if _, err := w.reader.ReadByte(); err == nil {
			l.host.violation(l.key.peer, "frames against the stream")
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

// write carries frames from the queue to a stream, no faster than the peer takes
// them; what waits for that stays in the queue. It flushes when the queue is empty,
// and returns without error when the link has been idle or the host is
// closing and nothing waits any more.
func (l *link) writeFrames(ctx context.Context, s network.Stream, closed <-chan struct{}) error {
	stop := context.AfterFunc(ctx, func() { _ = l.setDeadline(s) }) // a write under way, too
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

// packets are borrowed only while there is something to write: a node has many links,
// and most of them are silent.
var writeBuffers = sync.Pool{New: func() any { return bufio.NewWriterSize(nil, 16<<10) }}

// drain writes what waits in the queue.
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
		// Who closes does not wait: what is left is less than a burst.
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

// put writes one frame.
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

// limit sets the time by which a stream has to take the next bytes.
func (l *link) setDeadline(s network.Stream) error {
	err := s.SetWriteDeadline(time.Now().Add(writeTime))
	if by := l.host.closeBy.Load(); by != nil {
		err = s.SetWriteDeadline(*by)
	}
	return err
}

// finish ends a stream and waits a moment for the peer to have read it all.
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
