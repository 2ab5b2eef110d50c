package node_test

import (
	"testing"
	"time"

	"tidings/internal/check/checktest"
	"tidings/internal/node"
	"tidings/internal/wire"
)

func TestConfigsAreChecked(t *testing.T) {
	checktest.Refuses(t, node.DefaultConfig(wire.DefaultNetwork("lab")), map[string]func(*node.Config){
		`overlay: WatchInterval`: func(c *node.Config) { c.Overlay.WatchInterval = -1 },
		`scribe: FanOut`:         func(c *node.Config) { c.Scribe.FanOut = -1 },
		`owner: Owners`:          func(c *node.Config) { c.Owner.Owners = -1 },
		`wedge: Maintenance`:     func(c *node.Config) { c.Wedges.Maintenance = -1 },
		`sums: Maintenance`:      func(c *node.Config) { c.Sums.Maintenance = -1 },
		`feedtree: BeatInterval`: func(c *node.Config) { c.Feeds.BeatInterval = -1 },
		`corona: Load`:           func(c *node.Config) { c.Corona.Load = -1 },
		`firehose: Shards`:       func(c *node.Config) { c.Firehose.Shards = -1 },
		`corona: Network is "town"; it must be that of the overlay, "lab"`: func(c *node.Config) { c.Corona.Network = "town" },
	})
}

// The configuration that is made of a network is valid at the bounds of the network's parameters.
func TestDefaultConfigIsValidForEachNetwork(t *testing.T) {
	for name, change := range map[string]func(*wire.Network){
		"the shortest times": func(n *wire.Network) {
			n.PollInterval, n.MaintenanceInterval, n.BeatInterval = time.Second, time.Second, time.Second
		},
		"the longest times": func(n *wire.Network) {
			n.PollInterval, n.MaintenanceInterval, n.BeatInterval = 24*time.Hour, 24*time.Hour, 7*24*time.Hour
		},
		"the least numbers":    func(n *wire.Network) { n.Owners, n.Witnesses, n.MaxWeight, n.FanOut, n.Load = 1, 1, 1, 2, 0.001 },
		"the greatest numbers": func(n *wire.Network) { n.Owners, n.MaxWeight, n.FanOut, n.Load = 8, 1<<20, 256, 1000 },
		"the paper's scheme": func(n *wire.Network) {
			n.Wedge, n.Clusters, n.Phases, n.Decide = wire.Paper.Wedge, wire.Paper.Clusters, wire.Paper.Phases, wire.Paper.Decide
		},
		"base 2":   func(n *wire.Network) { n.Wedge = "base2" },
		"fast":     func(n *wire.Network) { n.Objective = "fast" },
		"fair-log": func(n *wire.Network) { n.Objective = "fair-log" },
	} {
		network := wire.DefaultNetwork("lab")
		change(&network)
		if err := network.Check(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := node.DefaultConfig(network).Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
