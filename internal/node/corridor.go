package node

import (
	"time"

	"tidings/cobra/firehose"
	"tidings/corona"
	"tidings/difference"
	"tidings/internal/env"
	"tidings/internal/feed"
	"tidings/overlay"
	"tidings/overlay/owner"
	"tidings/overlay/scribe"
	"tidings/overlay/wedge"
)

// The way of one item:
//
//	origin ─► corona ── Found ──► feedtree.Append ─► owner.Append ─► a quorum holds it
//	                                                                     │ Committed
//	reader ◄─ feedtree.Read ◄─ News ◄─ VisibleChanged ◄─ owner.Offer ◄─ scribe ◄─ feedtree.Committed
//	filter ◄─ Dispatched ◄─ owners of its shard ◄──────────────────── firehose.Report
//
// A publisher's item comes another way, and goes on from there:
//
//	Publish ─► feedtree ── routed ──► feedtree.accept ─► owner.Append
//
// Two short side lines: that all of a finding is held comes back to corona, and a
// reader's Subscribe goes down to feedtree, owner and scribe.

// An Application is what a node's owner makes of it.
type Application interface {
	// News tells of items that readers see for the first time, or in a new
	// version.
	News(key overlay.ID, changes []difference.Change, at time.Time)

	// Told tells that the state of a subscription's polls has changed.
	Told(key overlay.ID)

	// Fetched answers Fetch: the document, nil if there is none, what is offered in its place,
	// and how the request went.
	Fetched(key overlay.ID, f *feed.Feed, o corona.Offer, state corona.State)

	// Dispatched brings a filter a new entry of any channel; false: it has no room now.
	Dispatched(d firehose.Dispatch) bool

	// Deliver takes what a group brought that is no feed's.
	Deliver(d scribe.Delivery)
}

// Fetch fetches the document of a URL once, for a reader who does not subscribe.
func (n *Node) Fetch(key overlay.ID, url string) { n.Corona.FetchOnce(key, url) }

// deliver takes what scribe brings.
func (n *Node) deliver(d scribe.Delivery) {
	if n.Feeds.HasTree(d.Group) {
		n.Feeds.Deliver(d)
		return
	}
	n.out.Deliver(d)
}

// ownerSide is what overlay/owner sees of the layers above it.
type ownerSide Node

func (n *ownerSide) Lead(key overlay.ID, on bool) {
	if !on {
		n.Corona.Cease(key)
		n.Feeds.Lead(key, false, nil)
		return
	}
	v, _ := n.Owners.View(key)
	if _, ok := overlay.StewardDomain(v.URL); ok || overlay.IsShardURL(v.URL) {
		return // its owners keep no log, and corona and firehose ask Owners who they are
	}
	n.Feeds.Lead(key, true, func(known *difference.Known) {
		v, _ := n.Owners.View(key)
		n.Corona.Lead(key, v.URL, (*pollSide)(n).Term(key), known, n.Owners.Note(key))
		n.Feeds.AppendAbsorbed(key) // what came while the log was read
	})
}

func (n *ownerSide) VisibleChanged(key overlay.ID) { n.Feeds.VisibleChanged(key) }

func (n *ownerSide) Committed(key overlay.ID, e *owner.Entry, body []byte) {
	n.Feeds.Committed(key, e, body)
	v, _ := n.Owners.View(key)
	about := n.Feeds.About(key)
	n.Firehose.Report(firehose.Dispatch{
		URL: v.URL, Title: about.Title, Link: about.Link, Language: about.Language, Entry: e, Body: body,
	}, v.Epoch)
}

func (n *ownerSide) Absorb(key overlay.ID, body []byte) { n.Feeds.Absorb(key, body) }

func (n *ownerSide) BranchMerged(key overlay.ID) { n.Feeds.BranchMerged(key) }

func (n *ownerSide) Absorbing(key overlay.ID) bool { return n.Feeds.Absorbing(key) }

func (n *ownerSide) Weight(key overlay.ID) (int, bool) {
	if n.Corona.StewardKeyInUse(key) || n.Firehose.Serves(key) {
		return 1, true
	}
	return n.Scribe.Weight(key)
}

func (n *ownerSide) Wanted(key overlay.ID) { n.Firehose.Wanted(key) }

func (n *ownerSide) Siblings(key overlay.ID) []*overlay.Contact { return n.Scribe.Children(key) }

// feedSide is what feedtree sees of them.
type feedSide Node

func (n *feedSide) News(key overlay.ID, changes []difference.Change, at time.Time) {
	n.out.News(key, changes, at)
}

func (n *feedSide) StateChanged(key overlay.ID, _ []byte, _ time.Time) { n.out.Told(key) }

func (n *feedSide) Fetch(key overlay.ID, url string) { n.Corona.FetchOnce(key, url) }

func (n *feedSide) PollAlone(key overlay.ID, url string, on bool) { n.Corona.PollAlone(key, url, on) }

