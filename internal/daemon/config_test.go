package daemon

import (
	"net/netip"
	"testing"

	"tidings/internal/check/checktest"
	"tidings/internal/wire"
)

func TestConfigsAreChecked(t *testing.T) {
	valid := DefaultConfig("data")
	network := wire.DefaultNetwork("lab")
	valid.Found, valid.HTTP = &network, "127.0.0.1:0"
	checktest.Refuses(t, valid, map[string]func(*Config){
		"daemon: Dir is empty; it must be the data directory":   func(c *Config) { c.Dir = "" },
		"network name: give 1 to 64 characters":                 func(c *Config) { c.Found = &wire.Network{} },
		"has to accept connections":                             func(c *Config) { c.RefuseInbound = true },
		"do one of them":                                        func(c *Config) { c.Network = "town" },
		`--listen "4801" is not a multiaddr`:                    func(c *Config) { c.Listen = []string{"4801"} },
		`--bootstrap "friend" is not the address of a node`:     func(c *Config) { c.Bootstrap = []string{"friend"} },
		`--http "8190" is not an address: give HOST:PORT`:       func(c *Config) { c.HTTP = "8190" },
		`base URL "nas": give http or https`:                    func(c *Config) { c.BaseURL = "nas" },
		`contact "ops": give an http, https or mailto URL`:      func(c *Config) { c.Contact = "ops" },
		"daemon: TrustedProxies is [invalid Prefix]":            func(c *Config) { c.TrustedProxies = make([]netip.Prefix, 1) },
		"--keyword-items 201: give 1 to 200":                    func(c *Config) { c.KeywordItems = 201 },
		"--max-searches -1: give 1 to 1000000000":               func(c *Config) { c.MaxSearches = -1 },
		"daemon: KeywordBytes is 1000; it must be from 1048576": func(c *Config) { c.KeywordBytes = 1000 },
		"--keyword-items -1: give 1 to 200":                     func(c *Config) { c.KeywordItems = -1 },
		`--subscribe-on-read "always": give never`:              func(c *Config) { c.SubscribeOnRead = "always" },
		"daemon: Compression is 0.5; it must be at least 1":     func(c *Config) { c.Compression = 0.5 },
	})
}
