package daemon

import (
	"context"
	"net"
	"net/netip"

	"tidings/proxy"
)

// listen opens the address of readers.
func (d *Daemon) listen() error {
	if d.config.HTTP == noHTTP {
		return nil
	}
	l, err := net.Listen("tcp", d.config.HTTP)
	if err != nil {
		return listenError("serve readers at "+d.config.HTTP, "--http", err)
	}
	d.http = l
	return nil
}

// openServer creates the server for readers, if the node serves any.
func (d *Daemon) openServer() {
	if d.http == nil {
		return
	}
	d.server = proxy.New(d, proxy.Config{
		Secret:          d.dataDir.readerSecret,
		Token:           d.dataDir.apiToken,
		TrustedProxies:  d.config.TrustedProxies,
		BaseURL:         d.config.BaseURL,
		SubscribeOnRead: d.config.SubscribeOnRead,
		Keywords:        d,
		Tokens:          d.tokens,
		Private:         d.private,
		Hub:             d.hub,
		News:            newsReader{d.recorder.journal},
		Notifications:   d.notifications,
		Candidates:      d.hosting,
		Messenger:       func() *proxy.Messenger { return d.messenger.Status() },
		Icon:            d.icons.source(),
		Filter:          d.config.Filter,
		HostingCentre:   d.config.Hosting.Topology != "",
		MaxArticles:     d.config.KeywordItems,
		Publishing:      d,
		ReaderLists:     d.config.ReaderLists,
		Metrics:         metrics{d.status, d.fetch, &stateCounts{}}.handler(),
		Notice:          d.config.Notice,
		Version:         d.config.Version,
		Log:             d.log,
	})
	d.saveTokenCopy()
}

// notifyPage returns the address of the page of notifications on this machine, or "" if there is none.
func (d *Daemon) notifyPage() string {
	if d.http == nil {
		return ""
	}
	at, err := netip.ParseAddrPort(d.http.Addr().String())
	if err != nil {
		return ""
	}
	if at.Addr().IsUnspecified() {
		at = netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), at.Port())
	}
	return "http://" + at.String() + proxy.NotifyPath
}

// OpenURL returns an address that opens the pages in a browser once. base is the URL at which readers reach
// the node.
func (d *Daemon) OpenURL(base string) string { return d.server.OpenURL(base) }

// HTTPAddr returns the address at which readers are served, nil if there is none.
func (d *Daemon) HTTPAddr() net.Addr {
	if d.http == nil {
		return nil
	}
	return d.http.Addr()
}

// serve serves readers until ctx ends.
func (d *Daemon) serve(ctx context.Context) {
	if d.http == nil {
		return
	}
	if err := d.server.Serve(ctx, d.http); err != nil && ctx.Err() == nil {
		d.log.Error("server for feed readers ended", "err", err)
	}
}
