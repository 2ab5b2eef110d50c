package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/alecthomas/kong"

	"tidings/cobra"
	"tidings/internal/authority"
	"tidings/internal/daemon"
	"tidings/internal/publisher"
	"tidings/internal/wire"
	"tidings/overlay/libp2p"
	"tidings/proxy"
)

// A runCommand is "tidings run".
type runCommand struct {
	Data                string   `placeholder:"DIR" help:"Data directory (${data})."`
	HTTP                string   `name:"http" default:"${http}" placeholder:"HOST:PORT" help:"Address at which the node serves feed readers, browsers and commands (${default}), or none."`
	BaseURL             string   `name:"base-url" placeholder:"URL" help:"URL at which feed readers on other machines reach the node, such as http://nas.example:8190. Addresses for readers begin with it. Under this name the node serves feeds only."`
	PublicURL           string   `name:"public-url" placeholder:"URL" help:"URL at which the hubs of feeds (WebSub) reach this node, such as https://node.example. The node then takes their notifications for its network."`
	PublicListen        string   `default:"127.0.0.1:8191" placeholder:"HOST:PORT" help:"Address at which the node answers hubs (${default}) if --public-url is given. A reverse proxy passes their requests on to it. Nothing else of the node can be reached there."`
	TrustedProxy        []string `placeholder:"ADDRESS" help:"IP address or network of a reverse proxy that may pass on requests of readers, such as 127.0.0.1. All requests from there count as requests of other machines, unless they are your own or carry the token. The proxy should add X-Forwarded-For. Requests of other proxies are refused. May be repeated."`
	Listen              []string `placeholder:"MULTIADDR" help:"Address at which to listen for other nodes (port 4801 of all interfaces, QUIC and TCP). May be repeated."`
	Bootstrap           []string `placeholder:"MULTIADDR" help:"Address of a node of the network to join, which that node prints after \"peer\". May be repeated."`
	MDNS                bool     `name:"mdns" help:"Find other nodes in the local network by multicast DNS."`
	Network             string   `placeholder:"NAME" help:"Name of the network to join or to found (tidings)."`
	Authority           string   `placeholder:"DIR" help:"Directory of an authority, from tidings network create. The node admits members for it. Without --bootstrap it founds the network that was created with it."`
	AllowPrivateOrigins bool     `help:"Also poll feeds, and send notifications, at private addresses. If this node founds a network, its nodes may have private addresses."`
	Filter              bool     `help:"Match searches against all feeds of the network, not only against your subscriptions."`
	MaxSearches         int      `default:"50000000" placeholder:"N" help:"Most searches of the node, 1 to 1,000,000,000 (${default}). A million take about a hundred megabytes of memory."`
	SearchDisk          int      `default:"1024" placeholder:"MIB" help:"Most mebibytes of articles that the feeds of searches keep on the disk, 1 to 1,048,576 (${default}). From nine tenths of it on, only titles and links are kept."`
	Role                string   `enum:"all,crawler,filter,reflector" default:"all" placeholder:"ROLE" help:"What this node is to be in the hosting centre of --topology: crawler, filter, reflector, or all (default): whatever the topology says."`
	Topology            string   `placeholder:"FILE" help:"Topology of a hosting centre, from tidings provision --json, with the address of each node as \"peer\"."`
	CrawlList           string   `placeholder:"FILE" help:"Feeds that the crawlers of a hosting centre poll: OPML, or a text with an address in each line. It is read again when it changes."`
	Discover            int      `default:"60" placeholder:"N" help:"Requests an hour, 0 to 3600, with which a crawler of a hosting centre looks for feeds that --crawl-list lacks, on the sites to which articles link (${default}). See tidings candidates."`
	WhenFull            string   `enum:"wait,drop" default:"wait" placeholder:"MODE" help:"What a node of a hosting centre does when the next node is too slow: wait (default) or drop articles, and count them."`
	KeywordItems        int      `default:"10" placeholder:"N" help:"Number of articles in the feed of a search, 1 to 200 (${default}). Each takes four bytes of memory per query."`
	Contact             string   `placeholder:"URL" help:"Contact for owners of polled web servers: an http, https or mailto URL, which is sent in the User-Agent. Default: none."`
	NoIcons             bool     `help:"Do not ask the web sites of your feeds for their icons, which the node's pages show."`
	MaxSubscriptions    int      `default:"20000" placeholder:"N" help:"Number of feeds and pages that the node follows at most (${default}). A thousand take about 30 MB of memory."`
	SubscribeOnRead     string   `enum:"never,second,first" default:"second" placeholder:"MODE" help:"Which read of an address without a token subscribes to it: never, second (default) or first."`

	XMPP struct {
		JID          string   `name:"jid" placeholder:"JID" help:"Account of a messenger, such as news@chat.example, by which people follow feeds and are told what is new: see the guide to the messenger."`
		PasswordFile string   `placeholder:"FILE" help:"File whose first line is the password of --xmpp-jid."`
		Server       string   `placeholder:"HOST:PORT" help:"Address of the XMPP server (what DNS says about the domain of --xmpp-jid)."`
		Allow        []string `placeholder:"JID" help:"Account of a person who may give commands to the messenger (those in the contact list of --xmpp-jid). May be repeated."`
	} `embed:"" prefix:"xmpp-"`

	PublishKey string `placeholder:"FILE" help:"File with a publisher's key. Programs on this machine that send the token of the data directory can publish with it."`
	keyFlags   `embed:""`

	NetworkFlags networkFlags `embed:"" group:"Parameters of a new network (nodes that join take them from it):"`
	IDs          *string      `name:"ids" placeholder:"KIND" group:"Parameters of a new network (nodes that join take them from it):" help:"What ids of members are made of: key (default), which is for friends, or address, which is for strangers at public addresses. For certificates, see tidings network create."`

	sources map[string]string // where each setting of a network was given, by the name of the setting

	LogLevel string `enum:"debug,info,warn,error" default:"info" placeholder:"LEVEL" help:"Log messages of this level and above on standard error: debug, info (default), warn, error."`
	Quiet    bool   `help:"Print nothing, and log only errors."`
}

