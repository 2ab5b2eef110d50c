package daemon

import (
	"context"
	"net"
	"time"

	"tidings/proxy"
)

// listen opens the address of readers.
func (d *Daemon) listen() error {
	if d.config.HTTP == noHTTP {
		return nil
	}
	l, err := net.Listen("tcp", d.config.HTTP)
	if err != nil {
		return listenFault("serve readers at "+d.config.HTTP, "--http", err)
	}
	d.http = l
	return nil
}

// answer makes what answers readers, if anything does.
func (d *Daemon) answer() {
	if d.http == nil {
		return
	}
	d.server = proxy.New(d, proxy.Config{
		Secret:          d.home.secret,
		Token:           d.home.access,
		TrustedProxies:  d.config.TrustedProxies,
		BaseURL:         d.config.BaseURL,
		SubscribeOnRead: d.config.SubscribeOnRead,
		Keywords:        d,
		Filter:          d.config.Filter,
		MaxArticles:     d.config.Kept,
		Publishing:      d,
		Metrics:         metrics{d}.handler(),
		Notice:          d.config.Notice,
		Version:         d.config.Version,
		Log:             d.log,
	})
	d.leaveAccess()
}

// OpenURL returns an address that opens the pages in a browser once, if readers reach the node at base.
func (d *Daemon) OpenURL(base string) string { return d.server.OpenURL(base) }

// HTTPAddr is where readers are served, nil if they are not.
func (d *Daemon) HTTPAddr() net.Addr {
	if d.http == nil {
		return nil
	}
	return d.http.Addr()
}

// serve serves readers until ctx ends, and ends subscriptions that lapsed.
func (d *Daemon) serve(ctx context.Context) {
	lapses := make(chan struct{})
	go func() {
		defer close(lapses)
		d.lapses(ctx)
	}()
	if d.http != nil {
		if err := d.server.Serve(ctx, d.http); err != nil && ctx.Err() == nil {
			d.log.Error("server for feed readers ended", "err", err)
		}
	}
	<-lapses
}

// lapses ends the subscriptions that reading made and that nobody reads any more.
func (d *Daemon) lapses(ctx context.Context) {
	look := time.NewTicker(lapseLook)
	defer look.Stop()
	for {
		select {
		case <-look.C:
		case <-ctx.Done():
			return
		}
		d.endLapsed(ctx, time.Now())
	}
}

// endLapsed ends the subscriptions that have lapsed by now. Whoever reads one again has
// it again.
func (d *Daemon) endLapsed(ctx context.Context, now time.Time) {
	for _, url := range d.shelf.lapsed(now) {
		if err := d.unsubscribe(ctx, url, passing); err == nil {
			d.log.Info("subscription lapsed, because nobody read it for 30 days, or nothing could be published", "url", url)
		}
	}
}
