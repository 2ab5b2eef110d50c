package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"tidings/cobra/firehose"
	"tidings/corona"
	"tidings/corona/coronapb"
	"tidings/difference"
	"tidings/feedtree"
	"tidings/internal/feed"
	"tidings/internal/store"
	"tidings/overlay"
	"tidings/overlay/scribe"
	"tidings/proxy"
)

const (
	// firstReadTimeout bounds how long a reader waits for a feed that the node has not read yet.
	firstReadTimeout = 10 * time.Second
	// lapseAge is how long a subscription made by reading lives without being read.
	lapseAge = 30 * 24 * time.Hour
	// lapseCheckInterval is the time between two checks for lapsed subscriptions, and the minimum time
	// between two writes of the time at which one was read. It is also how long a tentative subscription
	// lives if nothing is accepted.
	lapseCheckInterval = time.Hour
)

var _ proxy.Subscriptions = (*Daemon)(nil)

// nodeEvents implements [node.Application]. Its methods are called on the loop.
type nodeEvents Daemon

func (d *nodeEvents) News(key overlay.ID, changes []difference.Change, _ time.Time) {
	d.readIndex.markChanged(key)
	s, ok := d.node.Feeds.Subscription(key)
	if ok && attributesOf(s).RequiredProvenance != "" {
		changes = slices.DeleteFunc(slices.Clone(changes), func(c difference.Change) bool {
			return c.Publication == nil || !s.Publisher.Good(c.Publication.Key)
		})
	}
	(*Daemon)(d).reportShown(key, changes)
	if ok {
		d.keywords.addItems(s, changes)
	}
}

// withRequiredProvenance returns the entries that have the provenance which the subscription requires, if it
// requires any.
func withRequiredProvenance(s feedtree.Subscription, entries []feed.Entry) []feed.Entry {
	required := attributesOf(s).RequiredProvenance
	if required == "" {
		return entries
	}
	return slices.DeleteFunc(entries, func(e feed.Entry) bool { return e.Provenance != required })
}

func (d *nodeEvents) Dispatched(dispatch firehose.Dispatch) bool {
	if s, ok := d.node.Feeds.Subscription(dispatch.Entry.Key); ok && attributesOf(s).RequiredProvenance != "" {
		return true // the entry also comes down the feed's tree, where its provenance is checked
	}
	return d.keywords.addEntry(dispatch)
}

func (d *nodeEvents) StateChanged(key overlay.ID) { d.readIndex.markChanged(key) }
func (d *nodeEvents) Deliver(m scribe.Delivery)   { d.config.Deliver(m) }

func (d *nodeEvents) Fetched(key overlay.ID, f *feed.Feed, o corona.Offer, state corona.State) {
	d.readIndex.fetched(key, f, o, state, time.Now())
}

// attributes are stored with a subscription.
type attributes struct {
	Auto bool `json:"auto,omitempty"` // made by reading
	// Tentative marks a subscription made by publishing, as long as no item was accepted.
	Tentative bool `json:"tentative,omitempty"`
	// RequiredProvenance is the provenance without which items are not shown; empty: any.
	RequiredProvenance string   `json:"least,omitempty"`
	Tags               []string `json:"tags,omitempty"`
	// Title and Site are shown until the feed has been read.
	Title    string `json:"title,omitempty"`
	Site     string `json:"site,omitempty"`
	LastRead int64  `json:"read,omitempty"` // when the feed was last read, Unix time in seconds, up to lapseCheckInterval late
}

func (a attributes) encode() []byte {
	b, err := json.Marshal(a)
	if err != nil {
		panic(fmt.Sprintf("daemon: attributes: %v", err)) // all fields can be encoded
	}
	return b
}

func attributesOf(s feedtree.Subscription) (a attributes) {
	_ = json.Unmarshal(s.Attributes, &a) // unreadable attributes count as none
	return a
}

// key returns the key of a URL in the node's network, which must be known.
func (d *Daemon) key(url string) overlay.ID { return overlay.Key(d.dataDir.network.Name, url) }

