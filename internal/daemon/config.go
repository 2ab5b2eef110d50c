package daemon

import (
	"cmp"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"slices"

	"tidings/cobra"
	"tidings/feedtree"
	"tidings/internal/check"
	"tidings/internal/env"
	"tidings/internal/fetch"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/libp2p"
	"tidings/overlay/scribe"
	"tidings/proxy"
)

const (
	defaultHTTP = "127.0.0.1:8190"
	noHTTP      = "none"
)

// An Authority admits members of a network of certificates.
type Authority interface {
	// Signing returns the authority of a node in its network, or an error if the network does not know it.
	Signing(n wire.Network, hash wire.Hash, node ed25519.PublicKey, log *slog.Logger) (overlay.Authority, error)
	// Check returns an error if the members cannot be read.
	Check() error
}

// A World stands between a node and the real one.
type World interface {
	// Env returns the interfaces that the node gets in place of the real ones. signer has the node's key.
	Env(e env.Env, signer *wire.Signer) env.Env
	// Answer returns what the node gets in place of an origin's answer. It is called from any goroutine.
	Answer(h env.Handle, a env.Answer) env.Answer
}

// Config says where a node lives and what it does. A zero field means its default.
type Config struct {
	// Dir is the data directory. It is created if it does not exist. It has no default.
	Dir string

	// Found holds the parameters of the network to found. Default nil: the node joins one. A node that already has
	// a network keeps that network. Different parameters are then an error.
	Found *wire.Network
	// SettingSources says where the settings of Found were given: names of settings, each with a text such as
	// "the flag --owners". Settings that are not listed have their defaults, from which the network of an
	// existing node may differ. Default nil: all were given.
	SettingSources map[string]string
	// Authority makes the node one of an authority of a network of certificates: it certifies members. Default nil: it is
	// an ordinary node.
	Authority Authority
	// Network is the name of the network to join. Default empty: the network of the first peer.
	Network string
	// Bootstrap holds multiaddrs of peers to join through, each ending in /p2p/ and a peer id. Only the first
	// start of a node needs one. Default none.
	Bootstrap []string
	// MDNS looks for peers in the local network, and answers their searches. Default false.
	MDNS bool

	// Listen holds the multiaddrs to listen at. Default: port 4801 of all interfaces, QUIC and TCP.
	Listen []string
	// PortMap asks the router to forward a port. Default false; DefaultConfig sets it.
	PortMap bool
	// PrivateAddresses lets the node dial and announce private addresses even if its network's parameters do
	// not. Default false.
	PrivateAddresses bool
	// RefuseInbound refuses connections from outside. The node is then a client, so it cannot found a network.
	// Default false.
	RefuseInbound bool

	// HTTP is the address at which readers on this machine are served, HOST:PORT. Default 127.0.0.1:8190;
	// "none": nowhere.
	HTTP string
	// BaseURL is the beginning of the addresses given to readers, if they reach the node under another name;
	// see proxy.Config. Default: derived from HTTP.
	BaseURL string
	// TrustedProxies are the addresses of reverse proxies that may pass on requests of readers; see
	// proxy.Config. Forwarded requests of others are refused. Default none.
	TrustedProxies []netip.Prefix
	// PublicURL is the URL at which the hubs of feeds reach this node: http or https, a host and, if needed, a port. The
	// node then subscribes at hubs for its network. Default empty: hubs do not reach it.
	PublicURL string
	// PublicListen is the address at which hubs are answered, HOST:PORT. Nothing else of the node can be reached there.
	// Default 127.0.0.1:8191, for a reverse proxy on this machine.
	PublicListen string
	// TokenCopyDir is a folder for a copy of the API token, named after the address at which readers are
	// served. Commands of the same user find the token there. Default empty: no copy.
	TokenCopyDir string
	// AllowPrivateOrigins lets the node poll origins, and send notifications, on private addresses. Default false.
	AllowPrivateOrigins bool
	// SubscribeOnRead says when reading an address subscribes to it: "never", "second" (at the second
	// request; the default) or "first".
	SubscribeOnRead string
	// Signer signs what programs on this machine publish. Default nil: the node cannot sign.
	Signer Signer
	// XMPP is the account by which the node talks with people. Default: none.
	XMPP XMPP
	// NoIcons keeps the node from asking the sites of its subscriptions for their icons, which its pages show otherwise.
	// Default false.
	NoIcons bool
	// Version is the release of the software, shown to origins. Default empty.
	Version string
	// Contact is an http, https or mailto URL under which owners of origins reach the operator of this node.
	// The node sends it in its User-Agent. Default: none.
	Contact string

	// Agent is the software and its release, shown to other operators. Default "tidings".
	Agent string
	// Deliver receives each message of the groups that were joined, once. It is called on the node's loop, so
	// it must not block and must not call the Daemon. Default nil: the messages are dropped.
	Deliver func(scribe.Delivery)
	// OnShown is called with a feed and the titles of its new items as soon as readers of the node can see
	// them. It is called on the node's loop, like Deliver. Default nil.
	OnShown func(url string, titles []string)
	// Filter lets the node match the articles of all channels of its network with its readers' keyword
	// subscriptions. Default false: only articles of subscribed channels are matched. A filter receives every
	// new article of the network.
	Filter bool
	// Hosting says what the node does in a hosting centre. Default: it is in none.
	Hosting Hosting
	// KeywordItems bounds the articles of a keyword feed, 1 to [cobra.MaxArticlesPerFeed]: the paper's k. Default
	// [cobra.DefaultArticlesPerFeed]. Each takes four bytes of memory per query.
	KeywordItems int
	// MaxSearches bounds the keyword subscriptions, 1 to [cobra.HighestMaxSubscriptions]. Default
	// [cobra.DefaultMaxSubscriptions]. A million take about a hundred megabytes of memory.
	MaxSearches int
	// KeywordBytes bounds the bytes of articles that keyword feeds keep on the disk, 1 MiB to [cobra.HighestMaxBytes].
	// Default [cobra.DefaultMaxBytes].
	KeywordBytes int64
	// MaxSubscriptions bounds the subscriptions of the node, without private feeds; see [feedtree.Config]. Default
	// [feedtree.DefaultMaxSubscriptions].
	MaxSubscriptions int
	// Compression says how many times shorter a laboratory's intervals are than real ones, at least 1. If it is
	// set, origins on private addresses stand for public ones and have budgets. Default 0: the node is in no
	// laboratory.
	Compression float64
	// World changes what the node sends and what origins answer. A laboratory builds nodes that lie with it. Default nil: the
	// node is honest.
	World World
	// Abrupt lets the node stop without leaving its network. It is for networks that stop as a whole, in
	// which no node stays to take anything over. Default false.
	Abrupt bool
	// ReaderLists holds the usual places of the lists of other readers; see proxy.Config. Default none.
	ReaderLists []proxy.ReaderList
	// Notice supplies a notice for the readers' page; see proxy.Config. Default nil: there is none.
	Notice func() proxy.Notice
	// Log receives what an operator should know. At INFO and above, addresses of feeds are redacted. Default nil:
	// nothing is logged.
	Log *slog.Logger
}

