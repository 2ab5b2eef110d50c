package node

import (
	"slices"
	"time"

	"tidings/cobra"
	"tidings/cobra/firehose"
	"tidings/corona"
	"tidings/corona/coronapb"
	"tidings/difference"
	"tidings/difference/page"
	"tidings/feedtree"
	"tidings/internal/env"
	"tidings/internal/feed"
	"tidings/overlay"
	"tidings/overlay/owner"
	"tidings/overlay/scribe"
	"tidings/overlay/wedge"
)

// The way of one item through the layers:
//
//	origin ─► corona ── Found ──► feedtree.Append ─► owner.Append ─► a quorum commits it
//	                                                                     │ Committed
//	reader ◄─ feedtree.Read ◄─ News ◄─ VisibleChanged ◄─ owner.Offer ◄─ scribe ◄─ feedtree.Committed
//	filter ◄─ Dispatched ◄─ owners of its shard ◄──────────────────── firehose.Report
//
// A publisher's item arrives another way and then goes on as above:
//
//	Publish ─► feedtree ── routed ──► feedtree.accept ─► owner.Append
//
// Two connections are not shown: corona learns when all items of a change report are committed, and a
// reader's Subscribe goes down to feedtree, owner and scribe. When the key has owners, BecameSequencer starts
// the polls at one of them.

// An Application receives the events of a node.
type Application interface {
	// News reports items that readers see for the first time, or in a new version.
	News(key overlay.ID, changes []difference.Change, at time.Time)

	// Witnessed reports items of a subscription that enough owners of the feed have now seen at the origin.
	Witnessed(key overlay.ID, items []feed.ID)

	// Saw reports a document of a feed that this node has just fetched itself. What is new in it is reported by News later.
	Saw(key overlay.ID, doc *feed.Feed)

	// StateChanged reports that the state of a subscription's polls has changed.
	StateChanged(key overlay.ID)

	// Fetched answers Fetch with the document, or with nil and what is there instead, and with the state of
	// the request.
	Fetched(key overlay.ID, f *feed.Feed, o corona.Offer, state corona.State)

	// Dispatched gives a filter a new entry of any channel. It returns false if there is no room for it now.
	Dispatched(d firehose.Dispatch) bool

	// Reflect gives a reflector of a hosting centre an article; see tiers.Application.
	Reflect(a *cobra.Article, done func(ok bool))

	// Deliver receives messages of groups that are not feeds.
	Deliver(d scribe.Delivery)
}

// A FeedLayer is the part of feedtree.FeedTree that the other layers use.
type FeedLayer interface {
	env.Layer
	Receive(from env.PeerID, body []byte) error
	Route(publication []byte) // of a publisher, at the root of its feed's key

	// The replicated log, and what comes down its tree.
	Lead(key overlay.ID, on bool, ready func(known *difference.Known))
	Committed(key overlay.ID, e *owner.Entry, body []byte)
	VisibleChanged(key overlay.ID)
	Absorb(key overlay.ID, body []byte)
	Absorbing(key overlay.ID) bool
	AppendAbsorbed(key overlay.ID)
	BranchMerged(key overlay.ID)
	Doubted(key overlay.ID)
	HasTree(group overlay.ID) bool
	Deliver(d scribe.Delivery)
	About(key overlay.ID) feedtree.About

	// What corona has found, and the state of its polls.
	Append(key overlay.ID, d difference.Delta, doc *feed.Feed, done func(ok bool)) bool
	Fetched(key overlay.ID, url string, doc *feed.Feed, secure bool)
	FetchedPage(key overlay.ID, url string, text *page.Core)
	SetState(key overlay.ID, state []byte, send, atOnce bool)
	Fading(key overlay.ID, items int) []feed.ID
	Recall(key overlay.ID, then func(*difference.Known))
	ShowAlone(key overlay.ID, d difference.Delta)
	Show(key overlay.ID, f *feed.Feed)
}

// Fetch fetches the document of a URL once, for a reader who does not subscribe.
func (n *Node) Fetch(key overlay.ID, url string) { n.Corona.FetchOnce(key, url) }

// deliver receives the messages of groups from scribe.
func (n *Node) deliver(d scribe.Delivery) {
	if n.feeds.HasTree(d.Group) {
		n.feeds.Deliver(d)
		return
	}
	n.app.Deliver(d)
}

