package daemon

import (
	"cmp"
	"context"
	"log/slog"
	"sync"

	"tidings/internal/env"
	"tidings/internal/feed"
	"tidings/internal/fetch"
	"tidings/internal/icons"
)

// siteIcons gets the icons of the sites of feeds for pages. A nil one has none.
type siteIcons struct {
	*nodeLoop
	store   *icons.Store
	client  *fetch.Client // not that of the documents, for which icons should not wait
	answers chan env.Answer
}

// iconsFolder holds the icons.
const iconsFolder = "icons"

func newSiteIcons(n *nodeLoop, c fetch.Config, folder string, log *slog.Logger) *siteIcons {
	i := &siteIcons{nodeLoop: n, answers: make(chan env.Answer, 1)}
	c.Workers = 1
	i.client = fetch.New(c, func(_ env.Handle, a env.Answer) { i.answers <- a })
	i.store = icons.New(folder, i.get, c.AllowPrivate, log)
	return i
}

// get asks for a document. The store asks for one at a time.
func (i *siteIcons) get(ctx context.Context, r env.Request) env.Answer {
	i.client.Fetch(1, r)
	select {
	case a := <-i.answers:
		return a
	case <-ctx.Done():
		return env.Answer{Err: env.ErrBusy}
	}
}

// run asks sites until ctx ends.
func (i *siteIcons) run(ctx context.Context) {
	if i == nil {
		return
	}
	var parts sync.WaitGroup
	parts.Go(func() { _ = i.client.Run(ctx) }) // it ends for no other reason than ctx
	parts.Go(func() { i.store.Run(ctx) })
	parts.Wait()
}

// source returns icon for proxy.Config; nil if the node has no icons.
func (i *siteIcons) source() func(ctx context.Context, url string) ([]byte, string, bool) {
	if i == nil {
		return nil
	}
	return i.icon
}

// icon returns the icon of the site of a subscription; see proxy.Config. Nobody is to see that this node follows a private
// feed or a quiet one, so their sites are not asked.
func (i *siteIcons) icon(ctx context.Context, url string) (body []byte, mediaType string, ok bool) {
	home, found := "", false
	err := i.do(ctx, func() {
		key := i.key(url)
		if s, subscribed := i.node.NodeOf(key).Feeds.Subscription(key); subscribed && !attributesOf(s).Quiet {
			home, found = cmp.Or(attributesOf(s).Site, feed.AbsoluteLink(originURL(url), s.Link)), true
		}
	})
	if err != nil || !found {
		return nil, "", false
	}
	site, ok := icons.SiteOf(originURL(url), home)
	if !ok {
		return nil, "", false
	}
	icon, ok := i.store.Icon(site)
	return icon.Body, icon.Type, ok
}
