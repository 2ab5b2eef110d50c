package libp2p

import (
	"bufio"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"

	"tidings/internal/env"
	"tidings/internal/wire"
)

const (
	// readIdle is how long an incoming stream may stay silent. Its sender closes it earlier.
	readIdle = linkIdleTime + 2*time.Minute

	// readBuffer is the size of a stream's read buffer in bytes: a few typical frames. Larger frames bypass the
	// buffer.
	readBuffer = 1 << 10
)

// inbound holds the streams that peers opened, one per peer and class. A newer stream replaces the older one.
type inbound struct {
	mu  sync.Mutex
	all map[linkKey]network.Stream
}

func (in *inbound) init() { in.all = map[linkKey]network.Stream{} }

func (in *inbound) len() int {
	in.mu.Lock()
	defer in.mu.Unlock()
	return len(in.all)
}

// add registers a stream, and returns the stream that it replaces, if any.
func (in *inbound) add(key linkKey, s network.Stream) (older network.Stream) {
	in.mu.Lock()
	defer in.mu.Unlock()
	older = in.all[key]
	in.all[key] = s
	return older
}

// remove forgets a stream, unless it was replaced.
func (in *inbound) remove(key linkKey, s network.Stream) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.all[key] == s {
		delete(in.all, key)
	}
}

// serveLink answers the handshake on a stream that a peer opened, and reads its frames until the stream ends.
func (h *Host) serveLink(s network.Stream, class env.Class) {
	p := s.Conn().RemotePeer()
	key := linkKey{p, class}
	r := bufio.NewReaderSize(s, readBuffer)
	accepted := false
	err := h.answerHello(s, r, func() {
		accepted = true
		h.neighbours.addStream(h, p)
		h.links.wake(p)
		if older := h.inbound.add(key, s); older != nil {
			_ = older.Reset()
			h.closeReplaced(older.Conn(), s.Conn())
		}
	})
	if accepted {
		defer h.neighbours.removeStream(h, p)
		defer h.inbound.remove(key, s)
	}
	if err != nil {
		h.handshakeFailed(s, err)
		return
	}
	if err := h.readFrames(s, r, key); err != nil {
		h.log.Debug("incoming stream broke", "peer", p, "class", class, "err", err)
		_ = s.Reset()
		return
	}
	_ = s.Close()
}

// handshakeFailed closes a stream whose handshake failed.
func (h *Host) handshakeFailed(s network.Stream, err error) {
	p := s.Conn().RemotePeer()
	if refusal, ok := errors.AsType[*wire.RefusedError](err); ok {
		h.noteRefusal(p, refusal, true)
		_ = s.Close() // not Reset, so that the peer can read the reason
		return
	}
	_ = s.Reset()
	h.count.badHandshakes.Add(1)
	if errors.Is(err, wire.ErrHello) || errors.Is(err, wire.ErrFrame) {
		h.violation(p, "invalid handshakes")
	}
}

// readFrames reads frames and passes them to the node. It never waits for the node: a frame that finds no room is
// dropped. If the peer sends more than its rate limit, reading pauses, and the stream's flow control slows down the
// sender.
func (h *Host) readFrames(s network.Stream, r *bufio.Reader, key linkKey) error {
	receive := h.events.Load().Receive // set, because the handshake succeeded only while the host runs
	count := &h.count.classes[key.class]
	budget := h.reputations.limiter(key.peer, key.class, time.Now())
	var lastNoted time.Time // when noteFrame was last called
	for {
		if r.Buffered() == 0 {
			if err := s.SetReadDeadline(time.Now().Add(readIdle)); err != nil {
				return err
			}
		}
		frame, err := wire.ReadDelimited(r, env.MaxFrame)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, wire.ErrFrame):
			h.count.badFrames.Add(1)
			h.violation(key.peer, "frames above the size limit")
			return err
		case err != nil:
			return err
		}
		if wait := budget.reserve(len(frame), time.Now()); wait > 0 {
			count.slowed.Add(1)
			sleep(h.ctx, wait)
		}
		if !receive(env.PeerID(key.peer), key.class, frame) {
			count.inbox.Add(1)
			continue
		}
		if now := time.Now(); now.Sub(lastNoted) > time.Second {
			lastNoted = now
			h.slots.noteFrame(key.peer, now)
		}
		count.framesIn.Add(1)
		count.bytesIn.Add(uint64(len(frame)))
	}
}

// neighbours counts the peers with an open link in either direction.
type neighbours struct {
	added chan struct{} // holds one token if a neighbour was added

	mu  sync.Mutex
	all map[peer.ID]int // number of open streams
}

func (n *neighbours) init() {
	n.added = make(chan struct{}, 1)
	n.all = map[peer.ID]int{}
}

// addStream counts a stream. Connections of neighbours are trimmed last.
func (n *neighbours) addStream(h *Host, p peer.ID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all[p]++
	if n.all[p] == 1 {
		h.conns.TagPeer(p, neighbourTag, 100)
		signal(n.added)
	}
}

func (n *neighbours) removeStream(h *Host, p peer.ID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.all[p]--; n.all[p] == 0 {
		delete(n.all, p)
		h.conns.UntagPeer(p, neighbourTag)
	}
}

const neighbourTag = "neighbour"

// list returns the neighbours in no particular order.
func (n *neighbours) list() []peer.ID {
	n.mu.Lock()
	defer n.mu.Unlock()
	var out []peer.ID
	for p := range n.all {
		out = append(out, p)
	}
	return out
}

func (n *neighbours) has(p peer.ID) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.all[p] > 0
}
