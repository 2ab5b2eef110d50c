package corona

import (
	"math"
	"testing"
	"time"

	"tidings/honeycomb"
	"tidings/internal/check/checktest"
)

func TestConfigsAreChecked(t *testing.T) {
	checktest.Refuses(t, Config{Network: "lab"}, map[string]func(*Config){
		`corona: Network is empty; it must be the name of the network`:                          func(c *Config) { c.Network = "" },
		`corona: PollInterval is 1ms; it must be from 1s to 720h0m0s`:                           func(c *Config) { c.PollInterval = time.Millisecond },
		`corona: MaintenanceInterval is -1s; it must be at least 1s`:                            func(c *Config) { c.MaintenanceInterval = -time.Second },
		`corona: Objective is Objective(9); it must be from lite to fair-log`:                   func(c *Config) { c.Objective = 9 },
		`corona: Cut is 2; it must be from 0 to 1`:                                              func(c *Config) { c.Cut = honeycomb.Ranks + 1 },
		`corona: Base is 1; it must be from 2 to 256`:                                           func(c *Config) { c.Base = 1 },
		`corona: Load is -1; it must be above 0`:                                                func(c *Config) { c.Load = -1 },
		`corona: Load is NaN; it must be above 0`:                                               func(c *Config) { c.Load = math.NaN() },
		`corona: Detection is 0s; it must be above 0 and at most 720h0m0s if Objective is Fast`: func(c *Config) { c.Objective = honeycomb.Fast },
		`corona: DAG is set; it must be unset unless Random is set`:                             func(c *Config) { c.DAG = true },
		`corona: Compression is 0.5; it must be at least 1`:                                     func(c *Config) { c.Compression = 0.5 },
	})
}