// AfterApply is called by kong when all settings are known. It records where the settings of a network were given,
// and rejects environment variables that look like misspelt settings.
func (c *runCommand) AfterApply(k *kong.Context) error {
	c.sources = map[string]string{}
	names := c.givenNetworkFlags()
	if c.Network != "" {
		names = append(names, "--network")
	}
	for _, f := range k.Selected().Flags {
		if slices.Contains(names, "--"+f.Name) {
			c.sources[f.Name] = settingSource(k, f)
		}
	}
	// --scheme sets these four flags.
	if at, ok := c.sources["scheme"]; ok {
		for _, name := range []string{"wedge", "clusters", "phases", "decide"} {
			c.sources[name] = cmp.Or(c.sources[name], at)
		}
	}
	return rejectMisspelt(k.Model.Node, os.Environ())
}

// Run runs a node until ctx ends.
func (c *runCommand) Run(ctx context.Context, s streams) error {
	config, err := c.config()
	if err != nil {
		return err
	}
	level := c.LogLevel
	if c.Quiet {
		s.out, level = io.Discard, "error"
	}
	config.Log = newLog(s.err, level)
	if err := libp2p.SetLog(config.Log.Handler()); err != nil {
		return err
	}
	if c.PublishKey != "" {
		if config.Signer, err = publisher.Open(c.PublishKey, c.askPassphrase(s.in)); err != nil {
			return err
		}
	}
	defer ignoreHangups(config.Log)()
	if os.Getenv("GOGC") == "" {
		ctx, end := context.WithCancel(ctx)
		var tuner sync.WaitGroup
		tuner.Go(func() { tuneGarbage(ctx) })
		defer tuner.Wait()
		defer end()
	}
	d, err := daemon.Open(config)
	if err != nil {
		return err
	}
	snap, err := d.Snapshot(ctx)
	if err != nil {
		return errors.Join(err, d.Close())
	}
	printAddresses(s.out, d.HTTPAddr(), snap.Addrs)
	alive := func(ctx context.Context) error {
		_, err := d.Status(ctx) // the same check as /healthz
		return err
	}
	return runSupervised(ctx, supervisorOf(os.Getenv), alive, d.Run, func(err error) { config.Log.Warn("systemd could not be notified", "err", err) })
}

// printAddresses prints the lines that scripts wait for: the address for readers, and the addresses at which other
// nodes can join through this one.
func printAddresses(w io.Writer, http net.Addr, peers []string) {
	var b strings.Builder
	if http != nil {
		fmt.Fprintf(&b, "reader  http://%s/\n", localAddress(http.String()))
	}
	for _, p := range peers {
		fmt.Fprintf(&b, "peer    %s\n", p)
	}
	_, _ = io.WriteString(w, b.String()) // the node runs on even if nobody reads its output
}

