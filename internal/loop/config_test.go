package loop

import (
	"testing"

	"tidings/internal/check/checktest"
)

func TestConfigsAreChecked(t *testing.T) {
	checktest.Refuses(t, Config{}, map[string]func(*Config){
		"loop: Urgent is -1; it must be at least 1":  func(c *Config) { c.Urgent = -1 },
		"loop: Control is -1; it must be at least 1": func(c *Config) { c.Control = -1 },
		"loop: Bulk is -1; it must be at least 1":    func(c *Config) { c.Bulk = -1 },
		"loop: Workers is -1; it must be at least 1": func(c *Config) { c.Workers = -1 },
	})
}
