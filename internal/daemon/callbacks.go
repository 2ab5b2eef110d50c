package daemon

import (
	"context"
	"log/slog"
	"net"
	"net/url"
	"strings"

	"tidings/corona"
	"tidings/corona/websub"
	"tidings/internal/locale"
	"tidings/proxy"
)

// defaultPublicListen is where hubs are answered if Config.PublicListen is empty: where a reverse proxy on this machine
// finds it.
const defaultPublicListen = "127.0.0.1:8191"

// callbackBase is the address that the callbacks of hubs begin with; "" if hubs do not reach the node.
func (c Config) callbackBase() string {
	if c.PublicURL == "" {
		return ""
	}
	return strings.TrimSuffix(c.PublicURL, "/") + proxy.CallbackPath
}

// callbacks answers hubs at the public address of the node.
type callbacks struct {
	*nodeLoop
	listener     net.Listener // nil: hubs do not reach the node
	log          *slog.Logger
	allowPrivate bool // Config.AllowPrivateOrigins
}

// listenPublic opens the address at which hubs are answered.
func (d *Daemon) listenPublic() (err error) {
	if d.callbacks = (&callbacks{nodeLoop: d.nodeLoop, log: d.log, allowPrivate: d.config.AllowPrivateOrigins}); d.config.PublicURL == "" {
		return nil
	}
	if d.callbacks.listener, err = net.Listen("tcp", d.config.PublicListen); err != nil {
		return listenError("answer hubs at "+d.config.PublicListen, "--public-listen", err)
	}
	return nil
}

// close closes the listener of a node that has not served hubs; Serve has closed it otherwise.
func (c *callbacks) close() {
	if c.listener != nil {
		_ = c.listener.Close()
	}
}

// serve answers hubs until ctx ends.
func (c *callbacks) serve(ctx context.Context) {
	if c.listener == nil {
		return
	}
	if err := proxy.NewCallbackServer(c, c.log).Serve(ctx, c.listener); err != nil && ctx.Err() == nil {
		c.log.Error("server for hubs ended", "err", err)
	}
}

// Confirm implements proxy.Callbacks.
func (c *callbacks) Confirm(ctx context.Context, path string, query url.Values) (r websub.Response, err error) {
	err = c.do(ctx, func() { r = c.node.Corona.Confirm(path, query) })
	return r, err
}

// Notify implements proxy.Callbacks.
func (c *callbacks) Notify(ctx context.Context, path, signature, contentType string, body []byte) (r websub.Response, err error) {
	err = c.do(ctx, func() { r = c.node.Corona.Notify(path, signature, contentType, body) })
	return r, err
}

// Hint implements proxy.Callbacks.
func (c *callbacks) Hint(ctx context.Context, addresses []string) error {
	return c.do(ctx, func() {
		for _, address := range addresses {
			if _, private := corona.Origin(address); !private || c.allowPrivate {
				c.node.Corona.Hint(address)
			}
		}
	})
}

// PublicAddr returns the address at which hubs are answered, nil if there is none.
func (d *Daemon) PublicAddr() net.Addr {
	if d.callbacks.listener == nil {
		return nil
	}
	return d.callbacks.listener.Addr()
}

// callbacksFinding says how hubs reach the node, and what for.
func callbacksFinding(url string, listens net.Addr, subscriptions int, member bool) proxy.Finding {
	f := proxy.Finding{Level: levelOK, What: locale.Say("hubs reach this node at %s (it listens at %s); it is subscribed for %s of the network", url, listens.String(), locale.Say("%d feeds", subscriptions))}
	if !member {
		f.Level, f.What = levelNote, locale.Say("hubs could reach this node at %s, but it is no member of the network, so no other node asks it to subscribe", url)
	}
	return f
}
