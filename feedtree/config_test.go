package feedtree

import (
	"testing"
	"time"

	"tidings/internal/check/checktest"
)

func TestConfigsAreChecked(t *testing.T) {
	checktest.Refuses(t, Config{}, map[string]func(*Config){
		`feedtree: BeatInterval is 1ms; it must be at least 1s`:       func(c *Config) { c.BeatInterval = time.Millisecond },
		`feedtree: DigestInterval is -1h0m0s; it must be at least 1s`: func(c *Config) { c.DigestInterval = -time.Hour },
		`feedtree: PollInterval is 1ns; it must be at least 1s`:       func(c *Config) { c.PollInterval = 1 },
		`feedtree: AuditOneIn is -1; it must be at least 1`:           func(c *Config) { c.AuditOneIn = -1 },
	})
}
