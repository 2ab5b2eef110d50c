package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"tidings/feedtree"
	"tidings/internal/loop"
	"tidings/internal/node"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/proxy"
)

var (
	// ErrStopped says that the node has stopped.
	ErrStopped = errors.New("the node has stopped")
	// ErrNoRoot says that no root acknowledged a message in time.
	ErrNoRoot = errors.New("the root could not be reached in time")
)

// A kindError has the kind of one error and the text of another.
type kindError struct{ kind, text error }

func (e kindError) Error() string   { return e.text.Error() }
func (e kindError) Unwrap() []error { return []error{e.kind, e.text} }

// joinTimeout is how long after a node's start callers wait for it to learn its network. A node that was in a
// network before knows it at once. A new node learns it from any node that answers, in a second or two.
const joinTimeout = 5 * time.Second

// A nodeLoop is the node and the loop that owns it. All components reach the node through it.
type nodeLoop struct {
	loop    *loop.Loop
	opened  time.Time
	found   chan struct{} // closed when the network is known, and the node reads its store
	joined  chan struct{} // closed when the store has been read, and the fields below are set
	stopped chan struct{} // closed when the loop has ended
	network wire.Network
	node    *node.Node // owned by the loop
}

func newNodeLoop() *nodeLoop {
	return &nodeLoop{loop: loop.New(loop.Config{}), opened: time.Now(), found: make(chan struct{}), joined: make(chan struct{}), stopped: make(chan struct{})}
}

// hasJoined reports whether the node knows its network.
func (n *nodeLoop) hasJoined() bool { return isClosed(n.joined) }

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// key returns the key of a URL in the node's network, which must be known.
func (n *nodeLoop) key(url string) overlay.ID { return overlay.Key(n.network.Name, url) }

// do runs f on the loop, once the node knows its network.
func (n *nodeLoop) do(ctx context.Context, f func()) error {
	if err := n.awaitNetwork(ctx); err != nil {
		return err
	}
	err := n.loop.Call(ctx, f)
	if errors.Is(err, loop.ErrStopped) {
		return ErrStopped
	}
	return err
}

// awaitNetwork waits until the node knows its network and has read its store. If it does not know the network when joinTimeout
// has passed since the start, awaitNetwork returns [proxy.ErrJoining].
func (n *nodeLoop) awaitNetwork(ctx context.Context) error {
	switch { // the time may be up already
	case n.hasJoined():
		return nil
	case isClosed(n.stopped):
		return ErrStopped
	case ctx.Err() != nil:
		return ctx.Err()
	}
	timeout := time.After(time.Until(n.opened.Add(joinTimeout)))
	for {
		select {
		case <-n.joined:
			return nil
		case <-n.stopped:
			return ErrStopped
		case <-ctx.Done():
			return ctx.Err()
		case <-timeout:
			if !isClosed(n.found) {
				return proxy.ErrJoining
			}
		}
	}
}

// subscriptionKeys returns the keys of all subscriptions in their order.
func (n *nodeLoop) subscriptionKeys(ctx context.Context) (keys []overlay.ID, err error) {
	err = n.do(ctx, func() { keys = n.node.SubscriptionKeys() })
	slices.SortFunc(keys, func(a, b overlay.ID) int { return bytes.Compare(a[:], b[:]) }) // not on the loop, where others wait
	return keys, err
}

// listedAtOnce is the number of subscriptions that one step of the loop looks at, which takes about a millisecond.
const listedAtOnce = 128

// eachSubscription calls do with each subscription in the order of their keys. It is not on the loop when it does.
func (n *nodeLoop) eachSubscription(ctx context.Context, do func(feedtree.Subscription)) error {
	keys, err := n.subscriptionKeys(ctx)
	if err != nil {
		return err
	}
	part := make([]feedtree.Subscription, 0, listedAtOnce)
	for keys := range slices.Chunk(keys, listedAtOnce) {
		part = part[:0]
		if err := n.do(ctx, func() {
			for _, key := range keys {
				if s, ok := n.node.NodeOf(key).Feeds.Subscription(key); ok {
					part = append(part, s)
				}
			}
		}); err != nil {
			return err
		}
		for _, s := range part {
			do(s)
		}
	}
	return nil
}

// A caller runs functions on a loop. ended is closed when the loop has ended.
type caller interface {
	do(ctx context.Context, f func()) error
	ended() <-chan struct{}
}

func (n *nodeLoop) ended() <-chan struct{} { return n.stopped }

// ask runs f on a loop and returns the answer that f gives, perhaps later, or an error if ctx or the loop ends
// before.
func ask[T any](ctx context.Context, c caller, f func(answer func(T))) (a T, err error) {
	answers := make(chan T, 1)
	if err := c.do(ctx, func() { f(func(a T) { answers <- a }) }); err != nil {
		return a, err
	}
	select {
	case a = <-answers:
		return a, nil
	case <-ctx.Done():
		return a, ctx.Err()
	case <-c.ended():
		return a, ErrStopped
	}
}

// Route sends a payload of at most overlay.MaxPayload bytes towards the root of key and returns the receipt.
// No layer consumes the payload: Route shows which node is the root and how many hops away it is.
func (n *nodeLoop) Route(ctx context.Context, key overlay.ID, payload []byte) (overlay.Receipt, error) {
	if len(payload) > overlay.MaxPayload {
		return overlay.Receipt{}, fmt.Errorf("route %s: the payload has %d bytes, and %d are allowed", key.Short(), len(payload), overlay.MaxPayload)
	}
	payload = bytes.Clone(payload)
	type outcome struct {
		receipt overlay.Receipt
		ok      bool
	}
	o, err := ask(ctx, n, func(answer func(outcome)) {
		n.node.Overlay.Route(wire.Overlay, key, payload, func(r overlay.Receipt, ok bool) { answer(outcome{r, ok}) })
	})
	if err == nil && !o.ok {
		err = ErrNoRoot
	}
	if err != nil {
		return overlay.Receipt{}, fmt.Errorf("route %s: %w", key.Short(), err)
	}
	return o.receipt, nil
}

// A LedFeed is a feed of which the node is the sequencer: the node numbers its new items, and decides how many nodes
// poll it.
type LedFeed struct {
	URL    string
	Key    overlay.ID
	Owners []overlay.ID // owners of its log, the node included
}

// LedFeeds returns the feeds of which the node is the sequencer, ordered by key.
func (n *nodeLoop) LedFeeds(ctx context.Context) (feeds []LedFeed, err error) {
	err = n.do(ctx, func() {
		for _, key := range n.node.Owners.Keys() {
			v, _ := n.node.Owners.View(key)
			if !v.Leads {
				continue
			}
			led := LedFeed{URL: v.URL, Key: key}
			for _, p := range v.Epoch.Owners {
				led.Owners = append(led.Owners, overlay.NodeID(n.network.Name, p))
			}
			feeds = append(feeds, led)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("list the feeds led by this node: %w", err)
	}
	return feeds, nil
}
