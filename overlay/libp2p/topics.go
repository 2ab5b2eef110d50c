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
	// maxTopics bounds the topics of a host, and those of which a peer may say that it
	// takes part.
	maxTopics = 64
	// topicQueue is how many frames of one topic wait to be published; further ones are
	// dropped, and counted. verdictTime is how long the node may take to judge one.
	topicQueue     = 256
	validationTime = 2 * time.Second
	// topicSeen is how long a frame is known again.
	topicSeenTime = 10 * time.Minute
	// mateAgain is the time between two looks for peers of a topic that are not
	// connected; who could not be dialled is left alone for mateRest.
	topicDialInterval = 5 * time.Second
	topicDialBackoff  = 30 * time.Second
	topicTag          = "topic"
)

// Hear judges a frame that came by a topic. It is called from many goroutines at once,
// and waits for its node as long as ctx lasts.
type Validator func(ctx context.Context, from env.PeerID, frame []byte) env.Verdict

// Topics are a host's parts in topics: GossipSub, for few groups with many frames.
// Who takes part in one is said to all connected peers; frames go to those who do, and
// never by way of others, so that a node keeps in touch with some. Frames have no
// signature of GossipSub's: whose they are, and whether they are right, the node says.
type Topics struct {
	host   *Host
	prefix string // of the network's topics: two networks share none

	mu         sync.Mutex // guards what follows
	ps         *pubsub.PubSub
	joined     map[string]*topic
	leaving    map[string]<-chan struct{} // closed when a topic that was left may be joined again
	peers      map[peer.ID]peer.AddrInfo  // of all topics
	connecting bool                       // somebody keeps in touch with them
	wake       chan struct{}
}

// A topic is one that the host takes part in.
type topic struct {
	validate atomic.Pointer[Validator]
	peers    []env.Peer
	outgoing chan []byte
	end      context.CancelFunc
	ended    chan struct{}
}

// Topics returns the host's topics. The network has to be known.
func (h *Host) Topics() *Topics {
	h.topics.once.Do(func() {
		hash := wire.HashOf(h.side.Load().Descriptor)
		h.topics.of.Store(&Topics{
			host: h, prefix: "/tidings/" + hex.EncodeToString(hash[:8]) + "/",
			joined: map[string]*topic{}, leaving: map[string]<-chan struct{}{}, peers: map[peer.ID]peer.AddrInfo{}, wake: make(chan struct{}, 1),
		})
	})
	return h.topics.of.Load()
}

// hostTopics makes them when they are first asked for.
type lazyTopics struct {
	once sync.Once
	of   atomic.Pointer[Topics]
}

// Join takes part in a topic; see env.Topics.
func (t *Topics) Join(name string, peers []env.Peer, hear Validator) {
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
	joined.validate.Store(&hear)
	joined.peers = peers
	t.updatePeers()
}

// Leave ends a Join; see env.Topics.
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

// Publish sends a frame to those who take part in a topic; see env.Topics.
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

// gather notes with whom the host keeps in touch. The caller holds mu.
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
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// keep keeps in touch with the mates until the host closes.
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
	relay, err := joined.Relay() // what comes is taken by the validator, and passed on
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

// judge asks the node what becomes of a frame.
func (t *Topics) validate(ctx context.Context, joined *topic, from peer.ID, frame []byte) pubsub.ValidationResult {
	if from == t.host.host.ID() {
		return pubsub.ValidationAccept
	}
	t.host.count.overheard.Add(1)
	verdict := env.Drop
	if len(frame) <= env.MaxTopicFrame {
		verdict = (*joined.validate.Load())(ctx, env.PeerID(from), frame)
	}
	if ctx.Err() != nil {
		t.host.count.unjudged.Add(1)
	}
	switch verdict {
	case env.Pass:
		return pubsub.ValidationAccept
	case env.Blame:
		t.host.count.badFrames.Add(1)
		t.host.violation(from, "frames of a topic that break the protocol")
		return pubsub.ValidationReject
	}
	return pubsub.ValidationIgnore
}

// pubsub returns the host's GossipSub. It ends with the host.
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

// partners are the peers that are connected for a topic's sake, whoever dialled.
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
