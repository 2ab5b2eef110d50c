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

// maxWatches is how many keyword subscriptions are listed, and looked through for one like a
// new one.
const maxWatches = 10_000

// Watch subscribes to the articles that match a query; see proxy.Keywords.
func (d *Daemon) Watch(ctx context.Context, text string) (proxy.Watch, error) {
	q, err := query.Parse(text)
	if err != nil {
		return proxy.Watch{}, fmt.Errorf("%w: %w", proxy.ErrQuery, err)
	}
	text = q.String()
	meaning, err := query.Canonical(text)
	if err != nil {
		return proxy.Watch{}, fmt.Errorf("%w: %w", proxy.ErrQuery, err)
	}
	k := d.keywords
	select {
	case k.asking <- struct{}{}:
		defer func() { <-k.asking }()
	case <-ctx.Done():
		return proxy.Watch{}, ctx.Err()
	}
	had, err := d.Watches(ctx)
	if err != nil {
		return proxy.Watch{}, err
	}
	for _, w := range had {
		if of, err := query.Canonical(w.Query); err != nil || of != meaning {
			continue
		}
		lasts := false // one that is only on the disk still would be gone in a moment
		if err := k.do(ctx, func() { lasts = k.reflector.Active(cobra.SubscriptionID(w.Number)) }); err != nil {
			return proxy.Watch{}, err
		}
		if lasts {
			return w, nil
		}
	}
	// From now on the reflector is brought what is new; what comes while documents are read is begun with, too.
	k.wanted.Add(1)
	defer k.wanted.Add(-1)
	begun := k.loop.Now()
	late, _, err := d.recently(ctx, true)
	if err != nil {
		return proxy.Watch{}, err
	}
	late = matchesOf(q, late)
	number, err := k.subscribe(ctx, text, func() []cobra.BacklogArticle { return append(late, k.recent.brought.after(begun)...) })
	switch {
	case errors.Is(err, cobra.ErrTooGeneral):
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
	return unknown(d.keywords.unsubscribe(ctx, cobra.SubscriptionID(number)))
}

// subscribe returns when a subscription is durable. If ctx ends before, it may become so all the same. late are
// the articles that it begins with, as they are when it does.
func (k *keywords) subscribe(ctx context.Context, text string, late func() []cobra.BacklogArticle) (cobra.SubscriptionID, error) {
	type answer struct {
		number cobra.SubscriptionID
		err    error
	}
	a, err := asked(ctx, k, func(say func(answer)) {
		k.reflector.Subscribe(text, late(), func(n cobra.SubscriptionID, err error) { say(answer{n, err}) })
		k.count()
	})
	return a.number, cmp.Or(err, a.err)
}

// unsubscribe returns when a subscription is gone for good.
func (k *keywords) unsubscribe(ctx context.Context, number cobra.SubscriptionID) error {
	failed, err := asked(ctx, k, func(say func(error)) { k.reflector.Unsubscribe(number, say) })
	return cmp.Or(err, failed)
}

// unknown says of an error that a keyword subscription is none in the words of readers.
func unknown(err error) error {
	if errors.Is(err, cobra.ErrUnknown) {
		return fmt.Errorf("%w: %w", proxy.ErrUnknown, err)
	}
	return err
}

// Watches lists keyword subscriptions; see proxy.Keywords.
func (d *Daemon) Watches(ctx context.Context) (of []proxy.Watch, err error) {
	if err := d.keywords.do(ctx, func() {}); err != nil {
		return nil, err
	}
	err = cobra.Subscriptions(d.keywords.disk, func(n cobra.SubscriptionID, text string, since time.Time) bool {
		of = append(of, proxy.Watch{Number: uint32(n), Query: text, Since: since})
		return len(of) < maxWatches
	})
	return of, err
}

// Watched returns the feed of a keyword subscription; see proxy.Keywords.
func (d *Daemon) Watched(ctx context.Context, number uint32) (proxy.Matched, error) {
	k := d.keywords
	var f cobra.Feed
	var ok bool
	err := k.do(ctx, func() { f, ok = k.reflector.Feed(cobra.SubscriptionID(number)) })
	if err == nil && !ok {
		err = cobra.ErrUnknown
	}
	if err != nil {
		return proxy.Matched{}, unknown(err)
	}
	return proxy.Matched{
		Articles: f.Articles,
		Read: func() (proxy.Watch, []feed.Entry, error) {
			text, since, err := cobra.Query(k.disk, cobra.SubscriptionID(number))
			if err != nil {
				return proxy.Watch{}, nil, unknown(err)
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

// Short says what of new articles is not kept; see proxy.Keywords.
func (d *Daemon) Short() string {
	if s := d.keywords.short.Load(); s != nil {
		return s.what
	}
	return ""
}

// entryOf is an article as feeds have it.
func entryOf(a *cobra.StoredArticle) feed.Entry {
	return feed.Entry{
		At: a.Received,
		Said: &feed.Meaning{
			GUID:  a.Feed + " " + a.ID.String(), // whoever shows it gives it one of his own
			Title: a.Title, Link: a.Link, Author: cmp.Or(a.Author, a.FeedTitle), Content: a.HTML, Published: a.Published, Categories: a.Tags,
		},
		Source: &feed.Source{URL: a.Feed, Title: a.FeedTitle, Link: a.FeedLink},
	}
}
