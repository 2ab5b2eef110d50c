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
	// Network holds the parameters of the nodes' network. Its polling interval is also that of the legacy
	// readers.
	Network wire.Network
	// Polite makes nodes treat the feeds as public ones, each at its own address, with the times of
	// politeness shortened by the factor Compression.
	Polite      bool
	Compression float64
	// NodesOnly leaves out the legacy readers.
	NodesOnly bool
	Seed      uint64
}

// A Channel is a feed of the server.
type Channel struct {
	Readers []int         // for each node, how many of its clients read the feed
	Every   time.Duration // mean time between two items
}

// ReaderCount returns the number of readers of the channel.
func (c *Channel) ReaderCount() (sum int) {
	for _, n := range c.Readers {
		sum += n
	}
	return sum
}

// Subscriptions returns the number of readers of all channels together.
func (c *Config) Subscriptions() (sum int) {
	for i := range c.Channels {
		sum += c.Channels[i].ReaderCount()
	}
	return sum
}

// Check returns what is wrong with a configuration.
func (c *Config) Check() error {
	switch {
	case c.Nodes < 2 || c.Nodes > 1000:
		return fmt.Errorf("%d nodes: give 2 to 1,000", c.Nodes)
	case len(c.Channels) == 0 || len(c.Channels) > 1<<16:
		return fmt.Errorf("%d channels: give 1 to 65,536", len(c.Channels))
	case c.Subscriptions() == 0:
		return errors.New("no channel has readers")
	}
	return c.Network.Check()
}

// demoExponent is the exponent of Zipf's law for the popularity of the demo's feeds. With the paper's one
// half, the first feed would have more readers than there are nodes.
const demoExponent = 0.1

// demoLoad is the share of the legacy readers' polls that the nodes may make. It is below 1, because a
// network polls somewhat too often in its first minute, while it learns who reads what.
const demoLoad = 0.95

// Demo returns the configuration of tidings demo. Each feed is read by one client at each of some nodes: the
// most popular feed at all nodes, the others at as many as Zipf's law says.
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
