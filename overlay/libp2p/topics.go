package libp2p

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	pubsub "github.com/libp2p/go-libp2p-pubsub"
	pb "github.com/libp2p/go-libp2p-pubsub/pb"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/peerstore"

	"tidings/internal/env"
	"tidings/internal/wire"
)

const (
	// maxTopics bounds the topics of a host, and the topics that one peer may announce.
	maxTopics = 64
	// topicQueue bounds the frames of one topic that wait to be published. Further frames are dropped and counted.
	// validationTime is how long the node may take to validate a frame.
	topicQueue     = 256
	validationTime = 2 * time.Second
	// topicSeenTime is how long a frame is remembered, so that copies are recognised.
	topicSeenTime = 10 * time.Minute
	// topicDialInterval is the time between two checks for peers of a topic that are not connected. A peer that
	// could not be dialled is tried again after topicDialBackoff.
	topicDialInterval = 5 * time.Second
	topicDialBackoff  = 30 * time.Second
	topicTag          = "topic"
)

// A Validator judges a frame that arrived on a topic. It is called from many goroutines at once, and waits for the
// node's answer until ctx ends.
type Validator func(ctx context.Context, from env.PeerID, frame []byte) env.Verdict

// Topics manages a host's GossipSub topics, which serve few groups with many frames each. A host announces its
// topics to all connected peers. Frames are sent only to peers that have joined the topic and are never relayed by
// others, so a node stays connected to some of the topic's peers. GossipSub does not sign the frames: the node
// verifies their origin and content.
type Topics struct {
	host   *Host
	prefix string // prefix of the network's topic names, so that two networks share no topic

	mu         sync.Mutex // guards the fields below
	ps         *pubsub.PubSub
	joined     map[string]*topic
	leaving    map[string]<-chan struct{} // topics that were left, each with a channel that is closed when the topic may be joined again
	peers      map[peer.ID]peer.AddrInfo  // the peers of all topics
	connecting bool                       // keepConnected is running
	wake       chan struct{}
}

// A topic is a topic that the host has joined.
type topic struct {
	validate atomic.Pointer[Validator]
	peers    []env.Peer
	outgoing chan []byte
	end      context.CancelFunc
	ended    chan struct{}
}

// Topics returns the host's topics. The network must be known.
func (h *Host) Topics() *Topics {
	h.topics.once.Do(func() {
		hash := wire.HashOf(h.side.Load().Descriptor)
		h.topics.topics.Store(&Topics{
			host: h, prefix: "/tidings/" + hex.EncodeToString(hash[:8]) + "/",
			joined: map[string]*topic{}, leaving: map[string]<-chan struct{}{}, peers: map[peer.ID]peer.AddrInfo{}, wake: make(chan struct{}, 1),
		})
	})
	return h.topics.topics.Load()
}

// lazyTopics creates the Topics on first use.
type lazyTopics struct {
	once   sync.Once
	topics atomic.Pointer[Topics]
}

// Join joins a topic; see env.Topics.
func (t *Topics) Join(name string, peers []env.Peer, validate Validator) {
	t.mu.Lock()
	defer t.mu.Unlock()
	joined := t.joined[name]
	if joined == nil {
		if len(t.joined) >= maxTopics {
			t.host.log.Error("too many topics to join another one", "topic", name)
			return
		}
		ctx, end := context.WithCancel(t.host.ctx)
		joined = &topic{outgoing: make(chan []byte, topicQueue), end: end, ended: make(chan struct{})}
		t.joined[name] = joined
		before := t.leaving[name]
		delete(t.leaving, name)
		t.host.background(func() {
			defer close(joined.ended)
			if before != nil {
				<-before
			}
			t.run(ctx, t.prefix+name, joined)
		})
		if !t.connecting {
			t.connecting = true
			t.host.background(t.keepConnected)
		}
	}
	joined.validate.Store(&validate)
	joined.peers = peers
	t.updatePeers()
}

// Leave leaves a topic; see env.Topics.
func (t *Topics) Leave(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if joined := t.joined[name]; joined != nil {
		joined.end()
		t.leaving[name] = joined.ended
		delete(t.joined, name)
		t.updatePeers()
	}
}

