package daemon

import (
	"context"
	"fmt"

	"tidings/overlay"
	"tidings/overlay/scribe"
)

// The methods below use the layers below feeds, as the tests of a network of processes do.

// JoinGroup joins a group, or changes the node's weight in it: the number of clients behind the node. Groups
// are not remembered for the next start.
func (n *nodeLoop) JoinGroup(ctx context.Context, group overlay.ID, weight int) error {
	if err := n.do(ctx, func() { n.node.Scribe.Join(group, weight) }); err != nil {
		return fmt.Errorf("subscribe to %s: %w", group.Short(), err)
	}
	return nil
}

// LeaveGroup leaves a group.
func (n *nodeLoop) LeaveGroup(ctx context.Context, group overlay.ID) error {
	if err := n.do(ctx, func() { n.node.Scribe.Leave(group) }); err != nil {
		return fmt.Errorf("unsubscribe from %s: %w", group.Short(), err)
	}
	return nil
}

// Place returns the node's place in the tree of a group; ok is false if it has none.
func (n *nodeLoop) Place(ctx context.Context, group overlay.ID) (p scribe.Place, ok bool, err error) {
	if err := n.do(ctx, func() { p, ok = n.node.Scribe.Place(group) }); err != nil {
		return p, false, fmt.Errorf("place in the tree of %s: %w", group.Short(), err)
	}
	return p, ok, nil
}

// PublishGroup sends a message of at most scribe.MaxPayload bytes to a group, and returns when the group's
// root has it. The node need not be a member of the group. After an error, the message may still reach the
// subscribers.
func (n *nodeLoop) PublishGroup(ctx context.Context, group overlay.ID, payload []byte) error {
	if len(payload) > scribe.MaxPayload {
		return fmt.Errorf("publish to %s: the payload has %d bytes, and %d are allowed", group.Short(), len(payload), scribe.MaxPayload)
	}
	ok, err := ask(ctx, n, func(answer func(bool)) { n.node.Scribe.Publish(group, payload, answer) })
	if err == nil && !ok {
		err = ErrNoRoot
	}
	if err != nil {
		return fmt.Errorf("publish to %s: %w", group.Short(), err)
	}
	return nil
}
