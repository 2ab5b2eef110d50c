package daemon

import (
	"context"
	"time"

	"tidings/difference"
	"tidings/overlay"
)

// The methods below are for laboratories and the demo.

// SubscribeClients subscribes to a feed on behalf of several clients, who read the feed through this node.
func (d *Daemon) SubscribeClients(ctx context.Context, url string, clients int) error {
	failed, err := ask(ctx, d, func(answer func(error)) {
		key, a := d.key(url), attributes{LastRead: time.Now().Unix()}
		d.node.Feeds.Subscribe(url, clients, a.encode(), func(err error) {
			if err == nil {
				d.readIndex.add(url, key, a)
			}
			answer(err)
		})
	})
	if err == nil {
		err = failed
	}
	return err
}

// JoinAddresses returns the addresses through which other nodes can join, and the estimated number of members
// of the network. The number is 0 until this node is a member itself.
func (d *Daemon) JoinAddresses(ctx context.Context) (addrs []string, members int, err error) {
	s, err := d.Snapshot(ctx)
	if err != nil || s.State != overlay.Active {
		return s.Addrs, 0, err
	}
	return s.Addrs, max(s.Size, 1), nil
}

// SentBytes returns how many bytes of frames the node has sent to others.
func (d *Daemon) SentBytes() int {
	s := d.host.Stats()
	return int(s.Control.BytesOut + s.Bulk.BytesOut)
}

// reportShown calls OnShown for items that readers can see from now on.
func (d *Daemon) reportShown(key overlay.ID, changes []difference.Change) {
	if d.config.OnShown == nil {
		return
	}
	s, ok := d.node.Feeds.Subscription(key)
	if !ok {
		return
	}
	titles := make([]string, len(changes))
	for i := range changes {
		m, _ := changes[i].Item.Meaning(s.URL) // an unreadable item has no title
		titles[i] = m.Title
	}
	d.config.OnShown(s.URL, titles)
}
