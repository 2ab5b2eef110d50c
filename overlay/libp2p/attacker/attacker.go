// Package attacker is an attacker for the laboratory and tests: it holds connections to a host, each with
// an identity of its own and from an address of its choice, and says on each what it is told to. Nodes do not use it.
//
//	s, err := attacker.New(addr, hello)
//	err = s.Hold(ctx, netip.MustParseAddr("127.3.3.3"), frame)
//	held := s.Held()
//	s.Close()
//
// It speaks libp2p and the network's handshake, and no protocol of any layer above. The package leaves to its
// users what to say, and what a host should do about it.
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

// control is the protocol of links that carry control frames.
const controlProtocol protocol.ID = "/tidings/overlay/1/control"

// atOnce is how many connections HoldMany makes at a time; dialTime how long one may take.
const (
	parallelDials = 8
	dialTime      = 20 * time.Second
)

// A Attacker holds connections to one host. Its methods may be called from any goroutine.
type Attacker struct {
	target peer.AddrInfo
	side   wire.Side

	mu    sync.Mutex
	conns []transport.CapableConn
}

// New returns a siege of the host at a multiaddr of TCP that ends in /p2p/ and its id. side is what the
// attacker says in handshakes.
func New(addr string, side wire.Side) (*Attacker, error) {
	target, err := peer.AddrInfoFromString(addr)
	if err != nil {
		return nil, fmt.Errorf("besiege %s: %w", addr, err)
	}
	return &Attacker{target: *target, side: side}, nil
}

// Hold opens a connection from an address, and holds it. If there are frames, it makes a handshake and sends them.
func (s *Attacker) Open(ctx context.Context, from netip.Addr, frames ...[]byte) error {
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
	up, err := upgrader.New([]sec.SecureTransport{security}, muxers, nil, nil, nil)
	if err != nil {
		return err
	}
	local := &net.TCPAddr{IP: from.AsSlice()}
	dials, err := tcp.NewTCPTransport(up, nil, nil, tcp.WithDialerForAddr(func(ma.Multiaddr) (tcp.ContextDialer, error) {
		return &net.Dialer{LocalAddr: local}, nil
	}))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	c, err := dials.Dial(ctx, s.target.Addrs[0], s.target.ID)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.conns = append(s.conns, c)
	s.mu.Unlock()
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
	said := wire.AppendDelimited(nil, s.side.Hello())
	for _, frame := range frames {
		said = wire.AppendDelimited(said, frame)
	}
	_, err = stream.Write(said)
	return err
}

// HoldMany opens n connections, each from an address of its own. How many of them the host lets stand is its
// affair.
func (s *Attacker) OpenMany(ctx context.Context, n int, from func(i int) netip.Addr, frames ...[]byte) {
	var all sync.WaitGroup
	var next atomic.Int64
	for range parallelDials {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				_ = s.Open(ctx, from(i), frames...)
			}
		})
	}
	all.Wait()
}

// Held is how many connections are open.
func (s *Attacker) OpenCount() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.conns {
		if !c.IsClosed() {
			n++
		}
	}
	return n
}

// Close ends the siege.
func (s *Attacker) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.conns {
		_ = c.Close()
	}
	s.conns = nil
}
