// Package daemon is one real node: it gives a [node.Node] its doors and runs it.
//
//	loop      internal/loop     the goroutine that owns the node; clock, worker
//	network   overlay/libp2p    QUIC and TCP, first peers, reachability
//	store     internal/store    what the node remembers
//	fetcher   internal/fetch    polite requests to origins
//
// and, by a [proxy.Server], its readers.
//
// A node lives in a data directory, where it finds itself and its network again
// after a restart, without a flag:
//
//	identity.key   its private key, readable by its owner alone
//	network        the descriptor of its network, and whether it founded it
//	reader.secret  what the addresses given to readers are made with
//	tidings.db     the store: subscriptions, locks, logs, the peers it knew
//	api.token      what commands and other programs show to list and change subscriptions
//	publish.token  what programs show that want the node to publish for them
//	keywords.db    keyword subscriptions and the articles that matched them
//	*.db.second    the subscriptions a second time, for a store that loses them
//
// If the store is lost or damaged, so may be the locks on what the node has
// signed: it takes a new key then and joins as another node. Its subscriptions
// come back from their second copy.
//
// The directory of a new node is told which network to found, or is given
// somebody to join through; the network's parameters then come from there.
//
//	d, err := daemon.Open(config)
//	...
//	err = d.Run(ctx) // until ctx ends and everything has stopped
//
// While it runs, its owner calls Subscribe, Unsubscribe, Read, List and Status from
// any goroutine; Snapshot and Led show it from outside; JoinGroup, LeaveGroup,
// PublishGroup, Place and Route reach below feeds, and what such groups bring goes to
// Config.Deliver.
//
// The package leaves to the layers what a node does, and to cmd/tidings flags,
// signals and what is shown to people.
package daemon

import (
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"time"

	"tidings/cobra"
	"tidings/cobra/firehose"
	"tidings/feedtree"
	"tidings/internal/env"
	"tidings/internal/fetch"
	"tidings/internal/loop"
	"tidings/internal/node"
	"tidings/internal/store"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/libp2p"
	"tidings/proxy"
)

// leaveTime is how long a node may take to hand over what it leads, which takes ten
// seconds at most, and mostly less than one, and to say that it leaves. What it said then
// has the time of libp2p's Close to be sent.
const leaveTime = 11 * time.Second

// A Daemon is one node in the real world. Its methods may be called from any
// goroutine.
type Daemon struct {
	config   Config
	log      *slog.Logger
	home     *home
	loop     *loop.Loop
	disk     *store.Disk
	host     *libp2p.Host
	fetch    *fetch.Client
	http     net.Listener  // nil: readers are not served
	server   *proxy.Server // likewise
	shelf    *shelf        // what readers are told without asking the loop
	opened   time.Time
	closed   sync.Once
	keywords *keywords
	writing  writing
	damage   damage // its count belongs to the loop, until joined

	node    *node.Node    // belongs to the loop; there since joined
	ended   *endings      // likewise
	wishes  wishes        // likewise
	joined  chan struct{} // closed when the network is known and the node made
	stopped chan struct{} // closed when the loop has ended
}

// Open makes the node of a data directory, new or as it was left. It listens and
// does nothing else until Run; close it if it is never run.
func Open(c Config) (*Daemon, error) {
	c, err := c.filled()
	if err != nil {
		return nil, err
	}
	d := &Daemon{
		config:  c,
		log:     c.Log,
		loop:    loop.New(loop.Config{}),
		shelf:   newShelf(),
		opened:  time.Now(),
		joined:  make(chan struct{}),
		stopped: make(chan struct{}),
	}
	if err := makeDir(c.Dir); err != nil {
		return nil, fileFault(c.Dir, err)
	}
	// The store's lock keeps a second process from the directory.
	if d.disk, err = store.Open(c.path(storeFile), d.loop.Deliver, store.Twice{Prefix: []string{feedtree.SubscriptionPrefix, endingPrefix}}); err != nil {
		return nil, fileFault(c.Dir, err)
	}
	kc := cobra.DefaultConfig()
	kc.ArticlesPerFeed = c.Kept
	if d.keywords, err = openKeywords(c.path(keywordsFile), kc, d.log); err != nil {
		return nil, errors.Join(fileFault(c.Dir, err), d.disk.Close())
	}
	if c.Filter {
		d.keywords.recent.brought.keep = recentFor
	}
	d.keywords.missed.read = func(key overlay.ID, then func(feedtree.Document)) {
		d.loop.Deliver(func() { // of a node that has told news
			d.node.Feeds.Read(key, func(doc feedtree.Document) {
				s, _ := d.node.Feeds.Subscription(key)
				doc.Entries = vouched(s, doc.Entries)
				then(doc)
			})
		})
	}
	if err := d.open(); err != nil {
		return nil, errors.Join(err, d.disk.Close(), d.keywords.disk.Close())
	}
	return d, nil
}