// Subscribe subscribes to a feed; see proxy.Subscriptions.
func (d *Daemon) Subscribe(ctx context.Context, url string, auto bool) error {
	return d.subscribe(ctx, url, attributes{Auto: auto, LastRead: time.Now().Unix()})
}

// subscribe subscribes to a feed. A subscription that the user asked for is never weakened to an automatic or
// tentative one; otherwise the new attributes replace the old ones.
func (d *Daemon) subscribe(ctx context.Context, url string, a attributes) error {
	failed, err := ask(ctx, d, func(answer func(error)) {
		key := d.key(url)
		if old, ok := d.intended(key); ok {
			switch stays := isTemporary(a) || !isTemporary(old); {
			case !stays:
				a.RequiredProvenance, a.Tags, a.Title, a.Site = old.RequiredProvenance, old.Tags, old.Title, old.Site
			case d.pending.byKey[key].number == 0:
				answer(nil)
				return
			default: // the change is being written, so answer when it is done
				a = old
			}
		}
		if a.Auto && d.unsubscribed.has(key) {
			answer(fmt.Errorf("subscribe to %s: %w", url, errUnsubscribed))
			return
		}
		done := d.pending.add(key, a, true)
		d.node.Feeds.Subscribe(url, 1, a.encode(), func(err error) {
			done()
			if err == nil {
				d.readIndex.add(url, key, a)
				if !a.Tentative {
					d.unsubscribed.remove(key)
				}
			}
			answer(err)
		})
	})
	if errors.Is(failed, feedtree.ErrFull) || errors.Is(failed, store.ErrFull) {
		return fmt.Errorf("%w: %w", proxy.ErrFull, failed)
	}
	return errors.Join(failed, err)
}

// Unsubscribe ends a subscription; see proxy.Subscriptions.
func (d *Daemon) Unsubscribe(ctx context.Context, url string) error {
	return d.unsubscribe(ctx, url, nil)
}

// isTemporary reports that no person asked for a subscription.
func isTemporary(a attributes) bool { return a.Auto || a.Tentative }

// unsubscribe ends a subscription if mayEnd allows it. A nil mayEnd stands for a request of the user: reading
// the feed does not subscribe again after that.
func (d *Daemon) unsubscribe(ctx context.Context, url string, mayEnd func(attributes) bool) error {
	failed, err := ask(ctx, d, func(answer func(error)) {
		key := d.key(url)
		a, ok := d.intended(key)
		if ok && mayEnd != nil && !mayEnd(a) {
			answer(nil)
			return
		}
		if !ok {
			err := proxy.ErrUnknown
			page := feed.Page(url)
			if _, ok := d.node.Feeds.Subscription(d.key(page)); ok {
				err = fmt.Errorf("%w, but to %s", err, page)
			}
			answer(fmt.Errorf("unsubscribe from %s: %w", url, err))
			return
		}
		end := func() {
			done := d.pending.add(key, attributes{}, false)
			d.node.Feeds.Unsubscribe(url, func(err error) {
				done()
				if err == nil {
					d.readIndex.remove(url, key)
				}
				answer(err)
			})
		}
		if mayEnd != nil {
			end()
			return
		}
		d.unsubscribed.add(key, time.Now(), func(err error) {
			if err != nil {
				answer(fmt.Errorf("unsubscribe from %s: %w", url, err))
				return
			}
			end()
		})
	})
	return errors.Join(failed, err)
}

// Version returns a number that changes with the result of Read; see proxy.Subscriptions.
func (d *Daemon) Version(url string) (uint64, bool) {
	now := time.Now()
	version, toSave, ok := d.readIndex.noteRead(url, now)
	if toSave != nil {
		d.loop.Deliver(func() {
			// The subscription may have been ended or made permanent since.
			if s, ok := d.node.Feeds.Subscription(d.key(url)); ok && attributesOf(s).Auto {
				d.node.Feeds.Subscribe(url, 1, toSave.encode(), func(error) {})
			}
		})
	}
	return minuteVersion(version, now), ok
}

