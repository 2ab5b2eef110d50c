package overlay

import (
	"time"

	"tidings/internal/wire"
)

// Config is what a node of the overlay is told. The zero value of a field that
// has a default means that default.
type Config struct {
	// Network holds what all nodes share: name, leaf sizes.
	Network wire.Network

	// Records opens the records of other nodes. Nil: one of the node's own; nodes
	// of one goroutine may share one.
	Records *Records

	// Founder: the node is a network by itself until it finds others. A node
	// that remembers peers of an earlier life acts alone too, when none of
	// them has answered for JoinPatience.
	Founder bool

	// RolePatience is how long a node waits to be dialled back before it
	// attaches itself as a client. Default 10 s.
	RolePatience time.Duration
	// JoinPatience: see Founder. Default 30 s.
	JoinPatience time.Duration
	// WatchInterval is the longest silence of a watched member before it is
	// probed. Default 15 s: a silent death is known to its watchers after at
	// most 15 s and four attempts, well under the 45 s that a sequencer may
	// be missing.
	WatchInterval time.Duration
	// TableInterval is the time in which every contact of the table is asked
	// once for its row and count, and a silent spare whether it lives, while
	// few die (see unrest.go). Default 10 min: 45 contacts and their spares cost
	// 0.3 messages/s.
	TableInterval time.Duration
	// DeadInterval is the time between two probes of remembered dead peers,
	// by which a healed partition is noticed. Default 1 min.
	DeadInterval time.Duration
	// BurstInterval is the shortest time between two probes of the whole
	// table after a contact died. Default 10 min.
	BurstInterval time.Duration
	// SaveInterval is the time between two looks at whether the peers that
	// the store remembers are still the right ones. Default 10 s: a node
	// that is killed soon after it joined finds its network again.
	SaveInterval time.Duration
	// RouteDeadline is how long an origin goes on trying: at most a minute, as
	// long as others remember the message. Default 60 s.
	RouteDeadline time.Duration
}

func (c Config) filled() Config {
	for _, f := range []struct {
		d   *time.Duration
		def time.Duration
	}{
		{&c.RolePatience, 10 * time.Second},
		{&c.JoinPatience, 30 * time.Second},
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

// Stats counts what a node did since it started.
type Stats struct {
	Sent  uint64 // messages of the overlay sent
	Bytes uint64 // bytes of messages of the overlay sent
	// messages and their bytes that carried or acknowledged payloads; the rest is the cost of maintaining the overlay
	Carrying, CarryingBytes uint64
	Garbage                 uint64 // messages that broke the protocol
	Routed                  uint64 // payloads that this node began to route
	Forwarded               uint64 // payloads forwarded for other nodes
	Delivered               uint64 // payloads delivered as the root of their key
	Receipts                uint64 // payloads of this node that a root acknowledged
	Failed                  uint64 // payloads of this node given up after RouteDeadline
	Rerouted                uint64 // silent hops that were routed around
	Dropped                 uint64 // payloads of others dropped: too many hops, too many in the queue, or no next hop
	Probes                  uint64 // probes sent
	Deaths                  uint64 // peers declared dead
	Peers                   int    // peers with any state at this node
	Passages                int    // messages in transit, or forwarded lately
	Leaf                    int    // members of the leaf set
	Contacts                int    // contacts and spares in the routing table
	Clients                 int    // clients that this member acts for
	EstimatedN              int    // estimated number of members of the network
	Known                   int    // peers remembered for the next start
}

// Stats returns the node's counters.
func (n *Node) Stats() Stats {
	s := n.stats
	s.Peers, s.Passages = len(n.peers.all), len(n.routes.byID)
	s.Leaf = n.leaf.Len()
	for row := range n.table.rows {
		for _, sl := range n.table.rows[row] {
			for _, p := range []*peer{sl.contact, sl.spare} {
				if p != nil {
					s.Contacts++
				}
			}
		}
	}
	for _, p := range n.peers.all {
		if p.attached != never {
			s.Clients++
		}
	}
	s.EstimatedN = n.Count(0)
	s.Known = len(n.savedRecords)
	return s
}