// open reads the data directory and makes the host.
func (d *Daemon) open() (err error) {
	if what := d.disk.Repaired(); what != "" {
		d.damage.mended = true
		d.log.Debug("store was repaired", "details", what)
	}
	if err := d.listen(); err != nil {
		return err // before anything is settled
	}
	defer func() {
		if err != nil && d.http != nil {
			err = errors.Join(err, d.http.Close())
		}
	}()
	lost := d.disk.Lost()
	subscribed := false
	err = d.disk.Range([]byte(feedtree.SubscriptionPrefix), func(_, _ []byte) bool {
		subscribed = true
		return false
	})
	if err != nil {
		return fmt.Errorf("read subscriptions: %w", err)
	}
	if d.home, err = openHome(d.config, lost != "", subscribed); err != nil {
		return fileFault(d.config.Dir, err)
	}
	if lost != "" {
		d.damage.lost = true
		d.damage.back, d.damage.whole = d.disk.Restored()
		d.log.Debug("store has no records of earlier runs", "reason", lost)
		if d.home.renewed {
			d.log.Warn("store was lost or damaged, so the node gets a new id")
		}
		if err := d.disk.Accept(); err != nil {
			return fmt.Errorf("store: %w", err)
		}
	}
	d.fetch = fetch.New(fetch.Config{
		Version:      d.config.Version,
		Contact:      d.config.Contact,
		AllowPrivate: d.config.AllowPrivateOrigins,
		Own:          func() []netip.Addr { return d.host.IPs() },
	}, d.answered)
	c := libp2p.Config{
		Key:              d.home.key,
		Listen:           d.config.Listen,
		Descriptor:       d.home.Descriptor,
		Name:             d.config.Network,
		Agent:            d.config.Agent,
		Bootstrap:        d.config.Bootstrap,
		PrivateAddresses: d.config.PrivateAddresses,
		Founder:          d.home.Founder,
		RefuseInbound:    d.config.RefuseInbound,
		MDNS:             d.config.MDNS,
		PortMap:          d.config.PortMap,
		Urgent:           overlay.Urgent,
		Log:              d.log,
	}
	if c.Descriptor != nil {
		known, err := overlay.Remembered(d.disk, d.home.network.Name, wire.NewVerifier(wire.HashOf(c.Descriptor)))
		if err != nil {
			return fmt.Errorf("read known peers: %w", err)
		}
		for _, k := range known {
			c.Known = append(c.Known, k.Peer)
		}
	}
	if d.host, err = libp2p.New(c); err != nil {
		if at, ok := errors.AsType[*libp2p.ListenError](err); ok {
			err = listenFault("listen for other nodes at "+at.Address, "--listen", at.Err)
		}
		return err
	}
	d.answer()
	return nil
}

// answered brings an origin's answer to the node's loop.
func (d *Daemon) answered(h env.Handle, a env.Answer) {
	d.loop.Deliver(func() { d.node.Answered(h, a) })
}

// Close gives back what Open took. Run does so too.
func (d *Daemon) Close() error {
	var err error
	d.closed.Do(func() {
		d.takeAccess()
		d.host.Close()
		if d.http != nil {
			_ = d.http.Close() // the server has closed it, if it was run
		}
		err = errors.Join(d.disk.Close(), d.keywords.disk.Close())
	})
	return err
}

