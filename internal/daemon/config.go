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

// Config says where a node lives and what it does. Zero fields stand for defaults.
type Config struct {
	// Dir is the data directory. It is created if it does not exist.
	Dir string

	// Found holds the parameters of the network to found; nil: join one. A node that already has a network
	// keeps that network. Different parameters are then an error.
	Found *wire.Network
	// SettingSources says where the settings of Found were given: names of settings, each with a text such as
	// "the flag --owners". Settings that are not listed have their defaults, from which the network of an
	// existing node may differ. Nil: all were given.
	SettingSources map[string]string
	// Network is the name of the network to join; empty: the network of the first peer.
	Network string
	// Bootstrap holds multiaddrs of peers to join through, each ending in /p2p/ and a peer id. Only the first
	// start of a node needs one.
	Bootstrap []string
	// MDNS looks for peers in the local network, and answers their searches.
	MDNS bool

	// Listen holds the multiaddrs to listen at. Default: port 4801 of all interfaces, QUIC and TCP.
	Listen []string
	// PortMap asks the router to forward a port.
	PortMap bool
	// PrivateAddresses lets the node dial and announce private addresses even if its network's parameters do
	// not.
	PrivateAddresses bool
	// RefuseInbound refuses connections from outside. The node is then a client.
	RefuseInbound bool

	// HTTP is the address at which readers on this machine are served. Default 127.0.0.1:8190; "none":
	// nowhere.
	HTTP string
	// BaseURL is the beginning of the addresses given to readers, if they reach the node under another name;
	// see proxy.Config. Default: derived from HTTP.
	BaseURL string
	// TrustedProxies are the addresses of reverse proxies that may pass on requests of readers; see
	// proxy.Config. Forwarded requests of others are refused.
	TrustedProxies []netip.Prefix
	// TokenCopyDir is a folder for a copy of the API token, named after the address at which readers are
	// served. Commands of the same user find the token there. Empty: no copy.
	TokenCopyDir string
	// AllowPrivateOrigins lets the node poll origins on private addresses.
	AllowPrivateOrigins bool
	// SubscribeOnRead says when reading an address subscribes to it: "never", "second" (at the second
	// request; the default) or "first".
	SubscribeOnRead string
	// Signer signs what programs on this machine publish; nil: the node cannot sign.
	Signer Signer
	// Version is the release of the software, shown to origins.
	Version string
	// Contact is an http, https or mailto URL under which owners of origins reach the operator of this node.
	// The node sends it in its User-Agent. Default: none.
	Contact string

	// Agent is the software and its release, shown to other operators. Default "tidings".
	Agent string
	// Deliver receives each message of the groups that were joined, once. It is called on the node's loop, so
	// it must not block and must not call the Daemon.
	Deliver func(scribe.Delivery)
	// OnShown, if not nil, is called with a feed and the titles of its new items as soon as readers of the
	// node can see them. It is called on the node's loop, like Deliver.
	OnShown func(url string, titles []string)
	// Filter lets the node match the articles of all channels of its network with its readers' keyword
	// subscriptions. Without it, only articles of subscribed channels are matched.
	Filter bool
	// KeywordItems bounds the articles of a keyword feed, from 1 to [cobra.MaxKept]: the paper's k. Default
	// 10.
	KeywordItems int
	// Compression, if above 0, says that a laboratory's intervals are so many times shorter than real ones.
	// Origins on private addresses then stand for public ones and have budgets.
	Compression float64
	// Abrupt lets the node stop without leaving its network. It is for networks that stop as a whole, in
	// which no node stays to take anything over.
	Abrupt bool
	// Notice, if not nil, supplies a notice for the readers' page; see proxy.Config.
	Notice func() proxy.Notice
	// Log receives what an operator should know; nil: nothing is logged. At INFO and above, addresses of
	// feeds are redacted.
	Log *slog.Logger
}

// DefaultConfig returns the configuration of a node that lives in dir.
func DefaultConfig(dir string) Config { return Config{Dir: dir, PortMap: true} }

// Check returns what is wrong with a configuration, as far as can be seen without opening anything.
func (c Config) Check() error {
	_, err := c.withDefaults()
	return err
}

func (c Config) withDefaults() (Config, error) {
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
	if c.KeywordItems == 0 {
		c.KeywordItems = cobra.DefaultConfig().Kept
	}
	if c.KeywordItems < 1 || c.KeywordItems > cobra.MaxKept {
		return c, fmt.Errorf("--keyword-items %d: give 1 to %d", c.KeywordItems, cobra.MaxKept)
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
