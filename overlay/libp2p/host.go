package libp2p

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	golibp2p "github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/event"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/libp2p/go-libp2p/p2p/host/eventbus"
	"github.com/libp2p/go-libp2p/p2p/net/connmgr"
	"github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"

	"tidings/internal/env"
	"tidings/internal/wire"
)

// classProtocols are the protocol ids of links, by class. All other parameters are negotiated in Hello.
var classProtocols = [...]protocol.ID{
	env.Control: "/tidings/overlay/1/control",
	env.Bulk:    "/tidings/overlay/1/bulk",
}

var (
	// ErrNoNetwork is returned by Run if the host has no network descriptor yet.
	ErrNoNetwork = errors.New("the network is not known yet: join first")
	// ErrClosed is returned by a host that was closed.
	ErrClosed = errors.New("host is closed")
)

var _ env.Network = (*Host)(nil)

// A Host is a node's connection to the network. It implements [env.Network]. Its methods may be called from any
// goroutine.
type Host struct {
	config      Config
	log         *slog.Logger
	host        host.Host
	conns       *connmgr.BasicConnMgr
	limits      network.ResourceManager
	gater       *gater
	reputations *reputations
	count       counters

	firstPeers       []peer.AddrInfo           // peers to start with: those of Config.Bootstrap, then those of Config.Known
	side             atomic.Pointer[wire.Side] // what this host sends and accepts in handshakes
	events           atomic.Pointer[Events]    // nil until Run
	links            links
	inbound          inbound
	slots            slots
	neighbours       neighbours
	reachability     reachability
	dialSlots        chan struct{} // holds one token for each dial in progress
	dialBackSlots    chan struct{} // holds one token for each dial-back in progress for a peer
	proofSlots       chan struct{} // holds one token for each peer that is dialled to prove its addresses
	addressesChanged chan struct{} // holds one token if the machine's addresses have changed
	addressLostAt    atomic.Int64  // Unix time in ns at which the machine last lost an address with connections
	mdnsPeers        mdnsPeers
	topics           lazyTopics

	ctx     context.Context // ends when Close begins
	closing context.CancelFunc
	closeBy atomic.Pointer[time.Time] // deadline for writes, nil until Close begins
	closed  sync.Once

	mu          sync.Mutex // guards stopServing and handlers.Add
	stopServing bool       // new streams are reset
	handlers    sync.WaitGroup
}

// New returns a host that listens. It answers no peer until Run. A host that is never run must be closed.
func New(c Config) (*Host, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Urgent == nil {
		c.Urgent = func([]byte) bool { return false }
	}
	h := &Host{
		config:           c,
		log:              c.Log,
		reputations:      newReputations(),
		dialSlots:        make(chan struct{}, maxDials),
		dialBackSlots:    make(chan struct{}, maxDialBacks),
		proofSlots:       make(chan struct{}, maxProofs),
		addressesChanged: make(chan struct{}, 1),
	}
	h.ctx, h.closing = context.WithCancel(context.Background())
	h.links.init()
	h.inbound.init()
	h.slots.init()
	h.neighbours.init()
	h.reachability.init()
	h.mdnsPeers.init()
	self := peer.ID(wire.PeerIDOf(c.Key.Public().(ed25519.PublicKey)))
	bootstrap, err := c.bootstrap(self)
	if err != nil {
		return nil, err
	}
	h.firstPeers = append(bootstrap, c.known(self)...)
	h.gater = newGater(c, h.reputations, bootstrap)
	if err := h.setNetwork(c.Name, c.Descriptor); err != nil {
		return nil, err
	}
	if err := h.listen(); err != nil {
		return nil, err
	}
	return h, nil
}

// A ListenError says at which address the host cannot listen.
type ListenError struct {
	Address string // as written in Config.Listen
	Err     error
}

func (e *ListenError) Error() string { return fmt.Sprintf("listen at %s: %v", e.Address, e.Err) }

// Unwrap returns the system's error.
func (e *ListenError) Unwrap() error { return e.Err }

