package sim

import (
	"testing"
	"time"
)

// Nodes that cannot be dialled read feeds through the two members that act for them, also when one
// of these dies.
func TestClientsRead(t *testing.T) {
	t.Parallel()
	s := feedSwarm(3, Config{})
	s.Grow(10, 100*time.Millisecond)
	s.World.Run(20 * time.Second)
	var clients []*Peer
	for range 3 {
		c := s.Add(false, s.Peers()[0])
		c.Start()
		clients = append(clients, c)
	}
	s.World.Run(time.Minute)
	urls := s.serveFeeds(5, 3*time.Minute, 10)
	for _, c := range clients {
		for _, url := range urls {
			c.SubscribeFeed(url)
		}
	}
	s.World.Run(10 * time.Minute)
	hosts := clients[0].Layers().Overlay.Hosts()
	if len(hosts) != 2 {
		t.Fatalf("a client has %d hosts", len(hosts))
	}
	s.byID[hosts[0].ID].Kill(false)
	clients[1].Kill(true)
	s.World.Run(15 * time.Minute)
	clients[1].Start()
	s.World.Run(25 * time.Minute)
	s.CheckReaders()
	report(t, s)
	st := s.FeedStats()
	if st.ItemsShown < 3*5*15 || st.Fetches > 0 {
		t.Errorf("%+v", st)
	}
}
