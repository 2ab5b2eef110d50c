package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"tidings/cobra"
	"tidings/cobra/provision"
	"tidings/cobra/query"
	"tidings/cobra/tiers"
	"tidings/internal/feed"
	"tidings/internal/locale"
	"tidings/proxy"
)

// watches are the keyword subscriptions of readers. New articles are matched by keywords; a new subscription
// begins with those of the recent articles that match.
type watches struct {
	*nodeLoop
	keywords *keywords
	filter   bool // the node receives the articles of all channels of its network
	recent   recent
	// slot has room for one Watch at a time, so that concurrent requests for one query share a subscription.
	slot chan struct{}
	// chosen, if it is not nil, is told of each search that the node's user wants.
	chosen func(number uint32) error
}

// maxWatchesRead bounds the keyword subscriptions that one request for a part of their list reads, which takes a quarter of
// a second. A list with a filter goes on with the next request.
const maxWatchesRead = 200_000

// Watch subscribes to the articles that match a query, for the node's user; see proxy.Keywords.
func (ws *watches) Watch(ctx context.Context, text string) (proxy.Watch, error) {
	w, err := ws.watch(ctx, text)
	if err == nil && ws.chosen != nil {
		err = ws.chosen(w.Number)
	}
	return w, err
}

// watch subscribes to the articles that match a query, or returns the subscription that there is.
func (ws *watches) watch(ctx context.Context, text string) (proxy.Watch, error) {
	return ws.watchFor(ctx, text, 0, func() error { return nil })
}

// watchFor does the same for an owner of searches; 0 is the node's user. admit is called before a search is made, while no
// other one is made, and may refuse it.
func (ws *watches) watchFor(ctx context.Context, text string, owner uint32, admit func() error) (proxy.Watch, error) {
	q, err := query.Parse(text)
	if err != nil {
		return proxy.Watch{}, fmt.Errorf("%w: %w", proxy.ErrQuery, err)
	}
	text = q.String()
	k := ws.keywords
	if err := ws.refuseElsewhere(ctx); err != nil {
		return proxy.Watch{}, err
	}
	release, err := ws.reserve(ctx)
	if err != nil {
		return proxy.Watch{}, err
	}
	defer release()
	if existing, err := ws.sameWatches(ctx, text, owner); err != nil || len(existing) > 0 {
		return append(existing, proxy.Watch{})[0], err
	}
	if err := admit(); err != nil {
		return proxy.Watch{}, err
	}
	// Unless there was no search, all articles are kept that came since documents were read last.
	fresh := owner == 0 || k.idle()
	// From now on the reflector receives new articles. Those that come while documents are read are added
	// below.
	k.creating.Add(1)
	defer k.creating.Add(-1)
	begun := k.loop.Now()
	articles, _, err := ws.recentArticles(ctx, fresh)
	if err != nil {
		return proxy.Watch{}, err
	}
	articles = matchesOf(q, articles)
	if owner != 0 { // so that endSearches finds whatever was begun
		ctx = context.WithoutCancel(ctx)
	}
	number, err := k.subscribe(ctx, owner, text, func() []cobra.BacklogArticle { return append(articles, k.arrivals.after(begun)...) })
	switch {
	case errors.Is(err, cobra.ErrFull) && owner != 0:
		return proxy.Watch{}, kindError{proxy.ErrFull, fmt.Errorf("%w: try again later, or ask the person who gave you the token", err)}
	case errors.Is(err, cobra.ErrFull):
		return proxy.Watch{}, kindError{proxy.ErrFull, fmt.Errorf("%w (%d): end another one first, with tidings unwatch, or raise --max-searches", err, k.config.MaxSubscriptions)}
	case err != nil:
		return proxy.Watch{}, err
	}
	return proxy.Watch{Number: uint32(number), Query: text, Since: time.Now().Truncate(time.Second), Token: tokenID(owner)}, nil
}

// refuseElsewhere returns an error at a node of a hosting centre that gets no articles for searches.
func (ws *watches) refuseElsewhere(ctx context.Context) error {
	if !ws.keywords.tier.hosted {
		return nil
	}
	var s tiers.State
	if err := ws.do(ctx, func() { s = ws.node.Tiers.State() }); err != nil {
		return fmt.Errorf("make a search: %w", err)
	}
	switch {
	case s.Retired:
		return fmt.Errorf("%w: this node is no longer in the topology; make searches at a reflector: %s", proxy.ErrQuery, strings.Join(s.Reflectors, ", "))
	case s.Role != provision.Reflector:
		return fmt.Errorf("%w: this node is a %s, to which no matches are sent; make searches at a reflector: %s", proxy.ErrQuery, s.Role, strings.Join(s.Reflectors, ", "))
	}
	return nil
}

