package scribe

import (
	"testing"
	"time"

	"tidings/internal/check/checktest"
)

func TestConfigsAreChecked(t *testing.T) {
	checktest.Refuses(t, Config{}, map[string]func(*Config){
		`scribe: FanOut is 1; it must be at least 2`:                 func(c *Config) { c.FanOut = 1 },
		`scribe: MaxWeight is -3; it must be at least 1`:             func(c *Config) { c.MaxWeight = -3 },
		`scribe: HeartbeatInterval is 999ms; it must be at least 1s`: func(c *Config) { c.HeartbeatInterval = 999 * time.Millisecond },
	})
}
