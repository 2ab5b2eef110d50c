package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"tidings/cobra"
	"tidings/cobra/query"
	"tidings/internal/feed"
	"tidings/proxy"
)

var _ proxy.Keywords = (*Daemon)(nil)

// maxWatches bounds the keyword subscriptions that are listed, and those that a new one is compared with.
const maxWatches = 10_000

// Watch subscribes to the articles that match a query; see proxy.Keywords.
func (d *Daemon) Watch(ctx context.Context, text string) (proxy.Watch, error) {
	q, err := query.Parse(text)
	if err != nil {
		return proxy.Watch{}, fmt.Errorf("%w: %w", proxy.ErrQuery, err)
	}
	text = q.String()
	meaning, err := query.Meaning(text)
	if err != nil {
		return proxy.Watch{}, fmt.Errorf("%w: %w", proxy.ErrQuery, err)
	}
	k := d.keywords
	select {
	case k.watchSlot <- struct{}{}:
		defer func() { <-k.watchSlot }()
	case <-ctx.Done():
		return proxy.Watch{}, ctx.Err()
	}
	existing, err := d.Watches(ctx)
	if err != nil {
		return proxy.Watch{}, err
	}
	for _, w := range existing {
		if existingMeaning, err := query.Meaning(w.Query); err != nil || existingMeaning != meaning {
			continue
		}
		lasts := false // false for a subscription that is just being removed from the store
		if err := k.do(ctx, func() { lasts = k.reflector.Lasts(cobra.Number(w.Number)) }); err != nil {
			return proxy.Watch{}, err
		}
		if lasts {
			return w, nil
		}
	}
	// From now on the reflector receives new articles. Those that come while documents are read are added
	// below.
	k.creating.Add(1)
	defer k.creating.Add(-1)
	begun := k.loop.Now()
	articles, _, err := d.recentArticles(ctx, true)
	if err != nil {
		return proxy.Watch{}, err
	}
	articles = matchesOf(q, articles)
	number, err := k.subscribe(ctx, text, func() []cobra.Late { return append(articles, k.recent.arrivals.after(begun)...) })
	switch {
	case errors.Is(err, cobra.ErrGeneral):
		err = fmt.Errorf("%w: %w", proxy.ErrQuery, err)
	case errors.Is(err, cobra.ErrFull):
		err = fmt.Errorf("%w: %w", proxy.ErrFull, err)
	}
	if err != nil {
		return proxy.Watch{}, err
	}
	return proxy.Watch{Number: uint32(number), Query: text, Since: time.Now().Truncate(time.Second)}, nil
}

// Unwatch ends a keyword subscription; see proxy.Keywords.
func (d *Daemon) Unwatch(ctx context.Context, number uint32) error {
	return asUnknown(d.keywords.unsubscribe(ctx, cobra.Number(number)))
}

// subscribe returns when a subscription is durable. If ctx ends before, the subscription may still be made.
// articles is called on the loop and returns the articles with which the subscription begins.
func (k *keywords) subscribe(ctx context.Context, text string, articles func() []cobra.Late) (cobra.Number, error) {
	type answer struct {
		number cobra.Number
		err    error
	}
	a, err := askKeywords(ctx, k, func(say func(answer)) {
		k.reflector.Subscribe(text, articles(), func(n cobra.Number, err error) { say(answer{n, err}) })
		k.publishCounts()
	})
	return a.number, cmp.Or(err, a.err)
}

// unsubscribe returns when a subscription has been removed from the store.
func (k *keywords) unsubscribe(ctx context.Context, number cobra.Number) error {
	failed, err := askKeywords(ctx, k, func(say func(error)) { k.reflector.Unsubscribe(number, say) })
	return cmp.Or(err, failed)
}

// asUnknown turns the error for an unknown keyword subscription into proxy.ErrUnknown.
func asUnknown(err error) error {
	if errors.Is(err, cobra.ErrUnknown) {
		return fmt.Errorf("%w: %w", proxy.ErrUnknown, err)
	}
	return err
}

// Watches lists the keyword subscriptions; see proxy.Keywords.
func (d *Daemon) Watches(ctx context.Context) (watches []proxy.Watch, err error) {
	if err := d.keywords.do(ctx, func() {}); err != nil {
		return nil, err
	}
	err = cobra.Subscriptions(d.keywords.disk, func(n cobra.Number, text string, since time.Time) bool {
		watches = append(watches, proxy.Watch{Number: uint32(n), Query: text, Since: since})
		return len(watches) < maxWatches
	})
	return watches, err
}

// Watched returns the feed of a keyword subscription; see proxy.Keywords.
func (d *Daemon) Watched(ctx context.Context, number uint32) (proxy.Matched, error) {
	k := d.keywords
	var f cobra.Feed
	var ok bool
	err := k.do(ctx, func() { f, ok = k.reflector.Feed(cobra.Number(number)) })
	if err == nil && !ok {
		err = cobra.ErrUnknown
	}
	if err != nil {
		return proxy.Matched{}, asUnknown(err)
	}
	return proxy.Matched{
		Articles: f.Articles,
		Read: func() (proxy.Watch, []feed.Entry, error) {
			text, since, err := cobra.Query(k.disk, cobra.Number(number))
			if err != nil {
				return proxy.Watch{}, nil, asUnknown(err)
			}
			kept, err := f.Read(k.disk)
			entries := make([]feed.Entry, 0, len(kept))
			for i := range kept {
				entries = append(entries, entryOf(&kept[i]))
			}
			return proxy.Watch{Number: number, Query: text, Since: since}, entries, err
		},
	}, nil
}

// Short says which parts of new articles are not kept; see proxy.Keywords.
func (d *Daemon) Short() string {
	if s := d.keywords.shortage.Load(); s != nil {
		return s.text
	}
	return ""
}

// entryOf returns an article as an entry of a feed.
func entryOf(a *cobra.Kept) feed.Entry {
	return feed.Entry{
		At: a.Seen,
		Said: &feed.Meaning{
			GUID:  a.Feed + " " + a.ID.String(), // the server replaces it
			Title: a.Title, Link: a.Link, Author: cmp.Or(a.Author, a.FeedTitle), Content: a.HTML, Published: a.Published, Categories: a.Tags,
		},
		Source: &feed.Source{URL: a.Feed, Title: a.FeedTitle, Link: a.FeedLink},
	}
}
