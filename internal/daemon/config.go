package daemon

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"path/filepath"

	"tidings/cobra"
	"tidings/internal/fetch"
	"tidings/internal/wire"
	"tidings/overlay/libp2p"
	"tidings/overlay/scribe"
	"tidings/proxy"
)

const (
	defaultHTTP = "127.0.0.1:8190"
	noHTTP      = "none"
)

// Config says where a node lives and what it is to do. Zero fields mean their
// defaults.
type Config struct {
	// Dir is the data directory. It is made if there is none.
	Dir string

	// Found holds the parameters of the network to found; nil: join one. A
	// node that has a network already keeps it; other parameters that were
	// given are then an error.
	Found *wire.Network
	// Given says where the settings of Found were given, by their names, such as "the flag --owners". The others have
	// their defaults, which a network that the node has already need not share. Nil: all were given.
	Given map[string]string
	// Network is the name of the network to join; empty: the one that the
	// first peer belongs to.
	Network string
	// Bootstrap holds multiaddrs of peers to join through, each ending in
	// /p2p/ and a peer id. Only a node's first start needs one.
	Bootstrap []string
	// MDNS looks for peers in the local network, and answers them.
	MDNS bool

	// Listen holds multiaddrs to listen at. Default: port 4801 of all
	// interfaces, by QUIC and TCP.
	Listen []string
	// PortMap asks the router for a port.
	PortMap bool
	// PrivateAddresses lets the node dial and announce private addresses
	// whatever its network says.
	PrivateAddresses bool
	// RefuseInbound refuses connections from outside, so that the node is a
	// client.
	RefuseInbound bool

	// HTTP is where readers on this machine are served. Default 127.0.0.1:8190;
	// "none": nowhere.
	HTTP string
	// BaseURL is what the addresses given to readers begin with, where they
	// reach the node by another name: see proxy.Config. Default: as HTTP says.
	BaseURL string
	// TrustedProxies are the addresses of proxies that may pass requests of readers on; see
	// proxy.Config. Requests of others are refused.
	TrustedProxies []netip.Prefix
	// Access is a folder in which the token for commands is left a second time, by the address at
	// which readers are served, for commands of the same user; empty: nowhere.
	Access string
	// AllowPrivateOrigins lets the node poll origins on private addresses.
	AllowPrivateOrigins bool
	// SubscribeOnRead says when reading an address subscribes to it: "never",
	// "second" (asking, the default), or "first".
	SubscribeOnRead string
	// Author, if not nil, signs what programs on this machine want published.
	Author Author
	// Version is the release of the software, for origins.
	Version string
	// Contact is an http, https or mailto URL under which owners of origins reach the operator of this node.
	// The node sends it in its User-Agent. Default: none is sent.
	Contact string

	// Agent is the software and its release, for other operators. Default
	// "tidings".
	Agent string
	// Deliver takes the messages of the groups subscribed to, each once. It is
	// called on the node's loop: it must not block, nor call the Daemon.
	Deliver func(scribe.Delivery)
	// Shown, if not nil, is told of items as soon as readers of the node have them, by their
	// feed and titles. It is called on the node's loop, as Deliver is.
	Shown func(url string, titles []string)
	// Filter has the node match the articles of all channels of its network with its readers'
	// keyword subscriptions; else those of the channels that it subscribes to.
	Filter bool
	// Kept is how many articles a keyword feed has at most, up to [cobra.MaxKept]: the paper's k.
	// Default 10.
	Kept int
	// Compression, if above 0, is how many times shorter than the world's the intervals of a
	// laboratory are. Then origins on private addresses stand for public ones: they have
	// budgets.
	Compression float64
	// Abrupt has the node end without a word to others: for a network that ends as a whole,
	// where nobody stays to whom anything could be handed over.
	Abrupt bool
	// Notice, if not nil, is shown on the page for readers; see proxy.Config.
	Notice func() proxy.Notice
	// Log takes what an operator should know; nil: nothing is logged. From INFO on, addresses of
	// feeds are redacted.
	Log *slog.Logger
}

// DefaultConfig returns the configuration of a node that lives in dir.
func DefaultConfig(dir string) Config { return Config{Dir: dir, PortMap: true} }

// Check says what is wrong with a configuration, as far as that can be seen without
// following it.
func (c Config) Check() error {
	_, err := c.filled()
	return err
}

func (c Config) filled() (Config, error) {
	if c.Dir == "" {
		return c, errors.New("no data directory given")
	}
	if c.Found != nil {
		if err := c.Found.Check(); err != nil {
			return c, err
		}
		if c.RefuseInbound {
			return c, errors.New("the founder of a network has to accept connections")
		}
		if c.Network != "" && c.Network != c.Found.Name {
			return c, errors.New("two network names were given: found a network, or join one")
		}
	}
	if len(c.Listen) == 0 {
		c.Listen = libp2p.DefaultConfig(ed25519.PrivateKey{}).Listen
	}
	if err := (libp2p.Config{Listen: c.Listen, Bootstrap: c.Bootstrap}).CheckAddresses(); err != nil {
		return c, err
	}
	if c.HTTP == "" {
		c.HTTP = defaultHTTP
	}
	if c.BaseURL != "" {
		if err := proxy.CheckBaseURL(c.BaseURL); err != nil {
			return c, err
		}
	}
	if err := fetch.CheckContact(c.Contact); err != nil {
		return c, err
	}
	if c.Kept == 0 {
		c.Kept = cobra.DefaultConfig().ArticlesPerFeed
	}
	if c.Kept < 1 || c.Kept > cobra.MaxArticlesPerFeed {
		return c, fmt.Errorf("--keyword-items %d: give 1 to %d", c.Kept, cobra.MaxArticlesPerFeed)
	}
	switch c.SubscribeOnRead {
	case "":
		c.SubscribeOnRead = "second"
	case "never", "second", "first":
	default:
		return c, fmt.Errorf("--subscribe-on-read %q: give never, second or first", c.SubscribeOnRead)
	}
	if c.Agent == "" {
		c.Agent = "tidings"
	}
	if c.Deliver == nil {
		c.Deliver = func(scribe.Delivery) {}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	c.Log = slog.New(newRedactor(c.Log.Handler()))
	return c, nil
}

func (c Config) path(file string) string { return filepath.Join(c.Dir, file) }
