// Package checktest helps tests: with the Validate methods of configurations, with programs that a machine may lack, and with ports.
package checktest

import (
	"strings"
	"testing"
)

// Refuses tests that Validate accepts a configuration and refuses each wrong change to it. The keys of
// wrong are the words that the error must contain.
func Refuses[C interface{ Validate() error }](t *testing.T, valid C, wrong map[string]func(*C)) {
	t.Helper()
	if err := valid.Validate(); err != nil {
		t.Errorf("a valid configuration is refused: %v", err)
	}
	for want, change := range wrong {
		c := valid
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Validate returned %v; want %s", err, want)
		}
	}
}
