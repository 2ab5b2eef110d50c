package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"tidings/cobra/firehose"
	"tidings/feedtree"
	"tidings/internal/loop"
	"tidings/internal/store"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/libp2p"
	"tidings/overlay/scribe"
	"tidings/proxy"
)

var (
	// ErrStopped says that the node has stopped.
	ErrStopped = errors.New("the node has stopped")
	// ErrNoRoot says that no root acknowledged a message in time.
	ErrNoRoot = errors.New("the root could not be reached in time")
)

// joinTimeout bounds how long after its start a node without a network lets callers wait for one. A node that
// was in a network before knows it at once. A new node learns it from any node that answers, in a second or
// two.
const joinTimeout = 5 * time.Second

// do runs f on the loop, once the node knows its network.
func (d *Daemon) do(ctx context.Context, f func()) error {
	if err := d.awaitNetwork(ctx); err != nil {
		return err
	}
	err := d.loop.Call(ctx, f)
	if errors.Is(err, loop.ErrStopped) {
		return ErrStopped
	}
	return err
}

// awaitNetwork waits until the node knows its network. When joinTimeout has passed since the start, it
// returns [proxy.ErrJoining].
func (d *Daemon) awaitNetwork(ctx context.Context) error {
	select {
	case <-d.joined:
		return nil
	case <-d.stopped:
		return ErrStopped
	case <-ctx.Done():
		return ctx.Err()
	default:
	}
	select {
	case <-d.joined:
		return nil
	case <-d.stopped:
		return ErrStopped
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Until(d.opened.Add(joinTimeout))):
		return proxy.ErrJoining
	}
}

// ask runs f on the loop and returns the answer that f gives, perhaps later, or an error if ctx or the node
// ends before.
func ask[T any](ctx context.Context, d *Daemon, f func(answer func(T))) (a T, err error) {
	answers := make(chan T, 1)
	if err := d.do(ctx, func() { f(func(a T) { answers <- a }) }); err != nil {
		return a, err
	}
	select {
	case a = <-answers:
		return a, nil
	case <-ctx.Done():
		return a, ctx.Err()
	case <-d.stopped:
		return a, ErrStopped
	}
}

// Route sends a payload of at most overlay.MaxPayload bytes towards the root of key and returns the receipt.
// No layer consumes the payload: Route shows which node is the root and how many hops away it is.
func (d *Daemon) Route(ctx context.Context, key overlay.ID, payload []byte) (overlay.Receipt, error) {
	if len(payload) > overlay.MaxPayload {
		return overlay.Receipt{}, fmt.Errorf("route %s: the payload has %d bytes, and %d are allowed", key.Short(), len(payload), overlay.MaxPayload)
	}
	payload = bytes.Clone(payload)
	type outcome struct {
		receipt overlay.Receipt
		ok      bool
	}
	o, err := ask(ctx, d, func(answer func(outcome)) {
		d.node.Overlay.Route(wire.Overlay, key, payload, func(r overlay.Receipt, ok bool) { answer(outcome{r, ok}) })
	})
	if err == nil && !o.ok {
		err = ErrNoRoot
	}
	if err != nil {
		return overlay.Receipt{}, fmt.Errorf("route %s: %w", key.Short(), err)
	}
	return o.receipt, nil
}

// JoinGroup joins a group, or changes the node's weight in it: the number of clients behind the node. Groups
// are not remembered for the next start.
func (d *Daemon) JoinGroup(ctx context.Context, group overlay.ID, weight int) error {
	if err := d.do(ctx, func() { d.node.Scribe.Join(group, weight) }); err != nil {
		return fmt.Errorf("subscribe to %s: %w", group.Short(), err)
	}
	return nil
}

// LeaveGroup leaves a group.
func (d *Daemon) LeaveGroup(ctx context.Context, group overlay.ID) error {
	if err := d.do(ctx, func() { d.node.Scribe.Leave(group) }); err != nil {
		return fmt.Errorf("unsubscribe from %s: %w", group.Short(), err)
	}
	return nil
}

// Place returns the node's place in the tree of a group; ok is false if it has none.
func (d *Daemon) Place(ctx context.Context, group overlay.ID) (p scribe.Place, ok bool, err error) {
	if err := d.do(ctx, func() { p, ok = d.node.Scribe.Place(group) }); err != nil {
		return p, false, fmt.Errorf("place in the tree of %s: %w", group.Short(), err)
	}
	return p, ok, nil
}