// minuteVersion returns a version that also changes every minute. The time of the last poll and the state of
// the poller change with time alone, without an event.
func minuteVersion(version uint64, now time.Time) uint64 {
	const minutes = 20 // bits for the minute; they repeat after two years
	return version<<minutes | uint64(now.Unix()/60)&(1<<minutes-1)
}

// Read returns the window of a feed, or the document if the node does not subscribe to it; see
// proxy.Subscriptions.
func (d *Daemon) Read(ctx context.Context, url string) (proxy.Window, error) {
	ctx, cancel := context.WithTimeout(ctx, firstReadTimeout)
	defer cancel()
	if _, ok := d.readIndex.lookup(url); !ok {
		return d.fetchOnce(ctx, url)
	}
	for {
		changed := d.readIndex.changed(url)
		w, err := d.window(ctx, url)
		switch {
		case err != nil && (ctx.Err() == nil || w.Version == 0 && w.State == ""):
			return w, asTimeout(err)
		case w.Document.Head.Raw != nil:
			return w, nil
		case w.State != proxy.StateNew && w.State != proxy.StateOK && w.State != "":
			return w, d.trouble(url, w.State, w.Words)
		}
		select {
		case <-changed:
			if _, ok := d.readIndex.lookup(url); !ok {
				return w, fmt.Errorf("read %s: %w", url, proxy.ErrUnknown)
			}
		case <-ctx.Done():
			return w, &proxy.Trouble{URL: url, Kind: proxy.ErrTimeout, Words: "no node of the network has read it yet: try again in a minute"}
		}
	}
}

// asTimeout turns an exceeded deadline into proxy.ErrTimeout.
func asTimeout(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w: %w", proxy.ErrTimeout, err)
	}
	return err
}

