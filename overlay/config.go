package overlay

import (
	"cmp"
	"fmt"
	"time"

	"tidings/internal/check"
	"tidings/internal/wire"
)

// Config holds the settings of a node of the overlay. A zero field means its default.
type Config struct {
	// Network holds the parameters that all nodes of a network share, such as its name and the
	// bounds of leaf sizes. It has no default.
	Network wire.Network

	// Records verifies and caches the records of other nodes. Nodes that run in one goroutine may
	// share one. Default nil: the node has a private cache.
	Records *Records

	// Authority certifies members, if the node belongs to an authority of a network of certificates. Default nil: it does
	// not.
	Authority Authority

	// Founder allows the node to be a network of its own until it finds other nodes. A node
	// that remembers peers from an earlier run also starts alone if none of them answers for
	// joinTimeout. If several nodes have it, several networks exist until these meet.
	Founder bool

	// Callbacks says in the node's record, once it is a member, that the hubs of feeds can call it at a public address.
	// Default false.
	Callbacks bool

	// DialBackTimeout is the time that a node waits to be dialled back before it attaches as a
	// client, at least 1 s. Default 10 s. With a longer time, a node that nobody can reach joins
	// later; with a shorter one, a slow dial turns a reachable node into a client for a while.
	DialBackTimeout time.Duration
	// WatchInterval is the longest silence of a watched member before it is probed, at least 1 s.
	// Its watchers detect a silent death after this time plus four probes. Default 15 s, well
	// within the 45 s for which a sequencer may be missing. A longer time saves probes, and
	// messages to a dead member are rerouted for longer.
	WatchInterval time.Duration
	// SaveInterval is the time between two updates of the peers in the store, at least 1 s.
	// Default 10 s: even a node that is killed soon after it joined finds its network again. A
	// longer time saves writes, and a killed node forgets the peers of its last minutes.
	SaveInterval time.Duration
}

const (
	// joinTimeout is the time without any answer after which a node may act alone, see
	// Config.Founder.
	joinTimeout = 30 * time.Second
	// tableInterval is the time in which every contact of the routing table is asked once for
	// its row and count, and every silent spare is probed: 45 contacts and their spares cost 0.3
	// messages/s. High churn shortens it (see churn.go).
	tableInterval = 10 * time.Minute
	// deadInterval is the time between two probes of peers that are remembered as dead. These
	// probes detect that a partition has healed.
	deadInterval = time.Minute
	// burstInterval is the shortest time between two probes of the whole table after the death
	// of a contact.
	burstInterval = 10 * time.Minute
	// routeDeadline is the time for which an origin keeps trying to route a message. Other nodes
	// remember the message only a little longer.
	routeDeadline = time.Minute
)

func (c Config) withDefaults() Config {
	c.DialBackTimeout = cmp.Or(c.DialBackTimeout, 10*time.Second)
	c.WatchInterval = cmp.Or(c.WatchInterval, 15*time.Second)
	c.SaveInterval = cmp.Or(c.SaveInterval, 10*time.Second)
	return c
}

// Validate returns an error that names the first wrong field.
func (c Config) Validate() error {
	if err := c.Network.Check(); err != nil {
		return fmt.Errorf("overlay: Network: %w", err)
	}
	c = c.withDefaults()
	return cmp.Or(
		check.AtLeast("overlay: DialBackTimeout", c.DialBackTimeout, time.Second),
		check.AtLeast("overlay: WatchInterval", c.WatchInterval, time.Second),
		check.AtLeast("overlay: SaveInterval", c.SaveInterval, time.Second),
	)
}

// Stats counts what a node has done since it started.
type Stats struct {
	Sent  uint64 // overlay messages sent
	Bytes uint64 // bytes of overlay messages sent
	// messages that carried or acknowledged payloads, and their bytes; the rest is the cost of
	// maintaining the overlay
	Carrying, CarryingBytes uint64
	Garbage                 uint64 // messages that violated the protocol
	Unproven                uint64 // members that were not reached at the addresses of their ids, or had to wait
	Routed                  uint64 // payloads that this node started to route
	Forwarded               uint64 // payloads forwarded for other nodes
	Delivered               uint64 // payloads delivered as the root of their key
	Receipts                uint64 // payloads of this node that a root acknowledged
	Failed                  uint64 // payloads of this node given up after a minute
	Unbelieved              uint64 // receipts of this node's payloads that were not of the root of their key
	Checked                 uint64 // lookups made to check or to replace a route
	Rerouted                uint64 // silent hops that messages were routed around
	Dropped                 uint64 // payloads of other nodes dropped: too many hops, too many queued, or no next hop
	Probes                  uint64 // probes sent
	Deaths                  uint64 // peers declared dead
	Peers                   int    // peers that the node keeps state of
	Passages                int    // routed messages that the node remembers, in flight or recently forwarded
	Leaf                    int    // members of the leaf set, this node included
	Contacts                int    // contacts and spares in the routing table
	Clients                 int    // clients that this member acts for
	EstimatedN              int    // estimated number of members of the network
	Known                   int    // peers saved for the next start
}
