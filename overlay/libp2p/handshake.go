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

// handshakeTime is how long a handshake may take, dialling apart; dialTime is
// how long that may.
const (
	handshakeTime = 10 * time.Second
	dialTime      = 10 * time.Second
)

// replyAhead is how many bytes of a Reply are read before they are asked for. The
// reader lives as long as the link, and nothing else comes.
const replyAhead = 256

// A welcome is a stream on which the other side said Welcome.
type welcome struct {
	stream     network.Stream
	reader     *bufio.Reader
	descriptor []byte
}

// greet opens a stream of a class to a peer, dialling if need be, and says
// Hello. A refusal with words is remembered, unless it says: try again.
func (h *Host) greet(ctx context.Context, p peer.ID, class env.Class) (welcome, error) {
	h.count.dials.Add(1)
	w, err := h.hello(ctx, p, class)
	if err == nil {
		return w, nil
	}
	h.count.dialFailures.Add(1)
	if refusal, ok := errors.AsType[*wire.RefusedError](err); ok {
		h.noteRefusal(p, refusal, false)
	}
	return welcome{}, fmt.Errorf("connect to %v: %w", p, plainDial(err))
}

func (h *Host) hello(ctx context.Context, p peer.ID, class env.Class) (welcome, error) {
	s, err := h.open(ctx, p, class)
	if err != nil {
		return welcome{}, err
	}
	// A handshake ends with its time, or with ctx.
	stop := context.AfterFunc(ctx, func() { _ = s.Reset() })
	w, err := h.shake(s)
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		_ = s.Reset()
	}
	return w, err
}

// A dialFailure says in one line at which addresses a peer was not reached, and why. libp2p's error has a line for each
// address.
type dialFailure struct {
	text  string
	cause error
}

func (f dialFailure) Error() string { return f.text }
func (f dialFailure) Unwrap() error { return f.cause }

// plainDial makes a dialFailure of an error of libp2p. Other errors stay as they are.
func plainDial(err error) error {
	failed, ok := errors.AsType[*swarm.DialError](err)
	switch {
	case !ok:
		return err
	case errors.Is(err, swarm.ErrNoGoodAddresses), errors.Is(err, swarm.ErrNoAddresses):
		return dialFailure{"none of its addresses can be dialled from here", err}
	}
	var of []string
	for _, e := range failed.DialErrors {
		of = append(of, fmt.Sprintf("%v: %s", e.Address, whyUnreached(e.Cause)))
	}
	if of == nil {
		of = []string{whyUnreached(failed.Cause)}
	}
	return dialFailure{"not reached (" + strings.Join(of, "; ") + ")", err}
}

// whyUnreached says in a few words why nobody was reached at an address.
func whyUnreached(err error) string {
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

// open opens a stream. Only so many dials are under way at once.
func (h *Host) open(ctx context.Context, p peer.ID, class env.Class) (network.Stream, error) {
	if h.host.Network().Connectedness(p) != network.Connected {
		select {
		case h.dialling <- struct{}{}:
			defer func() { <-h.dialling }()
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	return h.host.NewStream(ctx, p, classProtocols[class])
}

// shake says Hello and reads the Reply.
func (h *Host) shake(s network.Stream) (welcome, error) {
	if err := s.SetDeadline(time.Now().Add(handshakeTime)); err != nil {
		return welcome{}, err
	}
	side := h.side.Load()
	if _, err := s.Write(wire.AppendDelimited(nil, side.Hello())); err != nil {
		return welcome{}, err
	}
	r := bufio.NewReaderSize(s, replyAhead)
	reply, err := wire.ReadDelimited(r, wire.MaxHello)
	if err != nil {
		return welcome{}, err
	}
	_, descriptor, err := side.CheckReply(reply)
	if err != nil {
		return welcome{}, err
	}
	return welcome{s, r, descriptor}, s.SetDeadline(time.Time{})
}

// answer reads a Hello and answers it. The error is of the kind
// wire.RefusedError if the peer was told so.
func (h *Host) answer(s network.Stream, r *bufio.Reader, accepted func()) error {
	if err := s.SetDeadline(time.Now().Add(handshakeTime)); err != nil {
		return err
	}
	hello, err := wire.ReadDelimited(r, wire.MaxHello)
	if err != nil {
		return err
	}
	side := *h.side.Load()
	if h.events.Load() == nil {
		side.Descriptor = nil // as good as none: nobody would take its frames
	}
	reply, _, refused := side.Answer(hello)
	if reply == nil {
		return refused
	}
	if refused == nil {
		accepted() // before the peer can know
	}
	if _, err := s.Write(wire.AppendDelimited(nil, reply)); err != nil {
		return err
	}
	if refused != nil {
		return refused
	}
	return s.SetDeadline(time.Time{})
}

// noteRefusal counts a refusal and remembers it. An operator reads of it once in
// a while.
func (h *Host) noteRefusal(p peer.ID, refusal *wire.RefusedError, byUs bool) {
	h.count.refusals.Add(1)
	if refusal.Reason == wirepb.Refusal_BUSY {
		h.log.Debug("handshake was put off", "peer", p, "reason", refusal.Message, "by_us", byUs)
		return
	}
	r := Refusal{Words: refusal.Message, ByUs: byUs, Network: refusal.Reason == wirepb.Refusal_NETWORK, Bootstrap: h.gate.bootstrap[p]}
	if !h.ledger.refuse(p, r, time.Now()) {
		return
	}
	if byUs {
		h.log.Warn("this node refused a peer", "peer", p, "reason", refusal.Message)
	} else {
		h.log.Warn("a peer refused this node", "peer", p, "reason", refusal.Message)
	}
}
