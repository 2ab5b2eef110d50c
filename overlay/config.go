package overlay

import (
	"time"

	"tidings/internal/wire"
)

// Config configures a node of the overlay. The zero value of a field that has a default means
// that default.
type Config struct {
	// Network holds the parameters that all nodes of a network share, such as its name and the
	// bounds of leaf sizes.
	Network wire.Network

	// Records verifies and caches the records of other nodes. Nil means a private cache. Nodes
	// that run in one goroutine may share one.
	Records *Records

	// Founder allows the node to be a network of its own until it finds other nodes. A node
	// that remembers peers from an earlier run also starts alone if none of them answers for
	// JoinTimeout.
	Founder bool

	// DialBackTimeout is the time that a node waits to be dialled back before it attaches as a
	// client. Default 10 s.
	DialBackTimeout time.Duration
	// JoinTimeout is the time without any answer after which a node may act alone, see
	// Founder. Default 30 s.
	JoinTimeout time.Duration
	// WatchInterval is the longest silence of a watched member before it is probed. Its
	// watchers detect a silent death after this time plus four probes. Default 15 s, well
	// within the 45 s for which a sequencer may be missing.
	WatchInterval time.Duration
	// TableInterval is the time in which every contact of the routing table is asked once for
	// its row and count, and every silent spare is probed. High churn shortens it (see
	// churn.go). Default 10 min: 45 contacts and their spares cost 0.3 messages/s.
	TableInterval time.Duration
	// DeadInterval is the time between two probes of peers that are remembered as dead. These
	// probes detect that a partition has healed. Default 1 min.
	DeadInterval time.Duration
	// BurstInterval is the shortest time between two probes of the whole table after the death
	// of a contact. Default 10 min.
	BurstInterval time.Duration
	// SaveInterval is the time between two updates of the peers in the store. Default 10 s:
	// even a node that is killed soon after it joined finds its network again.
	SaveInterval time.Duration
	// RouteDeadline is the time for which an origin keeps trying to route a message, at most
	// one minute, because other nodes remember the message only a little longer. Default 60 s.
	RouteDeadline time.Duration
}

func (c Config) filled() Config {
	for _, f := range []struct {
		d   *time.Duration
		def time.Duration
	}{
		{&c.DialBackTimeout, 10 * time.Second},
		{&c.JoinTimeout, 30 * time.Second},
		{&c.WatchInterval, 15 * time.Second},
		{&c.TableInterval, 10 * time.Minute},
		{&c.DeadInterval, time.Minute},
		{&c.BurstInterval, 10 * time.Minute},
		{&c.SaveInterval, 10 * time.Second},
		{&c.RouteDeadline, time.Minute},
	} {
		if *f.d <= 0 {
			*f.d = f.def
		}
	}
	c.RouteDeadline = min(c.RouteDeadline, time.Minute)
	return c
}

// Stats counts what a node has done since it started.
type Stats struct {
	Sent  uint64 // overlay messages sent
	Bytes uint64 // bytes of overlay messages sent
	// messages that carried or acknowledged payloads, and their bytes; the rest is the cost of
	// maintaining the overlay
	Carrying, CarryingBytes uint64
	Garbage                 uint64 // messages that violated the protocol
	Routed                  uint64 // payloads that this node started to route
	Forwarded               uint64 // payloads forwarded for other nodes
	Delivered               uint64 // payloads delivered as the root of their key
	Receipts                uint64 // payloads of this node that a root acknowledged
	Failed                  uint64 // payloads of this node given up after RouteDeadline
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
