package daemon

import (
	"bytes"
	"crypto/ed25519"
	"encoding/binary"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"tidings/corona/coronapb"
	"tidings/difference"
	"tidings/internal/feed"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/libp2p/attacker"
	"tidings/overlay/overlaypb"
	"tidings/proxy"
)

// A peer that is no member sends three real nodes change reports about their feed, with an item that the
// origin never showed: once with a record of its own that calls it a member, and once with the record of one
// of them. The sequencer drops and counts both reports, and no node shows the item.
func TestForgedChangeReportsAreDropped(t *testing.T) {
	t.Parallel()
	const document = `<rss version="2.0"><channel><title>Ferry news</title><link>https://ferry.example/</link><description/>%s</channel></rss>`
	item := func(n int, title string) string {
		return fmt.Sprintf(`<item><guid isPermaLink="false">%d</guid><title>%s</title></item>`, n, title)
	}
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, document, item(1, "Pier opens"))
	}))
	defer origin.Close()
	address := origin.URL + "/feed.xml"
	network := laboratory("forged")
	network.PollInterval = 2 * time.Second
	nodes := []*member{running(t, Config{Dir: t.TempDir(), Found: &network, HTTP: "127.0.0.1:0", AllowPrivateOrigins: true})}
	first := nodes[0].awaitMembers(t, 1)
	for range 2 {
		nodes = append(nodes, running(t, Config{Dir: t.TempDir(), Bootstrap: first.Addrs, HTTP: "127.0.0.1:0", AllowPrivateOrigins: true}))
	}
	shown := func(m *member) string { return m.get(t, "/feed?url="+url.QueryEscape(address)+"&format=rss") }
	for _, m := range nodes {
		m.awaitMembers(t, 3)
		var done proxy.SubscribeMessage
		m.post(t, "subscribe", fmt.Sprintf(`{"url":%q}`, address), &done)
		within(t, awaitTimeout, "the feed", func() error {
			if got := shown(m); !strings.Contains(got, "Pier opens") {
				return fmt.Errorf("it is %s", got)
			}
			return nil
		})
	}

	hash := wire.HashOf(network.Descriptor())
	stranger := wire.NewSigner(ed25519.NewKeyFromSeed(bytes.Repeat([]byte("s"), ed25519.SeedSize)), hash)
	own := stranger.Sign(wire.DomainRecord, wire.Encode(&overlaypb.Record{IssuedMs: uint64(time.Now().UnixMilli()), Member: true})).Raw
	var borrowed []byte
	if err := nodes[1].do(t.Context(), func() { borrowed = bytes.Clone(nodes[1].node.Overlay.Self().Raw) }); err != nil {
		t.Fatal(err)
	}
	key := overlay.Key(network.Name, address)
	forged, err := feed.Parse(fmt.Appendf(nil, document, item(2, "Pier burns")+item(1, "Pier opens")), "")
	if err != nil {
		t.Fatal(err)
	}
	delta := difference.Delta{Head: &forged.Head}
	var prints []byte
	for _, it := range forged.Items {
		delta.Changes = append(delta.Changes, difference.Change{Item: it})
		prints = append(prints, it.ID[:16]...)
		prints = binary.BigEndian.AppendUint64(prints, binary.BigEndian.Uint64(it.Hash[:]))
	}
	packed, err := delta.Encode()
	if err != nil {
		t.Fatal(err)
	}
	var frames [][]byte
	for _, record := range [][]byte{own, borrowed} {
		reading := stranger.Sign(wire.DomainObservation, wire.Encode(&coronapb.Observation{
			Key: key[:], Nonce: 9, Poller: record, Fingerprints: prints, Delta: packed, Facts: &coronapb.Facts{}, Valid: &coronapb.Validators{}, AtMs: uint64(time.Now().UnixMilli()),
		})).Raw
		frames = append(frames, wire.AppendFrame(nil, wire.Corona, &coronapb.Message{Body: &coronapb.Message_Change{Change: &coronapb.ChangeReport{Key: key[:], Observation: reading}}}))
	}
	for _, m := range nodes {
		addr := m.status(t).Addrs[0]
		s, err := attacker.New(addr, wire.Side{Name: network.Name, Descriptor: network.Descriptor()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		if err := s.Open(t.Context(), netip.MustParseAddr("127.0.0.1"), frames...); err != nil {
			t.Fatal(err)
		}
	}
	within(t, awaitTimeout, "what the stranger said, dropped by the sequencer", func() error {
		dropped := uint64(0)
		for _, m := range nodes {
			if err := m.do(t.Context(), func() {
				st := m.node.Corona.Stats()
				dropped += st.Strangers + st.Garbage
			}); err != nil {
				return err
			}
		}
		if dropped < uint64(len(frames)) {
			return fmt.Errorf("%d reports were dropped", dropped)
		}
		return nil
	})
	for i, m := range nodes {
		if got := shown(m); strings.Contains(got, "burns") {
			t.Errorf("node %d shows %s", i, got)
		}
	}
}
