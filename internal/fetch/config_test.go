package fetch

import (
	"testing"

	"tidings/internal/check/checktest"
)

func TestConfigsAreChecked(t *testing.T) {
	checktest.Refuses(t, Config{Spacing: -1}, map[string]func(*Config){
		"fetch: Contact: contact \"ops\": give an http, https or mailto URL": func(c *Config) { c.Contact = "ops" },
		"fetch: Workers is -1; it must be at least 1":                        func(c *Config) { c.Workers = -1 },
		"fetch: Waiting is -1; it must be at least 1":                        func(c *Config) { c.Waiting = -1 },
		"fetch: HostWaiting is -1; it must be at least 1":                    func(c *Config) { c.HostWaiting = -1 },
		"fetch: MaxBody is -1; it must be at least 1":                        func(c *Config) { c.MaxBody = -1 },
	})
}
