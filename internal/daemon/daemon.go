// Package daemon runs one real node: it gives a [node.Node] its I/O interfaces and drives it.
//
//	loop      internal/loop     the goroutine that owns the node; clock, worker
//	network   overlay/libp2p    QUIC and TCP, first peers, reachability
//	store     internal/store    what the node remembers
//	fetcher   internal/fetch    polite requests to origins
//
// A [proxy.Server] serves the node's readers.
//
// A node lives in a data directory. After a restart it finds its identity and its network there and needs no
// flags:
//
//	identity.key   its private key, readable by its owner alone
//	network        the descriptor of its network, and whether this node founded the network
//	reader.secret  the secret from which the addresses for readers are derived
//	tidings.db     the store: subscriptions, votes, logs, known peers
//	api.token      the token with which commands and other programs list and change subscriptions
//	publish.token  the token with which programs let the node publish for them
//	icons/         the icons of the sites of feeds
//	private/       a file for each private feed: its address, its headers and its items
//	keywords.db    keyword subscriptions and the articles that matched them
//	news.db        the journal of what was new, and how far the targets of notifications have come
//	messenger.json the contacts of the messenger, and what they follow
//	notify.json    the targets of notifications, with their passwords
//	tokens.json    hashes of the tokens with which others make searches
//	*.db.second    a second copy of the subscriptions, in case the store loses them
//
// If the store is lost or damaged, the records of what the node has signed may be lost too. The node then
// takes a new key and joins as another node. Its subscriptions come back from the second copy.
//
// The caller of Open says for a new directory which network to found, or names a node to join through. In the
// second case the network's parameters come from that node.
//
//	d, err := daemon.Open(config)
//	...
//	err = d.Run(ctx) // until ctx ends and everything has stopped
//
// While the node runs, any goroutine may call Subscribe, Unsubscribe, Read, List and Status. Snapshot and
// LedFeeds show its state. Route uses the layer below feeds.
//
// The package leaves the protocols to the layers, and leaves flags, signals and output for people to
// cmd/tidings.
package daemon

import (
	"cmp"
	"context"
	"crypto/ed25519"
	crand "crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"tidings/cobra/firehose"
	"tidings/corona"
	"tidings/feedtree"
	"tidings/internal/env"
	"tidings/internal/fetch"
	"tidings/internal/node"
	"tidings/internal/store"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/libp2p"
	"tidings/proxy"
)

// leaveTimeout bounds how long a node may take to hand over the logs that it leads, and to announce that it
// leaves. A hand-over takes ten seconds at most and mostly less than one. Announcements still in a queue are
// sent while libp2p closes.
const leaveTimeout = 11 * time.Second

// A Daemon is one node in the real world. Its methods may be called from any goroutine. They are those of
// its components, each of which uses only those above it in this list.
type Daemon struct {
	*nodeLoop
	copies *documentCopies
	*subscriptions
	*reading
	*publishing
	keywords *keywords
	private  *privateFeeds
	*watches
	tokens *searchTokens
	*channelList
	*status
	*outlets
	callbacks *callbacks
	sighted   sighted
	icons     *siteIcons // nil: pages show none
	hosting   *hosting

	config  Config
	log     *slog.Logger
	dataDir *dataDir
	disk    *store.Disk
	host    *libp2p.Host
	fetch   *fetch.Client
	http    net.Listener  // nil: readers are not served
	server  *proxy.Server // nil: readers are not served
	damage  storeDamage
	closed  sync.Once
}

var (
	_ proxy.Subscriptions = (*Daemon)(nil)
	_ proxy.Keywords      = (*Daemon)(nil)
	_ proxy.Publishing    = (*Daemon)(nil)
)

// Open opens the node of a data directory, which may be new. The node listens, and does nothing else until
// Run. The caller closes a node that it never runs.
func Open(c Config) (*Daemon, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c = c.withDefaults()
	d := &Daemon{nodeLoop: newNodeLoop(), config: c, log: c.Log, sighted: sighted{}}
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return nil, fileError(c.Dir, err)
	}
	// The lock of the store keeps a second process out of the directory.
	var err error
	if d.disk, err = store.Open(c.path(storeFile), d.loop.Deliver, store.SecondCopy{Prefix: []string{feedtree.SubscriptionPrefix, node.QuietSubscriptionPrefix, unsubscribedPrefix}}); err != nil {
		return nil, fileError(c.Dir, err)
	}
	if d.keywords, err = openKeywords(c.path(keywordsFile), c.keywords(), d.log); err != nil {
		return nil, errors.Join(fileError(c.Dir, err), d.disk.Close())
	}
	if c.Filter {
		d.keywords.arrivals.maxAge = recentAge
	}
	if d.outlets, err = openOutlets(d.nodeLoop, c.path(newsFile), d.log); err != nil {
		return nil, errors.Join(fileError(c.Dir, err), d.disk.Close(), d.keywords.disk.Close())
	}
	d.keywords.missed.read = func(key overlay.ID, then func(feedtree.Document)) {
		d.loop.Deliver(func() { // only a node that has reported items reads them again, so node is set
			d.readWindow(key, func(_ feedtree.Subscription, doc feedtree.Document) { then(doc) })
		})
	}
	if err := d.open(); err != nil {
		return nil, errors.Join(err, d.closeStores())
	}
	return d, nil
}

