package daemon

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"tidings/corona"
	"tidings/corona/coronapb"
)

// After a restart readers see the items as before, and nobody is told of one of them again. All but the last entry of a log were always
// known to be committed; that the last one is follows from the key's note.
func TestARestartTellsNoItemAgain(t *testing.T) {
	t.Parallel()
	feed := newFerryFeed(t)
	feed.add("Pier 1")
	c := founding(t, "restart")
	c.Found.PollInterval = 2 * time.Second
	c.HTTP, c.AllowPrivateOrigins = "127.0.0.1:0", true
	m := running(t, c)
	m.awaitMembers(t, 1)
	url := feed.URL + "/news.xml"
	m.post(t, "subscribe", fmt.Sprintf(`{"url":%q}`, url), &struct{}{})
	m.await(t, url, "Pier 1")
	within(t, awaitTimeout, "the note", func() (err error) {
		if lost := m.do(t.Context(), func() {
			if s, ok := corona.NotedState(m.node.Owners.Note(m.key(url))); !ok || s.Kind != coronapb.State_OK {
				err = fmt.Errorf("%+v", s)
			}
		}); lost != nil {
			return lost
		}
		return err
	})
	m.stop(t)

	var mu sync.Mutex
	var told []string
	again := running(t, Config{Dir: c.Dir, HTTP: c.HTTP, AllowPrivateOrigins: true, OnShown: func(_ string, titles []string) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, titles...)
	}})
	if all, err := again.List(t.Context()); err != nil || len(all) != 1 { // waits until the subscriptions are known
		t.Errorf("at once the list has %d feeds: %v", len(all), err)
	}
	again.awaitMembers(t, 1)
	again.await(t, url, "Pier 1")
	feed.add("Pier 2")
	again.await(t, url, "Pier 2")
	mu.Lock()
	defer mu.Unlock()
	if !slices.Equal(told, []string{"Pier 2"}) {
		t.Errorf("after a restart the node tells of %q", told)
	}
}
