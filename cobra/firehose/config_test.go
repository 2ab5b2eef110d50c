package firehose

import (
	"testing"

	"tidings/internal/check/checktest"
)

func TestConfigsAreChecked(t *testing.T) {
	checktest.Refuses(t, Config{Shards: DefaultShards, Filter: true}, map[string]func(*Config){
		`firehose: Shards is -1; it must be at least 0`:            func(c *Config) { c.Shards = -1 },
		`firehose: Filter is set; it must be unset if Shards is 0`: func(c *Config) { c.Shards = 0 },
	})
}
