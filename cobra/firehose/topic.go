package firehose

import (
	"bytes"
	"fmt"
	"slices"

	"tidings/cobra/firehose/firehosepb"
	"tidings/internal/env"
)

// maxIntroduced bounds the other filters that a filter keeps links to for a shard.
const maxIntroduced = 12

// topic is a shard's GossipSub topic. Owners of the shard and filters are members of it. GossipSub does not cross nodes
// outside the topic, so each member keeps links to the owners and to some filters to which an owner introduced it.
type topic struct {
	*place
	topics     env.Topics
	receive    func(raw []byte) env.Verdict
	name       string
	joined     bool
	peers      []env.Peer // peers at the last join
	introduced map[env.PeerID]env.Peer
}

func newTopic(p *place, topics env.Topics, receive func(raw []byte) env.Verdict) *topic {
	return &topic{place: p, topics: topics, receive: receive, name: fmt.Sprintf("shard/%d", p.number), introduced: map[env.PeerID]env.Peer{}}
}

// update joins the topic with the present peers.
func (t *topic) update() {
	peers := t.directPeers()
	if t.joined && slices.EqualFunc(peers, t.peers, func(a, b env.Peer) bool { return a.ID == b.ID && slices.Equal(a.Addrs, b.Addrs) }) {
		return
	}
	t.joined, t.peers = true, peers
	t.topics.Join(t.name, peers, func(_ env.PeerID, frame []byte) env.Verdict { return t.receive(frame) })
}

func (t *topic) leave() {
	if t.joined {
		t.topics.Leave(t.name)
		t.joined, t.peers = false, nil
	}
}

// directPeers returns the owners and the introduced filters, in a fixed order and without this node.
func (t *topic) directPeers() (peers []env.Peer) {
	for _, p := range t.tracker.Owners() {
		if p.ID != t.self {
			peers = append(peers, p)
		}
	}
	for _, p := range t.introduced {
		peers = append(peers, p)
	}
	slices.SortFunc(peers, func(a, b env.Peer) int { return bytes.Compare([]byte(a.ID), []byte(b.ID)) })
	return slices.CompactFunc(peers, func(a, b env.Peer) bool { return a.ID == b.ID })
}

// introduce adds filters by their records. If there are too many, one of the new filters replaces a random one, which may
// be long gone.
func (t *topic) introduce(records [][]byte) error {
	replaced := false
	for _, raw := range records {
		c, err := t.node.OpenRecord(raw)
		if err != nil {
			return err
		}
		if c.Peer.ID == t.self {
			continue
		}
		if _, known := t.introduced[c.Peer.ID]; !known && len(t.introduced) >= maxIntroduced {
			if replaced {
				continue
			}
			replaced = true
			delete(t.introduced, sortedPeers(t.introduced)[t.rand.IntN(len(t.introduced))])
		}
		t.introduced[c.Peer.ID] = c.Peer
	}
	t.update()
	return nil
}

// broadcast signs a message and sends it to all members.
func (t *topic) broadcast(m *firehosepb.Broadcast) {
	t.update()
	t.topics.Publish(t.name, t.sign(m))
}
