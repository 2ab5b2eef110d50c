package daemon

import (
	"slices"
	"time"

	"tidings/cobra"
	"tidings/cobra/firehose"
	"tidings/corona"
	"tidings/difference"
	"tidings/feedtree"
	"tidings/internal/env"
	"tidings/internal/feed"
	"tidings/overlay"
	"tidings/overlay/libp2p"
	"tidings/overlay/scribe"
)

// events returns the callbacks that pass the host's events to the node on its loop.
func (d *Daemon) events() libp2p.Events {
	return libp2p.Events{
		Receive: func(from env.PeerID, class env.Class, frame []byte) bool {
			call := func() { d.receive(from, frame) }
			if class == env.Control && overlay.Urgent(frame) && d.loop.PostUrgent(call) {
				return true
			}
			return d.loop.Post(class, call)
		},
		Found: func(p env.Peer) {
			d.loop.Post(env.Control, func() { d.node.Found(p) })
		},
		Reachable: func(addrs []string) { // a rare event that is not repeated, so it is never dropped
			d.loop.Deliver(func() { d.node.Reachable(addrs) })
		},
		AddressesChanged: func() { // likewise
			d.loop.Deliver(func() { d.node.Moved() })
		},
		PeerDown: func(id env.PeerID) {
			d.loop.Post(env.Control, func() { d.node.PeerDown(id) })
		},
		Useful: func(ids []env.PeerID, then func([]bool)) bool {
			return d.loop.Post(env.Control, func() { then(d.node.Useful(ids)) })
		},
	}
}

// receive gives a frame to the node, and blames the peer if the frame breaks the protocol.
func (d *Daemon) receive(from env.PeerID, frame []byte) {
	if err := d.node.Receive(from, frame); err != nil {
		d.log.Debug("invalid frame from a peer dropped", "peer", libp2p.PeerIDString(from), "err", err)
		d.host.Blame(from)
	}
}

// nodeEvents implements [node.Application]. Its methods are called on the loop.
type nodeEvents Daemon

func (d *nodeEvents) News(key overlay.ID, changes []difference.Change, _ time.Time) {
	d.subscriptions.markChanged(key)
	s, ok := d.node.NodeOf(key).Feeds.Subscription(key)
	if ok && attributesOf(s).RequiredProvenance != "" { // items that need the confirmation of owners are reported by Witnessed
		changes = slices.DeleteFunc(slices.Clone(changes), func(c difference.Change) bool {
			return c.Publication == nil || !s.Publisher.Valid(c.Publication.Key)
		})
	}
	if ok {
		d.recorder.markChanges(s.URL, changes, d.foundHere(key, s.URL, changes))
		d.reportShown(s.URL, changes)
		d.keywords.addItems(s, changes)
	}
}

// foundHere returns which items of changes this node has found itself. Of a page that several nodes poll it does not know.
func (d *nodeEvents) foundHere(key overlay.ID, url string, changes []difference.Change) (found []feed.ID) {
	if _, isPage := feed.DocumentURL(url); !isPage {
		return d.sighted.among(key, changes)
	}
	slot, polls := d.node.Corona.Slot(key)
	if _, alone := d.node.Corona.Alone(key); alone || polls && slot.Of == 1 {
		for i := range changes {
			found = append(found, changes[i].Item.ID)
		}
	}
	return found
}

func (d *nodeEvents) Witnessed(key overlay.ID, items []feed.ID) {
	if s, ok := d.node.NodeOf(key).Feeds.Subscription(key); !ok || attributesOf(s).RequiredProvenance != feedtree.Witnessed {
		return
	}
	d.readItems(key, items, func(s feedtree.Subscription, doc feedtree.Document) {
		var changes []difference.Change
		for _, e := range doc.Entries {
			if e.Provenance != feedtree.ByPublisher && slices.Contains(items, e.Item.ID) {
				changes = append(changes, difference.Change{Item: e.Item})
			}
		}
		d.recorder.markChanges(s.URL, changes, d.foundHere(key, s.URL, changes))
		d.reportShown(s.URL, changes)
		d.keywords.addItems(s, changes)
	})
}

func (d *nodeEvents) Saw(key overlay.ID, doc *feed.Feed) {
	if _, follows := d.node.Feeds.Subscription(key); follows {
		d.sighted.saw(key, doc)
	}
}

func (d *nodeEvents) Dispatched(dispatch firehose.Dispatch) bool {
	if s, ok := d.node.Feeds.Subscription(dispatch.Entry.Key); ok && attributesOf(s).RequiredProvenance != "" {
		return true // the entry also comes down the feed's tree, where its provenance is checked
	}
	return d.keywords.addEntry(dispatch)
}

func (d *nodeEvents) Reflect(a *cobra.Article, done func(ok bool)) {
	d.keywords.reflect(a, func(ok bool) { d.loop.Deliver(func() { done(ok) }) })
}

func (d *nodeEvents) StateChanged(key overlay.ID) { d.subscriptions.markChanged(key) }
func (d *nodeEvents) Deliver(m scribe.Delivery)   { d.config.Deliver(m) }

func (d *nodeEvents) Fetched(key overlay.ID, f *feed.Feed, o corona.Offer, state corona.State) {
	d.copies.fetched(key, f, o, state, time.Now())
}

// reportShown calls OnShown for items that readers can see from now on.
func (d *nodeEvents) reportShown(url string, changes []difference.Change) {
	if d.config.OnShown == nil {
		return
	}
	titles := make([]string, len(changes))
	for i := range changes {
		m, _ := changes[i].Item.Meaning(url) // an unreadable item has no title
		titles[i] = m.Title
	}
	d.config.OnShown(url, titles)
}
