package libp2p

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/netip"
	"slices"
	"time"

	golibp2p "github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	ma "github.com/multiformats/go-multiaddr"
	"google.golang.org/protobuf/proto"

	"tidings/internal/wire"
	"tidings/overlay/libp2p/libp2ppb"
)

const (
	dialBackProtocol protocol.ID = "/tidings/dialback/1"
	nonceProtocol    protocol.ID = "/tidings/dialback-nonce/1"

	// maxDialBackAddrs bounds the addresses in a request, and maxDialBackTries those that are dialled for it.
	// dialBackTime is the timeout for each.
	maxDialBackAddrs, maxDialBackTries = 8, 4
	dialBackTime                       = 5 * time.Second

	// dialBackInterval is how often one peer is served in the long run. dialBackBurst is how many requests it may
	// send at once: a restarted node has to prove its reachability again. maxDialBacks bounds the requests served
	// at the same time. Further peers are told to try again.
	dialBackInterval = time.Minute
	dialBackBurst    = 4
	maxDialBacks     = 4

	nonceSize       = 16
	maxDialBackSize = 4 << 10 // size of the largest message in bytes
)

// serveDialBack dials a peer that asked for it. It dials no other host: only the address at which it sees the peer,
// or private addresses where these are allowed.
func (h *Host) serveDialBack(s network.Stream) {
	_ = s.SetDeadline(time.Now().Add(handshakeTime + maxDialBackTries*dialBackTime))
	tried, reason := h.tryDialBack(s)
	m := &libp2ppb.DialBackReply{Tried: uint32(tried), Reason: reason}
	if err := writeMessage(s, m); err != nil {
		_ = s.Reset()
		return
	}
	_ = s.Close()
}

// tryDialBack returns how many addresses it dialled, or the reason why it dialled none.
func (h *Host) tryDialBack(s network.Stream) (tried int, reason string) {
	p := s.Conn().RemotePeer()
	// The request is read before it may be refused. Closing a stream to which the peer still writes would reset it,
	// and the peer would not get the reply.
	var m libp2ppb.DialBack
	err := readMessage(s, &m)
	if !h.neighbours.has(p) {
		return 0, "say Hello first"
	}
	select {
	case h.dialBackSlots <- struct{}{}:
		defer func() { <-h.dialBackSlots }()
	default:
		return 0, "busy with others; try again"
	}
	if !h.reputations.allowDialBack(p, time.Now()) {
		return 0, "asked too often; try again"
	}
	if err != nil || len(m.Nonce) != nonceSize || len(m.Addrs) > maxDialBackAddrs {
		h.violation(p, "invalid dial-back requests")
		return 0, "not a request"
	}
	observed, _ := ipOf(s.Conn().RemoteMultiaddr())
	addrs := h.dialable(m.Addrs, observed)
	if len(addrs) == 0 {
		return 0, "this node sees you at none of these addresses"
	}
	h.count.dialBacks.Add(1)
	for _, a := range addrs {
		if err := h.dialBack(p, a, m.Nonce); err != nil {
			h.log.Debug("peer could not be dialled back to test its reachability", "peer", p, "addr", a, "err", err)
		}
	}
	return len(addrs), ""
}

// dialable returns the addresses that may be dialled for a peer that is seen at an IP address.
func (h *Host) dialable(binary [][]byte, observed netip.Addr) []ma.Multiaddr {
	var out []ma.Multiaddr
	for _, b := range binary {
		e, ok := parseEndpoint(b)
		if !ok {
			continue
		}
		if e.ip.IsUnspecified() && e.ip.Is4() == observed.Is4() {
			e.ip = observed
		}
		mine := e.ip == observed
		lan := h.gater.allowPrivate.Load() && !isPublic(e.ip) && !e.ip.IsMulticast() && !e.ip.IsUnspecified() && !e.ip.IsLoopback()
		if !mine && !lan {
			continue
		}
		a := e.multiaddr()
		if len(out) < maxDialBackTries && !slices.ContainsFunc(out, a.Equal) {
			out = append(out, a)
		}
	}
	return out
}

// dialBack sends a nonce to a peer at one address. It uses a new libp2p host, which has no connections, is known to
// no peer, and learns no other address of the peer.
func (h *Host) dialBack(p peer.ID, a ma.Multiaddr, nonce []byte) error {
	ctx, cancel := context.WithTimeout(h.ctx, dialBackTime)
	defer cancel()
	d, err := connectAnew(ctx, p, a)
	if err != nil {
		return err
	}
	defer d.Close()
	s, err := d.NewStream(ctx, p, nonceProtocol)
	if err != nil {
		return err
	}
	defer func() { _ = s.Reset() }()
	deadline, _ := ctx.Deadline()
	_ = s.SetDeadline(deadline)
	if err := writeMessage(s, &libp2ppb.Nonce{Nonce: nonce, Addr: a.Bytes()}); err != nil {
		return err
	}
	if _, err = s.Read(make([]byte, 1)); errors.Is(err, io.EOF) {
		return nil // the peer has read the nonce
	}
	return err
}

// connectAnew connects a new libp2p host to a peer at one address. The caller closes the host.
func connectAnew(ctx context.Context, p peer.ID, a ma.Multiaddr) (host.Host, error) {
	d, err := golibp2p.New(append(transports(), golibp2p.NoListenAddrs,
		golibp2p.ResourceManager(&network.NullResourceManager{}))...)
	if err != nil {
		return nil, err
	}
	if err := d.Connect(ctx, peer.AddrInfo{ID: p, Addrs: []ma.Multiaddr{a}}); err != nil {
		_ = d.Close()
		return nil, err
	}
	return d, nil
}

// writeMessage writes one message and closes the stream for writing.
func writeMessage(s network.Stream, m proto.Message) error {
	b, err := proto.Marshal(m)
	if err != nil {
		return err
	}
	if _, err := s.Write(wire.AppendDelimited(nil, b)); err != nil {
		return err
	}
	return s.CloseWrite()
}

func readMessage(s network.Stream, m proto.Message) error {
	b, err := wire.ReadDelimited(bufio.NewReaderSize(s, 512), maxDialBackSize)
	if err != nil {
		return err
	}
	return proto.Unmarshal(b, m)
}
