package daemon

import (
	"errors"
	"fmt"
	"testing"

	"tidings/proxy"
)

// A node refuses the subscription beyond its limit. One that ends makes room for another, one that is repeated takes none,
// and those of an earlier run count.
func TestSubscriptionsBeyondTheLimitAreRefused(t *testing.T) {
	t.Parallel()
	c := founding(t, "limit")
	c.AllowPrivateOrigins, c.MaxSubscriptions = true, 2
	m := running(t, c)
	subscribe := func(i int, want error) {
		t.Helper()
		if err := m.Subscribe(t.Context(), fmt.Sprintf("http://127.0.0.1:9/%d.xml", i), false); !errors.Is(err, want) {
			t.Errorf("subscription %d: %v, want %v", i, err, want)
		}
	}
	m.awaitMembers(t, 1)
	subscribe(1, nil)
	subscribe(2, nil)
	subscribe(2, nil)
	subscribe(3, proxy.ErrFull)
	if err := m.Unsubscribe(t.Context(), "http://127.0.0.1:9/1.xml"); err != nil {
		t.Fatal(err)
	}
	subscribe(3, nil)
	subscribe(4, proxy.ErrFull)
	m.stop(t)
	m = running(t, c)
	m.awaitMembers(t, 1)
	subscribe(4, proxy.ErrFull)
	subscribe(3, nil)
}
