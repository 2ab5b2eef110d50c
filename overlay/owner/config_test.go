package owner

import (
	"testing"
	"time"

	"tidings/internal/check/checktest"
)

func TestConfigsAreChecked(t *testing.T) {
	checktest.Refuses(t, Config{}, map[string]func(*Config){
		`owner: Owners is 9; it must be from 1 to 8`:                                func(c *Config) { c.Owners = 9 },
		`owner: Owners is -1; it must be from 1 to 8`:                               func(c *Config) { c.Owners = -1 },
		`owner: HeartbeatInterval is 10ms; it must be at least 100ms`:               func(c *Config) { c.HeartbeatInterval = 10 * time.Millisecond },
		`owner: Lease is 59s; it must be at least HeartbeatInterval, which is 1m0s`: func(c *Config) { c.Lease = 59 * time.Second },
	})
}