// DefaultConfig returns the configuration of a node that lives in dir.
func DefaultConfig(dir string) Config { return Config{Dir: dir, PortMap: true} }

func (c Config) withDefaults() Config {
	if len(c.Listen) == 0 {
		c.Listen = libp2p.DefaultConfig(ed25519.PrivateKey{}).Listen
	}
	c.HTTP = cmp.Or(c.HTTP, defaultHTTP)
	c.PublicListen = cmp.Or(c.PublicListen, defaultPublicListen)
	c.KeywordItems = cmp.Or(c.KeywordItems, cobra.DefaultArticlesPerFeed)
	c.MaxSearches = cmp.Or(c.MaxSearches, cobra.DefaultMaxSubscriptions)
	c.KeywordBytes = cmp.Or(c.KeywordBytes, cobra.DefaultMaxBytes)
	c.MaxSubscriptions = cmp.Or(c.MaxSubscriptions, feedtree.DefaultMaxSubscriptions)
	c.Agent = cmp.Or(c.Agent, "tidings")
	if c.Deliver == nil {
		c.Deliver = func(scribe.Delivery) {}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	c.Log = slog.New(newRedactor(c.Log.Handler()))
	return c
}

// Validate returns an error about the first wrong field, as far as can be seen without opening anything. If the
// field is set by a flag, the error names the flag.
func (c Config) Validate() error {
	c = c.withDefaults()
	if c.Found != nil {
		if err := c.Found.Check(); err != nil {
			return err
		}
		if c.RefuseInbound {
			return errors.New("the founder of a network has to accept connections")
		}
		if c.Network != "" && c.Network != c.Found.Name {
			return fmt.Errorf("found network %q and join network %q: do one of them", c.Found.Name, c.Network)
		}
	}
	if err := (libp2p.Config{Listen: c.Listen, Bootstrap: c.Bootstrap}).CheckAddresses(); err != nil {
		return err
	}
	if c.HTTP != noHTTP {
		if _, _, err := net.SplitHostPort(c.HTTP); err != nil {
			return fmt.Errorf("--http %q is not an address: give HOST:PORT, such as %s, or %s", c.HTTP, defaultHTTP, noHTTP)
		}
	}
	if c.BaseURL != "" {
		if err := proxy.CheckBaseURL(c.BaseURL); err != nil {
			return err
		}
	}
	if _, _, err := net.SplitHostPort(c.PublicListen); err != nil {
		return fmt.Errorf("--public-listen %q is not an address: give HOST:PORT, such as %s", c.PublicListen, defaultPublicListen)
	}
	if c.PublicURL != "" && proxy.CheckBaseURL(c.PublicURL) != nil {
		return fmt.Errorf("--public-url %q: give http or https, a host and, if needed, a port, such as https://node.example", c.PublicURL)
	}
	if err := fetch.CheckContact(c.Contact); err != nil {
		return err
	}
	if err := c.XMPP.validate(c.HTTP); err != nil {
		return err
	}
	if err := c.Hosting.validate(); err != nil {
		return err
	}
	return cmp.Or(
		check.That(c.Dir != "", "daemon: Dir", "is empty; it must be the data directory"),
		check.That(!slices.ContainsFunc(c.TrustedProxies, func(p netip.Prefix) bool { return !p.IsValid() }),
			"daemon: TrustedProxies", "is %v; it must have valid prefixes only", c.TrustedProxies),
		check.That(c.KeywordItems >= 1 && c.KeywordItems <= cobra.MaxArticlesPerFeed,
			"--keyword-items", "%d: give 1 to %d", c.KeywordItems, cobra.MaxArticlesPerFeed),
		check.That(c.MaxSearches >= 1 && c.MaxSearches <= cobra.HighestMaxSubscriptions,
			"--max-searches", "%d: give 1 to %d", c.MaxSearches, cobra.HighestMaxSubscriptions),
		check.Between("daemon: KeywordBytes", c.KeywordBytes, 1<<20, cobra.HighestMaxBytes),
		check.AtLeast("--max-subscriptions", c.MaxSubscriptions, 1),
		check.That(slices.Contains([]string{"", "never", "second", "first"}, c.SubscribeOnRead),
			"--subscribe-on-read", "%q: give never, second or first", c.SubscribeOnRead),
		check.AtLeast("daemon: Compression", cmp.Or(c.Compression, 1), 1),
	)
}

// keywords returns the limits of keyword subscriptions.
func (c Config) keywords() cobra.Config {
	return cobra.Config{ArticlesPerFeed: c.KeywordItems, MaxSubscriptions: c.MaxSearches, MaxBytes: c.KeywordBytes}
}

func (c Config) path(file string) string { return filepath.Join(c.Dir, file) }
