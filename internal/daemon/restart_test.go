package daemon

import (
	"fmt"
	"testing"
	"time"
)

// A list that is asked for while a node starts waits until the subscriptions are known.
func TestAListAfterARestartIsComplete(t *testing.T) {
	t.Parallel()
	c := founding(t, "restart")
	c.Found.PollInterval = 2 * time.Second
	c.HTTP, c.AllowPrivateOrigins = "127.0.0.1:0", true
	m := running(t, c)
	m.awaitMembers(t, 1)
	m.post(t, "subscribe", fmt.Sprintf(`{"url":%q}`, newFerryFeed(t).URL+"/news.xml"), &struct{}{})
	m.stop(t)
	again := running(t, Config{Dir: c.Dir, HTTP: c.HTTP, AllowPrivateOrigins: true})
	if all, err := again.List(t.Context()); err != nil || len(all) != 1 {
		t.Errorf("at once the list has %d feeds: %v", len(all), err)
	}
}
