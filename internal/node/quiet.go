package node

import (
	"bytes"
	"crypto/ed25519"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"tidings/cobra"
	"tidings/cobra/firehose"
	"tidings/corona"
	"tidings/feedtree"
	"tidings/internal/env"
	"tidings/internal/feed"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/relay"
	"tidings/overlay/scribe"
)

// MaxQuiet bounds the quiet subscriptions of one node. Each is a client of the network of its own, with two hosts and
// a circuit, and costs some hundred bytes a second while nothing happens. Further ones are refused.
const MaxQuiet = 32

// ErrQuietFull reports that a node has MaxQuiet quiet subscriptions.
var ErrQuietFull = errors.New("this node has reached its limit of quiet subscriptions")

// ErrNotQuiet reports that a feed has an ordinary subscription.
var ErrNotQuiet = errors.New("the feed is subscribed to already, and other nodes know it: unsubscribe first")

// quiet holds the subscriptions that no member can ascribe to this node. Each is a node of its own: a client with
// a key made at its start, whose network is a circuit (overlay/relay) and nothing else, which asks no web server, and
// whose records lie under a prefix of this node's store. All that a client does, it does; so nothing of it has to know
// which subscriptions are quiet.
type quiet struct {
	of     *Node
	env    env.Env
	signer *wire.Signer
	verify wire.Verifier
	byKey  map[overlay.ID]*follower
}

// A follower is the node of one quiet subscription.
type follower struct {
	*Node
	tunnel  *relay.Tunnel
	renewAt time.Time // while the feed is unheard, the next check of its circuit
}

func newQuiet(of *Node, e env.Env, signer *wire.Signer, verify wire.Verifier) *quiet {
	e.Fetcher, e.Topics, e.Prover = noFetcher{}, nil, noProver{}
	return &quiet{of: of, env: e, signer: signer, verify: verify}
}

// guestConfig returns the configuration of a guest. Nobody can dial it.
func guestConfig(network wire.Network) Config {
	cfg := DefaultConfig(network)
	cfg.Overlay.DialBackTimeout = time.Second
	return cfg
}

// The store's keys of quiet subscriptions. The key of the feed follows the prefix, and then the key that the record has
// in the subscription's own part of the store. Those of the subscriptions are apart from all others, like
// feedtree.SubscriptionPrefix.
const (
	QuietSubscriptionPrefix = "quiet/subscription/"
	quietRecordPrefix       = "quiet/record/"
)

// load continues the quiet subscriptions in the store.
func (q *quiet) load() error {
	keys := map[overlay.ID]bool{}
	err := q.env.Store.Range([]byte(QuietSubscriptionPrefix), func(key, _ []byte) bool {
		if rest := key[len(QuietSubscriptionPrefix):]; len(rest) >= len(overlay.ID{}) {
			keys[overlay.ID(rest[:len(overlay.ID{})])] = true
		}
		return true
	})
	if err != nil && !errors.Is(err, env.ErrDamaged) {
		return fmt.Errorf("node: read quiet subscriptions: %w", err)
	}
	for _, key := range sortedKeys(keys) {
		if _, err := q.open(key); err != nil {
			return err
		}
	}
	records := false
	err = q.env.Store.Range([]byte(quietRecordPrefix), func(_, _ []byte) bool {
		records = true
		return false
	})
	if records || err != nil {
		q.sweep() // a subscription that ended shortly before the node stopped has left records
	}
	return nil
}

// sweep deletes the records of subscriptions that have ended.
func (q *quiet) sweep() {
	var keys [][]byte
	q.env.Worker.Do(func() {
		_ = q.env.Store.Range([]byte(quietRecordPrefix), func(key, _ []byte) bool { // what cannot be read is deleted later
			keys = append(keys, bytes.Clone(key))
			return true
		})
	}, func() {
		var ops []env.Op
		for _, key := range keys {
			rest := key[len(quietRecordPrefix):]
			if len(rest) < len(overlay.ID{}) || q.byKey[overlay.ID(rest[:len(overlay.ID{})])] == nil {
				ops = append(ops, env.Op{Key: key})
			}
		}
		if len(ops) > 0 {
			q.env.Store.Commit(ops, func(error) {})
		}
	})
}

func sortedKeys[V any](m map[overlay.ID]V) []overlay.ID {
	return slices.SortedFunc(maps.Keys(m), func(a, b overlay.ID) int { return bytes.Compare(a[:], b[:]) })
}