// window reads the window of a feed on the loop.
func (d *Daemon) window(ctx context.Context, url string) (proxy.Window, error) {
	type answer struct {
		doc   feedtree.Document
		sub   feedtree.Subscription
		polls pollState
		told  bool
	}
	version, _ := d.readIndex.lookup(url)
	now := time.Now()
	a, err := ask(ctx, d, func(say func(answer)) {
		key := d.key(url)
		d.node.Feeds.Read(key, func(doc feedtree.Document) {
			sub, _ := d.node.Feeds.Subscription(key)
			polls, told := d.pollStateOf(sub, now)
			say(answer{doc, sub, polls, told})
		})
	})
	if err != nil {
		return proxy.Window{}, fmt.Errorf("read %s: %w", url, err)
	}
	w := proxy.Window{Version: minuteVersion(version, now), Fetched: a.sub.Confirmed, State: proxy.StateNew}
	if a.doc.Head != nil {
		w.Document = feed.Document{Base: originURL(url), Head: *a.doc.Head, Entries: withRequiredProvenance(a.sub, a.doc.Entries)}
		if a.sub.Publisher != nil {
			w.Document.Publisher = a.sub.Publisher.Said()
		}
		w.State = proxy.StateOK
	}
	if s := a.polls; a.told {
		w.State, w.Words = s.String(), s.Detail
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
func (d *Daemon) trouble(url, state, text string) *proxy.Trouble {
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
		if kind = proxy.ErrRefused; !d.config.AllowPrivateOrigins {
			text += "; " + allowPrivateRemedy
		}
	case kindName(coronapb.State_LIMITED):
		kind = proxy.ErrBusy
	}
	return &proxy.Trouble{URL: url, Kind: kind, Words: text}
}

// brokenFeed returns the text for a broken feed.
func brokenFeed(why string) string {
	return "a broken feed: " + strings.TrimPrefix(why, feed.ErrBroken.Error()+": ")
}

func kindName(k coronapb.State_Kind) string { return corona.State{Kind: k}.String() }

// fetchOnce returns a document for a reader who does not subscribe. It may be a copy that is a few minutes
// old.
func (d *Daemon) fetchOnce(ctx context.Context, url string) (proxy.Window, error) {
	copied, err := d.fetchCopy(ctx, url, copyMaxAge)
	if err != nil {
		return proxy.Window{}, fmt.Errorf("read %s: %w", url, err)
	}
	if copied.feed == nil && copied.offer.Page && copied.state.Kind == coronapb.State_NOT_A_FEED {
		return proxy.Window{}, &proxy.Trouble{URL: url, Kind: proxy.ErrNotFeed, Words: copied.state.Detail + "; its changes can be followed as " + feed.Page(url)}
	}
	if copied.feed == nil {
		return proxy.Window{}, d.trouble(url, copied.state.String(), copied.state.Detail)
	}
	w := proxy.Window{
		Document: feed.Document{Base: originURL(url), Head: copied.feed.Head},
		Version:  copied.version, Fetched: copied.at, State: proxy.StateOK,
	}
	if copied.state.Kind != coronapb.State_OK {
		w.State, w.Words, w.Stale = copied.state.String(), copied.state.Detail, copied.state.Detail
	}
	if publisher, ok := copied.feed.Head.Publisher(); ok { // unverified: the node does not follow the feed's log
		w.Document.Publisher = &publisher
	}
	for _, it := range copied.feed.Items {
		w.Document.Entries = append(w.Document.Entries, feed.Entry{Item: it, At: copied.at})
	}
	return w, nil
}

// fetchCopy returns a document directly from the origin, or a copy that is not older than maxAge. It serves
// readers who do not subscribe, and the search for a publisher's key.
func (d *Daemon) fetchCopy(ctx context.Context, url string, maxAge time.Duration) (documentCopy, error) {
	if err := d.do(ctx, func() {}); err != nil { // the network must be known
		return documentCopy{}, asTimeout(err)
	}
	key := d.key(url)
	copied, wait := d.readIndex.copyOf(key, time.Now(), maxAge)
	if wait == nil {
		return copied, nil
	}
	if err := d.do(ctx, func() { d.node.Fetch(key, url) }); err != nil {
		return documentCopy{}, asTimeout(err)
	}
	select {
	case <-wait:
		copied, _ = d.readIndex.copyOf(key, time.Now(), copyMaxAge)
		return copied, nil
	case <-ctx.Done():
		return documentCopy{}, proxy.ErrTimeout
	}
}

// Look says what is at an address; see proxy.Subscriptions.
func (d *Daemon) Look(ctx context.Context, url string) (proxy.Look, error) {
	copied, err := d.fetchCopy(ctx, url, copyMaxAge)
	if err != nil {
		return proxy.Look{}, fmt.Errorf("read %s: %w", url, err)
	}
	isPage, o := proxy.KindOf(url) == proxy.KindPage, copied.offer
	result := proxy.Look{Feed: !isPage && copied.feed != nil || o.Feed, Page: o.Page, Doubt: o.Doubt}
	if !isPage && !result.Feed {
		if copied.state.Kind == coronapb.State_BROKEN { // a broken feed is not followed as a page
			return result, d.trouble(url, copied.state.String(), copied.state.Detail)
		}
		result.Why = copied.state.Detail
	}
	for _, l := range o.Feeds {
		// A public page may not choose addresses behind the reader's router, so only its public links are
		// offered, as with redirects.
		if !o.Private && !d.fetch.IsPublic(ctx, l.URL) {
			continue
		}
		result.Feeds = append(result.Feeds, proxy.Choice{URL: l.URL, Title: l.Title, Kind: proxy.KindFeed})
	}
	switch {
	case result.Feed || result.Page || len(result.Feeds) > 0:
	case isPage && copied.state.Kind == coronapb.State_OK:
		return result, &proxy.Trouble{URL: url, Kind: proxy.ErrNotPage, Words: "the page has no text without JavaScript"}
	default:
		return result, d.trouble(url, copied.state.String(), copied.state.Detail)
	}
	return result, nil
}

// originURL returns the address of a channel's document at its origin.
func originURL(channel string) string {
	address, _ := feed.AtOrigin(channel)
	return address
}
