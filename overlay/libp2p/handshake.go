package libp2p

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"

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
	return welcome{}, fmt.Errorf("greet %v: %w", p, err)
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
		h.log.Debug("try again", "peer", p, "words", refusal.Words, "by_us", byUs)
		return
	}
	if !h.ledger.refuse(p, refusal.Words, byUs, time.Now()) {
		return
	}
	if byUs {
		h.log.Warn("refused a peer", "peer", p, "words", refusal.Words)
	} else {
		h.log.Warn("refused by a peer", "peer", p, "words", refusal.Words)
	}
}