// open starts the node of one subscription.
func (q *quiet) open(key overlay.ID) (*follower, error) {
	var seed [ed25519.SeedSize]byte
	for i := 0; i < len(seed); i += 8 {
		binary.LittleEndian.PutUint64(seed[i:], q.env.Rand.Uint64())
	}
	signer := q.signer.With(ed25519.NewKeyFromSeed(seed[:]))
	f := &follower{Node: &Node{app: quietApp{q.of.app}}, renewAt: env.AtOnce}
	f.tunnel = q.of.Relay.Open(signer, func(exit env.Peer) { f.Overlay.Found(exit) }, func(from env.PeerID, frame []byte) {
		_ = f.Receive(from, frame) // the exit is not to blame for what others send
	})
	e := q.env
	e.Network, e.Store, e.Log = f.tunnel, quietStore{e.Store, key}, e.Log.With("subscription", "quiet")
	if err := f.build(e, signer, q.verify, guestConfig(q.of.Overlay.Parameters()), f.app); err != nil {
		f.tunnel.Close()
		return nil, err
	}
	if q.byKey == nil {
		q.byKey = map[overlay.ID]*follower{}
	}
	q.byKey[key] = f
	return f, nil
}

// end stops the node of a subscription and deletes its records.
func (q *quiet) end(key overlay.ID) {
	q.byKey[key].tunnel.Close()
	delete(q.byKey, key)
	q.sweep()
}

// Next returns the time at which one of the nodes has something to do.
func (q *quiet) Next() (next time.Time) {
	for _, f := range q.byKey {
		for _, l := range f.layers {
			next = env.Sooner(next, l.Next())
		}
		if f.unheard {
			next = env.Sooner(next, f.renewAt)
		}
	}
	return next
}

// Run runs the nodes and returns Next.
func (q *quiet) Run(now time.Time) (next time.Time) {
	for _, key := range sortedKeys(q.byKey) {
		if f := q.byKey[key]; f != nil {
			f.Node.Run(now)
			q.renew(f, now)
		}
	}
	return q.Next()
}

// minRenewal is the shortest time that a circuit has to bring something of its feed. A repair of the log may pause for two
// minutes.
const minRenewal = 5 * time.Minute

// renew changes the circuit of a feed that no other node vouches for, unless it is younger than about a polling
// interval: its exit may keep everything to itself.
func (q *quiet) renew(f *follower, now time.Time) {
	if f.unheard && !f.renewAt.After(now) {
		interval := max(q.of.Overlay.Parameters().PollInterval, minRenewal)
		f.tunnel.Renew(interval * 3 / 4)
		f.renewAt = now.Add(interval)
	}
}

// NodeOf returns the node that has a feed's subscription: that of a quiet subscription, or n.
func (n *Node) NodeOf(key overlay.ID) *Node {
	if f := n.quiet.byKey[key]; f != nil {
		return f.Node
	}
	return n
}

// CountSubscriptions returns how many subscriptions there are.
func (n *Node) CountSubscriptions() int {
	count := n.Feeds.CountSubscriptions()
	for _, f := range n.quiet.byKey {
		count += f.Feeds.CountSubscriptions()
	}
	return count
}

// SubscriptionKeys returns the keys of all subscriptions, in no order.
func (n *Node) SubscriptionKeys() []overlay.ID {
	keys := n.Feeds.SubscriptionKeys()
	for _, f := range n.quiet.byKey {
		keys = append(keys, f.Feeds.SubscriptionKeys()...)
	}
	return keys
}

// Subscriptions returns all subscriptions, in no order.
func (n *Node) Subscriptions() iter.Seq[feedtree.Subscription] {
	return func(yield func(feedtree.Subscription) bool) {
		for _, key := range n.SubscriptionKeys() {
			if s, ok := n.NodeOf(key).Feeds.Subscription(key); ok && !yield(s) {
				return
			}
		}
	}
}

// Quiet describes a quiet subscription; ok is false if the feed's subscription is none.
func (n *Node) Quiet(key overlay.ID) (connected, ok bool) {
	f := n.quiet.byKey[key]
	return f != nil && f.tunnel.Open() && f.Overlay.State() == overlay.Attached, f != nil
}