// reserve waits until no search is being made. Until release is called, no other one is.
func (ws *watches) reserve(ctx context.Context) (release func(), err error) {
	select {
	case ws.slot <- struct{}{}:
		return func() { <-ws.slot }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// owned returns the searches of an owner other than the node's user.
func (ws *watches) owned(ctx context.Context, owner uint32) (numbers []cobra.SubscriptionID, err error) {
	err = ws.keywords.do(ctx, func() { numbers = ws.keywords.reflector.Owned(owner) })
	return numbers, err
}

// Unwatch ends a keyword subscription; see proxy.Keywords.
func (ws *watches) Unwatch(ctx context.Context, number uint32) error {
	return asUnknown(ws.keywords.unsubscribe(ctx, cobra.SubscriptionID(number)))
}

// subscribe returns when a subscription is durable. If ctx ends before, the subscription may still be made.
// articles is called on the loop and returns the articles with which the subscription begins.
func (k *keywords) subscribe(ctx context.Context, owner uint32, text string, articles func() []cobra.BacklogArticle) (cobra.SubscriptionID, error) {
	type answer struct {
		number cobra.SubscriptionID
		err    error
	}
	a, err := ask(ctx, k, func(say func(answer)) {
		k.reflector.Subscribe(owner, text, articles(), func(n cobra.SubscriptionID, err error) {
			if err == nil && owner == 0 {
				k.created(uint32(n))
			}
			if err == nil {
				k.place(n, text, true)
			}
			say(answer{n, err})
		})
		k.publishCounts()
	})
	return a.number, cmp.Or(err, a.err)
}

// unsubscribe returns when subscriptions have been removed from the store. Of several, those that have ended already are no
// error.
func (k *keywords) unsubscribe(ctx context.Context, numbers ...cobra.SubscriptionID) error {
	if len(numbers) == 0 {
		return nil
	}
	queries := make([]string, len(numbers))
	for i, n := range numbers {
		s, _ := cobra.Query(k.store, n) // one that cannot be read is not placed
		queries[i] = s.Query
	}
	failed, err := ask(ctx, k, func(say func(error)) {
		var failed error
		left := len(numbers)
		for i, n := range numbers {
			k.reflector.Unsubscribe(n, func(err error) {
				switch {
				case err == nil && queries[i] != "":
					k.place(n, queries[i], false)
				case err != nil && (len(numbers) == 1 || !errors.Is(err, cobra.ErrUnknown)):
					failed = cmp.Or(failed, err)
				}
				if left--; left == 0 {
					k.publishCounts()
					say(failed)
				}
			})
		}
	})
	return cmp.Or(err, failed)
}

func (k *keywords) place(number cobra.SubscriptionID, text string, made bool) {
	if k.placed != nil {
		k.placed(number, text, made)
	}
}

// asUnknown turns the error for an unknown keyword subscription into proxy.ErrUnknown.
func asUnknown(err error) error {
	if errors.Is(err, cobra.ErrUnknown) {
		return fmt.Errorf("%w: %w", proxy.ErrNoSubscription, err)
	}
	return err
}

// Watches lists keyword subscriptions; see proxy.Keywords.
func (ws *watches) Watches(ctx context.Context, q proxy.WatchList) (p proxy.WatchPage, err error) {
	if err := ws.keywords.do(ctx, func() {}); err != nil {
		return p, err
	}
	filter, read := strings.ToLower(q.Filter), 0
	err = cobra.Subscriptions(ws.keywords.disk, cobra.SubscriptionID(q.From), func(n cobra.SubscriptionID, s cobra.Subscription) bool {
		if len(p.Watches) == q.Limit || read == maxWatchesRead || ctx.Err() != nil {
			p.Next = uint32(n)
			return false
		}
		read++
		if strings.Contains(strings.ToLower(s.Query), filter) {
			p.Watches = append(p.Watches, watchOf(n, s))
		}
		return true
	})
	return p, cmp.Or(err, ctx.Err())
}

// CountWatches returns the number of keyword subscriptions; see proxy.Keywords.
func (ws *watches) CountWatches() int {
	return int(ws.keywords.subscriptions.Load() + ws.keywords.unreadable.Load())
}

// SameWatches returns the keyword subscriptions with the meaning of a query; see proxy.Keywords.
func (ws *watches) SameWatches(ctx context.Context, text string) (same []proxy.Watch, err error) {
	all, err := ws.sameWatches(ctx, text, 0)
	return slices.DeleteFunc(all, func(w proxy.Watch) bool { return w.Token != "" }), err
}

// sameWatches returns the keyword subscriptions of an owner with the meaning of a query; 0: those of everybody.
func (ws *watches) sameWatches(ctx context.Context, text string, owner uint32) (same []proxy.Watch, err error) {
	k := ws.keywords
	clauses, wrong := query.Clauses(text)
	var numbers, unreadable []cobra.SubscriptionID
	if err := k.do(ctx, func() {
		if unreadable = k.reflector.Unreadable(); wrong == nil {
			numbers = k.reflector.Find(clauses)
		}
		if owner != 0 {
			owned := k.reflector.Owned(owner)
			others := func(n cobra.SubscriptionID) bool {
				_, is := slices.BinarySearch(owned, n)
				return !is
			}
			numbers, unreadable = slices.DeleteFunc(numbers, others), slices.DeleteFunc(unreadable, others)
		}
	}); err != nil {
		return nil, err
	}
	for i, n := range append(numbers, unreadable...) {
		w, err := ws.LookUp(ctx, uint32(n))
		switch {
		case errors.Is(err, proxy.ErrNoSubscription): // it has just ended
		case err != nil:
			return nil, err
		case i < len(numbers) || w.Query == text:
			same = append(same, w)
		}
	}
	return same, nil
}

// LookUp returns a keyword subscription; see proxy.Keywords.
func (ws *watches) LookUp(ctx context.Context, number uint32) (proxy.Watch, error) {
	if err := ws.keywords.do(ctx, func() {}); err != nil {
		return proxy.Watch{}, err
	}
	s, err := cobra.Query(ws.keywords.disk, cobra.SubscriptionID(number))
	if err != nil {
		return proxy.Watch{}, asUnknown(err)
	}
	return watchOf(cobra.SubscriptionID(number), s), nil
}

// watchOf returns a keyword subscription for readers.
func watchOf(number cobra.SubscriptionID, s cobra.Subscription) proxy.Watch {
	return proxy.Watch{Number: uint32(number), Query: s.Query, Since: s.Since, Token: tokenID(s.Owner)}
}

// Watched returns the feed of a keyword subscription; see proxy.Keywords.
func (ws *watches) Watched(ctx context.Context, number uint32) (proxy.MatchedFeed, error) {
	k := ws.keywords
	var f cobra.Feed
	var ok bool
	err := k.do(ctx, func() { f, ok = k.reflector.Feed(cobra.SubscriptionID(number)) })
	if err == nil && !ok {
		err = cobra.ErrUnknown
	}
	if err != nil {
		return proxy.MatchedFeed{}, asUnknown(err)
	}
	return proxy.MatchedFeed{
		Articles: f.Articles,
		Read: func() (proxy.Watch, []feed.Entry, error) {
			s, err := cobra.Query(k.disk, cobra.SubscriptionID(number))
			if err != nil {
				return proxy.Watch{}, nil, asUnknown(err)
			}
			kept, err := f.Read(k.disk)
			entries := make([]feed.Entry, 0, len(kept))
			for i := range kept {
				entries = append(entries, entryOf(&kept[i]))
			}
			return watchOf(cobra.SubscriptionID(number), s), entries, err
		},
	}, nil
}

// Shortage says which parts of new articles are not kept; see proxy.Keywords.
func (ws *watches) Shortage() locale.Text {
	if s := ws.keywords.shortage.Load(); s != nil {
		return s.text
	}
	return nil
}

// entryOf returns an article as an entry of a feed.
func entryOf(a *cobra.StoredArticle) feed.Entry {
	return feed.Entry{
		Arrived: a.Received,
		Meaning: &feed.Meaning{
			GUID:  a.Feed + " " + a.ID.String(), // the server replaces it
			Title: a.Title, Link: a.Link, Authors: feed.AuthorNamed(cmp.Or(a.Author, a.FeedTitle)), Content: a.HTML, Published: a.Published, Categories: a.Tags,
		},
		Source: &feed.Source{URL: a.Feed, Title: a.FeedTitle, Link: a.FeedLink},
	}
}
