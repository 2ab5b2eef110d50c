package libp2p

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"time"

	golibp2p "github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/network"
	rcmgr "github.com/libp2p/go-libp2p/p2p/host/resource-manager"
	"github.com/libp2p/go-libp2p/p2p/muxer/yamux"
	"github.com/libp2p/go-libp2p/p2p/net/connmgr"
	"github.com/libp2p/go-libp2p/p2p/security/noise"
	libp2pquic "github.com/libp2p/go-libp2p/p2p/transport/quic"
	"github.com/libp2p/go-libp2p/p2p/transport/tcp"
	"github.com/libp2p/go-libp2p/x/rate"
)

const (
	// Above highConns, the connection manager trims to lowConns. It spares connections that an outgoing link uses,
	// and trims others with links last. The resource manager refuses connections above maxConns, which is more than
	// a leaf set and a table (120), the clients of a member (overlay's maxClients, 128), and neighbours in trees.
	// Peers may have opened almost all of them.
	lowConns, highConns = 96, 160
	connGrace           = time.Minute
	maxConns            = 768
	maxHandshakes       = 128 // connections whose handshake is in progress
	maxMemory           = 1 << 30
	maxFiles            = 2048

	// One public address may be a campus behind a router. libp2p's defaults of 8 connections and 12 new ones a
	// minute would be too few.
	connsPerAddress, newConnsPerSecond, newConnsBurst = 32, 1, 64
)

// unlimitedRanges holds the address ranges that many networks use at the same time.
var unlimitedRanges = mustParsePrefixes(
	"10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16",
	"::1/128", "fc00::/7", "fe80::/10",
)

func mustParsePrefixes(list ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, s := range list {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}

// transports returns the transports of a host: QUIC, and TCP with Noise and yamux.
func transports() []golibp2p.Option {
	return []golibp2p.Option{
		golibp2p.Transport(libp2pquic.NewTransport),
		golibp2p.Transport(tcp.NewTCPTransport),
		golibp2p.Security(noise.ID, noise.New),
		golibp2p.Muxer(yamux.ID, yamux.DefaultTransport),
		golibp2p.DisableRelay(),
		golibp2p.DisableMetrics(), // Stats has the necessary counters
		golibp2p.Ping(false),
	}
}

// options returns the options of the libp2p host.
func (h *Host) options() ([]golibp2p.Option, error) {
	key, _, err := crypto.KeyPairFromStdKey(&h.config.Key)
	if err != nil {
		return nil, fmt.Errorf("identity: %w", err)
	}
	if h.conns, err = connmgr.NewConnManager(lowConns, highConns, connmgr.WithGracePeriod(connGrace)); err != nil {
		return nil, fmt.Errorf("connection limits: %w", err)
	}
	if h.limits, err = resources(); err != nil {
		return nil, fmt.Errorf("resource limits: %w", errors.Join(err, h.conns.Close()))
	}
	options := append(transports(),
		golibp2p.Identity(key),
		golibp2p.UserAgent(h.config.Agent),
		golibp2p.ListenAddrStrings(h.config.Listen...),
		golibp2p.AddrsFactory(h.gater.filter),
		golibp2p.ConnectionGater(h.gater),
		golibp2p.ResourceManager(h.limits),
		golibp2p.ConnectionManager(h.conns),
	)
	if len(h.config.Listen) == 0 {
		options = append(options, golibp2p.NoListenAddrs)
	}
	if h.config.PortMap {
		options = append(options, golibp2p.NATPortMap())
	}
	return options, nil
}

// resources bounds the resources that peers can make the host hold.
func resources() (network.ResourceManager, error) {
	limits := rcmgr.DefaultLimits // a copy
	golibp2p.SetDefaultServiceLimits(&limits)
	// A newer stream replaces the older one, so for a moment there are two.
	link := rcmgr.BaseLimit{StreamsInbound: 4, StreamsOutbound: 4, Streams: 8, Memory: 1 << 20}
	for _, id := range classProtocols {
		limits.AddProtocolPeerLimit(id, link, rcmgr.BaseLimitIncrease{})
	}
	rare := rcmgr.BaseLimit{StreamsInbound: 2, StreamsOutbound: 2, Streams: 4, Memory: 64 << 10}
	limits.AddProtocolPeerLimit(dialBackProtocol, rare, rcmgr.BaseLimitIncrease{})
	limits.AddProtocolPeerLimit(nonceProtocol, rare, rcmgr.BaseLimitIncrease{})

	// Local ranges have no limits by address: connections from there come from a test network, or from a proxy that
	// stands for all its users. When slots are scarce, they are limited as all others are (slots.go).
	var free4, free6 []rcmgr.NetworkPrefixLimit
	var freely []rate.PrefixLimit
	for _, p := range unlimitedRanges {
		limit := rcmgr.NetworkPrefixLimit{Network: p, ConnCount: math.MaxInt}
		if p.Addr().Is4() {
			free4 = append(free4, limit)
		} else {
			free6 = append(free6, limit)
		}
		freely = append(freely, rate.PrefixLimit{Prefix: p})
	}
	perAddress := func(bits, times int) (rcmgr.ConnLimitPerSubnet, rate.SubnetLimit) {
		return rcmgr.ConnLimitPerSubnet{PrefixLength: bits, ConnCount: times * connsPerAddress},
			rate.SubnetLimit{PrefixLength: bits, Limit: rate.Limit{RPS: float64(times * newConnsPerSecond), Burst: times * newConnsBurst}}
	}
	conns4, rate4 := perAddress(32, 1)
	conns24, rate24 := perAddress(24, 2)
	conns56, rate56 := perAddress(56, 1)
	conns48, rate48 := perAddress(48, 4)
	conns := func(most int) rcmgr.ResourceLimits {
		n := rcmgr.LimitVal(most)
		return rcmgr.ResourceLimits{Conns: n, ConnsInbound: n, ConnsOutbound: n}
	}
	concrete := rcmgr.PartialLimitConfig{System: conns(maxConns), Transient: conns(maxHandshakes)}.
		Build(limits.Scale(maxMemory, maxFiles))
	return rcmgr.NewResourceManager(rcmgr.NewFixedLimiter(concrete),
		rcmgr.WithMetricsDisabled(),
		rcmgr.WithNetworkPrefixLimit(free4, free6),
		rcmgr.WithLimitPerSubnet([]rcmgr.ConnLimitPerSubnet{conns4, conns24}, []rcmgr.ConnLimitPerSubnet{conns56, conns48}),
		rcmgr.WithConnRateLimiters(&rate.Limiter{
			NetworkPrefixLimits: freely,
			SubnetRateLimiter: rate.SubnetLimiter{
				IPv4SubnetLimits: []rate.SubnetLimit{rate4, rate24},
				IPv6SubnetLimits: []rate.SubnetLimit{rate56, rate48},
				GracePeriod:      time.Minute,
			},
		}),
	)
}
