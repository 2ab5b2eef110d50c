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

// joinTime is how long after its start a node that knows no network lets callers wait for one. A node that has
// been in a network knows it at once, and a new one learns it in a second or two from any node that answers.
const joinTime = 5 * time.Second

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

// awaitNetwork waits until the node knows its network. It returns [proxy.ErrJoining] from joinTime after the node's
// start.
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
	case <-time.After(time.Until(d.opened.Add(joinTime))):
		return proxy.ErrJoining
	}
}

// ask runs f on the loop and returns what it answers later, if it does so before
// ctx or the node ends.
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

// Route sends a payload of at most overlay.MaxPayload bytes towards the root of
// key and returns its receipt. No layer takes the payload: Route tells where a
// key lives and how far that is.
func (d *Daemon) Route(ctx context.Context, key overlay.ID, payload []byte) (overlay.Receipt, error) {
	if len(payload) > overlay.MaxPayload {
		return overlay.Receipt{}, fmt.Errorf("route %s: payload of %d bytes where %d are allowed", key.Short(), len(payload), overlay.MaxPayload)
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

// JoinGroup joins a group, or changes the node's weight there: how many clients
// stand behind it. The node does not remember its groups for its next start.
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

// Place returns the node's place in the tree of a group; ok is false if it has
// none.
func (d *Daemon) Place(ctx context.Context, group overlay.ID) (p scribe.Place, ok bool, err error) {
	if err := d.do(ctx, func() { p, ok = d.node.Scribe.Place(group) }); err != nil {
		return p, false, fmt.Errorf("place in %s: %w", group.Short(), err)
	}
	return p, ok, nil
}

// PublishGroup sends a message of at most scribe.MaxPayload bytes to a group, of
// which the node need not be a subscriber, and returns when the group's root has
// it. If it returns an error, the message may reach the subscribers all the same.
func (d *Daemon) PublishGroup(ctx context.Context, group overlay.ID, payload []byte) error {
	if len(payload) > scribe.MaxPayload {
		return fmt.Errorf("publish to %s: payload of %d bytes where %d are allowed", group.Short(), len(payload), scribe.MaxPayload)
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

// A Snapshot is a node as it was at one moment.
type Snapshot struct {
	Peer      string   // its peer id
	Listens   []string // multiaddrs it listens at
	Addrs     []string // where it believes it can be dialled, as others are told to join through it
	Refusals  []libp2p.Refusal
	Transport libp2p.Stats
	Loop      loop.Stats
	Store     store.Stats

	// What follows is zero while the node does not know its network.

	Network string // its name
	Hash    wire.Hash
	ID      overlay.ID
	State   overlay.State
	Size    int          // members of the network, as estimated
	Depth   int          // bits in the prefix of the node's leaf
	Leaf    []overlay.ID // members of the leaf, the node included
	Slots   []overlay.Slot
	Counts  []int        // members that share so many bits with the node, from 0 to Depth
	Hosts   []overlay.ID // members that act for it while it is a client
	Overlay overlay.Stats
	Scribe  scribe.Stats

	Firehose firehose.Stats
	CutOff   *feedtree.CutOff // nil: it hears of others
	Feeds    int              // subscriptions
}

// Snapshot looks at all of the node at one moment.
func (d *Daemon) Snapshot(ctx context.Context) (Snapshot, error) {
	s := Snapshot{
		Peer:      libp2p.PeerIDString(d.host.ID()),
		Listens:   d.host.ListenAddrs(),
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
	if err := d.do(ctx, func() { d.inspect(&s) }); err != nil {
		return s, fmt.Errorf("status: %w", err)
	}
	return s, nil
}

// inspect adds what the node knows.
func (d *Daemon) inspect(s *Snapshot) {
	o := d.node.Overlay
	s.Hash = wire.HashOf(d.home.Descriptor)
	s.Network = d.home.network.Name
	s.ID, s.State, s.Overlay, s.Scribe = o.ID(), o.State(), o.Stats(), d.node.Scribe.Stats()
	s.Firehose = d.node.Firehose.Stats()
	s.CutOff, s.Feeds = d.cutOff(), d.node.Feeds.Stats().Subscriptions
	s.Size = s.Overlay.EstimatedN
	s.Depth, s.Leaf, s.Hosts = o.Leaf().Depth(), ids(o.Leaf().Members()), ids(o.Hosts())
	s.Slots = o.Slots()
	for bits := range s.Depth + 1 {
		s.Counts = append(s.Counts, o.Count(bits))
	}
}

func ids(of []*overlay.Contact) []overlay.ID {
	var out []overlay.ID
	for _, c := range of {
		out = append(out, c.ID)
	}
	return out
}

// A Led is a feed of which the node is the sequencer: it polls it, and numbers what is
// new.
type Led struct {
	URL    string
	Key    overlay.ID
	Owners []overlay.ID // of its log, the node among them
}

// Led returns the feeds of which the node is the sequencer, in the order of their keys.
func (d *Daemon) Led(ctx context.Context) (of []Led, err error) {
	err = d.do(ctx, func() {
		for _, key := range d.node.Owners.Keys() {
			v, _ := d.node.Owners.View(key)
			if !v.Leads {
				continue
			}
			led := Led{URL: v.URL, Key: key}
			for _, p := range v.Epoch.Owners {
				led.Owners = append(led.Owners, overlay.NodeID(d.home.network.Name, p))
			}
			of = append(of, led)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("feeds led: %w", err)
	}
	return of, nil
}
