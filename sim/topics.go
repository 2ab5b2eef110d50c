package sim

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/cespare/xxhash/v2"

	"tidings/internal/env"
)

// A topicMember is a host's membership of a topic. The model of topics covers how GossipSub can
// fail. A published frame goes to all members that are connected with the publisher, and each
// receiver forwards it once to some of those connected with it. Hosts that are not members forward
// nothing, and a member that is connected with no other gets nothing. GossipSub's lazy part (IHAVE
// and IWANT), which compensates for some losses, is left out.
type topicMember struct {
	handler      func(from env.PeerID, frame []byte) env.Verdict
	peers        []int32        // hosts that this host keeps connections to
	reversePeers map[int32]bool // hosts that keep connections to this one
	seen         map[uint64]int64
}

const (
	// meshDegree is the number of hosts to which a frame is forwarded: GossipSub's D.
	meshDegree = 6
	// seenLifetime is how long duplicates are recognised; the value is the one used with GossipSub.
	seenLifetime = int64(10 * time.Minute)
	// seenSweep is the number of remembered frames from which on old ones are dropped.
	seenSweep = 4096
)

// A topicFrame is a frame of a topic in transit.
type topicFrame struct {
	topic string
	msg   []byte
	from  int32
}

// Join implements env.Topics.
func (d *hostEnv) Join(topic string, peers []env.Peer, hear func(env.PeerID, []byte) env.Verdict) {
	if d.expired() {
		return
	}
	h := d.host
	s := h.topicMember(topic)
	s.handler = hear
	h.dropPeers(topic, s)
	for i := range peers {
		if p := h.world.hostOf(&peers[i]); p != nil && p != h && p.open {
			s.peers = append(s.peers, p.index)
			p.topicMember(topic).reversePeers[h.index] = true
		}
	}
	slices.Sort(s.peers)
}

// Leave implements env.Topics.
func (d *hostEnv) Leave(topic string) {
	if s := d.host.topics[topic]; s != nil && !d.expired() {
		d.host.dropPeers(topic, s)
		s.handler = nil
	}
}

// Publish implements env.Topics.
func (d *hostEnv) Publish(topic string, frame []byte) {
	if len(frame) > env.MaxTopicFrame {
		panic(fmt.Sprintf("host %d publishes a frame of %d bytes: a layer does not bound its messages", d.host.index, len(frame)))
	}
	if s := d.host.topics[topic]; s != nil && s.handler != nil && !d.expired() {
		s.alreadySeen(frame, d.host.lane.now)
		d.host.sendTopicFrame(topic, frame, d.host.connectedMembers(topic, s))
	}
}

// topicMember returns the host's membership of a topic, and creates it if need be. It may exist
// before the host joins, because others keep connections to the host.
func (h *Host) topicMember(topic string) *topicMember {
	if h.topics == nil {
		h.topics = map[string]*topicMember{}
	}
	s := h.topics[topic]
	if s == nil {
		s = &topicMember{reversePeers: map[int32]bool{}, seen: map[uint64]int64{}}
		h.topics[topic] = s
	}
	return s
}

// dropPeers forgets the connections that the host keeps.
func (h *Host) dropPeers(topic string, s *topicMember) {
	for _, i := range s.peers {
		delete(h.world.hosts[i].topics[topic].reversePeers, h.index)
	}
	s.peers = nil
}

// leaveTopics ends all memberships of a host that crashes. Others keep trying to connect to it.
func (h *Host) leaveTopics() {
	for _, topic := range slices.Sorted(maps.Keys(h.topics)) {
		s := h.topics[topic]
		h.dropPeers(topic, s)
		s.handler = nil
		clear(s.seen)
	}
}

// connectedMembers returns the members of a topic that are connected with a host.
func (h *Host) connectedMembers(topic string, s *topicMember) (of []*Host) {
	near := maps.Clone(s.reversePeers)
	for _, i := range s.peers {
		near[i] = true
	}
	for _, i := range slices.Sorted(maps.Keys(near)) {
		p := h.world.hosts[i]
		if t := p.topics[topic]; t != nil && t.handler != nil && p.node != nil && !h.cannotHear(p) && !p.cannotHear(h) && !h.blocks(p) && !p.blocks(h) {
			of = append(of, p)
		}
	}
	return of
}

// alreadySeen reports whether a frame was seen before, and remembers the frame.
func (s *topicMember) alreadySeen(frame []byte, now int64) bool {
	sum := xxhash.Sum64(frame)
	if at, ok := s.seen[sum]; ok && now-at < seenLifetime {
		return true
	}
	if len(s.seen) >= seenSweep {
		maps.DeleteFunc(s.seen, func(_ uint64, at int64) bool { return now-at >= seenLifetime })
	}
	s.seen[sum] = now
	return false
}

// sendTopicFrame sends a frame of a topic to some hosts.
func (h *Host) sendTopicFrame(topic string, frame []byte, to []*Host) {
	w := h.world
	for _, p := range to {
		jitter, fate := randFloat(&h.topicRNG), randFloat(&h.topicRNG)
		h.stats.TopicSent.add(frame)
		if fate < w.config.NetworkFaults.Loss {
			h.stats.Lost++
			continue
		}
		delay := int64(w.config.Topology(min(h.Index(), p.Index()), max(h.Index(), p.Index())))
		h.lane.schedule(h.lane.now+delay+int64(jitter*jitter*jitter*float64(delay)/2), p, eventTopicFrame, h.lane.topicFrames.Put(topicFrame{topic, frame, h.index}))
	}
}

// receiveTopicFrame handles a frame of a topic and forwards it.
func (h *Host) receiveTopicFrame(t *topicFrame) {
	s := h.topics[t.topic]
	if s == nil || s.handler == nil || s.alreadySeen(t.msg, h.lane.now) {
		return
	}
	from := h.world.hosts[t.from]
	switch s.handler(from.id, t.msg) {
	case env.Reject:
		h.recordOffence(from)
	case env.Accept:
		mates := slices.DeleteFunc(h.connectedMembers(t.topic, s), func(p *Host) bool { return p == from })
		rand.New(&h.topicRNG).Shuffle(len(mates), func(i, j int) { mates[i], mates[j] = mates[j], mates[i] })
		h.sendTopicFrame(t.topic, t.msg, mates[:min(len(mates), meshDegree)])
	}
}