// Publish sends a frame to all members of a topic; see env.Topics.
func (t *Topics) Publish(name string, frame []byte) {
	if len(frame) > env.MaxTopicFrame {
		panic(fmt.Sprintf("libp2p: topic frame of %d bytes", len(frame)))
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	joined := t.joined[name]
	if joined == nil {
		return
	}
	select {
	case joined.outgoing <- frame:
		t.host.count.published.Add(1)
	default:
		t.host.count.unpublished.Add(1)
	}
}

// updatePeers computes the peers to which the host stays connected. The caller holds mu.
func (t *Topics) updatePeers() {
	before := t.peers
	t.peers = map[peer.ID]peer.AddrInfo{}
	for _, joined := range t.joined {
		for _, p := range joined.peers {
			if info, ok := infoOf(p); ok && info.ID != t.host.host.ID() {
				t.peers[info.ID] = info
				t.host.conns.Protect(info.ID, topicTag)
			}
		}
	}
	for p := range before {
		if _, still := t.peers[p]; !still {
			t.host.conns.Unprotect(p, topicTag)
		}
	}
	signal(t.wake)
}

// keepConnected dials the topics' peers again when they are not connected, until the host closes.
func (t *Topics) keepConnected() {
	dialledAt := map[peer.ID]time.Time{}
	tick := time.NewTicker(topicDialInterval)
	defer tick.Stop()
	for {
		t.mu.Lock()
		peers := maps.Clone(t.peers)
		t.mu.Unlock()
		now := time.Now()
		for p, info := range peers {
			if now.Sub(dialledAt[p]) < topicDialBackoff || len(t.host.host.Network().ConnsToPeer(p)) > 0 || t.host.reputations.isRefused(p, now) {
				continue
			}
			dialledAt[p] = now
			t.host.background(func() { t.dial(info) })
		}
		maps.DeleteFunc(dialledAt, func(p peer.ID, at time.Time) bool { return now.Sub(at) > topicDialBackoff })
		select {
		case <-t.host.ctx.Done():
			return
		case <-tick.C:
		case <-t.wake:
		}
	}
}

func (t *Topics) dial(info peer.AddrInfo) {
	select {
	case t.host.dialSlots <- struct{}{}:
		defer func() { <-t.host.dialSlots }()
	case <-t.host.ctx.Done():
		return
	}
	ctx, cancel := context.WithTimeout(t.host.ctx, dialTime)
	defer cancel()
	t.host.host.Peerstore().AddAddrs(info.ID, info.Addrs, peerstore.AddressTTL)
	if err := t.host.host.Connect(ctx, info); err != nil {
		t.host.log.Debug("peer of a topic was not reached", "peer", info.ID, "err", err)
	}
}

// run takes part in a topic until ctx ends.
func (t *Topics) run(ctx context.Context, name string, j *topic) {
	ps, err := t.pubsub()
	if err != nil {
		t.host.log.Error("topic could not be joined", "topic", name, "err", err)
		return
	}
	err = ps.RegisterTopicValidator(name, func(ctx context.Context, from peer.ID, m *pubsub.Message) pubsub.ValidationResult {
		return t.validate(ctx, j, from, m.Data)
	}, pubsub.WithValidatorTimeout(validationTime), pubsub.WithValidatorConcurrency(256))
	if err != nil {
		t.host.log.Error("topic could not be joined", "topic", name, "err", err)
		return
	}
	defer func() {
		if err := ps.UnregisterTopicValidator(name); err != nil && t.host.ctx.Err() == nil {
			t.host.log.Debug("topic was not left cleanly", "topic", name, "err", err)
		}
	}()
	joined, err := ps.Join(name)
	if err != nil {
		t.host.log.Error("topic could not be joined", "topic", name, "err", err)
		return
	}
	defer joined.Close()
	relay, err := joined.Relay() // received frames pass the validator and are forwarded
	if err != nil {
		t.host.log.Error("topic could not be joined", "topic", name, "err", err)
		return
	}
	defer relay()
	for {
		select {
		case <-ctx.Done():
			return
		case frame := <-j.outgoing:
			if err := joined.Publish(ctx, frame); err != nil && ctx.Err() == nil {
				t.host.count.unpublished.Add(1)
				t.host.log.Debug("frame was not published to a topic", "topic", name, "err", err)
			}
		}
	}
}

// validate asks the node whether a frame is to be forwarded.
func (t *Topics) validate(ctx context.Context, joined *topic, from peer.ID, frame []byte) pubsub.ValidationResult {
	if from == t.host.host.ID() {
		return pubsub.ValidationAccept
	}
	t.host.count.overheard.Add(1)
	verdict := env.Ignore
	if len(frame) <= env.MaxTopicFrame {
		verdict = (*joined.validate.Load())(ctx, env.PeerID(from), frame)
	}
	if ctx.Err() != nil {
		t.host.count.unjudged.Add(1)
	}
	switch verdict {
	case env.Accept:
		return pubsub.ValidationAccept
	case env.Reject:
		t.host.count.badFrames.Add(1)
		t.host.violation(from, "frames of a topic that break the protocol")
		return pubsub.ValidationReject
	}
	return pubsub.ValidationIgnore
}

// pubsub returns the host's GossipSub instance, which ends with the host.
func (t *Topics) pubsub() (*pubsub.PubSub, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ps != nil {
		return t.ps, nil
	}
	filter := pubsub.NewRegexpSubscriptionFilter(regexp.MustCompile("^" + regexp.QuoteMeta(t.prefix)))
	ps, err := pubsub.NewGossipSub(t.host.ctx, t.host.host,
		pubsub.WithMessageSignaturePolicy(pubsub.StrictNoSign), pubsub.WithNoAuthor(),
		pubsub.WithMessageIdFn(func(m *pb.Message) string { s := sha256.Sum256(m.Data); return string(s[:20]) }),
		pubsub.WithMaxMessageSize(env.MaxTopicFrame+64<<10),
		pubsub.WithSeenMessagesTTL(topicSeenTime),
		pubsub.WithPeerOutboundQueueSize(512), pubsub.WithValidateQueueSize(256),
		pubsub.WithSubscriptionFilter(pubsub.WrapLimitSubscriptionFilter(filter, maxTopics)),
		pubsub.WithPeerFilter(func(p peer.ID, _ string) bool { return !t.host.reputations.isBlocked(p, time.Now()) }),
		pubsub.WithLogger(t.host.log), pubsub.WithRPCLogger(t.host.log),
	)
	if err == nil {
		t.ps = ps
	}
	return ps, err
}

// connectedPeers returns the peers whose connection serves a topic, whichever side dialled.
func (t *Topics) connectedPeers() map[peer.ID]bool {
	t.mu.Lock()
	peers := map[peer.ID]bool{}
	for p := range t.peers {
		peers[p] = true
	}
	names, ps := slices.Collect(maps.Keys(t.joined)), t.ps
	t.mu.Unlock()
	if ps == nil {
		return peers
	}
	for _, name := range names {
		for _, p := range ps.ListPeers(t.prefix + name) {
			peers[p] = true
		}
	}
	return peers
}
