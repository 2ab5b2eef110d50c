// Package gossip is a host with GossipSub and nothing else, to which the laboratory compares the overlay's trees.
// Nodes do not use it: their few topics are those of package libp2p. The settings are the same as there, except
// that a peer of this package may join any number of topics, has no connection limits, and dials no peer by itself.
//
//	p, err := gossip.New(key, listen, validate)
//	err = p.Connect(ctx, other.Addrs()...)
//	publish, err := p.Join("news")
//	err = publish(ctx, item)
//
// The package does not decide which peers are connected, or what items mean.
package gossip

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"time"

	golibp2p "github.com/libp2p/go-libp2p"
	pubsub "github.com/libp2p/go-libp2p-pubsub"
	pb "github.com/libp2p/go-libp2p-pubsub/pb"
	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	libp2pquic "github.com/libp2p/go-libp2p/p2p/transport/quic"
	"github.com/multiformats/go-multiaddr"
)

const (
	// Queues and memory are as large as those of package libp2p's topics.
	outboundQueue = 512
	validateQueue = 256
	seenTime      = 10 * time.Minute

	// maxMessage is the size of the largest message in bytes, pubsub's own default.
	maxMessage = 1 << 20
)

// A Peer is one host. Its methods may be called from any goroutine.
type Peer struct {
	host   host.Host
	ps     *pubsub.PubSub
	end    context.CancelFunc
	counts counts
}

// New returns a peer that listens at a QUIC multiaddr. take is called once for each item of the joined topics, from
// many goroutines at once, and reports whether the item is valid and may be forwarded.
func New(key ed25519.PrivateKey, listen string, take func(item []byte) bool) (*Peer, error) {
	identity, _, err := crypto.KeyPairFromStdKey(&key)
	if err != nil {
		return nil, fmt.Errorf("identity of a peer: %w", err)
	}
	p := &Peer{}
	p.host, err = golibp2p.New(
		golibp2p.Identity(identity),
		golibp2p.ListenAddrStrings(listen),
		golibp2p.Transport(libp2pquic.NewTransport),
		golibp2p.ResourceManager(&network.NullResourceManager{}),
		golibp2p.DisableRelay(),
		golibp2p.DisableMetrics(),
		golibp2p.Ping(false),
	)
	if err != nil {
		return nil, fmt.Errorf("listen at %s: %w", listen, err)
	}
	ctx, end := context.WithCancel(context.Background())
	p.end = end
	silent := slog.New(slog.DiscardHandler)
	p.ps, err = pubsub.NewGossipSub(ctx, p.host,
		pubsub.WithMessageSignaturePolicy(pubsub.StrictNoSign), pubsub.WithNoAuthor(),
		pubsub.WithMessageIdFn(func(m *pb.Message) string { s := sha256.Sum256(m.Data); return string(s[:20]) }),
		pubsub.WithMaxMessageSize(maxMessage),
		pubsub.WithSeenMessagesTTL(seenTime),
		pubsub.WithPeerOutboundQueueSize(outboundQueue), pubsub.WithValidateQueueSize(validateQueue),
		pubsub.WithDefaultValidator(func(_ context.Context, from peer.ID, m *pubsub.Message) pubsub.ValidationResult {
			if from != p.host.ID() && !take(m.Data) {
				return pubsub.ValidationReject
			}
			return pubsub.ValidationAccept
		}),
		pubsub.WithRawTracer(&p.counts),
		pubsub.WithLogger(silent), pubsub.WithRPCLogger(silent),
	)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start GossipSub: %w", err), p.Close())
	}
	return p, nil
}

// Addrs returns the addresses at which others can connect to the peer.
func (p *Peer) Addrs() (addrs []string) {
	for _, a := range p.host.Addrs() {
		addrs = append(addrs, fmt.Sprintf("%v/p2p/%v", a, p.host.ID()))
	}
	return addrs
}

// Connect connects the peer to another one.
func (p *Peer) Connect(ctx context.Context, addrs ...string) error {
	var at []multiaddr.Multiaddr
	for _, s := range addrs {
		a, err := multiaddr.NewMultiaddr(s)
		if err != nil {
			return fmt.Errorf("address of a peer %q: %w", s, err)
		}
		at = append(at, a)
	}
	infos, err := peer.AddrInfosFromP2pAddrs(at...)
	if err != nil {
		return fmt.Errorf("addresses of a peer: %w", err)
	}
	for _, info := range infos {
		if err := p.host.Connect(ctx, info); err != nil {
			return fmt.Errorf("connect to a peer: %w", err)
		}
	}
	return nil
}

// Join joins a topic, and returns the function that publishes to it.
func (p *Peer) Join(topic string) (publish func(ctx context.Context, item []byte) error, err error) {
	t, err := p.ps.Join(topic)
	if err != nil {
		return nil, fmt.Errorf("join topic %s: %w", topic, err)
	}
	if _, err := t.Relay(); err != nil { // ends with the peer
		return nil, fmt.Errorf("relay topic %s: %w", topic, err)
	}
	return func(ctx context.Context, item []byte) error {
		if err := t.Publish(ctx, item); err != nil {
			return fmt.Errorf("publish to topic %s: %w", topic, err)
		}
		return nil
	}, nil
}

// Close closes the peer.
func (p *Peer) Close() error {
	p.end()
	if err := p.host.Close(); err != nil {
		return fmt.Errorf("close a peer: %w", err)
	}
	return nil
}
