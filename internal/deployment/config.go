package deployment

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"tidings/internal/wire"
)

// A Config says what is deployed.
type Config struct {
	Nodes    int
	Channels []Channel
	// Network is the one of the nodes: its polling interval is also that of readers who poll for
	// themselves.
	Network wire.Network
	// Polite has nodes treat the feeds as public ones, each on an address of its own, with the
	// times of politeness shorter by Compression.
	Polite      bool
	Compression float64
	// Alone has nobody poll for himself.
	NodesOnly bool
	Seed      uint64
}

// A Channel is a feed of the street.
type Channel struct {
	Readers []int         // of each node, how many of its clients read it
	Every   time.Duration // between two items, on average
}

// All is how many read a channel.
func (c *Channel) ReaderCount() (sum int) {
	for _, n := range c.Readers {
		sum += n
	}
	return sum
}

// Subscriptions is how many read all channels.
func (c *Config) Subscriptions() (sum int) {
	for i := range c.Channels {
		sum += c.Channels[i].ReaderCount()
	}
	return sum
}

// Check says what is wrong with a configuration.
func (c *Config) Check() error {
	switch {
	case c.Nodes < 2 || c.Nodes > 1000:
		return fmt.Errorf("%d nodes: from 2 to 1,000", c.Nodes)
	case len(c.Channels) == 0 || len(c.Channels) > 1<<16:
		return fmt.Errorf("%d channels: from 1 to 65,536", len(c.Channels))
	case c.Subscriptions() == 0:
		return errors.New("nobody reads anything")
	}
	return c.Network.Check()
}

// demoExponent is that of Zipf's law by which the feeds of the demo are read: the paper's is a
// half, of which the first would have more readers than there are nodes.
const demoExponent = 0.1

// demoLoad is what the nodes may poll of what readers alone do: in its first minute a network polls
// some more than it aims at, while it learns who reads what.
const demoLoad = 0.95

// Demo is what tidings demo shows: each feed is read at some of the nodes, by one client there; the
// most popular at all of them, the others at as many as Zipf's law gives them.
func Demo(nodes, feeds int, interval, every time.Duration, seed uint64) Config {
	c := Config{Nodes: nodes, Network: wire.DefaultNetwork("demo"), Seed: seed}
	c.Network.PollInterval = interval
	c.Network.MaintenanceInterval = max(interval/2, time.Second).Truncate(time.Second)
	c.Network.PrivateAddresses = true
	c.Network.Load = demoLoad
	rng := rand.New(rand.NewPCG(seed, 1))
	for i := range feeds {
		ch := Channel{Readers: make([]int, nodes), Every: every}
		n := int(math.Round(float64(nodes) * math.Pow(float64(i+1), -demoExponent)))
		for _, at := range rng.Perm(nodes)[:max(n, 1)] {
			ch.Readers[at] = 1
		}
		c.Channels = append(c.Channels, ch)
	}
	return c
}