// handle handles an event of overlay/owner.
func (n *Node) handle(ev owner.Event) {
	switch ev := ev.(type) {
	case owner.BecameSequencer:
		n.becameSequencer(ev.Key)
	case owner.CeasedSequencer:
		n.Corona.Cease(ev.Key)
		n.feeds.Lead(ev.Key, false, nil)
	case owner.Committed:
		n.feeds.Committed(ev.Entry.Key, ev.Entry, ev.Body)
		about := n.feeds.About(ev.Entry.Key)
		n.Firehose.Report(firehose.Dispatch{
			URL: ev.URL, Title: about.Title, Link: about.Link, Language: about.Language, Entry: ev.Entry, Body: ev.Body,
		}, ev.Epoch)
	case owner.Appended:
		ev.Done(ev.OK)
	case owner.VisibleChanged:
		n.feeds.VisibleChanged(ev.Key)
	case owner.Absorb:
		n.feeds.Absorb(ev.Key, ev.Body)
	case owner.BranchMerged:
		n.feeds.BranchMerged(ev.Key)
	case owner.Doubted:
		n.feeds.Doubted(ev.Key)
	case owner.Wanted:
		n.Firehose.Wanted(ev.Key)
	}
}

func (n *Node) becameSequencer(key overlay.ID) {
	v, _ := n.Owners.View(key)
	if _, ok := overlay.StewardDomain(v.URL); ok || overlay.IsShardURL(v.URL) {
		return // its owners keep no log; corona and firehose ask Owners who they are
	}
	n.feeds.Lead(key, true, func(known *difference.Known) {
		v, _ := n.Owners.View(key)
		n.Corona.Lead(key, v.URL, (*coronaApp)(n).Term(key), known, n.Owners.Note(key))
		n.feeds.AppendAbsorbed(key) // publications that came while the log was read
	})
}

// ownerApp is the application of overlay/owner.
type ownerApp Node

func (n *ownerApp) Emit(ev owner.Event) { n.events.Emit(ev) }

func (n *ownerApp) Absorbing(key overlay.ID) bool {
	return n.feeds.Absorbing(key) || slices.ContainsFunc(n.events.Waiting(), func(ev owner.Event) bool {
		a, ok := ev.(owner.Absorb)
		return ok && a.Key == key
	})
}

func (n *ownerApp) Weight(key overlay.ID) (int, bool) {
	if n.Corona.StewardKeyInUse(key) || n.Firehose.IsWanted(key) {
		return 1, true
	}
	return n.Scribe.Weight(key)
}

func (n *ownerApp) Siblings(key overlay.ID) []*overlay.Contact { return n.Scribe.Children(key) }

// feedApp is the application of feedtree.
type feedApp Node

func (n *feedApp) News(key overlay.ID, changes []difference.Change, at time.Time) {
	n.app.News(key, changes, at)
}

func (n *feedApp) Witnessed(key overlay.ID, items []feed.ID) { n.app.Witnessed(key, items) }

func (n *feedApp) StateChanged(key overlay.ID, _ []byte, _ time.Time) { n.app.StateChanged(key) }

func (n *feedApp) Fetch(key overlay.ID, url string) {
	if n.quiet != nil {
		n.Corona.FetchOnce(key, url)
	}
}

func (n *feedApp) PollAlone(key overlay.ID, url string, on bool) {
	if n.unheard = on; n.quiet != nil {
		n.Corona.PollAlone(key, url, on)
	}
}

func (n *feedApp) HandOver(key overlay.ID, head *feed.Head, found []feed.Item, known []difference.Entry) {
	n.Corona.HandOver(key, head, found, known)
}

func (n *feedApp) Look(key overlay.ID, url string) bool { return n.Corona.Look(key, url) }

func (n *feedApp) Contested(key overlay.ID, items []difference.Version) {
	n.Corona.Contested(key, items)
}

func (n *feedApp) Interval(state []byte) (interval time.Duration, ok bool) {
	s, err := corona.ParseState(state)
	return s.Interval, err == nil && len(state) > 0 && s.Kind == coronapb.State_OK
}

func (n *feedApp) PollSoon(key overlay.ID) int { return n.Corona.PollSoon(key) }

func (n *feedApp) Pushed(key overlay.ID) bool {
	s, ok := corona.NotedState(n.Owners.Note(key))
	return ok && s.Hub != ""
}

func (n *feedApp) Looking(key overlay.ID, owners int) { n.Corona.Looking(key, owners) }

func (n *feedApp) Filter(key overlay.ID, d difference.Delta) difference.Delta {
	return n.Corona.Filter(key, d)
}

// coronaApp is the application of corona.
type coronaApp Node

func (n *coronaApp) Found(key overlay.ID, d difference.Delta, doc *feed.Feed, done func(ok bool)) bool {
	return n.feeds.Append(key, d, doc, done)
}

func (n *coronaApp) Saw(key overlay.ID, url string, doc *feed.Feed, secure bool) {
	n.feeds.Fetched(key, url, doc, secure)
	if doc != nil {
		n.app.Saw(key, doc)
	}
}

