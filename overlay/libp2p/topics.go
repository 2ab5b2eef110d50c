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
	topicQueue  = 256
	verdictTime = 2 * time.Second
	// topicSeen is how long a frame is known again.
	topicSeen = 10 * time.Minute
	// mateAgain is the time between two looks for peers of a topic that are not
	// connected; who could not be dialled is left alone for mateRest.
	mateAgain = 5 * time.Second
	mateRest  = 30 * time.Second
	topicTag  = "topic"
)

// Hear judges a frame that came by a topic. It is called from many goroutines at once,
// and waits for its node as long as ctx lasts.
type Hear func(ctx context.Context, from env.PeerID, frame []byte) env.Verdict

// Topics are a host's parts in topics: GossipSub, for few groups with many frames.
// Who takes part in one is said to all connected peers; frames go to those who do, and
// never by way of others, so that a node keeps in touch with some. Frames have no
// signature of GossipSub's: whose they are, and whether they are right, the node says.
type Topics struct {
	host   *Host
	prefix string // of the network's topics: two networks share none

	mu    sync.Mutex // guards what follows
	ps    *pubsub.PubSub
	all   map[string]*topic
	left  map[string]<-chan struct{} // closed when a topic that was left may be joined again
	mates map[peer.ID]peer.AddrInfo  // of all topics
	kept  bool                       // somebody keeps in touch with them
	wake  chan struct{}
}

// A topic is one that the host takes part in.
type topic struct {
	hear  atomic.Pointer[Hear]
	peers []env.Peer
	out   chan []byte
	end   context.CancelFunc
	ended chan struct{}
}

// Topics returns the host's topics. The network has to be known.
func (h *Host) Topics() *Topics {
	h.topics.once.Do(func() {
		hash := wire.HashOf(h.side.Load().Descriptor)
		h.topics.of.Store(&Topics{
			host: h, prefix: "/tidings/" + hex.EncodeToString(hash[:8]) + "/",
			all: map[string]*topic{}, left: map[string]<-chan struct{}{}, mates: map[peer.ID]peer.AddrInfo{}, wake: make(chan struct{}, 1),
		})
	})
	return h.topics.of.Load()
}

// hostTopics makes them when they are first asked for.
type hostTopics struct {
	once sync.Once
	of   atomic.Pointer[Topics]
}

// Join takes part in a topic; see env.Topics.
func (t *Topics) Join(name string, peers []env.Peer, hear Hear) {
	t.mu.Lock()
	defer t.mu.Unlock()
	j := t.all[name]
	if j == nil {
		if len(t.all) >= maxTopics {
			t.host.log.Error("too many topics to join another one", "topic", name)
			return
		}
		ctx, end := context.WithCancel(t.host.ctx)
		j = &topic{out: make(chan []byte, topicQueue), end: end, ended: make(chan struct{})}
		t.all[name] = j
		before := t.left[name]
		delete(t.left, name)
		t.host.aside(func() {
			defer close(j.ended)
			if before != nil {
				<-before
			}
			t.run(ctx, t.prefix+name, j)
		})
		if !t.kept {
			t.kept = true
			t.host.aside(t.keep)
		}
	}
	j.hear.Store(&hear)
	j.peers = peers
	t.gather()
}

// Leave ends a Join; see env.Topics.
func (t *Topics) Leave(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if j := t.all[name]; j != nil {
		j.end()
		t.left[name] = j.ended
		delete(t.all, name)
		t.gather()
	}
}