// open reads the data directory and creates the libp2p host.
func (d *Daemon) open() (err error) {
	if what := d.disk.Repaired(); what != "" {
		d.damage.repaired = true
		d.log.Debug("the store was repaired", "details", what)
	}
	if err := d.listen(); err != nil {
		return err // before any file is written
	}
	defer func() {
		if err != nil && d.http != nil {
			err = errors.Join(err, d.http.Close())
		}
	}()
	if err := d.listenPublic(); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			d.callbacks.close()
		}
	}()
	storeLost := d.disk.Lost()
	hasSubscriptions := false
	for _, prefix := range []string{feedtree.SubscriptionPrefix, node.QuietSubscriptionPrefix} {
		err = cmp.Or(err, d.disk.Range([]byte(prefix), func(_, _ []byte) bool {
			hasSubscriptions = true
			return false
		}))
	}
	if err != nil {
		return fmt.Errorf("read subscriptions: %w", err)
	}
	if d.dataDir, err = openDataDir(d.config, storeLost != "", hasSubscriptions); err != nil {
		return fileError(d.config.Dir, err)
	}
	if storeLost != "" {
		d.damage.lost = true
		d.damage.restored, d.damage.complete = d.disk.Restored()
		d.log.Debug("the store has no records of earlier runs", "reason", storeLost)
		if d.dataDir.identityReplaced {
			d.log.Warn("store was lost or damaged, so the node gets a new id")
		}
		if err := d.disk.AcceptLoss(); err != nil {
			return fmt.Errorf("store: %w", err)
		}
	}
	d.fetch = fetch.New(d.fetchConfig(), d.answered)
	d.private = newPrivateFeeds(d.config.path(privateFolder), d.fetch.Fetch, d.config.AllowPrivateOrigins, d.log)
	if err := d.private.load(); err != nil {
		return err
	}
	c := libp2p.Config{
		Key:              d.dataDir.key,
		Listen:           d.config.Listen,
		Descriptor:       d.dataDir.Descriptor,
		Name:             d.config.Network,
		Agent:            d.config.Agent,
		Bootstrap:        d.config.Bootstrap,
		PrivateAddresses: d.config.PrivateAddresses,
		Founder:          d.dataDir.Founder,
		RefuseInbound:    d.config.RefuseInbound,
		MDNS:             d.config.MDNS,
		PortMap:          d.config.PortMap,
		Urgent:           overlay.Urgent,
		Log:              d.log,
	}
	if c.Descriptor != nil {
		known, err := overlay.Remembered(d.disk, d.dataDir.network, wire.NewVerifier(wire.HashOf(c.Descriptor)))
		if err != nil {
			return fmt.Errorf("read known peers: %w", err)
		}
		for _, k := range known {
			c.Known = append(c.Known, k.Peer)
		}
	}
	if d.host, err = libp2p.New(c); err != nil {
		if at, ok := errors.AsType[*libp2p.ListenError](err); ok {
			err = listenError("listen for other nodes at "+at.Address, "--listen", at.Err)
		}
		return err
	}
	d.assemble()
	d.openServer()
	if err = cmp.Or(d.tokens.load(), d.loadOutlets()); err != nil {
		d.host.Close()
	}
	return err
}

// fetchConfig returns how the node asks origins.
func (d *Daemon) fetchConfig() fetch.Config {
	return fetch.Config{
		Version:      d.config.Version,
		Contact:      d.config.Contact,
		AllowPrivate: d.config.AllowPrivateOrigins,
		Own:          func() []netip.Addr { return d.host.IPs() },
	}
}

