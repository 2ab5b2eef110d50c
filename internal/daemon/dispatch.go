package daemon

import (
	"context"
	"fmt"

	"tidings/proxy"
)

// A name in place of an address leads to a private feed; everything else leads to the feeds of the network. See
// proxy.Subscriptions for what the methods do.

// Version returns the version of a feed.
func (d *Daemon) Version(url string) (version uint64, ok bool) {
	if isPrivateName(url) {
		return d.private.version(url)
	}
	return d.subscriptions.Version(url)
}

// Read returns what readers of a feed see.
func (d *Daemon) Read(ctx context.Context, url string) (proxy.Window, error) {
	if isPrivateName(url) {
		return d.private.read(ctx, url)
	}
	return d.reading.Read(ctx, url)
}

// Subscribe subscribes to a feed of the network. A private feed is never made one by reading or importing its address.
func (d *Daemon) Subscribe(ctx context.Context, url string, auto bool) error {
	if name, private := d.private.FindPrivate(url); private {
		if auto {
			return fmt.Errorf("%s: %w: it is private", name, proxy.ErrForbidden)
		}
		return nil
	}
	return d.subscriptions.Subscribe(ctx, url, auto)
}

// SubscribeQuietly subscribes to a feed of the network through members that stand between.
func (d *Daemon) SubscribeQuietly(ctx context.Context, url string) error {
	if name, private := d.private.FindPrivate(url); private {
		return fmt.Errorf("%s: %w: it is private, and no other node knows it", name, proxy.ErrForbidden)
	}
	return d.subscriptions.SubscribeQuietly(ctx, url)
}

// Unsubscribe ends the subscription to a feed.
func (d *Daemon) Unsubscribe(ctx context.Context, url string) error {
	if isPrivateName(url) {
		return d.private.unsubscribe(url)
	}
	return d.subscriptions.Unsubscribe(ctx, url)
}

// Resubscribe makes a subscription again that the user has ended.
func (d *Daemon) Resubscribe(ctx context.Context, url string) error {
	if isPrivateName(url) {
		return d.private.resubscribe(url)
	}
	return d.subscriptions.Resubscribe(ctx, url)
}

// SubscribeAs subscribes to a feed of the network and describes it. A private feed with this address is only described.
func (d *Daemon) SubscribeAs(ctx context.Context, url string, description proxy.Description) error {
	if name, private := d.private.FindPrivate(url); private {
		return d.private.describe(name, description)
	}
	return d.subscriptions.SubscribeAs(ctx, url, description)
}

// Describe stores the user's description of a feed.
func (d *Daemon) Describe(ctx context.Context, url string, description proxy.Description) error {
	if isPrivateName(url) {
		return d.private.describe(url, description)
	}
	return d.subscriptions.Describe(ctx, url, description)
}

// follows reports whether the node follows a feed, or, if url is "", has a search. An error counts as yes.
func (d *Daemon) follows(ctx context.Context, url, query string) bool {
	if isPrivateName(url) {
		_, ok := d.private.version(url)
		return ok
	}
	if url != "" {
		_, ok := d.subscriptions.version(url)
		return ok
	}
	same, err := d.sameWatches(ctx, query, 0)
	return err != nil || len(same) > 0
}
