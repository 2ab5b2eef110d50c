package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"tidings/corona"
	"tidings/corona/coronapb"
	"tidings/difference"
	"tidings/feedtree"
	"tidings/internal/feed"
	"tidings/internal/fetch"
	"tidings/overlay"
	"tidings/proxy"
)

// firstReadTimeout bounds how long a reader waits for a feed that the node has not read yet.
const firstReadTimeout = 10 * time.Second

// reading returns the documents that readers ask for, from the feeds that are subscribed to, or else from the
// origins.
type reading struct {
	*nodeLoop
	subscriptions *subscriptions
	copies        *documentCopies
	fetch         *fetch.Client
	allowPrivate  bool // the node may poll origins on private addresses
}

// Read returns the window of a feed, or the document if the node does not subscribe to it; see
// proxy.Subscriptions.
func (r *reading) Read(ctx context.Context, url string) (proxy.Window, error) {
	ctx, cancel := context.WithTimeout(ctx, firstReadTimeout)
	defer cancel()
	if _, ok := r.subscriptions.version(url); !ok {
		return r.fetchOnce(ctx, url)
	}
	for {
		changed := r.subscriptions.changed(url)
		w, err := r.window(ctx, url)
		switch {
		case err != nil && (ctx.Err() == nil || w.Version == 0 && w.State == ""):
			return w, asBusy(err)
		case w.Document.Head.Raw != nil:
			return w, nil
		case w.State != proxy.StateNew && w.State != proxy.StateOK && w.State != "":
			return w, r.trouble(url, w.State, w.StateDetail)
		}
		select {
		case <-changed:
			if _, ok := r.subscriptions.version(url); !ok {
				return w, fmt.Errorf("read %s: %w", url, proxy.ErrNoSubscription)
			}
		case <-ctx.Done():
			return w, &proxy.ReadError{URL: url, Kind: proxy.ErrTimeout, Reason: "no node of the network has read it yet: try again in a minute"}
		}
	}
}

// asBusy turns a deadline that passed while this node was asked into proxy.ErrBusy.
func asBusy(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w: this node has too much to do, and did not answer in time", proxy.ErrBusy)
	}
	return err
}

// window reads the window of a feed on the loop.
func (r *reading) window(ctx context.Context, url string) (proxy.Window, error) {
	type answer struct {
		doc   feedtree.Document
		sub   feedtree.Subscription
		polls pollState
		told  bool
	}
	version, _ := r.subscriptions.version(url)
	now := time.Now()
	a, err := ask(ctx, r, func(say func(answer)) {
		r.readWindow(r.key(url), func(sub feedtree.Subscription, doc feedtree.Document) {
			polls, told := pollStateOf(r.node, sub, now)
			say(answer{doc, sub, polls, told})
		})
	})
	if err != nil {
		return proxy.Window{}, fmt.Errorf("read %s: %w", url, err)
	}
	w := proxy.Window{Version: minuteVersion(version, now), Fetched: a.sub.Confirmed, State: proxy.StateNew}
	if a.doc.Head != nil {
		w.Document = feed.Document{Base: originURL(url), Head: *a.doc.Head, Entries: a.doc.Entries, Changed: a.doc.Changed}
		if a.sub.Publisher != nil {
			w.Document.Publisher = a.sub.Publisher.Publisher()
		}
		w.State = proxy.StateOK
	}
	if s := a.polls; a.told {
		w.State, w.StateDetail = s.String(), s.Detail
		switch {
		case s.Kind != coronapb.State_OK && s.Kind != coronapb.State_NEW:
			w.Stale, w.Fetched = s.Detail, s.Since
		case s.pollerGone:
			w.Stale, w.Fetched = s.Detail, s.Polled
		case !s.Polled.IsZero():
			w.Fetched = s.Polled
		}
	}
	if a.sub.Repairing && w.Stale == "" && a.doc.Head != nil {
		w.Stale = "items may be missing: other nodes are asked for them"
	}
	return w, nil
}

