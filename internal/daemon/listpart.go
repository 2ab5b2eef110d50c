package daemon

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"tidings/feedtree"
	"tidings/internal/feed"
	"tidings/overlay"
	"tidings/proxy"
)

// maxListRead bounds the subscriptions that one request for a part of a filtered list looks at, which takes the loop some ten
// milliseconds. The list goes on with the next request.
const maxListRead = 20_000

// A listed is a subscription that may be in a part of the list.
type listed struct {
	url     string
	key     overlay.ID
	private *proxy.Channel // nil: the network knows the feed
}

// ListPart returns a part of the list of subscriptions; see proxy.Subscriptions. It reads the logs of that part only.
func (l *channelList) ListPart(ctx context.Context, q proxy.ListQuery) (p proxy.ListPart, err error) {
	if err := l.awaitNetwork(ctx); err != nil {
		return p, fmt.Errorf("list: %w", err)
	}
	candidates := l.subscriptions.listed(q)
	for _, c := range l.private.list() {
		if q.Covers(c.URL) {
			candidates = append(candidates, listed{url: c.URL, private: &c})
		}
	}
	slices.SortFunc(candidates, func(a, b listed) int { return cmp.Compare(a.url, b.url) })
	candidates = slices.CompactFunc(candidates, func(a, b listed) bool { return a.url == b.url }) // of q.URLs
	if read := candidates; len(read) > maxListRead && q.Filter != "" {
		p.Next, candidates = read[maxListRead].url, read[:maxListRead]
	}
	var part []listed
	if err = l.do(ctx, func() {
		for _, c := range candidates {
			if !l.matches(c, strings.ToLower(q.Filter)) {
				continue
			}
			if len(part) == q.Limit {
				p.Next = c.url
				return
			}
			part = append(part, c)
		}
	}); err != nil {
		return p, fmt.Errorf("list: %w", err)
	}
	var keys []overlay.ID
	for _, c := range part {
		if c.private == nil {
			keys = append(keys, c.key)
		}
	}
	if err = l.readLogs(ctx, keys); err != nil {
		return p, fmt.Errorf("list: %w", err)
	}
	failing := l.disk.Stats().Failing
	err = l.do(ctx, func() {
		cut := cutOff(l.node)
		for _, c := range part {
			if c.private != nil {
				p.Channels = append(p.Channels, *c.private)
			} else if s, ok := l.node.NodeOf(c.key).Feeds.Subscription(c.key); ok {
				p.Channels = append(p.Channels, withStoreError(withCutOff(l.channelOf(s), s, cut), failing))
			}
		}
	})
	if err != nil {
		return p, fmt.Errorf("list: %w", err)
	}
	return p, nil
}

// matches reports whether a subscription's address, title or one of its tags contains a text in small letters. The loop calls
// it.
func (l *channelList) matches(c listed, text string) bool {
	if text == "" {
		return true
	}
	has := func(s string) bool { return strings.Contains(strings.ToLower(s), text) }
	if c.private != nil {
		return has(c.url) || has(c.private.Title) || slices.ContainsFunc(c.private.Tags, has)
	}
	s, ok := l.node.NodeOf(c.key).Feeds.Subscription(c.key)
	if !ok {
		return false
	}
	a := l.subscriptions.attributes(s)
	return has(c.url) || has(cmp.Or(a.Title, feed.PlainTitle(s.Title))) || slices.ContainsFunc(a.Tags, has)
}

// readLogs reads the logs of feeds that the node has not read since its start, or as many as it can in logReadTimeout.
func (l *channelList) readLogs(ctx context.Context, keys []overlay.ID) error {
	wait, cancel := context.WithTimeout(ctx, logReadTimeout)
	defer cancel()
	_, err := ask(wait, l, func(answer func(struct{})) {
		pending := 1
		readDone := func(feedtree.Document) {
			if pending--; pending == 0 {
				answer(struct{}{})
			}
		}
		for _, key := range keys {
			feeds := l.node.NodeOf(key).Feeds
			if s, ok := feeds.Subscription(key); ok && s.Version == 0 {
				pending++
				feeds.Head(key, readDone)
			}
		}
		readDone(feedtree.Document{})
	})
	if wait.Err() != nil && ctx.Err() == nil {
		return nil // the list shows what is known
	}
	return err
}

// listed returns the subscriptions that may be in a part of the list. Without a filter these are the first ones, and the one after
// them.
func (s *subscriptions) listed(q proxy.ListQuery) (all []listed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q.URLs != nil {
		for _, url := range q.URLs {
			if r := s.byKey[s.key(url)]; r != nil && r.subscribed && url >= q.From {
				all = append(all, listed{url: r.url, key: r.key})
			}
		}
		return all
	}
	from, _ := s.place(q.From)
	for _, r := range s.inOrder()[from:] {
		if all = append(all, listed{url: r.url, key: r.key}); q.Filter == "" && len(all) > q.Limit {
			break
		}
	}
	return all
}

// inOrder returns the subscriptions in the order of their addresses. The caller holds the mutex, and does not use them without it.
// The first call sorts all, which takes a tenth of a second for a hundred thousand.
func (s *subscriptions) inOrder() []*subscription {
	if s.ordered == nil {
		for _, r := range s.byKey {
			if r.subscribed {
				s.ordered = append(s.ordered, r)
			}
		}
		slices.SortFunc(s.ordered, func(a, b *subscription) int { return cmp.Compare(a.url, b.url) })
	}
	return s.ordered
}

// place returns where a subscription to an address is in the order, or would be. The caller holds the mutex.
func (s *subscriptions) place(url string) (at int, found bool) {
	return slices.BinarySearchFunc(s.inOrder(), url, func(r *subscription, url string) int { return cmp.Compare(r.url, url) })
}

// setSubscribed notes whether a feed is subscribed to. The caller holds the mutex.
func (s *subscriptions) setSubscribed(r *subscription, subscribed bool) {
	r.subscribed = subscribed
	if s.ordered == nil { // nobody has asked for the list
		return
	}
	switch at, found := s.place(r.url); {
	case subscribed && !found:
		s.ordered = slices.Insert(s.ordered, at, r)
	case !subscribed && found:
		s.ordered = slices.Delete(s.ordered, at, at+1)
	}
}