func (n *coronaApp) SawPage(key overlay.ID, url string, text *page.Core) {
	n.feeds.FetchedPage(key, url, text)
}

func (n *coronaApp) StateChanged(key overlay.ID, state []byte, urgency corona.Urgency) {
	n.feeds.SetState(key, state, urgency != corona.NotUrgent, urgency == corona.AtOnce)
}

// SetNote leaves the note as it was if the node no longer leads the key, or if an origin has made the note too large.
func (n *coronaApp) SetNote(key overlay.ID, note []byte) { _ = n.Owners.SetNote(key, note) }

func (n *coronaApp) Weight(key overlay.ID) int {
	if weight, ok := n.Scribe.Weight(key); ok {
		return weight // this node is the tree's root
	}
	v, _ := n.Owners.View(key)
	return v.Weight
}

// trees tells corona of the second trees of feeds.
type trees struct{ *scribe.Scribe }

func (trees) Shadow(feed overlay.ID) overlay.ID { return feedtree.ShadowOf(feed) }

func (n *coronaApp) Owns(key overlay.ID) bool {
	v, ok := n.Owners.View(key)
	return ok && v.Owns
}

func (n *coronaApp) Leader(key overlay.ID) (env.Peer, bool) {
	v, ok := n.Owners.View(key)
	if !ok || v.Epoch == nil {
		return env.Peer{}, false
	}
	if c := n.Overlay.Contact(v.Epoch.Sequencer); c != nil {
		return c.Peer, true
	}
	return env.Peer{ID: v.Epoch.Sequencer}, true
}

func (n *coronaApp) Term(key overlay.ID) uint64 {
	v, ok := n.Owners.View(key)
	if !ok || v.Epoch == nil {
		return 0
	}
	return uint64(v.Epoch.Time.UnixMilli())
}

func (n *coronaApp) Fading(key overlay.ID, items int) []feed.ID { return n.feeds.Fading(key, items) }

func (n *coronaApp) Recall(key overlay.ID, then func(*difference.Known)) { n.feeds.Recall(key, then) }

func (n *coronaApp) ShowAlone(key overlay.ID, d difference.Delta) { n.feeds.ShowAlone(key, d) }

func (n *coronaApp) AloneStateChanged(key overlay.ID) { n.app.StateChanged(key) }

func (n *coronaApp) Fetched(key overlay.ID, f *feed.Feed, o corona.Offer, state corona.State) {
	if f != nil {
		n.feeds.Show(key, f)
	}
	n.app.Fetched(key, f, o, state)
}

// wedgeApp is the application of overlay/wedge.
type wedgeApp Node

func (n *wedgeApp) Valid(key overlay.ID, _ wedge.Term, payload []byte) bool {
	return n.Corona.Valid(key, payload)
}

func (n *wedgeApp) Willing(key overlay.ID, _ []byte) bool { return n.Corona.Willing(key) }

func (n *wedgeApp) Level(key overlay.ID) int { return n.Corona.Level(key) }

func (n *wedgeApp) Serve(key overlay.ID, d wedge.Assignment) { n.Corona.Serve(key, d) }

func (n *wedgeApp) Release(key overlay.ID) { n.Corona.Release(key) }

func (n *wedgeApp) CatchUp(key overlay.ID) []byte { return n.Corona.Handoff(key) }

func (n *wedgeApp) Delivered(key overlay.ID, _ env.PeerID, message []byte) {
	n.Corona.Delivered(key, message)
}

// publicationHandler passes routed publications to feedtree.
type publicationHandler Node

func (n *publicationHandler) Forward(*overlay.Message) bool { return false }

func (n *publicationHandler) Deliver(m *overlay.Message) { n.feeds.Route(m.Payload) }

func (n *publicationHandler) PeerGone(env.PeerID) {}

func (n *publicationHandler) LeafChanged() {}

// changeReportHandler passes routed change reports to corona.
type changeReportHandler Node

func (n *changeReportHandler) Forward(*overlay.Message) bool { return false }

func (n *changeReportHandler) Deliver(m *overlay.Message) { n.Corona.Deliver(m.Key, m.Payload) }

func (n *changeReportHandler) PeerGone(env.PeerID) {}

func (n *changeReportHandler) LeafChanged() {}

// Useful reports for each peer whether this node needs the connection: to members of its leaf and table, to
// its hosts and clients, to its neighbours in trees, and to those that circuits lead to.
func (n *Node) Useful(ids []env.PeerID) []bool {
	partners, circuits := n.Overlay.Partners(), n.Relay.Partners()
	useful := make([]bool, len(ids))
	for i, id := range ids {
		useful[i] = partners[id] || circuits[id] || n.Scribe.Neighbour(id)
	}
	return useful
}
