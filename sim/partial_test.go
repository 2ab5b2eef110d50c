package sim

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"tidings/internal/longtest"
	"tidings/internal/script"
	"tidings/overlay"
)

// An editing script is a lively feed whose seventh item is edited after half an hour.
type editing struct{ *script.Lively }

const editedAfter = 30 * time.Minute

func (e editing) At(t time.Duration) script.Version {
	v := e.Lively.At(t)
	if v.Index *= 2; t >= editedAfter {
		v.Index++
		v.Body = bytes.Replace(v.Body, []byte("(6)"), []byte("(6, edited)"), 1) // at the end of its title
	}
	return v
}

func (e editing) Next(t time.Duration) (at time.Duration, ok bool) {
	at, ok = e.Lively.Next(t)
	if t < editedAfter && (!ok || at > editedAfter) {
		return editedAfter, true
	}
	return at, ok
}

// An origin that answers with what has changed alone (RFC 3229) brings every item and edit to every reader, also while
// sequencers crash. Nothing is concluded from what a part lacks: nothing is withdrawn, contested or unwitnessed, the
// feed keeps its title, and nobody is blamed.
func TestPartialDocumentsLackNothing(t *testing.T) {
	t.Parallel()
	for seed := range longtest.Pick[uint64](2, 4) {
		s := auditSwarm(seed, 4)
		s.Grow(12, 100*time.Millisecond)
		s.World.Run(20 * time.Second)
		const url = "http://parts.example/"
		f := s.Serve(url, editing{script.NewLively(script.Config{
			Seed: seed, Format: script.Format(seed % 3), Every: 4 * time.Minute, Limit: 20, Rebuild: 3 * time.Minute, Items: 8,
		})})
		f.Public, f.served = seed%4 == 3, map[string][]byte{}
		near := nearestPeers(s, url)
		for _, p := range near[:11] {
			p.SubscribeFeed(url)
		}
		for range 4 {
			s.World.Run(15 * time.Minute)
			if leader := s.byID[overlay.NodeID("sim", near[0].leaderOf(url))]; leader != nil && seed%2 == 1 {
				leader.Kill(true)
				s.World.Run(time.Minute)
				leader.Start()
			}
		}
		s.World.Run(30 * time.Minute) // the last item may come after 80 minutes
		title := s.document(f, s.Now()).Head.Title
		for _, p := range near[:11] {
			edited := 0
			for raw, of := range p.provenances(url) {
				if strings.Contains(raw, "(6, edited)") {
					edited++
				}
				if !strings.HasPrefix(of, "witnessed ") && !f.Public {
					t.Errorf("seed %d: %s: %s", seed, of, raw)
				}
			}
			sub, ok := p.node.Feeds.Subscription(s.Key(url))
			if !ok || sub.Problem != nil || sub.Title != title || edited != 1 {
				t.Errorf("seed %d: %d edits, title %q, problem %+v", seed, edited, sub.Title, sub.Problem)
			}
			if n := p.node.Owners.Stats().Barred; n > 0 {
				t.Errorf("seed %d: an honest sequencer is barred", seed)
			}
		}
		t.Logf("seed %d: %d polls, %d documents, %d parts", seed, f.Polls, f.Full, f.Parts)
		if f.Parts == 0 {
			t.Errorf("seed %d: no part was served", seed)
		}
		s.CheckReaders()
		s.CheckQuiet()
		report(t, s)
	}
}
