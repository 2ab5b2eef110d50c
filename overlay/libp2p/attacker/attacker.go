// Package attacker is an attacker for the laboratory and for tests. It holds connections to a host, each with its
// own identity and from a chosen address, and sends given frames on each. Nodes do not use it.
//
//	a, err := attacker.New(addr, side)
//	err = a.Open(ctx, netip.MustParseAddr("127.3.3.3"), frame)
//	n := a.OpenCount()
//	a.Close()
//
// The package speaks libp2p and the network's handshake, but no protocol of a higher layer. Its users decide what
// to send, and what a host should do about it.
package attacker

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/libp2p/go-libp2p/core/sec"
	"github.com/libp2p/go-libp2p/core/transport"
	"github.com/libp2p/go-libp2p/p2p/muxer/yamux"
	"github.com/libp2p/go-libp2p/p2p/net/upgrader"
	"github.com/libp2p/go-libp2p/p2p/security/noise"
	"github.com/libp2p/go-libp2p/p2p/transport/tcp"
	ma "github.com/multiformats/go-multiaddr"
	"github.com/multiformats/go-multistream"

	"tidings/internal/wire"
)

// controlProtocol is the protocol of links that carry control frames.
const controlProtocol protocol.ID = "/tidings/overlay/1/control"

// parallelDials is how many connections OpenMany makes at a time. dialTime is the timeout for one of them.
const (
	parallelDials = 8
	dialTime      = 20 * time.Second
)

// An Attacker holds connections to one host. Its methods may be called from any goroutine.
type Attacker struct {
	target peer.AddrInfo
	side   wire.Side

	mu    sync.Mutex
	conns []transport.CapableConn
}

// New returns an attacker of the host at a TCP multiaddr that ends in /p2p/ and a peer id. It uses side in
// handshakes.
func New(addr string, side wire.Side) (*Attacker, error) {
	target, err := peer.AddrInfoFromString(addr)
	if err != nil {
		return nil, fmt.Errorf("address of the host %s: %w", addr, err)
	}
	return &Attacker{target: *target, side: side}, nil
}

// Open opens a connection from an address, and keeps it open. If there are frames, it makes a handshake and sends
// them.
func (a *Attacker) Open(ctx context.Context, from netip.Addr, frames ...[]byte) error {
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return err
	}
	key, _, err := crypto.KeyPairFromStdKey(&private)
	if err != nil {
		return err
	}
	muxers := []upgrader.StreamMuxer{{ID: yamux.ID, Muxer: yamux.DefaultTransport}}
	security, err := noise.New(noise.ID, key, muxers)
	if err != nil {
		return err
	}
	upgrade, err := upgrader.New([]sec.SecureTransport{security}, muxers, nil, nil, nil)
	if err != nil {
		return err
	}
	local := &net.TCPAddr{IP: from.AsSlice()}
	dialer, err := tcp.NewTCPTransport(upgrade, nil, nil, tcp.WithDialerForAddr(func(ma.Multiaddr) (tcp.ContextDialer, error) {
		return &net.Dialer{LocalAddr: local}, nil
	}))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	c, err := dialer.Dial(ctx, a.target.Addrs[0], a.target.ID)
	if err != nil {
		return err
	}
	a.mu.Lock()
	a.conns = append(a.conns, c)
	a.mu.Unlock()
	if len(frames) == 0 {
		return nil
	}
	stream, err := c.OpenStream(ctx)
	if err != nil {
		return err
	}
	if err := multistream.SelectProtoOrFail(controlProtocol, stream); err != nil {
		return err
	}
	data := wire.AppendDelimited(nil, a.side.Hello())
	for _, frame := range frames {
		data = wire.AppendDelimited(data, frame)
	}
	_, err = stream.Write(data)
	return err
}

// OpenMany opens n connections, each from its own address. It ignores failures, because the host may close any of
// them.
func (a *Attacker) OpenMany(ctx context.Context, n int, from func(i int) netip.Addr, frames ...[]byte) {
	var all sync.WaitGroup
	var next atomic.Int64
	for range parallelDials {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				_ = a.Open(ctx, from(i), frames...)
			}
		})
	}
	all.Wait()
}

// OpenCount returns how many connections are open.
func (a *Attacker) OpenCount() (n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range a.conns {
		if !c.IsClosed() {
			n++
		}
	}
	return n
}

// Close closes all connections.
func (a *Attacker) Close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range a.conns {
		_ = c.Close()
	}
	a.conns = nil
}
