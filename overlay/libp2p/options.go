package libp2p

import (
	"errors"
	"fmt"
	"math"
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
	// The connection manager trims to lowConns, sparing those a link goes out
	// to, and others with links till last, when there are more than highConns. The resource manager refuses those over
	// maxConns: a leaf and a table (120), as many clients as a member takes
	// (overlay's maxClients, 128), and neighbours in trees. All but a few may
	// have been opened by the others.
	lowConns, highConns = 96, 160
	connGrace           = time.Minute
	maxConns            = 768
	maxHandshakes       = 128 // connections that are still being made
	maxMemory           = 1 << 30
	maxFiles            = 2048

	// One public address may be a campus behind a router: libp2p's own 8
	// connections, 12 new ones a minute, would be too few.
	connsPerAddress, newConnsPerSecond, newConnsBurst = 32, 1, 64
)

// localRanges are those of which everybody may have a copy at home.
var unlimitedRanges = mustParsePrefixes(
	"10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16",
	"::1/128", "fc00::/7", "fe80::/10",
)

// transports is what hosts speak: QUIC, and TCP with Noise and yamux.
func transports() []golibp2p.Option {
	return []golibp2p.Option{
		golibp2p.Transport(libp2pquic.NewTransport),
		golibp2p.Transport(tcp.NewTCPTransport),
		golibp2p.Security(noise.ID, noise.New),
		golibp2p.Muxer(yamux.ID, yamux.DefaultTransport),
		golibp2p.DisableRelay(),
		golibp2p.DisableMetrics(), // Stats counts what matters here
		golibp2p.Ping(false),
	}
}

// options are those of the host itself.
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

// resources bounds what peers can make the host hold.
func resources() (network.ResourceManager, error) {
	limits := rcmgr.DefaultLimits // a copy
	golibp2p.SetDefaultServiceLimits(&limits)
	// A newer stream replaces the older; for a moment there are two.
	link := rcmgr.BaseLimit{StreamsInbound: 4, StreamsOutbound: 4, Streams: 8, Memory: 1 << 20}
	for _, id := range classProtocols {
		limits.AddProtocolPeerLimit(id, link, rcmgr.BaseLimitIncrease{})
	}
	rare := rcmgr.BaseLimit{StreamsInbound: 2, StreamsOutbound: 2, Streams: 4, Memory: 64 << 10}
	limits.AddProtocolPeerLimit(dialBackProtocol, rare, rcmgr.BaseLimitIncrease{})
	limits.AddProtocolPeerLimit(nonceProtocol, rare, rcmgr.BaseLimitIncrease{})

	// Local ranges are free of limits by address: what arrives from there is
	// a laboratory, or a proxy that stands for everybody. In a crowded host they
	// share as all others do (slots.go).
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
