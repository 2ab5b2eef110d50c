package daemon

import (
	"context"
	"fmt"
	"sync"
	"testing"
)

// A subscription that the user asked for stays, whatever tentative changes happen at the same time.
func TestTentativeChangesKeepAUsersSubscription(t *testing.T) {
	t.Parallel()
	c := founding(t, "wishes")
	c.AllowPrivateOrigins = true
	m := running(t, c)
	m.awaitMembers(t, 1)
	for i := range 50 {
		url := fmt.Sprintf("http://127.0.0.1:9/%d.xml", i)
		beside := m.endTentative
		if i%2 == 0 {
			beside = func(ctx context.Context, url string) {
				if err := m.subscribeTentatively(ctx, url); err != nil {
					t.Error(err)
				}
			}
		} else if err := m.subscribeTentatively(t.Context(), url); err != nil {
			t.Fatal(err)
		}
		var both sync.WaitGroup
		both.Go(func() { beside(t.Context(), url) })
		both.Go(func() {
			if err := m.Subscribe(t.Context(), url, false); err != nil {
				t.Error(err)
			}
		})
		both.Wait()
		if err := m.do(t.Context(), func() {
			s, ok := m.node.Feeds.Subscription(m.key(url))
			if r := m.byKey[m.key(url)]; !ok || attributesOf(s).rank() == 0 || len(r.waiting) > 0 {
				t.Errorf("%d: it is there: %v, with %s; %d wait", i, ok, s.Attributes, len(r.waiting))
			}
		}); err != nil {
			t.Fatal(err)
		}
	}
}
