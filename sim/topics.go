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

// A seat is a host's part in a topic. Topics are GossipSub's as far as they can go
// wrong: what is published goes to all who are connected with the publisher and take
// part, and is passed on, once, to some of those who are connected with whoever gets
// it. Nothing crosses a host that takes no part, and who is connected with nobody
// who does, hears nothing. The lazy half of GossipSub, IHAVE and IWANT, which makes
// up for some of that, is left out.
type seat struct {
	hear  func(from env.PeerID, frame []byte) env.Verdict
	peers []int32        // with whom this host keeps in touch
	by    map[int32]bool // who keep in touch with it
	seen  map[uint64]int64
}

const (
	// meshDegree is to how many each passes a frame on: GossipSub's D.
	meshDegree = 6
	// seenFor is how long frames are known again: GossipSub's, as it is used here.
	seenFor = int64(10 * time.Minute)
	// seenMost is after how many frames a seat looks for those that are old.
	seenMost = 4096
)

// A whisper is a frame of a topic under way.
type whisper struct {
	topic string
	msg   []byte
	from  int32
}

// Join implements env.Topics.
func (d *doors) Join(topic string, peers []env.Peer, hear func(env.PeerID, []byte) env.Verdict) {
	if d.shut() {
		return
	}
	h := d.host
	s := h.seat(topic)
	s.hear = hear
	h.untie(topic, s)
	for i := range peers {
		if p := h.world.find(&peers[i]); p != nil && p != h && p.open {
			s.peers = append(s.peers, p.index)
			p.seat(topic).by[h.index] = true
		}
	}
	slices.Sort(s.peers)
}

// Leave implements env.Topics.
func (d *doors) Leave(topic string) {
	if s := d.host.topics[topic]; s != nil && !d.shut() {
		d.host.untie(topic, s)
		s.hear = nil
	}
}

// Publish implements env.Topics.
func (d *doors) Publish(topic string, frame []byte) {
	if len(frame) > env.MaxTopicFrame {
		panic(fmt.Sprintf("host %d publishes a frame of %d bytes: a layer did not bound it", d.host.index, len(frame)))
	}
	if s := d.host.topics[topic]; s != nil && s.hear != nil && !d.shut() {
		s.known(frame, d.host.lane.now)
		d.host.whisper(topic, frame, d.host.mates(topic, s))
	}
}

// seat is a host's in a topic: it may take no part yet, and be named by others.
func (h *Host) seat(topic string) *seat {
	if h.topics == nil {
		h.topics = map[string]*seat{}
	}
	s := h.topics[topic]
	if s == nil {
		s = &seat{by: map[int32]bool{}, seen: map[uint64]int64{}}
		h.topics[topic] = s
	}
	return s
}

// untie forgets with whom a host keeps in touch.
func (h *Host) untie(topic string, s *seat) {
	for _, i := range s.peers {
		delete(h.world.hosts[i].topics[topic].by, h.index)
	}
	s.peers = nil
}

// unseat ends all topics of a host that crashes. Others go on trying to keep in touch.
func (h *Host) unseat() {
	for _, topic := range slices.Sorted(maps.Keys(h.topics)) {
		s := h.topics[topic]
		h.untie(topic, s)
		s.hear = nil
		clear(s.seen)
	}
}

// mates are those who take part in a topic and are connected with a host.
func (h *Host) mates(topic string, s *seat) (of []*Host) {
	near := maps.Clone(s.by)
	for _, i := range s.peers {
		near[i] = true
	}
	for _, i := range slices.Sorted(maps.Keys(near)) {
		p := h.world.hosts[i]
		if t := p.topics[topic]; t != nil && t.hear != nil && p.node != nil && !h.deaf(p) && !p.deaf(h) && !h.shuns(p) && !p.shuns(h) {
			of = append(of, p)
		}
	}
	return of
}

// known says whether a frame came before, and knows it from now on.
func (s *seat) known(frame []byte, now int64) bool {
	sum := xxhash.Sum64(frame)
	if at, ok := s.seen[sum]; ok && now-at < seenFor {
		return true
	}
	if len(s.seen) >= seenMost {
		maps.DeleteFunc(s.seen, func(_ uint64, at int64) bool { return now-at >= seenFor })
	}
	s.seen[sum] = now
	return false
}

// whisper sends a frame of a topic to others.
func (h *Host) whisper(topic string, frame []byte, to []*Host) {
	w := h.world
	for _, p := range to {
		jitter, fate := throw(&h.topicDice), throw(&h.topicDice)
		h.stats.Whispered.add(frame)
		if fate < w.config.Faults.Loss {
			h.stats.Lost++
			continue
		}
		delay := int64(w.config.Topology(min(h.Index(), p.Index()), max(h.Index(), p.Index())))
		h.lane.push(h.lane.now+delay+int64(jitter*jitter*jitter*float64(delay)/2), p, gossip, h.lane.whispers.Put(whisper{topic, frame, h.index}))
	}
}

// overhear takes a frame of a topic, and passes it on.
func (h *Host) overhear(t *whisper) {
	s := h.topics[t.topic]
	if s == nil || s.hear == nil || s.known(t.msg, h.lane.now) {
		return
	}
	from := h.world.hosts[t.from]
	switch s.hear(from.id, t.msg) {
	case env.Reject:
		h.blame(from)
	case env.Accept:
		mates := slices.DeleteFunc(h.mates(t.topic, s), func(p *Host) bool { return p == from })
		rand.New(&h.topicDice).Shuffle(len(mates), func(i, j int) { mates[i], mates[j] = mates[j], mates[i] })
		h.whisper(t.topic, t.msg, mates[:min(len(mates), meshDegree)])
	}
}