// PublishGroup sends a message of at most scribe.MaxPayload bytes to a group, and returns when the group's
// root has it. The node need not be a member of the group. After an error, the message may still reach the
// subscribers.
func (d *Daemon) PublishGroup(ctx context.Context, group overlay.ID, payload []byte) error {
	if len(payload) > scribe.MaxPayload {
		return fmt.Errorf("publish to %s: the payload has %d bytes, and %d are allowed", group.Short(), len(payload), scribe.MaxPayload)
	}
	ok, err := ask(ctx, d, func(answer func(bool)) { d.node.Scribe.Publish(group, payload, answer) })
	if err == nil && !ok {
		err = ErrNoRoot
	}
	if err != nil {
		return fmt.Errorf("publish to %s: %w", group.Short(), err)
	}
	return nil
}

// A Snapshot is the state of a node at one moment.
type Snapshot struct {
	Peer      string   // peer id of the node
	Listens   []string // multiaddrs at which the node listens
	Addrs     []string // addresses at which others can probably dial the node, to give to nodes that join
	Refusals  []libp2p.Refusal
	Transport libp2p.Stats
	Loop      loop.Stats
	Store     store.Stats

	// The following fields are zero while the node does not know its network.

	Network string // name of the network
	Hash    wire.Hash
	ID      overlay.ID
	State   overlay.State
	Size    int          // estimated number of members of the network
	Depth   int          // bits in the prefix of the node's leaf
	Leaf    []overlay.ID // members of the leaf, the node included
	Slots   []overlay.Slot
	Counts  []int        // Counts[i] members share i bits with the node's id, 0 <= i <= Depth
	Hosts   []overlay.ID // members that act for the node while it is a client
	Overlay overlay.Stats
	Scribe  scribe.Stats

	Firehose firehose.Stats
	CutOff   *feedtree.CutOff // nil: the node is in contact with others
	Feeds    int              // number of subscriptions
}

// Snapshot returns the state of the node.
func (d *Daemon) Snapshot(ctx context.Context) (Snapshot, error) {
	s := Snapshot{
		Peer:      libp2p.Text(d.host.ID()),
		Listens:   d.host.Listens(),
		Addrs:     d.host.Addrs(),
		Refusals:  d.host.Refusals(),
		Transport: d.host.Stats(),
		Loop:      d.loop.Stats(),
		Store:     d.disk.Stats(),
	}
	select {
	case <-d.joined:
	default:
		return s, nil
	}
	if err := d.do(ctx, func() { d.addNodeState(&s) }); err != nil {
		return s, fmt.Errorf("status: %w", err)
	}
	return s, nil
}

// addNodeState adds the state of the layers, which belong to the loop.
func (d *Daemon) addNodeState(s *Snapshot) {
	o := d.node.Overlay
	s.Hash = wire.HashOf(d.dataDir.Descriptor)
	s.Network = d.dataDir.network.Name
	s.ID, s.State, s.Overlay, s.Scribe = o.ID(), o.State(), o.Stats(), d.node.Scribe.Stats()
	s.Firehose = d.node.Firehose.Stats()
	s.CutOff, s.Feeds = d.cutOff(), d.node.Feeds.Stats().Subscriptions
	s.Size = s.Overlay.EstimatedN
	s.Depth, s.Leaf, s.Hosts = o.Leaf().Depth(), contactIDs(o.Leaf().Members()), contactIDs(o.Hosts())
	s.Slots = o.Slots()
	for bits := range s.Depth + 1 {
		s.Counts = append(s.Counts, o.Count(bits))
	}
}

func contactIDs(contacts []*overlay.Contact) []overlay.ID {
	var out []overlay.ID
	for _, c := range contacts {
		out = append(out, c.ID)
	}
	return out
}

// A LedFeed is a feed of which the node is the sequencer: the node polls it and numbers its new items.
type LedFeed struct {
	URL    string
	Key    overlay.ID
	Owners []overlay.ID // owners of its log, the node included
}

// LedFeeds returns the feeds of which the node is the sequencer, ordered by key.
func (d *Daemon) LedFeeds(ctx context.Context) (feeds []LedFeed, err error) {
	err = d.do(ctx, func() {
		for _, key := range d.node.Owners.Keys() {
			v, _ := d.node.Owners.View(key)
			if !v.Leads {
				continue
			}
			led := LedFeed{URL: v.URL, Key: key}
			for _, p := range v.Epoch.Owners {
				led.Owners = append(led.Owners, overlay.NodeID(d.dataDir.network.Name, p))
			}
			feeds = append(feeds, led)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("list the feeds led by this node: %w", err)
	}
	return feeds, nil
}
