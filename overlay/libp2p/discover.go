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
	// A host looks for peers after lookFirst, twice as long each time up to
	// lookEvery. When it has lost all but fewPeers, it begins anew.
	firstSearchDelay = time.Second
	searchInterval   = 10 * time.Minute
	fewPeers         = 8

	// lookAlone bounds that wait for a host without any connection.
	aloneSearchInterval = time.Minute

	// lookTime bounds one look.
	searchTime = time.Minute

	// A provider record is renewed before libp2p's 3 hours are over.
	advertiseInterval = 150 * time.Minute

	// maxLocal bounds the peers remembered from mDNS.
	maxMDNSPeers = 64

	mdnsService = "_tidings._udp"
)

// A discovery finds peers to begin with. What the overlay knows of its peers is
// no concern of it.
type discovery struct {
	host         *Host
	dht          *dht.IpfsDHT
	rendezvous   string // provided by those who can be dialled
	advertisedAt time.Time
}

// newDiscovery joins the network's kad-dht. It holds provider records and no
// values, in memory.
func (h *Host) newDiscovery() (*discovery, error) {
	side := h.side.Load()
	mode := dht.ModeAuto // told by prover.publish
	switch {
	case h.config.RefuseInbound:
		mode = dht.ModeClient
	case h.config.Founder || h.gater.allowPrivate.Load():
		mode = dht.ModeServer
	}
	d, err := dht.New(h.host,
		dht.ProtocolPrefix(protocol.ID("/tidings/"+side.Name)),
		dht.Mode(mode),
		// It knows those the overlay is linked to, whose kad ids lie anywhere: no need to
		// look for more, each of whom costs a connection, at the start and every 10 minutes.
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
	d.report(found, d.host.candidates()) // Join may have connected to them
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

// look asks the kad-dht who else is there, and makes itself known.
func (d *discovery) search(ctx context.Context, found func(env.Peer)) {
	if d.dht.RoutingTable().Size() == 0 {
		return // nobody to ask
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

// candidates are the peers to begin with: typed, known, and seen in the local
// network.
func (h *Host) candidates() []peer.AddrInfo {
	return append(h.firstPeers[:len(h.firstPeers):len(h.firstPeers)], h.mdnsPeers.list()...)
}

// local finds peers by mDNS. It is a [mdns.Notifee].
type mdnsPeers struct {
	added chan struct{} // holds one token if a peer was seen

	mu      sync.Mutex // guards what follows
	service mdns.Service
	closed  bool
	peers   map[peer.ID]peer.AddrInfo
}

func (l *mdnsPeers) init() {
	l.added = make(chan struct{}, 1)
	l.peers = map[peer.ID]peer.AddrInfo{}
}

// startLocal begins to look and to answer, if the operator wishes and it has
// not begun.
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

// HandlePeerFound takes a peer seen in the local network.
func (l *mdnsPeers) HandlePeerFound(info peer.AddrInfo) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, known := l.peers[info.ID]; !known && len(l.peers) >= maxMDNSPeers {
		return
	}
	l.peers[info.ID] = info
	select {
	case l.added <- struct{}{}:
	default:
	}
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
		_ = service.Close() // which never fails
	}
}