// config converts the flags to the configuration of a daemon.
func (c *runCommand) config() (daemon.Config, error) {
	dir := c.Data
	if dir == "" {
		dir = dataDir()
	}
	if dir == "" {
		return daemon.Config{}, usagef("HOME is not set, so the data directory is not known: give it with --data DIR")
	}
	d := daemon.DefaultConfig(dir)
	d.HTTP = c.HTTP
	d.BaseURL = c.BaseURL
	d.PublicURL, d.PublicListen = c.PublicURL, c.PublicListen
	d.TokenCopyDir = accessDir()
	d.ReaderLists = readerLists()
	d.Listen = c.Listen
	d.PortMap = !onlyLoopback(c.Listen)
	d.Bootstrap = c.Bootstrap
	d.MDNS = c.MDNS
	d.PrivateAddresses = c.AllowPrivateOrigins
	d.AllowPrivateOrigins = c.AllowPrivateOrigins
	d.Filter = c.Filter
	d.KeywordItems, d.MaxSearches, d.KeywordBytes = c.KeywordItems, c.MaxSearches, int64(c.SearchDisk)<<20
	d.Hosting = daemon.Hosting{Role: c.Role, Topology: c.Topology, CrawlList: c.CrawlList, Discover: c.Discover, Drop: c.WhenFull == "drop"}
	d.SubscribeOnRead = c.SubscribeOnRead
	d.NoIcons, d.MaxSubscriptions = c.NoIcons, c.MaxSubscriptions
	d.Contact = c.Contact
	d.XMPP = daemon.XMPP{JID: c.XMPP.JID, PasswordFile: c.XMPP.PasswordFile, Server: c.XMPP.Server, Allow: c.XMPP.Allow}
	d.Version = release().Version
	d.Agent = "tidings/" + d.Version

	if c.HTTP != noHTTP && !isHostPort(c.HTTP) {
		return d, usagef("--http %q is not an address: give HOST:PORT, such as %s, or %s", c.HTTP, defaultHTTP, noHTTP)
	}
	for _, s := range c.TrustedProxy {
		p, err := proxy.ParseProxy(s)
		if err != nil {
			return d, usageError{error: err}
		}
		d.TrustedProxies = append(d.TrustedProxies, p)
	}
	switch {
	case c.KeywordItems < 1:
		return d, usagef("--keyword-items %d: give 1 to 200", c.KeywordItems)
	case c.MaxSearches < 1:
		return d, usagef("--max-searches %d: give 1 to %d", c.MaxSearches, cobra.HighestMaxSubscriptions)
	case c.SearchDisk < 1 || c.SearchDisk > cobra.HighestMaxBytes>>20:
		return d, usagef("--search-disk %d: give 1 to %d mebibytes", c.SearchDisk, int64(cobra.HighestMaxBytes>>20))
	}
	if err := d.Validate(); err != nil {
		return d, usageError{error: err}
	}
	given := c.givenNetworkFlags()
	if c.Authority != "" {
		if len(given) > 0 {
			return d, usagef("give either --authority, whose network has its parameters already, or %s", strings.Join(given, ", "))
		}
		return c.withAuthority(d)
	}
	if len(given) > 0 && len(c.Bootstrap) > 0 {
		return d, usagef("give either --bootstrap, to join a network, or %s, to found one", strings.Join(given, ", "))
	}
	hasNetwork, err := daemon.HasNetwork(dir)
	if err != nil {
		return d, err
	}
	// A node that has a network keeps it, and a node that knows other nodes joins theirs. Otherwise it founds a
	// network.
	if len(given) == 0 && (hasNetwork || len(c.Bootstrap) > 0 || c.MDNS) {
		d.Network = c.Network
		return d, nil
	}
	ids := wire.KeyIDs
	setIfGiven(&ids, c.IDs)
	n, err := c.NetworkFlags.network(c.Network, ids, "")
	if err != nil {
		return d, usageError{error: err}
	}
	n.PrivateAddresses = c.AllowPrivateOrigins
	d.Found, d.SettingSources = &n, c.sources
	return d, nil
}

// givenNetworkFlags returns the names of the flags about a new network that were given.
func (c *runCommand) givenNetworkFlags() []string {
	names := c.NetworkFlags.givenFlags()
	if c.IDs != nil {
		names = append(names, "--ids")
	}
	return names
}

// withAuthority returns the configuration of a node of an authority. Without --bootstrap it founds the network that was
// created with the authority.
func (c *runCommand) withAuthority(d daemon.Config) (daemon.Config, error) {
	dir, err := authority.Open(c.Authority)
	if err != nil {
		return d, err
	}
	d.Authority = dir
	n, ok, err := dir.Network()
	switch {
	case err != nil:
		return d, err
	case ok && c.Network != "" && c.Network != n.Name:
		return d, usagef("--network %q: the network of the authority in %s is %q", c.Network, c.Authority, n.Name)
	case ok && len(c.Bootstrap) == 0 && !c.MDNS:
		d.Found = &n
	default:
		d.Network = c.Network
	}
	return d, nil
}

// onlyLoopback reports whether only programs on this machine can reach the addresses, so that the router need not
// forward a port.
func onlyLoopback(listen []string) bool {
	for _, a := range listen {
		if !strings.HasPrefix(a, "/ip4/127.") && !strings.HasPrefix(a, "/ip6/::1/") {
			return false
		}
	}
	return len(listen) > 0
}
