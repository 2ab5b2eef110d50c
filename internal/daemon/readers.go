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
	// firstTime is how long a reader waits for a feed that nobody has seen yet.
	firstTime = 10 * time.Second
	// lapseTime is how long a subscription that reading made lives unread.
	lapseTime = 30 * 24 * time.Hour
	// lapseLook is the time between two looks for those that have lapsed, the
	// least time between two notes that one was read, and how long one lives that
	// publishing made, if nothing that is published is taken.
	lapseLook = time.Hour
)

var _ proxy.Subscriptions = (*Daemon)(nil)

// out is what the node tells its daemon, on the loop.
type out Daemon

func (d *out) News(key overlay.ID, changes []difference.Change, _ time.Time) {
	d.shelf.touch(key)
	s, ok := d.node.Feeds.Subscription(key)
	if ok && attributesOf(s).Least != "" {
		changes = slices.DeleteFunc(slices.Clone(changes), func(c difference.Change) bool {
			return c.Publication == nil || !s.Publisher.Valid(c.Publication.Key)
		})
	}
	(*Daemon)(d).show(key, changes)
	if ok {
		d.keywords.news(s, changes)
	}
}

// vouched are the entries of a subscription that what it has to be vouched by vouches for.
func vouched(s feedtree.Subscription, entries []feed.Entry) []feed.Entry {
	least := attributesOf(s).Least
	if least == "" {
		return entries
	}
	return slices.DeleteFunc(entries, func(e feed.Entry) bool { return e.Provenance != least })
}

func (d *out) Dispatched(of firehose.Dispatch) bool {
	if s, ok := d.node.Feeds.Subscription(of.Entry.Key); ok && attributesOf(s).Least != "" {
		return true // it comes down the feed's tree, too, and there is looked at what vouches for it
	}
	return d.keywords.dispatched(of)
}

func (d *out) Told(key overlay.ID)       { d.shelf.touch(key) }
func (d *out) Deliver(m scribe.Delivery) { d.config.Deliver(m) }

func (d *out) Fetched(key overlay.ID, f *feed.Feed, o corona.Offer, state corona.State) {
	d.shelf.fetched(key, f, o, state, time.Now())
}

// attributes are what the daemon keeps beside a subscription.
type attributes struct {
	Auto bool `json:"auto,omitempty"` // made by reading
	// Tentative says that it was made by publishing, and that nothing that was published was taken yet.
	Tentative bool `json:"tentative,omitempty"`
	// Least is what has to vouch for an item to be shown; empty: whatever it is.
	Least string   `json:"least,omitempty"`
	Tags  []string `json:"tags,omitempty"`
	// Title and Site stand for those of the feed until it is read.
	Title string `json:"title,omitempty"`
	Site  string `json:"site,omitempty"`
	Read  int64  `json:"read,omitempty"` // when it was read last, about; Unix time in seconds
}

func (a attributes) encode() []byte {
	b, err := json.Marshal(a)
	if err != nil {
		panic(fmt.Sprintf("daemon: attributes: %v", err)) // every value of these types can be written
	}
	return b
}

func attributesOf(s feedtree.Subscription) (a attributes) {
	_ = json.Unmarshal(s.Attributes, &a) // what cannot be read is a plain subscription
	return a
}

// key is that of a URL in the node's network, which it must know.
func (d *Daemon) key(url string) overlay.ID { return overlay.Key(d.home.network.Name, url) }

// Subscribe follows a feed from now on; see proxy.Subscriptions.
func (d *Daemon) Subscribe(ctx context.Context, url string, auto bool) error {
	return d.subscribe(ctx, url, attributes{Auto: auto, Read: time.Now().Unix()})
}

