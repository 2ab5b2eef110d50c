package deployment

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"tidings/internal/check"
	"tidings/internal/wire"
)

// A Config says what is deployed. A zero field means its default.
type Config struct {
	// Nodes is the number of nodes, 2 to 1,000. It has no default. Each is a whole node in this process.
	Nodes int
	// Channels are the feeds of the server, 1 to 65,536, of which at least one has readers. It has no default.
	Channels []Channel
	// Network holds the parameters of the nodes' network. Its polling interval is also that of the legacy
	// readers. It has no default.
	Network wire.Network
	// Polite makes nodes treat the feeds as public ones, each at its own address, with the times of
	// politeness shortened by the factor Compression. Default false: budgets do not apply.
	Polite bool
	// Compression says how many times shorter the intervals are than real ones, at least 1. Only Polite needs it;
	// it has no default then.
	Compression float64
	// NodesOnly leaves out the legacy readers. Default false.
	NodesOnly bool
	// Seed determines what the feeds publish, and when.
	Seed uint64
}

// A Channel is a feed of the server.
type Channel struct {
	Readers []int         // for each node, how many of its clients read the feed
	Every   time.Duration // mean time between two items; default 1 min
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

// Validate returns an error that names the first wrong field.
func (c Config) Validate() error {
	for i, ch := range c.Channels {
		err := cmp.Or(
			check.That(len(ch.Readers) <= c.Nodes, fmt.Sprintf("deployment: Channels[%d].Readers", i), "has %d nodes; it must have at most Nodes, which is %d", len(ch.Readers), c.Nodes),
			check.AtLeast(fmt.Sprintf("deployment: Channels[%d].Every", i), ch.Every, 0),
		)
		if err != nil {
			return err
		}
	}
	err := cmp.Or(
		check.Between("deployment: Nodes", c.Nodes, 2, 1000),
		check.Between("deployment: the number of Channels", len(c.Channels), 1, 1<<16),
		check.AtLeast("deployment: the number of readers of all Channels", c.Subscriptions(), 1),
		check.That(!c.Polite || c.Compression >= 1, "deployment: Compression", "is %v; it must be at least 1 if Polite is set", c.Compression),
	)
	if err != nil {
		return err
	}
	if err := c.Network.Check(); err != nil {
		return fmt.Errorf("deployment: Network: %w", err)
	}
	return nil
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