// portsFree returns the addresses of the configuration that the machine has. It fails if the machine has none of
// them, or if another process already listens at one of them. libp2p shares ports and would not notice that, and
// two nodes would then take each other's connections. If only some addresses are missing, that is no error, because
// many machines have no IPv6.
func (h *Host) portsFree() (listen []string, err error) {
	for _, text := range h.config.Listen {
		e := tryListen(text)
		switch {
		case e == nil:
			listen = append(listen, text)
		case errors.Is(e, syscall.EADDRNOTAVAIL), errors.Is(e, syscall.EAFNOSUPPORT):
			err = &ListenError{text, e}
			h.log.Info("this machine does not have a listen address", "address", text, "err", e)
		default:
			return nil, &ListenError{text, e}
		}
	}
	if len(listen) > 0 {
		err = nil
	}
	return listen, err
}

// tryListen listens at an address and closes the listener again.
func tryListen(text string) error {
	a, err := multiaddr.NewMultiaddr(text)
	if err != nil {
		return err
	}
	network, addr, err := manet.DialArgs(a)
	var l io.Closer
	switch {
	case err != nil:
		return nil //nolint:nilerr // libp2p has its own words for what it cannot do
	case strings.HasPrefix(network, "tcp"):
		l, err = net.Listen(network, addr)
	case strings.HasPrefix(network, "udp"):
		l, err = net.ListenPacket(network, addr)
	default:
		return nil
	}
	if err != nil {
		return err
	}
	return l.Close()
}

// listen creates the libp2p host.
func (h *Host) listen() error {
	var err error
	if h.config.Listen, err = h.portsFree(); err != nil {
		return err
	}
	options, err := h.options()
	if err != nil {
		return err
	}
	if h.host, err = golibp2p.New(options...); err != nil {
		err = errors.Join(err, h.conns.Close(), h.limits.Close())
		return fmt.Errorf("listen at %v: %w", h.config.Listen, err)
	}
	h.watchSlots()
	for class, id := range classProtocols {
		h.host.SetStreamHandler(id, h.handler(func(s network.Stream) { h.serveLink(s, env.Class(class)) }))
	}
	h.host.SetStreamHandler(dialBackProtocol, h.handler(h.serveDialBack))
	h.host.SetStreamHandler(nonceProtocol, h.handler(h.receiveNonce))
	return nil
}

// setNetwork stores the network's name and, if it is known, its descriptor.
func (h *Host) setNetwork(name string, descriptor []byte) error {
	if descriptor != nil {
		n, err := wire.ParseDescriptor(descriptor)
		if err != nil {
			return err
		}
		name = n.Name
		if n.PrivateAddresses {
			h.gater.allowPrivate.Store(true)
		}
	}
	h.side.Store(&wire.Side{Name: name, Descriptor: descriptor, Agent: h.config.Agent})
	return nil
}

// ID returns the host's peer id.
func (h *Host) ID() env.PeerID { return env.PeerID(h.host.ID()) }

// Peer returns the host's id with all addresses that the host knows of itself, whether or not a peer has reached it
// there.
func (h *Host) Peer() env.Peer {
	return peerOf(peer.AddrInfo{ID: h.host.ID(), Addrs: h.host.Addrs()})
}

// Addrs returns the addresses that the host knows of itself, in the form that --bootstrap takes. Addresses that
// most nodes can reach come first. Private addresses are included only where they are allowed, which may depend on
// the network's descriptor.
func (h *Host) Addrs() []string {
	var out []string
	for _, a := range publicFirst(h.host.Addrs()) {
		out = append(out, fmt.Sprintf("%v/p2p/%v", a, h.host.ID()))
	}
	return out
}

// publicFirst sorts public addresses and DNS names first, then private addresses, then loopback addresses.
func publicFirst(addrs []multiaddr.Multiaddr) []multiaddr.Multiaddr {
	rank := func(a multiaddr.Multiaddr) int {
		switch {
		case manet.IsIPLoopback(a):
			return 2
		case manet.IsPublicAddr(a):
			return 0
		}
		return 1
	}
	return slices.SortedStableFunc(slices.Values(addrs), func(a, b multiaddr.Multiaddr) int { return cmp.Compare(rank(a), rank(b)) })
}

// IPs returns the addresses at which the host may be found from outside, including its router's address.
func (h *Host) IPs() (ips []netip.Addr) {
	for _, a := range h.host.Addrs() {
		if ip, ok := ipOf(a); ok {
			ips = append(ips, ip)
		}
	}
	return ips
}

