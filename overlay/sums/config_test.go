package sums

import (
	"testing"
	"time"

	"tidings/internal/check/checktest"
)

func TestConfigsAreChecked(t *testing.T) {
	checktest.Refuses(t, Config{}, map[string]func(*Config){
		`sums: Maintenance is -1m0s; it must be at least 1s`: func(c *Config) { c.Maintenance = -time.Minute },
	})
}
