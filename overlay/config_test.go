package overlay

import (
	"testing"
	"time"

	"tidings/internal/check/checktest"
	"tidings/internal/wire"
)

func TestConfigsAreChecked(t *testing.T) {
	checktest.Refuses(t, Config{Network: wire.DefaultNetwork("lab")}, map[string]func(*Config){
		`overlay: Network: fan-out 1: give 2 to 256`:              func(c *Config) { c.Network.FanOut = 1 },
		`overlay: DialBackTimeout is -1s; it must be at least 1s`: func(c *Config) { c.DialBackTimeout = -time.Second },
		`overlay: WatchInterval is 1ms; it must be at least 1s`:   func(c *Config) { c.WatchInterval = time.Millisecond },
		`overlay: SaveInterval is 1ns; it must be at least 1s`:    func(c *Config) { c.SaveInterval = 1 },
	})
}