// assemble makes the components.
func (d *Daemon) assemble() {
	c, n := d.config, d.nodeLoop
	d.copies = newDocumentCopies()
	d.subscriptions = newSubscriptions(n, d.disk, d.copies, d.log)
	d.private.shared = func(url string) bool { _, ok := d.subscriptions.version(url); return ok }
	d.reading = &reading{n, d.subscriptions, d.copies, d.fetch, c.AllowPrivateOrigins}
	if d.http != nil && !c.NoIcons {
		d.icons = newSiteIcons(n, d.fetchConfig(), c.path(iconsFolder), d.log)
	}
	d.publishing = &publishing{nodeLoop: n, subscriptions: d.subscriptions, reading: d.reading, signer: c.Signer, token: d.dataDir.publishToken, log: d.log}
	d.watches = &watches{nodeLoop: n, keywords: d.keywords, filter: c.Filter, slot: make(chan struct{}, 1)}
	d.tokens = &searchTokens{path: c.path(tokensFile), watches: d.watches, log: d.log, now: time.Now}
	d.channelList = &channelList{n, d.subscriptions, d.disk, d.private, c.AllowPrivateOrigins}
	d.hosting = &hosting{nodeLoop: n, config: c.Hosting, keywords: d.keywords, log: d.log}
	d.keywords.placed = d.hosting.place
	d.assembleOutlets()
	d.status = &status{n, c, d.dataDir, d.host, d.disk, d.http, d.callbacks.listener, &d.damage, d.channelList, d.keywords, d.notifications, nil, &history{}, d.hosting, d.tokens, d.log}
}

// answered passes an origin's answer to the private feeds, or to the node on its loop.
func (d *Daemon) answered(h env.Handle, a env.Answer) {
	if h&privateHandles != 0 {
		d.private.answered(h, a)
		return
	}
	if w := d.config.World; w != nil {
		a = w.Answer(h, a)
	}
	d.loop.Deliver(func() { d.node.Answered(h, a) })
}

// Close releases everything that Open took. Run calls it, too.
func (d *Daemon) Close() error {
	var err error
	d.closed.Do(func() {
		d.removeTokenCopy()
		d.host.Close()
		d.callbacks.close()
		if d.http != nil {
			_ = d.http.Close() // the server has closed it already if it ran
		}
		err = d.closeStores()
	})
	return err
}

func (d *Daemon) closeStores() error {
	return errors.Join(d.disk.Close(), d.keywords.disk.Close(), d.news.Close())
}

// Run takes the node into its network and drives it until ctx ends; the node then leaves in good order. Run
// returns when everything has stopped, and returns no error if ctx was the reason. If all peers that the node
// could join through refuse it, Run returns their reasons. A Daemon runs once.
func (d *Daemon) Run(ctx context.Context) error {
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	var readers sync.WaitGroup
	readers.Go(func() { d.serve(serving) })
	readers.Go(func() { d.callbacks.serve(serving) })
	readers.Go(func() { d.subscriptions.runLapses(serving) })
	readers.Go(func() { d.tokens.run(serving) })
	matching, stopMatching := context.WithCancel(context.WithoutCancel(ctx))
	defer stopMatching()
	var matcher sync.WaitGroup
	matcher.Go(func() { d.keywords.run(matching) })
	err := d.join(ctx)
	if err == nil {
		err = d.drive(ctx)
	} else {
		close(d.stopped)
	}
	stopServing()
	readers.Wait()
	stopMatching()
	matcher.Wait()
	if ctx.Err() != nil {
		err = nil
	}
	err = errors.Join(err, d.Close())
	d.log.Info("stopped")
	return err
}

