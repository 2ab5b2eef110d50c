package daemon

import (
	"context"

	"tidings/internal/env"
	"tidings/internal/loop"
	"tidings/overlay/libp2p"
)

// topics implements [env.Topics]: messages of topics are validated on the node's loop.
type topics struct {
	host *libp2p.Topics
	loop *loop.Loop
}

var _ env.Topics = topics{}

func (t topics) Leave(topic string)                 { t.host.Leave(topic) }
func (t topics) Publish(topic string, frame []byte) { t.host.Publish(topic, frame) }

// Join takes part in a topic. Messages that the loop has no room for are dropped; nodes that lack them ask
// for them later.
func (t topics) Join(topic string, peers []env.Peer, hear func(from env.PeerID, frame []byte) env.Verdict) {
	t.host.Join(topic, peers, func(ctx context.Context, from env.PeerID, frame []byte) env.Verdict {
		verdict := make(chan env.Verdict, 1)
		if !t.loop.Post(env.Bulk, func() { verdict <- hear(from, frame) }) {
			return env.Drop
		}
		select {
		case v := <-verdict:
			return v
		case <-ctx.Done():
			return env.Drop
		}
	})
}
