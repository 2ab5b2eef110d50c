package daemon

import (
	"context"
	"time"

	"tidings/difference"
	"tidings/overlay"
)

// What laboratories and the demo ask of a node beside what its readers do.

// Follow subscribes to a feed for several clients at once, who read it through this node.
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

// Door returns where others can join through this node, and how many members its network has as
// far as it knows: 0 as long as it is none itself.
func (d *Daemon) JoinAddresses(ctx context.Context) (addrs []string, members int, err error) {
	s, err := d.Snapshot(ctx)
	if err != nil || s.State != overlay.Active {
		return s.Addrs, 0, err
	}
	return s.Addrs, max(s.Size, 1), nil
}

// SentBytes is how many bytes the node has sent to others, as frames.
func (d *Daemon) SentBytes() int {
	s := d.host.Stats()
	return int(s.Control.BytesOut + s.Bulk.BytesOut)
}

// show tells of items that readers have from now on.
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
		m, _ := changes[i].Item.Meaning(s.URL) // what cannot be read has no title
		titles[i] = m.Title
	}
	d.config.OnShown(s.URL, titles)
}