// trouble returns the error for a channel that was never read, from the state of its polls.
func (r *reading) trouble(url, state, text string) *proxy.ReadError {
	kind := proxy.ErrUnreachable
	switch state {
	case kindName(coronapb.State_NOT_A_FEED), kindName(coronapb.State_BROKEN), kindName(coronapb.State_TOO_LARGE):
		switch {
		case proxy.KindOf(url) == proxy.KindPage:
			kind = proxy.ErrNotPage
		case state == kindName(coronapb.State_BROKEN):
			kind, text = proxy.ErrNotFeed, brokenFeed(text)
		default:
			kind = proxy.ErrNotFeed
		}
	case kindName(coronapb.State_MISSING):
		kind = proxy.ErrNotFound
	case kindName(coronapb.State_GONE):
		kind = proxy.ErrGone
	case kindName(coronapb.State_REFUSED):
		if kind = proxy.ErrForbidden; !r.allowPrivate {
			text += "; " + allowPrivateRemedy
		}
	case kindName(coronapb.State_LIMITED):
		kind = proxy.ErrBusy
	}
	return &proxy.ReadError{URL: url, Kind: kind, Reason: text}
}

// brokenFeed returns the text for a broken feed.
func brokenFeed(why string) string {
	return "a broken feed: " + strings.TrimPrefix(why, feed.ErrBroken.Error()+": ")
}

func kindName(k coronapb.State_Kind) string { return corona.State{Kind: k}.String() }

// fetchOnce returns a document for a reader who does not subscribe. It may be a copy that is a few minutes
// old.
func (r *reading) fetchOnce(ctx context.Context, url string) (proxy.Window, error) {
	copied, err := r.fetchCopy(ctx, url, copyMaxAge)
	if err != nil {
		return proxy.Window{}, fmt.Errorf("read %s: %w", url, err)
	}
	if copied.feed == nil && copied.offer.Page && copied.state.Kind == coronapb.State_NOT_A_FEED {
		return proxy.Window{}, &proxy.ReadError{URL: url, Kind: proxy.ErrNotFeed, Reason: copied.state.Detail + "; its changes can be followed as " + feed.PageChannel(url)}
	}
	if copied.feed == nil {
		return proxy.Window{}, r.trouble(url, copied.state.String(), copied.state.Detail)
	}
	w := proxy.Window{
		Document: feed.Document{Base: originURL(url), Head: copied.feed.Head},
		Version:  copied.version, Fetched: copied.at, State: proxy.StateOK,
	}
	if copied.state.Kind != coronapb.State_OK {
		w.State, w.StateDetail, w.Stale = copied.state.String(), copied.state.Detail, copied.state.Detail
	}
	if publisher, ok := copied.feed.Head.Publisher(); ok { // unverified: the node does not follow the feed's log
		w.Document.Publisher = &publisher
	}
	for _, it := range copied.feed.Items {
		w.Document.Entries = append(w.Document.Entries, feed.Entry{Item: it, Arrived: copied.at})
	}
	return w, nil
}

// fetchCopy returns a document directly from the origin, or a copy that is not older than maxAge. It serves
// readers who do not subscribe, and the search for a publisher's key.
func (r *reading) fetchCopy(ctx context.Context, url string, maxAge time.Duration) (documentCopy, error) {
	if err := r.do(ctx, func() {}); err != nil { // the network must be known
		return documentCopy{}, asBusy(err)
	}
	key := r.key(url)
	copied, wait := r.copies.get(key, time.Now(), maxAge)
	if wait == nil {
		return copied, nil
	}
	if err := r.do(ctx, func() { r.node.Fetch(key, url) }); err != nil {
		return documentCopy{}, asBusy(err)
	}
	select {
	case <-wait:
		copied, _ = r.copies.get(key, time.Now(), copyMaxAge)
		return copied, nil
	case <-ctx.Done():
		return documentCopy{}, proxy.ErrTimeout
	}
}

