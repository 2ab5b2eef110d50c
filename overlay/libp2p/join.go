package libp2p

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/peerstore"

	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/internal/wire/wirepb"
)

// maxParallelJoins bounds the peers that Join asks at the same time.
const maxParallelJoins = 8

// ErrNoPeers says that Join knows no peer to ask.
var ErrNoPeers = errors.New("no node to join through is known: give --bootstrap")

// Join asks the first peers for the network's descriptor, and returns the descriptor of the first peer that
// welcomes this host. While no peer answers, Join asks again at growing intervals. It fails when ctx ends, or when
// all peers have refused this host for good; the error then contains their reasons. If the host already knows its
// network, Join returns at once.
func (h *Host) Join(ctx context.Context) (descriptor []byte, err error) {
	if d := h.side.Load().Descriptor; d != nil {
		return d, nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(h.ctx, func() { cancel(ErrClosed) })
	defer stop()
	h.startLocal()
	for pause := minBackoff; ; pause = min(2*pause, maxBackoff) {
		candidates := h.candidates()
		if len(candidates) == 0 && !h.config.MDNS {
			return nil, ErrNoPeers
		}
		descriptor, errs := h.joinThrough(ctx, candidates)
		err := errors.Join(errs...)
		switch {
		case descriptor != nil:
			return descriptor, h.setNetwork("", descriptor)
		case ctx.Err() != nil:
			return nil, errors.Join(context.Cause(ctx), err)
		case len(errs) > 0 && !slices.ContainsFunc(errs, isTemporary):
			if h.config.Name != "" && slices.ContainsFunc(errs, isOtherNetwork) {
				return nil, fmt.Errorf("join network %q: %w; leave --network out to join the network of the nodes at --bootstrap", h.config.Name, err)
			}
			return nil, fmt.Errorf("join: %w", err)
		}
		if pause == minBackoff {
			h.log.Warn("no node to join through answers yet", "tried", len(candidates), "err", err)
		}
		sleepAbout(ctx, pause)
	}
}

// joinThrough returns the first descriptor that one of the candidates sends, or the errors of all candidates.
func (h *Host) joinThrough(ctx context.Context, candidates []peer.AddrInfo) (descriptor []byte, errs []error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		all  sync.WaitGroup
		mu   sync.Mutex // guards the results
		next = make(chan peer.AddrInfo)
	)
	for range min(maxParallelJoins, len(candidates)) {
		all.Go(func() {
			for info := range next {
				d, err := h.descriptorOf(ctx, info)
				mu.Lock()
				if err != nil {
					errs = append(errs, err)
				} else if descriptor == nil {
					descriptor = d
					cancel()
				}
				mu.Unlock()
			}
		})
	}
	for _, info := range candidates {
		select {
		case next <- info:
		case <-ctx.Done():
		}
	}
	close(next)
	all.Wait()
	return descriptor, errs
}

// descriptorOf asks one peer for the descriptor.
func (h *Host) descriptorOf(ctx context.Context, info peer.AddrInfo) ([]byte, error) {
	h.host.Peerstore().AddAddrs(info.ID, info.Addrs, peerstore.AddressTTL)
	w, err := h.openStream(ctx, info.ID, env.Control)
	if err != nil {
		return nil, err
	}
	return w.descriptor, w.stream.Close()
}

// isTemporary reports whether the peer may answer differently next time.
func isTemporary(err error) bool {
	refusal, ok := errors.AsType[*wire.RefusedError](err)
	return !ok || refusal.Reason == wirepb.Refusal_BUSY
}

// isOtherNetwork reports whether a peer refused this host because it is in another network.
func isOtherNetwork(err error) bool {
	refusal, ok := errors.AsType[*wire.RefusedError](err)
	return ok && refusal.Reason == wirepb.Refusal_NETWORK
}
