package cobra

import (
	"testing"

	"tidings/internal/check/checktest"
)

func TestConfigsAreChecked(t *testing.T) {
	checktest.Refuses(t, Config{}, map[string]func(*Config){
		"cobra: MaxTermShare is 1.5; it must be above 0 and at most 1": func(c *Config) { c.MaxTermShare = 1.5 },
		"cobra: MaxTermShare is -1;":                                   func(c *Config) { c.MaxTermShare = -1 },
		"cobra: ArticlesPerFeed is 201; it must be from 1 to 200":      func(c *Config) { c.ArticlesPerFeed = MaxArticlesPerFeed + 1 },
		"cobra: MaxPendingBytes is -1; it must be at least 1":          func(c *Config) { c.MaxPendingBytes = -1 },
	})
}