// Inspect says what is at an address; see proxy.Subscriptions.
func (r *reading) Inspect(ctx context.Context, url string) (proxy.Inspection, error) {
	copied, err := r.fetchCopy(ctx, url, copyMaxAge)
	if err != nil {
		return proxy.Inspection{}, fmt.Errorf("read %s: %w", url, err)
	}
	isPage, o := proxy.KindOf(url) == proxy.KindPage, copied.offer
	result := proxy.Inspection{Feed: !isPage && copied.feed != nil || o.Feed, Page: o.Page, Warning: o.Doubt, Redirected: o.Redirected}
	if result.Counts = o.Counts; o.Missing != "" {
		return result, &proxy.ReadError{URL: url, Kind: proxy.ErrNotPage, Reason: o.Missing}
	}
	if !isPage && !result.Feed {
		if copied.state.Kind == coronapb.State_BROKEN { // a broken feed is not followed as a page
			return result, r.trouble(url, copied.state.String(), copied.state.Detail)
		}
		result.NotFeedReason = copied.state.Detail
	}
	for _, l := range o.Feeds {
		// A public page may not choose addresses behind the reader's router, so only its public links are
		// offered, as with redirects.
		if !o.Private && !r.fetch.IsPublic(ctx, l.URL) {
			continue
		}
		result.Feeds = append(result.Feeds, proxy.Choice{URL: l.URL, Title: l.Title, Kind: proxy.KindFeed, Comments: l.Comments})
	}
	switch {
	case result.Feed || result.Page || len(result.Feeds) > 0:
	case isPage && copied.state.Kind == coronapb.State_OK:
		return result, &proxy.ReadError{URL: url, Kind: proxy.ErrNotPage, Reason: "the page has no text without JavaScript"}
	default:
		return result, r.trouble(url, copied.state.String(), copied.state.Detail)
	}
	return result, nil
}

// originURL returns the address of a channel's document at its origin.
func originURL(channel string) string {
	address, _ := feed.DocumentURL(channel)
	return address
}

// readWindow calls then on the loop with a subscription and those entries of its window that readers may see.
func (n *nodeLoop) readWindow(key overlay.ID, then func(feedtree.Subscription, feedtree.Document)) {
	n.node.NodeOf(key).Feeds.Read(key, n.visible(key, then))
}

// readUnknown is readWindow without the content of those items that are known, unless only the items themselves show whether readers
// may see them.
func (n *nodeLoop) readUnknown(key overlay.ID, known func(feed.ID, feed.Hash) bool, then func(feedtree.Subscription, feedtree.Document)) {
	feeds := n.node.NodeOf(key).Feeds
	if s, _ := feeds.Subscription(key); attributesOf(s).RequiredProvenance != "" {
		n.readWindow(key, then)
		return
	}
	feeds.ReadUnknown(key, func(v difference.Version) bool { return known(v.ID, v.Hash) }, n.visible(key, then))
}

// readItems is readWindow for some items.
func (n *nodeLoop) readItems(key overlay.ID, ids []feed.ID, then func(feedtree.Subscription, feedtree.Document)) {
	n.node.NodeOf(key).Feeds.ReadItems(key, ids, n.visible(key, then))
}

// visible returns a function that passes what readers may see of a document to then.
func (n *nodeLoop) visible(key overlay.ID, then func(feedtree.Subscription, feedtree.Document)) func(feedtree.Document) {
	return func(doc feedtree.Document) {
		s, _ := n.node.NodeOf(key).Feeds.Subscription(key) // reading the log has filled in its title and language
		doc.Entries = withRequiredProvenance(s, doc)
		then(s, doc)
	}
}

// withRequiredProvenance returns the entries of a document that have the provenance which the subscription requires, if it
// requires any. An item that was edited is shown as owners have seen it until they have seen the edit.
func withRequiredProvenance(s feedtree.Subscription, doc feedtree.Document) []feed.Entry {
	required := attributesOf(s).RequiredProvenance
	if required == "" {
		return doc.Entries
	}
	for i, e := range doc.Entries {
		if former, ok := doc.Vouched[e.Item.ID]; ok && !feedtree.AtLeast(e.Provenance, required) {
			doc.Entries[i] = former
		}
	}
	return slices.DeleteFunc(doc.Entries, func(e feed.Entry) bool { return !feedtree.AtLeast(e.Provenance, required) })
}
