package libp2p

import (
	"context"
	"fmt"
	"sync"
	"time"

	dht "github.com/libp2p/go-libp2p-kad-dht"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/libp2p/go-libp2p/p2p/discovery/mdns"
	"github.com/libp2p/go-libp2p/p2p/discovery/routing"

	"tidings/internal/env"
	"tidings/internal/wire"
)

const (
	// A host searches for peers after firstSearchDelay, then after twice as long each time, up to searchInterval.
	// When it had at least fewPeers connections and lost them, it starts again with firstSearchDelay.
	firstSearchDelay = time.Second
	searchInterval   = 10 * time.Minute
	fewPeers         = 8

	// aloneSearchInterval bounds the wait of a host without any connection.
	aloneSearchInterval = time.Minute

	// searchTime is the timeout for one search.
	searchTime = time.Minute

	// advertiseInterval is the time after which a provider record is renewed. libp2p keeps records for 3 hours.
	advertiseInterval = 150 * time.Minute

	// maxMDNSPeers bounds the peers remembered from mDNS.
	maxMDNSPeers = 64

	mdnsService = "_tidings._udp"
)

// A discovery finds the first peers of a node. The overlay keeps its own list of members.
type discovery struct {
	host         *Host
	dht          *dht.IpfsDHT
	rendezvous   string // key of the provider records that reachable hosts publish
	advertisedAt time.Time
}

// newDiscovery joins the network's kad-dht, which keeps provider records and no values, in memory.
func (h *Host) newDiscovery() (*discovery, error) {
	side := h.side.Load()
	mode := dht.ModeAuto // follows the reachability that prover.publish reports
	switch {
	case h.config.RefuseInbound:
		mode = dht.ModeClient
	case h.config.Founder || h.gater.allowPrivate.Load():
		mode = dht.ModeServer
	}
	d, err := dht.New(h.host,
		dht.ProtocolPrefix(protocol.ID("/tidings/"+side.Name)),
		dht.Mode(mode),
		// The routing table contains the peers of the overlay's links, whose kad-dht ids are spread evenly. A
		// refresh at the start and every 10 minutes would only cost connections.
		dht.DisableAutoRefresh(),
		dht.DisableValues(),
		dht.AddressFilter(h.gater.filter),
		dht.BootstrapPeersFunc(h.candidates),
	)
	if err != nil {
		return nil, fmt.Errorf("kad-dht: %w", err)
	}
	name := fmt.Sprintf("tidings/overlay/1/%s/%x", side.Name, wire.HashOf(side.Descriptor))
	return &discovery{host: h, dht: d, rendezvous: name}, nil
}

// run reports peers until ctx ends.
func (d *discovery) run(ctx context.Context, found func(env.Peer)) {
	defer func() {
		if err := d.dht.Close(); err != nil {
			d.host.log.Warn("kad-dht was not closed cleanly", "err", err)
		}
	}()
	d.host.startLocal()
	d.report(found, d.host.candidates()) // Join may have connected to them already
	wait, many := firstSearchDelay, false
	for {
		connected := len(d.host.host.Network().Peers())
		if connected == 0 {
			d.report(found, d.host.candidates())
			wait = min(wait, aloneSearchInterval)
		}
		switch {
		case connected >= fewPeers:
			wait, many = searchInterval, true
		case many:
			wait, many = firstSearchDelay, false
		}
		timer := time.NewTimer(jitter(wait))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-d.host.mdnsPeers.added:
			d.report(found, d.host.mdnsPeers.list())
		case <-timer.C:
			d.search(ctx, found)
			wait = min(2*wait, searchInterval)
		}
		timer.Stop()
	}
}

// search looks up peers in the kad-dht, and advertises this host if it is reachable.
func (d *discovery) search(ctx context.Context, found func(env.Peer)) {
	if d.dht.RoutingTable().Size() == 0 {
		return // there is no peer to ask
	}
	ctx, cancel := context.WithTimeout(ctx, searchTime)
	defer cancel()
	rendezvous := routing.NewRoutingDiscovery(d.dht)
	if time.Since(d.advertisedAt) > advertiseInterval && len(d.host.reachability.addrs()) > 0 {
		if _, err := rendezvous.Advertise(ctx, d.rendezvous); err != nil {
			d.host.log.Debug("this node could not be advertised in the DHT", "err", err)
		} else {
			d.advertisedAt = time.Now()
		}
	}
	peers, err := rendezvous.FindPeers(ctx, d.rendezvous)
	if err != nil {
		d.host.log.Debug("no peers were found in the DHT", "err", err)
		return
	}
	for info := range peers {
		d.report(found, []peer.AddrInfo{info})
	}
}

// report passes on peers that may be dialled.
func (d *discovery) report(found func(env.Peer), infos []peer.AddrInfo) {
	for _, info := range infos {
		if info.ID == d.host.host.ID() || d.host.reputations.isRefused(info.ID, time.Now()) {
			continue
		}
		if len(info.Addrs) > 0 {
			found(peerOf(info))
		}
	}
}

// candidates returns the peers to start with: those of Config.Bootstrap, Config.Known and mDNS.
func (h *Host) candidates() []peer.AddrInfo {
	return append(h.firstPeers[:len(h.firstPeers):len(h.firstPeers)], h.mdnsPeers.list()...)
}

// mdnsPeers finds peers by mDNS. It implements [mdns.Notifee].
type mdnsPeers struct {
	added chan struct{} // holds one token if a peer was found

	mu      sync.Mutex // guards the fields below
	service mdns.Service
	closed  bool
	peers   map[peer.ID]peer.AddrInfo
}

func (l *mdnsPeers) init() {
	l.added = make(chan struct{}, 1)
	l.peers = map[peer.ID]peer.AddrInfo{}
}

// startLocal starts mDNS if the configuration asks for it and it is not running.
func (h *Host) startLocal() {
	l := &h.mdnsPeers
	l.mu.Lock()
	defer l.mu.Unlock()
	if !h.config.MDNS || l.closed || l.service != nil {
		return
	}
	service := mdns.NewMdnsService(h.host, mdnsService, l)
	if err := service.Start(); err != nil {
		h.log.Warn("multicast DNS is not available", "err", err)
		return
	}
	l.service = service
}

// HandlePeerFound records a peer found in the local network.
func (l *mdnsPeers) HandlePeerFound(info peer.AddrInfo) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, known := l.peers[info.ID]; !known && len(l.peers) >= maxMDNSPeers {
		return
	}
	l.peers[info.ID] = info
	signal(l.added)
}

func (l *mdnsPeers) list() []peer.AddrInfo {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []peer.AddrInfo
	for _, info := range l.peers {
		out = append(out, info)
	}
	return out
}

func (l *mdnsPeers) close() {
	l.mu.Lock()
	service := l.service
	l.service, l.closed = nil, true
	l.mu.Unlock()
	if service != nil {
		_ = service.Close() // never fails
	}
}