// join creates the node. At the node's first start it learns the network first.
func (d *Daemon) join(ctx context.Context) error {
	descriptor, err := d.host.Join(ctx)
	if err != nil {
		return err
	}
	network, err := wire.ParseDescriptor(descriptor)
	if err != nil {
		return err
	}
	close(d.found)
	hash := wire.HashOf(descriptor)
	c := node.DefaultConfig(network)
	if d.config.Authority != nil { // an authority of another network leaves the data directory as it was
		if c.Overlay.Authority, err = d.config.Authority.Signing(network, hash, d.dataDir.key.Public().(ed25519.PublicKey), d.log); err != nil {
			return err
		}
	}
	if d.dataDir.Descriptor == nil {
		if err := d.dataDir.saveNetwork(descriptor, false); err != nil {
			return err
		}
	}
	c.Overlay.Founder, c.Feeds.MaxSubscriptions = d.dataDir.Founder, d.config.MaxSubscriptions
	rng, err := newRand()
	if err != nil {
		return err
	}
	c.Corona.ExemptPrivate = d.config.AllowPrivateOrigins && d.config.Compression == 0
	c.Corona.Compression = d.config.Compression
	c.Corona.Callbacks = d.config.callbackBase()
	c.Firehose = firehose.Config{Shards: firehose.DefaultShards, Filter: d.config.Filter}
	if c.Tiers, err = d.config.Hosting.tiers(); err != nil {
		return err
	}
	e := env.Env{
		Clock:   d.loop,
		Network: d.host,
		Topics:  topics{d.host.Topics(), d.loop},
		Prover:  prover{d.host, d.loop},
		Fetcher: d.fetch,
		Worker:  d.loop,
		Store:   d.disk,
		Rand:    rng,
		Log:     d.log,
	}
	verify := wire.NewCachingVerifier(wire.NewVerifier(hash), verifiedEnvelopes).WithLock(new(sync.Mutex))
	signer := verify.Signer(d.dataDir.key, hash)
	if d.config.World != nil {
		e = d.config.World.Env(e, signer)
	}
	d.node, err = node.New(e, signer, verify, c, (*nodeEvents)(d))
	if err != nil {
		return err
	}
	if err := d.hosting.begin(d.node.Tiers); err != nil {
		return err
	}
	d.network = d.dataDir.network
	if d.damage.subscriptions, err = d.subscriptions.load(d.node); err != nil {
		return err
	}
	if f, ok := d.damage.finding(d.config.Dir); ok {
		d.log.Warn("store is damaged", "details", f.What.String(), "remedy", f.Do.String())
	}
	close(d.joined)
	return nil
}

// verifiedEnvelopes bounds the envelopes that a node remembers as valid, of about 500 bytes each: what it has signed itself comes
// back from its own trees, and what others have signed comes by several ways, mostly within a second.
const verifiedEnvelopes = 2048

// newRand seeds a private random source.
func newRand() (*rand.Rand, error) {
	var seed [32]byte
	if _, err := crand.Read(seed[:]); err != nil {
		return nil, fmt.Errorf("seed the random source: %w", err)
	}
	return rand.New(rand.NewChaCha8(seed)), nil
}

// drive runs the node until ctx or the host ends.
func (d *Daemon) drive(ctx context.Context) error {
	uncancelled := context.WithoutCancel(ctx) // parts are stopped below, in their order
	looping, stopLoop := context.WithCancel(uncancelled)
	defer stopLoop()
	hosting, stopHost := context.WithCancel(uncancelled)
	defer stopHost()

	var parts sync.WaitGroup
	parts.Go(func() {
		defer close(d.stopped)
		_ = d.loop.Run(looping, d.node) // it ends for no other reason than looping
	})
	hostEnded := make(chan error, 1)
	parts.Go(func() { hostEnded <- d.host.Run(hosting, d.events()) })
	parts.Go(func() { _ = d.fetch.Run(looping) }) // it ends for no other reason than looping
	parts.Go(func() {
		d.private.run(looping, corona.Rules{PollInterval: d.network.PollInterval, Compression: cmp.Or(d.config.Compression, 1)})
	})
	parts.Go(func() { d.hosting.run(looping) })
	if d.config.Signer != nil {
		parts.Go(func() { d.publishing.runHeartbeats(looping) })
	}
	parts.Go(func() { d.icons.run(looping) })
	parts.Go(func() { d.outlets.run(looping, d.server != nil, d.channelList.each) })
	watching, stopWatching := context.WithCancel(ctx) // ends before the node leaves
	defer stopWatching()
	parts.Go(func() { d.status.runJournal(watching) })
	parts.Go(func() { d.status.runHistory(watching) })
	parts.Go(func() { d.status.runRates(watching) })

	var err error
	select {
	case err = <-hostEnded:
	case <-ctx.Done():
		d.log.Info("stopping")
		if !d.config.Abrupt {
			d.leave(uncancelled)
		}
		stopHost()
		err = <-hostEnded // after the host has sent what was queued
	}
	stopWatching()
	stopLoop()
	parts.Wait()
	return err
}

// leave takes the node out of its network in good order.
func (d *Daemon) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, leaveTimeout)
	defer cancel()
	left := make(chan struct{})
	err := d.loop.Call(ctx, func() { d.node.Leave(func() { close(left) }) })
	if err == nil {
		select {
		case <-left:
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	if err != nil {
		d.log.Warn("node could not leave its network in good order", "err", err)
	}
}

// Require makes a subscription show only items of a provenance; see proxy.Publishing.
func (d *Daemon) Require(ctx context.Context, url, required string) error {
	if required == proxy.ProvenanceAny {
		required = ""
	}
	err := d.subscriptions.edit(ctx, url, func(a *attributes) { a.RequiredProvenance = required })
	d.watches.forget(url) // articles with any provenance may have arrived
	return err
}
