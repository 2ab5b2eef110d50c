package libp2p

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/sec"
	"github.com/libp2p/go-libp2p/p2p/net/swarm"

	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/internal/wire/wirepb"
)

// handshakeTime is the timeout of a handshake without dialling, and dialTime that of dialling.
const (
	handshakeTime = 10 * time.Second
	dialTime      = 10 * time.Second
)

// replyBuffer is the size in bytes of the buffer for reading a Reply. The buffer lives as long as the link, and
// nothing else is read, so it is small.
const replyBuffer = 256

// A welcomedStream is a stream on which the peer replied Welcome.
type welcomedStream struct {
	stream     network.Stream
	reader     *bufio.Reader
	descriptor []byte
}

// openStream opens a stream of a class to a peer, dialling if necessary, and sends Hello. A refusal is remembered,
// unless its reason is only temporary.
func (h *Host) openStream(ctx context.Context, p peer.ID, class env.Class) (welcomedStream, error) {
	h.count.dials.Add(1)
	w, err := h.dialAndShake(ctx, p, class)
	if err == nil {
		return w, nil
	}
	h.count.dialFailures.Add(1)
	if refusal, ok := errors.AsType[*wire.RefusedError](err); ok {
		h.noteRefusal(p, refusal, false)
	}
	return welcomedStream{}, fmt.Errorf("connect to %v: %w", p, plainDialError(err))
}

func (h *Host) dialAndShake(ctx context.Context, p peer.ID, class env.Class) (welcomedStream, error) {
	s, err := h.newStream(ctx, p, class)
	if err != nil {
		return welcomedStream{}, err
	}
	// A handshake ends with its timeout or with ctx.
	stop := context.AfterFunc(ctx, func() { _ = s.Reset() })
	w, err := h.sendHello(s)
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		_ = s.Reset()
	}
	return w, err
}

// A dialFailure says in one line at which addresses a peer was not reached, and why. libp2p's error has one line
// for each address.
type dialFailure struct {
	text  string
	cause error
}

func (f dialFailure) Error() string { return f.text }
func (f dialFailure) Unwrap() error { return f.cause }

// plainDialError converts an error of libp2p to a dialFailure. Other errors are returned unchanged.
func plainDialError(err error) error {
	failed, ok := errors.AsType[*swarm.DialError](err)
	switch {
	case !ok:
		return err
	case errors.Is(err, swarm.ErrNoGoodAddresses), errors.Is(err, swarm.ErrNoAddresses):
		return dialFailure{"none of its addresses can be dialled from here", err}
	}
	var reasons []string
	for _, e := range failed.DialErrors {
		reasons = append(reasons, fmt.Sprintf("%v: %s", e.Address, dialFailureReason(e.Cause)))
	}
	if reasons == nil {
		reasons = []string{dialFailureReason(failed.Cause)}
	}
	return dialFailure{"not reached (" + strings.Join(reasons, "; ") + ")", err}
}

// dialFailureReason says in a few words why a dial failed.
func dialFailureReason(err error) string {
	_, other := errors.AsType[sec.ErrPeerIDMismatch](err)
	switch {
	case err == nil:
		return "unknown reason"
	case other:
		return "a node with another peer id answers"
	case errors.Is(err, context.DeadlineExceeded), os.IsTimeout(err):
		return "no answer"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	}
	return strings.Join(strings.Fields(err.Error()), " ")
}

// newStream opens a stream. At most maxDials dials are in progress.
func (h *Host) newStream(ctx context.Context, p peer.ID, class env.Class) (network.Stream, error) {
	if h.host.Network().Connectedness(p) != network.Connected {
		select {
		case h.dialSlots <- struct{}{}:
			defer func() { <-h.dialSlots }()
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	return h.host.NewStream(ctx, p, classProtocols[class])
}

// sendHello sends Hello and reads the Reply.
func (h *Host) sendHello(s network.Stream) (welcomedStream, error) {
	if err := s.SetDeadline(time.Now().Add(handshakeTime)); err != nil {
		return welcomedStream{}, err
	}
	side := h.side.Load()
	if _, err := s.Write(wire.AppendDelimited(nil, side.Hello())); err != nil {
		return welcomedStream{}, err
	}
	r := bufio.NewReaderSize(s, replyBuffer)
	reply, err := wire.ReadDelimited(r, wire.MaxHello)
	if err != nil {
		return welcomedStream{}, err
	}
	_, descriptor, err := side.CheckReply(reply)
	if err != nil {
		return welcomedStream{}, err
	}
	return welcomedStream{s, r, descriptor}, s.SetDeadline(time.Time{})
}

// answerHello reads a Hello and answers it. If it refused the peer, the error is a wire.RefusedError.
func (h *Host) answerHello(s network.Stream, r *bufio.Reader, accepted func()) error {
	if err := s.SetDeadline(time.Now().Add(handshakeTime)); err != nil {
		return err
	}
	hello, err := wire.ReadDelimited(r, wire.MaxHello)
	if err != nil {
		return err
	}
	side := *h.side.Load()
	if h.events.Load() == nil {
		side.Descriptor = nil // refuse as busy, because nothing would receive the frames
	}
	reply, _, refused := side.Answer(hello)
	if reply == nil {
		return refused
	}
	if refused == nil {
		accepted() // must come before the peer can know
	}
	if _, err := s.Write(wire.AppendDelimited(nil, reply)); err != nil {
		return err
	}
	if refused != nil {
		return refused
	}
	return s.SetDeadline(time.Time{})
}

// noteRefusal counts and remembers a refusal. A refusal by or of the same peer is logged at most once per
// refusalTime.
func (h *Host) noteRefusal(p peer.ID, refusal *wire.RefusedError, byUs bool) {
	h.count.refusals.Add(1)
	if refusal.Reason == wirepb.Refusal_BUSY {
		h.log.Debug("handshake was put off", "peer", p, "reason", refusal.Message, "by_us", byUs)
		return
	}
	r := Refusal{Reason: refusal.Message, ByUs: byUs, Network: refusal.Reason == wirepb.Refusal_NETWORK, Bootstrap: h.gater.bootstrapPeers[p]}
	if !h.reputations.addRefusal(p, r, time.Now()) {
		return
	}
	if byUs {
		h.log.Warn("this node refused a peer", "peer", p, "reason", refusal.Message)
	} else {
		h.log.Warn("a peer refused this node", "peer", p, "reason", refusal.Message)
	}
}