// subscribe follows a feed. What a person wants stays when that was so, and takes the place of the rest.
func (d *Daemon) subscribe(ctx context.Context, url string, a attributes) error {
	failed, err := ask(ctx, d, func(answer func(error)) {
		key := d.key(url)
		if old, ok := d.wanted(key); ok {
			switch stays := passing(a) || !passing(old); {
			case !stays:
				a.Least, a.Tags, a.Title, a.Site = old.Least, old.Tags, old.Title, old.Site
			case d.wishes.of[key].number == 0:
				answer(nil)
				return
			default: // it is being written: who asks hears of it when that is done
				a = old
			}
		}
		if a.Auto && d.ended.has(key) {
			answer(fmt.Errorf("subscribe to %s: %w", url, errEnded))
			return
		}
		done := d.wishes.wish(key, a, true)
		d.node.Feeds.Subscribe(url, 1, a.encode(), func(err error) {
			done()
			if err == nil {
				d.shelf.add(url, key, a)
				if !a.Tentative {
					d.ended.remove(key)
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

// passing says that no person has made a subscription.
func passing(a attributes) bool { return a.Auto || a.Tentative }

// unsubscribe ends a subscription, if it is one of those that are to end; nil: a person ends it, whichever it is.
// What a person has ended, reading does not make again.
func (d *Daemon) unsubscribe(ctx context.Context, url string, ends func(attributes) bool) error {
	failed, err := ask(ctx, d, func(answer func(error)) {
		key := d.key(url)
		a, ok := d.wanted(key)
		if ok && ends != nil && !ends(a) {
			answer(nil)
			return
		}
		if !ok {
			err := proxy.ErrUnknown
			page := feed.PageChannel(url)
			if _, ok := d.node.Feeds.Subscription(d.key(page)); ok {
				err = fmt.Errorf("%w, but to %s", err, page)
			}
			answer(fmt.Errorf("unsubscribe from %s: %w", url, err))
			return
		}
		end := func() {
			done := d.wishes.wish(key, attributes{}, false)
			d.node.Feeds.Unsubscribe(url, func(err error) {
				done()
				if err == nil {
					d.shelf.remove(url, key)
				}
				answer(err)
			})
		}
		if ends != nil {
			end()
			return
		}
		d.ended.add(key, time.Now(), func(err error) {
			if err != nil {
				answer(fmt.Errorf("unsubscribe from %s: %w", url, err))
				return
			}
			end()
		})
	})
	return errors.Join(failed, err)
}

// Version changes with what Read returns; see proxy.Subscriptions.
func (d *Daemon) Version(url string) (uint64, bool) {
	now := time.Now()
	version, note, ok := d.shelf.version(url, now)
	if note != nil {
		d.loop.Deliver(func() {
			// It may have been ended, or made for good, since.
			if s, ok := d.node.Feeds.Subscription(d.key(url)); ok && attributesOf(s).Auto {
				d.node.Feeds.Subscribe(url, 1, note.encode(), func(error) {})
			}
		})
	}
	return lately(version, now), ok
}

// lately is a version for a minute: when a feed was polled last, and whether who polls
// it lives, becomes another without anybody's word.
func lately(version uint64, now time.Time) uint64 {
	const minutes = 20 // bits of them: two years
	return version<<minutes | uint64(now.Unix()/60)&(1<<minutes-1)
}

// Read returns the window of a feed, or the document of one that is not subscribed
// to; see proxy.Subscriptions.
func (d *Daemon) Read(ctx context.Context, url string) (proxy.Window, error) {
	ctx, cancel := context.WithTimeout(ctx, firstTime)
	defer cancel()
	if _, ok := d.shelf.known(url); !ok {
		return d.fetchOnce(ctx, url)
	}
	for {
		changed := d.shelf.changed(url)
		w, err := d.window(ctx, url)
		switch {
		case err != nil && (ctx.Err() == nil || w.Version == 0 && w.State == ""):
			return w, timely(err)
		case w.Document.Head.Raw != nil:
			return w, nil
		case w.State != proxy.StateNew && w.State != proxy.StateOK && w.State != "":
			return w, d.trouble(url, w.State, w.Words)
		}
		select {
		case <-changed:
			if _, ok := d.shelf.known(url); !ok {
				return w, fmt.Errorf("read %s: %w", url, proxy.ErrUnknown)
			}
		case <-ctx.Done():
			return w, &proxy.Trouble{URL: url, Kind: proxy.ErrTimeout, Words: "no node of the network has read it yet: try again in a minute"}
		}
	}
}

// timely says of an error of time that it is one.
func timely(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w: %w", proxy.ErrTimeout, err)
	}
	return err
}

// window asks the loop for a feed as it stands.
func (d *Daemon) window(ctx context.Context, url string) (proxy.Window, error) {
	type answer struct {
		doc   feedtree.Document
		sub   feedtree.Subscription
		polls polls
		told  bool
	}
	version, _ := d.shelf.known(url)
	now := time.Now()
	a, err := ask(ctx, d, func(say func(answer)) {
		key := d.key(url)
		d.node.Feeds.Read(key, func(doc feedtree.Document) {
			sub, _ := d.node.Feeds.Subscription(key)
			polls, told := d.pollsOf(sub, now)
			say(answer{doc, sub, polls, told})
		})
	})
	if err != nil {
		return proxy.Window{}, fmt.Errorf("read %s: %w", url, err)
	}
	w := proxy.Window{Version: lately(version, now), Fetched: a.sub.Confirmed, State: proxy.StateNew}
	if a.doc.Head != nil {
		w.Document = feed.Document{Base: origin(url), Head: *a.doc.Head, Entries: vouched(a.sub, a.doc.Entries)}
		if a.sub.Publisher != nil {
			w.Document.Publisher = a.sub.Publisher.Publisher()
		}
		w.State = proxy.StateOK
	}
	if s := a.polls; a.told {
		w.State, w.Words = s.String(), s.Detail
		switch {
		case s.Kind != coronapb.State_OK && s.Kind != coronapb.State_NEW:
			w.Stale, w.Fetched = s.Detail, s.Since
		case s.orphaned:
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

// trouble turns the state of a channel that has never been seen into an error.
func (d *Daemon) trouble(url, state, words string) *proxy.Trouble {
	kind := proxy.ErrUnreachable
	switch state {
	case kindName(coronapb.State_NOT_A_FEED), kindName(coronapb.State_BROKEN), kindName(coronapb.State_TOO_LARGE):
		switch {
		case proxy.KindOf(url) == proxy.KindPage:
			kind = proxy.ErrNotPage
		case state == kindName(coronapb.State_BROKEN):
			kind, words = proxy.ErrNotFeed, brokenFeed(words)
		default:
			kind = proxy.ErrNotFeed
		}
	case kindName(coronapb.State_MISSING):
		kind = proxy.ErrNotFound
	case kindName(coronapb.State_GONE):
		kind = proxy.ErrGone
	case kindName(coronapb.State_REFUSED):
		if kind = proxy.ErrRefused; !d.config.AllowPrivateOrigins {
			words += "; " + allowPrivate
		}
	case kindName(coronapb.State_LIMITED):
		kind = proxy.ErrBusy
	}
	return &proxy.Trouble{URL: url, Kind: kind, Words: words}
}

// brokenFeed says that a feed is broken, and why.
func brokenFeed(why string) string {
	return "a broken feed: " + strings.TrimPrefix(why, feed.ErrBroken.Error()+": ")
}

func kindName(k coronapb.State_Kind) string { return corona.State{Kind: k}.String() }

// fetchOnce returns a document for a reader who does not subscribe: that of a few
// minutes ago, if somebody here asked then.
func (d *Daemon) fetchOnce(ctx context.Context, url string) (proxy.Window, error) {
	copied, err := d.borrow(ctx, url, copyLife)
	if err != nil {
		return proxy.Window{}, fmt.Errorf("read %s: %w", url, err)
	}
	if copied.feed == nil && copied.offer.Page && copied.state.Kind == coronapb.State_NOT_A_FEED {
		return proxy.Window{}, &proxy.Trouble{URL: url, Kind: proxy.ErrNotFeed, Words: copied.state.Detail + "; its changes can be followed as " + feed.PageChannel(url)}
	}
	if copied.feed == nil {
		return proxy.Window{}, d.trouble(url, copied.state.String(), copied.state.Detail)
	}
	w := proxy.Window{
		Document: feed.Document{Base: origin(url), Head: copied.feed.Head},
		Version:  copied.version, Fetched: copied.at, State: proxy.StateOK,
	}
	if copied.state.Kind != coronapb.State_OK {
		w.State, w.Words, w.Stale = copied.state.String(), copied.state.Detail, copied.state.Detail
	}
	if said, ok := copied.feed.Head.Publisher(); ok { // for all that anybody knows here
		w.Document.Publisher = &said
	}
	for _, it := range copied.feed.Items {
		w.Document.Entries = append(w.Document.Entries, feed.Entry{Item: it, Arrived: copied.at})
	}
	return w, nil
}

// borrow returns a document for who does not subscribe, or does not want what the network has: a copy that
// is not older than life, or what the origin shows now.
func (d *Daemon) borrow(ctx context.Context, url string, life time.Duration) (lent, error) {
	if err := d.do(ctx, func() {}); err != nil { // the network must be known
		return lent{}, timely(err)
	}
	key := d.key(url)
	copied, wait := d.shelf.borrow(key, time.Now(), life)
	if wait == nil {
		return copied, nil
	}
	if err := d.do(ctx, func() { d.node.Fetch(key, url) }); err != nil {
		return lent{}, timely(err)
	}
	select {
	case <-wait:
		copied, _ = d.shelf.borrow(key, time.Now(), copyLife)
		return copied, nil
	case <-ctx.Done():
		return lent{}, proxy.ErrTimeout
	}
}

// Look says what is at an address; see proxy.Subscriptions.
func (d *Daemon) Look(ctx context.Context, url string) (proxy.Look, error) {
	copied, err := d.borrow(ctx, url, copyLife)
	if err != nil {
		return proxy.Look{}, fmt.Errorf("read %s: %w", url, err)
	}
	isPage, o := proxy.KindOf(url) == proxy.KindPage, copied.offer
	look := proxy.Look{Feed: !isPage && copied.feed != nil || o.Feed, Page: o.Page, Doubt: o.Doubt}
	if !isPage && !look.Feed {
		if copied.state.Kind == coronapb.State_BROKEN { // it is not to be followed as a page
			return look, d.trouble(url, copied.state.String(), copied.state.Detail)
		}
		look.Why = copied.state.Detail
	}
	for _, l := range o.Feeds {
		// A page of the Web leads to the Web alone, as a redirect does: it does not choose what is
		// asked behind the reader's router.
		if !o.Private && !d.fetch.IsPublic(ctx, l.URL) {
			continue
		}
		look.Feeds = append(look.Feeds, proxy.Choice{URL: l.URL, Title: l.Title, Kind: proxy.KindFeed})
	}
	switch {
	case look.Feed || look.Page || len(look.Feeds) > 0:
	case isPage && copied.state.Kind == coronapb.State_OK:
		return look, &proxy.Trouble{URL: url, Kind: proxy.ErrNotPage, Words: "the page has no text without JavaScript"}
	default:
		return look, d.trouble(url, copied.state.String(), copied.state.Detail)
	}
	return look, nil
}

// origin is the address at which the document of a channel is.
func origin(channel string) string {
	address, _ := feed.DocumentURL(channel)
	return address
}