// Circuit returns the members that stand between this node and a feed that it follows quietly; ok is false if there
// are none now.
func (n *Node) Circuit(key overlay.ID) (middle, exit *overlay.Contact, ok bool) {
	if f := n.quiet.byKey[key]; f != nil {
		return f.tunnel.Circuit()
	}
	return nil, nil, false
}

// Subscribe follows a feed, quietly or not; see feedtree.FeedTree.Subscribe. A quiet subscription stays one, and
// another one cannot become quiet.
func (n *Node) Subscribe(url string, quietly bool, weight int, attributes []byte, done func(error)) {
	key := overlay.Key(n.Overlay.Network(), url)
	f, err := n.quiet.byKey[key], error(nil)
	_, known := n.Feeds.Subscription(key)
	switch {
	case f != nil:
	case !quietly:
		n.Feeds.Subscribe(url, weight, attributes, done)
		return
	case known:
		err = ErrNotQuiet
	case len(n.quiet.byKey) >= MaxQuiet:
		err = fmt.Errorf("%w: %d", ErrQuietFull, MaxQuiet)
	default:
		f, err = n.quiet.open(key)
	}
	if err != nil {
		done(fmt.Errorf("subscribe to %s: %w", url, err))
		return
	}
	f.Feeds.Subscribe(url, weight, attributes, func(err error) {
		if _, ok := f.Feeds.Subscription(key); !ok && n.quiet.byKey[key] == f {
			n.quiet.end(key)
		}
		done(err)
	})
}

// Unsubscribe ends a subscription; see feedtree.FeedTree.Unsubscribe.
func (n *Node) Unsubscribe(url string, done func(error)) {
	key := overlay.Key(n.Overlay.Network(), url)
	f := n.quiet.byKey[key]
	n.NodeOf(key).Feeds.Unsubscribe(url, func(err error) {
		if err == nil && f != nil && n.quiet.byKey[key] == f {
			n.quiet.end(key)
		}
		done(err)
	})
}

// Trust trusts the key that the log of a feed names; see feedtree.FeedTree.Trust.
func (n *Node) Trust(key overlay.ID) bool { return n.NodeOf(key).Feeds.Trust(key) }

// quietApp passes the events of a quiet subscription to the node's application.
type quietApp struct{ Application }

func (quietApp) Fetched(overlay.ID, *feed.Feed, corona.Offer, corona.State) {}

func (quietApp) Saw(overlay.ID, *feed.Feed)         {}
func (quietApp) Dispatched(firehose.Dispatch) bool  { return false }
func (quietApp) Reflect(*cobra.Article, func(bool)) {}

func (quietApp) Deliver(scribe.Delivery) {}

// noFetcher is the Fetcher of a quiet subscription. It is never used, because a client polls for itself alone, and
// feedApp does not let it.
type noFetcher struct{}

func (noFetcher) Fetch(env.Handle, env.Request) {}

// noProver is the Prover of a quiet subscription. To find out whether members are at the addresses that they state, the
// reader's node would have to dial those that own the feed. Only the exit could do it instead, and it can lie about owners
// anyway.
type noProver struct{}

func (noProver) Prove(p env.Peer, done func(addr string)) {
	addr := ""
	if len(p.Addrs) > 0 {
		addr = p.Addrs[0]
	}
	done(addr)
}

// A quietStore is the part of a node's store that one quiet subscription has.
type quietStore struct {
	store env.Store
	feed  overlay.ID
}

func (s quietStore) key(key []byte) []byte {
	prefix := quietRecordPrefix
	if bytes.HasPrefix(key, []byte(feedtree.SubscriptionPrefix)) {
		prefix = QuietSubscriptionPrefix
	}
	return slices.Concat([]byte(prefix), s.feed[:], key)
}

// Commit implements env.Store.
func (s quietStore) Commit(ops []env.Op, done func(error)) {
	own := slices.Clone(ops)
	for i := range own {
		own[i].Key = s.key(own[i].Key)
	}
	s.store.Commit(own, done)
}

// Get implements env.Store.
func (s quietStore) Get(key []byte) ([]byte, error) { return s.store.Get(s.key(key)) }

// Range implements env.Store.
func (s quietStore) Range(prefix []byte, each func(key, value []byte) bool) error {
	from := s.key(prefix)
	cut := len(from) - len(prefix)
	return s.store.Range(from, func(key, value []byte) bool { return each(key[cut:], value) })
}
