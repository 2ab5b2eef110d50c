package gossip

import (
	"crypto/ed25519"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is the timeout for events that should happen soon.
const patience = 20 * time.Second

// A recorder is a peer that records items, and rejects those that begin with "bad".
type recorder struct {
	*Peer
	mu    sync.Mutex
	items []string
}

func newRecorder(t *testing.T) *recorder {
	t.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	h := &recorder{}
	if h.Peer, err = New(key, "/ip4/127.0.0.1/udp/0/quic-v1", func(item []byte) bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.items = append(h.items, string(item))
		return !strings.HasPrefix(string(item), "bad")
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

// count returns how many recorded items have a prefix.
func (h *recorder) count(beginning string) (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.items {
		if strings.HasPrefix(s, beginning) {
			n++
		}
	}
	return n
}

// Items reach a member through another member, each once, and are counted. An item that the member in between
// rejects is not forwarded.
func TestValidItemsAreForwarded(t *testing.T) {
	first, between, last := newRecorder(t), newRecorder(t), newRecorder(t)
	for _, far := range []*recorder{first, last} {
		if err := far.Connect(t.Context(), between.Addrs()...); err != nil {
			t.Fatal(err)
		}
	}
	publish, err := first.Join("news")
	for _, h := range []*recorder{between, last} {
		if _, e := h.Join("news"); e != nil {
			err = e
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := last.Join("news"); err == nil {
		t.Error("a topic is joined twice")
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	// GossipSub does not report when its meshes are complete: publish until something arrives.
	for n, end := 0, time.After(patience); last.count("good") < 3; n++ {
		for _, what := range []string{"bad", "good"} {
			if err := publish(t.Context(), fmt.Appendf(nil, "%s %d", what, n)); err != nil {
				t.Fatal(err)
			}
		}
		select {
		case <-tick.C:
		case <-end:
			t.Fatal("timed out waiting for items")
		}
	}
	if last.count("bad") > 0 || between.count("bad") == 0 {
		t.Errorf("%d of %d bad items were forwarded", last.count("bad"), between.count("bad"))
	}
	if s := between.Stats(); s.Connections != 2 || s.Partners != 2 || s.Mesh < 1 || s.Items < 3 || s.ItemBytes < 3*len("good 0") || s.Announced < 2 { // GossipSub may announce a topic again
		t.Errorf("%+v", s)
	}
}

func TestConnectRejectsAMalformedAddress(t *testing.T) {
	p := newRecorder(t)
	if err := p.Connect(t.Context(), "nowhere"); err == nil || !strings.Contains(err.Error(), `"nowhere"`) {
		t.Errorf("%v", err)
	}
}
