package cobra

import (
	"testing"

	"tidings/internal/check/checktest"
)

func TestConfigsAreChecked(t *testing.T) {
	checktest.Refuses(t, Config{}, map[string]func(*Config){
		"cobra: MaxSubscriptions is -1;":                              func(c *Config) { c.MaxSubscriptions = -1 },
		"cobra: MaxSubscriptions is 1000000001; it must be from 1 to": func(c *Config) { c.MaxSubscriptions = HighestMaxSubscriptions + 1 },
		"cobra: MaxBytes is 1000; it must be from 1048576":            func(c *Config) { c.MaxBytes = 1000 },
		"cobra: ArticlesPerFeed is 201; it must be from 1 to 200":     func(c *Config) { c.ArticlesPerFeed = MaxArticlesPerFeed + 1 },
		"cobra: MaxPendingBytes is -1; it must be at least 1":         func(c *Config) { c.MaxPendingBytes = -1 },
	})
}