// ListenAddrs returns the multiaddrs at which the host listens, with the ports that the system chose.
func (h *Host) ListenAddrs() []string {
	var out []string
	for _, a := range h.host.Network().ListenAddresses() {
		out = append(out, a.String())
	}
	return out
}

// Run answers peers, looks for the first peers, tests whether other nodes can dial this host, and reports events
// until ctx ends. It then closes the host and returns the cause. A host runs only once.
func (h *Host) Run(ctx context.Context, e Events) error {
	defer h.Close()
	if h.side.Load().Descriptor == nil {
		return ErrNoNetwork
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(h.ctx, func() { cancel(ErrClosed) })
	defer stop()

	downs, err := h.host.EventBus().Subscribe(new(event.EvtPeerConnectednessChanged), eventbus.BufSize(1024))
	if err != nil {
		return fmt.Errorf("watch connections: %w", err)
	}
	discovery, err := h.newDiscovery()
	if err != nil {
		return errors.Join(err, downs.Close())
	}
	h.events.Store(&e)
	var parts sync.WaitGroup
	parts.Go(func() { h.watchConnections(ctx, downs, e.PeerDown) })
	parts.Go(func() { discovery.run(ctx, e.Found) })
	parts.Go(func() { h.proveReachable(ctx, e.Reachable) })
	parts.Go(func() { h.watchAddresses(ctx) })
	parts.Wait()
	return context.Cause(ctx)
}

// watchConnections reports connections that ended, and closes idle and useless connections.
func (h *Host) watchConnections(ctx context.Context, downs event.Subscription, down func(env.PeerID)) {
	defer downs.Close()
	tracker := idleTracker{conns: map[peer.ID]idleState{}}
	check := time.NewTicker(idleCheckInterval)
	defer check.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-check.C:
			h.closeIdle(&tracker, time.Now())
			// Some newcomers may not have become useful. The node is asked even if there is room, so that its last
			// answer is recent if the node is too busy to answer when room is needed.
			h.reviewInbound(1)
		case e := <-downs.Out():
			c, ok := e.(event.EvtPeerConnectednessChanged)
			if ok && c.Connectedness == network.NotConnected && !tracker.removed(c.Peer, time.Now()) && !h.justLostAddress() {
				down(env.PeerID(c.Peer))
			}
		}
	}
}

// Close lets links send the frames that wait, for at most closeTime, and then closes the host. It returns when all
// goroutines of the host except the one in Run have ended.
func (h *Host) Close() {
	h.closed.Do(func() {
		by := time.Now().Add(closeTime)
		h.closeBy.Store(&by)
		h.closing()
		h.links.wait()
		h.mdnsPeers.close()
		h.mu.Lock()
		h.stopServing = true
		h.mu.Unlock()
		if err := h.host.Close(); err != nil {
			h.log.Warn("libp2p host was not closed cleanly", "err", err)
		}
		h.handlers.Wait()
	})
}

// handler wraps a stream handler so that Close waits for it.
func (h *Host) handler(serve network.StreamHandler) network.StreamHandler {
	return func(s network.Stream) {
		if !h.beginWork() {
			_ = s.Reset()
			return
		}
		defer h.handlers.Done()
		serve(s)
	}
}

// beginWork counts a goroutine that Close has to wait for. It returns false if the host is closing.
func (h *Host) beginWork() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.stopServing {
		h.handlers.Add(1)
	}
	return !h.stopServing
}

// Blame counts a frame that breaks the protocol against the peer that sent it. A peer with 16 such frames in 10
// minutes is blocked for an hour. Blame does not block.
func (h *Host) Blame(id env.PeerID) {
	h.count.badFrames.Add(1)
	h.violation(peer.ID(id), "frames that break the protocol")
}

// violation counts a violation of the protocol, and blocks a peer that has too many.
func (h *Host) violation(p peer.ID, why string) {
	if h.reputations.violation(p, time.Now()) {
		h.log.Warn("peer blocked for an hour", "peer", p, "reason", why)
		h.background(func() {
			if err := h.host.Network().ClosePeer(p); err != nil {
				h.log.Debug("connection not closed cleanly", "peer", p, "err", err)
			}
		})
	}
}

// background runs a function that may block in a goroutine of its own, unless the host is closing.
func (h *Host) background(f func()) {
	if h.beginWork() {
		go func() {
			defer h.handlers.Done()
			f()
		}()
	}
}