// Publish sends a frame to those who take part in a topic; see env.Topics.
func (t *Topics) Publish(name string, frame []byte) {
	if len(frame) > env.MaxTopicFrame {
		panic(fmt.Sprintf("libp2p: topic frame of %d bytes", len(frame)))
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	j := t.all[name]
	if j == nil {
		return
	}
	select {
	case j.out <- frame:
		t.host.count.published.Add(1)
	default:
		t.host.count.unpublished.Add(1)
	}
}

// gather notes with whom the host keeps in touch. The caller holds mu.
func (t *Topics) gather() {
	had := t.mates
	t.mates = map[peer.ID]peer.AddrInfo{}
	for _, j := range t.all {
		for _, p := range j.peers {
			if info, ok := infoOf(p); ok && info.ID != t.host.host.ID() {
				t.mates[info.ID] = info
				t.host.conns.Protect(info.ID, topicTag)
			}
		}
	}
	for p := range had {
		if _, still := t.mates[p]; !still {
			t.host.conns.Unprotect(p, topicTag)
		}
	}
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// keep keeps in touch with the mates until the host closes.
func (t *Topics) keep() {
	rested := map[peer.ID]time.Time{}
	tick := time.NewTicker(mateAgain)
	defer tick.Stop()
	for {
		t.mu.Lock()
		mates := maps.Clone(t.mates)
		t.mu.Unlock()
		now := time.Now()
		for p, info := range mates {
			if now.Sub(rested[p]) < mateRest || len(t.host.host.Network().ConnsToPeer(p)) > 0 || t.host.ledger.refused(p, now) {
				continue
			}
			rested[p] = now
			t.host.aside(func() { t.dial(info) })
		}
		maps.DeleteFunc(rested, func(p peer.ID, at time.Time) bool { return now.Sub(at) > mateRest })
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
	case t.host.dialling <- struct{}{}:
		defer func() { <-t.host.dialling }()
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
		return t.judge(ctx, j, from, m.Data)
	}, pubsub.WithValidatorTimeout(verdictTime), pubsub.WithValidatorConcurrency(256))
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
		case frame := <-j.out:
			if err := joined.Publish(ctx, frame); err != nil && ctx.Err() == nil {
				t.host.count.unpublished.Add(1)
				t.host.log.Debug("frame was not published to a topic", "topic", name, "err", err)
			}
		}
	}
}

// judge asks the node what becomes of a frame.
func (t *Topics) judge(ctx context.Context, j *topic, from peer.ID, frame []byte) pubsub.ValidationResult {
	if from == t.host.host.ID() {
		return pubsub.ValidationAccept
	}
	t.host.count.overheard.Add(1)
	verdict := env.Ignore
	if len(frame) <= env.MaxTopicFrame {
		verdict = (*j.hear.Load())(ctx, env.PeerID(from), frame)
	}
	if ctx.Err() != nil {
		t.host.count.unjudged.Add(1)
	}
	switch verdict {
	case env.Accept:
		return pubsub.ValidationAccept
	case env.Reject:
		t.host.count.badFrames.Add(1)
		t.host.fault(from, "frames of a topic that break the protocol")
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
	ours := pubsub.NewRegexpSubscriptionFilter(regexp.MustCompile("^" + regexp.QuoteMeta(t.prefix)))
	ps, err := pubsub.NewGossipSub(t.host.ctx, t.host.host,
		pubsub.WithMessageSignaturePolicy(pubsub.StrictNoSign), pubsub.WithNoAuthor(),
		pubsub.WithMessageIdFn(func(m *pb.Message) string { s := sha256.Sum256(m.Data); return string(s[:20]) }),
		pubsub.WithMaxMessageSize(env.MaxTopicFrame+64<<10),
		pubsub.WithSeenMessagesTTL(topicSeen),
		pubsub.WithPeerOutboundQueueSize(512), pubsub.WithValidateQueueSize(256),
		pubsub.WithSubscriptionFilter(pubsub.WrapLimitSubscriptionFilter(ours, maxTopics)),
		pubsub.WithPeerFilter(func(p peer.ID, _ string) bool { return !t.host.ledger.gated(p, time.Now()) }),
		pubsub.WithLogger(t.host.log), pubsub.WithRPCLogger(t.host.log),
	)
	if err == nil {
		t.ps = ps
	}
	return ps, err
}

// partners are the peers that are connected for a topic's sake, whoever dialled.
func (t *Topics) partners() map[peer.ID]bool {
	t.mu.Lock()
	of := map[peer.ID]bool{}
	for p := range t.mates {
		of[p] = true
	}
	names, ps := slices.Collect(maps.Keys(t.all)), t.ps
	t.mu.Unlock()
	if ps == nil {
		return of
	}
	for _, name := range names {
		for _, p := range ps.ListPeers(t.prefix + name) {
			of[p] = true
		}
	}
	return of
}