func (n *feedSide) HandOver(key overlay.ID, head *feed.Head, found []feed.Item, known []difference.Entry) {
	n.Corona.HandOver(key, head, found, known)
}

func (n *feedSide) Filter(key overlay.ID, d difference.Delta) difference.Delta {
	return n.Corona.Filter(key, d)
}

// pollSide is what corona sees of them.
type pollSide Node

func (n *pollSide) Found(key overlay.ID, d difference.Delta, doc *feed.Feed, done func(ok bool)) bool {
	return n.Feeds.Append(key, d, doc, done)
}

func (n *pollSide) Saw(key overlay.ID, head *feed.Head, secure bool) {
	n.Feeds.HeadFetched(key, head, secure)
}

func (n *pollSide) StateChanged(key overlay.ID, state []byte, haste corona.Urgency) {
	n.Feeds.SetState(key, state, haste != corona.NotUrgent, haste == corona.AtOnce)
}

func (n *pollSide) SetNote(key overlay.ID, note []byte) { _ = n.Owners.SetNote(key, note) } // who leads no longer has none

func (n *pollSide) Weight(key overlay.ID) int {
	if weight, ok := n.Scribe.Weight(key); ok {
		return weight // this node is the tree's root
	}
	v, _ := n.Owners.View(key)
	return v.Weight
}

func (n *pollSide) Owns(key overlay.ID) bool {
	v, ok := n.Owners.View(key)
	return ok && v.Owns
}

func (n *pollSide) Leader(key overlay.ID) (env.Peer, bool) {
	v, ok := n.Owners.View(key)
	if !ok || v.Epoch == nil {
		return env.Peer{}, false
	}
	if c := n.Overlay.Contact(v.Epoch.Sequencer); c != nil {
		return c.Peer, true
	}
	return env.Peer{ID: v.Epoch.Sequencer}, true
}

func (n *pollSide) Term(key overlay.ID) uint64 {
	v, ok := n.Owners.View(key)
	if !ok || v.Epoch == nil {
		return 0
	}
	return uint64(v.Epoch.Time.UnixMilli())
}

func (n *pollSide) Fading(key overlay.ID, items int) []feed.ID { return n.Feeds.Fading(key, items) }

func (n *pollSide) Recall(key overlay.ID, then func(*difference.Known)) { n.Feeds.Recall(key, then) }

func (n *pollSide) ShowAlone(key overlay.ID, d difference.Delta) { n.Feeds.ShowAlone(key, d) }

func (n *pollSide) AloneStateChanged(key overlay.ID) { n.out.Told(key) }

func (n *pollSide) Fetched(key overlay.ID, f *feed.Feed, o corona.Offer, state corona.State) {
	if f != nil {
		n.Feeds.Show(key, f)
	}
	n.out.Fetched(key, f, o, state)
}

// wedgeSide is what the wedges see of them.
type wedgeSide Node

func (n *wedgeSide) Valid(key overlay.ID, _ wedge.Term, words []byte) bool {
	return n.Corona.Valid(key, words)
}

func (n *wedgeSide) Willing(overlay.ID, []byte) bool { return true }

func (n *wedgeSide) Level(key overlay.ID) int { return n.Corona.Level(key) }

func (n *wedgeSide) Serve(key overlay.ID, d wedge.Assignment) { n.Corona.Serve(key, d) }

func (n *wedgeSide) Release(key overlay.ID) { n.Corona.Release(key) }

func (n *wedgeSide) CatchUp(key overlay.ID) []byte { return n.Corona.Handoff(key) }

func (n *wedgeSide) Delivered(key overlay.ID, _ env.PeerID, message []byte) {
	n.Corona.Delivered(key, message)
}

// publicationSide is what the overlay sees of feedtree: publications are routed.
type publicationSide Node

func (n *publicationSide) Forward(*overlay.Message) bool { return false }

func (n *publicationSide) Deliver(m *overlay.Message) { n.Feeds.Route(m.Payload) }

func (n *publicationSide) PeerGone(env.PeerID) {}

func (n *publicationSide) LeafChanged() {}

// findingSide is what the overlay sees of corona: findings are routed.
type findingSide Node

func (n *findingSide) Forward(*overlay.Message) bool { return false }

func (n *findingSide) Deliver(m *overlay.Message) { n.Corona.Deliver(m.Key, m.Payload) }

func (n *findingSide) PeerGone(env.PeerID) {}

func (n *findingSide) LeafChanged() {}

// Uses says for which peers this node has use: the members of its leaf and table, its hosts and clients,
// and its neighbours in trees.
func (n *Node) Uses(ids []env.PeerID) []bool {
	partners := n.Overlay.Partners()
	useful := make([]bool, len(ids))
	for i, id := range ids {
		useful[i] = partners[id] || n.Scribe.Neighbour(id)
	}
	return useful
}
