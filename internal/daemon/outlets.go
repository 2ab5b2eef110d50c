package daemon

import (
	"cmp"
	"context"
	"log/slog"
	"strings"
	"sync"

	"tidings/internal/fetch"
	"tidings/internal/news"
	"tidings/internal/notify"
	"tidings/internal/store"
	"tidings/proxy"
)

// outlets are the parts of a node that tell others what is new: programs, by WebSub, webhooks and a stream of events, and
// people, by services, e-mail and a messenger. All of them read one journal, and a courier brings them its events.
type outlets struct {
	recorder      *recorder // fills the journal
	courier       *news.Courier
	hub           *hub
	notifications *notifications
	messenger     *messenger  // nil: there is none
	news          *store.Disk // the journal, and how far each reader of it has come
}

// openOutlets opens the journal.
func openOutlets(n *nodeLoop, path string, log *slog.Logger) (*outlets, error) {
	journal, disk, err := openNews(path)
	if err != nil {
		return nil, err
	}
	return &outlets{
		recorder: &recorder{nodeLoop: n, journal: journal, log: log, wake: make(chan struct{}, 1), hurry: make(chan struct{}, 1), whole: map[string]wholeRecord{}},
		courier:  news.NewCourier(journal, log), news: disk,
	}, nil
}

// assembleOutlets makes the parts, after those that they use.
func (d *Daemon) assembleOutlets() {
	c := d.config
	d.recorder.private, d.recorder.watches = d.private, d.watches
	d.private.marked, d.subscriptions.gone, d.keywords.matched = d.recorder.mark, d.recorder.mark, d.recorder.markMatch
	d.keywords.created, d.keywords.told.named = d.recorder.markNew, d.namedSearches
	d.hub = newHub(d.courier, d.news, d.log)
	d.hub.get = func(ctx context.Context, address string) (proxy.Page, error) { return d.server.Get(ctx, address) }
	d.hub.follows, d.hub.shows = d.follows, d.recorder.shows
	d.notifications = &notifications{
		path: c.path(targetsFile), courier: d.courier, private: d.private, subs: d.subscriptions, watches: d.watches, log: d.log,
		sender: notify.New(notify.Config{
			Control: fetch.DialControl(c.AllowPrivateOrigins, d.host.IPs), AllowPrivate: c.AllowPrivateOrigins, Agent: strings.TrimRight("tidings/"+c.Version, "/"), Page: d.notifyPage(),
		}),
	}
}

// loadOutlets reads whom earlier runs had to tell. A node from which nobody reads has no hub and no messenger.
func (d *Daemon) loadOutlets() error {
	err := d.notifications.load()
	if err != nil || d.server == nil {
		return err
	}
	return cmp.Or(d.hub.load(), d.openMessenger())
}

// run tells what is new until ctx ends. The hub runs if the node serves readers. each calls a function with
// everything that the node follows.
func (o *outlets) run(ctx context.Context, served bool, each func(context.Context, func(*proxy.Channel) error) error) {
	var parts sync.WaitGroup
	parts.Go(func() { o.recorder.run(ctx) })
	parts.Go(func() { o.recorder.watchHealth(ctx, each) })
	parts.Go(func() { o.courier.Run(ctx) })
	if served {
		parts.Go(func() { o.hub.run(ctx) })
	}
	if o.messenger != nil {
		parts.Go(func() { o.messenger.run(ctx) })
	}
	parts.Wait()
}