// Run takes the node into its network and drives it until ctx ends; then the
// node leaves in good order. Run returns when everything has stopped, without an
// error if ctx was the reason. A node whom every peer it could join through
// refuses returns with their words. A Daemon runs once.
func (d *Daemon) Run(ctx context.Context) error {
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	var readers sync.WaitGroup
	readers.Go(func() { d.serve(serving) })
	matching, stopMatching := context.WithCancel(context.WithoutCancel(ctx))
	defer stopMatching()
	var matcher sync.WaitGroup
	matcher.Go(func() { d.keywords.run(matching) })
	err := d.join(ctx)
	if err == nil {
		err = d.live(ctx)
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

// join learns the network, if this is the node's first start in it, and makes
// the node.
func (d *Daemon) join(ctx context.Context) error {
	descriptor, err := d.host.Join(ctx)
	if err != nil {
		return err
	}
	if d.home.Descriptor == nil {
		if err := d.home.settle(descriptor, false); err != nil {
			return err
		}
	}
	dice, err := roll()
	if err != nil {
		return err
	}
	hash := wire.HashOf(descriptor)
	c := node.DefaultConfig(d.home.network)
	c.Overlay.Founder = d.home.Founder
	c.Corona.ExemptPrivate = d.config.AllowPrivateOrigins && d.config.Compression == 0
	c.Corona.Compression = d.config.Compression
	c.Firehose = firehose.Config{Shards: firehose.DefaultShards, Filter: d.config.Filter}
	d.node, err = node.New(env.Env{
		Clock:   d.loop,
		Network: d.host,
		Topics:  topics{d.host.Topics(), d.loop},
		Fetcher: d.fetch,
		Worker:  d.loop,
		Store:   d.disk,
		Rand:    dice,
		Log:     d.log,
	}, wire.NewSigner(d.home.key, hash), wire.NewVerifier(hash), c, (*out)(d))
	if err != nil {
		return err
	}
	if d.ended, err = loadEndings(d.disk); err != nil {
		return err
	}
	for _, s := range d.node.Feeds.Subscriptions() {
		d.shelf.add(s.URL, s.Key, attributesOf(s))
		d.damage.left++
	}
	if f, ok := d.damage.finding(d.config.Dir); ok {
		d.log.Warn("store is damaged", "details", f.What, "remedy", f.Do)
	}
	close(d.joined)
	return nil
}

// roll returns dice that nobody else has.
func roll() (*rand.Rand, error) {
	var seed [32]byte
	if _, err := crand.Read(seed[:]); err != nil {
		return nil, fmt.Errorf("seed the dice: %w", err)
	}
	return rand.New(rand.NewChaCha8(seed)), nil
}

// live drives the node until ctx ends, or the host does.
func (d *Daemon) live(ctx context.Context) error {
	always := context.WithoutCancel(ctx) // the end has an order of its own
	looping, stopLoop := context.WithCancel(always)
	defer stopLoop()
	hosting, stopHost := context.WithCancel(always)
	defer stopHost()

	var parts sync.WaitGroup
	parts.Go(func() {
		defer close(d.stopped)
		_ = d.loop.Run(looping, d.node) // which ends for no other reason
	})
	ended := make(chan error, 1)
	parts.Go(func() { ended <- d.host.Run(hosting, d.events()) })
	parts.Go(func() { _ = d.fetch.Run(looping) }) // which ends for no other reason
	if d.config.Author != nil {
		parts.Go(func() { d.speak(looping) })
	}
	watching, stopWatching := context.WithCancel(ctx) // until the node leaves
	defer stopWatching()
	parts.Go(func() { d.journal(watching) })

	var err error
	select {
	case err = <-ended:
	case <-ctx.Done():
		d.log.Info("stopping")
		if !d.config.Abrupt {
			d.leave(always)
		}
		stopHost()
		err = <-ended // when it has sent what waited
	}
	stopWatching()
	stopLoop()
	parts.Wait()
	return err
}

// events brings what the host reports to the node's loop.
func (d *Daemon) events() libp2p.Events {
	return libp2p.Events{
		Receive: func(from env.PeerID, class env.Class, frame []byte) bool {
			call := func() { d.receive(from, frame) }
			if class == env.Control && overlay.Urgent(frame) && d.loop.PostUrgent(call) {
				return true
			}
			return d.loop.Post(class, call)
		},
		Found: func(p env.Peer) {
			d.loop.Post(env.Control, func() { d.node.Found(p) })
		},
		Reachable: func(addrs []string) { // rare, and said once
			d.loop.Deliver(func() { d.node.Reachable(addrs) })
		},
		Moved: func() { // as rare
			d.loop.Deliver(func() { d.node.Moved() })
		},
		PeerDown: func(id env.PeerID) {
			d.loop.Post(env.Control, func() { d.node.PeerDown(id) })
		},
		Useful: func(ids []env.PeerID, then func([]bool)) bool {
			return d.loop.Post(env.Control, func() { then(d.node.Uses(ids)) })
		},
	}
}

// receive gives a frame to the node, and blames the peer if it breaks the
// protocol.
func (d *Daemon) receive(from env.PeerID, frame []byte) {
	if err := d.node.Receive(from, frame); err != nil {
		d.log.Debug("invalid frame of a peer was dropped", "peer", libp2p.Text(from), "err", err)
		d.host.Blame(from)
	}
}

// leave takes the node out of its network.
func (d *Daemon) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, leaveTime)
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
