package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"tidings/cobra"
	"tidings/cobra/firehose"
	"tidings/difference"
	"tidings/feedtree"
	"tidings/internal/env"
	"tidings/internal/feed"
	"tidings/internal/store"
	"tidings/overlay"
	"tidings/overlay/owner"
)

// A stallingStore delays all commits while it is stalled, like a disk that does not answer.
type stallingStore struct {
	*store.Disk
	mu      sync.Mutex
	stalled bool
	held    []func()
}

func (s *stallingStore) Commit(ops []env.Op, done func(error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stalled {
		s.held = append(s.held, func() { s.Disk.Commit(ops, done) })
		return
	}
	s.Disk.Commit(ops, done)
}

func (s *stallingStore) stall(yes bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stalled = yes
	for _, commit := range s.held {
		commit()
	}
	s.held = nil
}

// A keywordsFixture is a keyword loop with one subscription to "sun", and the window of one channel.
type keywordsFixture struct {
	*testing.T
	*keywords
	disk    *stallingStore
	channel feedtree.Subscription

	mu     sync.Mutex
	window feedtree.Document
	share  float64 // of the memory limit in use
}

func startKeywords(t *testing.T, waiting int64) *keywordsFixture {
	t.Helper()
	k, err := openKeywords(filepath.Join(t.TempDir(), keywordsFile), cobra.Config{}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	m := &keywordsFixture{T: t, keywords: k, disk: &stallingStore{Disk: k.disk}}
	m.channel = feedtree.Subscription{Key: overlay.Key("test", "https://example.org/f"), URL: "https://example.org/f", Title: "F"}
	k.store, k.config.MaxPendingBytes, k.missed.delay = m.disk, waiting, 10*time.Millisecond
	k.memoryShare = func() float64 { m.mu.Lock(); defer m.mu.Unlock(); return m.share }
	k.missed.read = func(key overlay.ID, then func(feedtree.Document)) {
		m.mu.Lock()
		defer m.mu.Unlock()
		if key != m.channel.Key {
			t.Error("another channel is asked for")
		}
		then(m.window)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		k.run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		<-ended
		if err := k.disk.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := k.subscribe(t.Context(), 0, "sun", noArticles); err != nil {
		t.Fatal(err)
	}
	return m
}

func noArticles() []cobra.BacklogArticle { return nil }

// publish gives new items to the loop, and adds them to the channel's window.
func (m *keywordsFixture) publish(from, n int, text string) {
	m.Helper()
	changes := items(m.T, from, n, text)
	m.mu.Lock()
	for _, c := range changes {
		m.window.Entries = append(m.window.Entries, feed.Entry{Item: c.Item, Arrived: time.Unix(int64(1e9+from+n), 0)})
	}
	m.mu.Unlock()
	m.addItems(m.channel, changes)
}

func (m *keywordsFixture) inUse(share float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.share = share
}

// until waits for a state of the loop.
func (m *keywordsFixture) until(what string, so func(cobra.Stats) bool) (s cobra.Stats) {
	m.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for late := time.After(5 * time.Minute); ; {
		if err := m.do(m.Context(), func() { s = m.reflector.Stats() }); err != nil {
			m.Fatal(err)
		}
		if so(s) {
			return s
		}
		select {
		case <-tick.C:
		case <-late:
			m.Fatalf("%s: never; %+v", what, s)
		}
	}
}

// doctorText returns all findings as a text.
// outstanding returns the last of the counts.
func outstanding(_, _, n int) int { return n }

func (m *keywordsFixture) doctorText() string { return fmt.Sprintf("%+v", m.findings(1, false)) }

// While the disk does not answer, first the content of articles is dropped and then articles. The doctor
// reports it, and all articles are matched once the disk is back.
func TestArticlesMissedByAStalledDiskAreMatchedLater(t *testing.T) {
	const waiting, articles = 1 << 16, 800
	m := startKeywords(t, waiting)
	m.disk.stall(true)
	m.publish(0, articles, "the sun "+strings.Repeat("shines on and on ", 100))
	s := m.until("all came", func(s cobra.Stats) bool { return s.Articles == articles })
	m.until("it is said", func(cobra.Stats) bool { return m.shortage.Load() != nil })
	if s.Level != 2 || s.Shortened == 0 || s.Dropped == 0 || s.Waiting > waiting+4<<10 {
		t.Errorf("with a disk that does not answer: %+v", s)
	}
	if said := m.doctorText(); !strings.Contains(said, "new articles are not kept: the disk does not keep up") || !strings.Contains(said, fmt.Sprintf("to be asked for again %d", s.Dropped)) {
		t.Errorf("the doctor says %s", said)
	}
	m.disk.stall(false)
	m.until("all is kept again", func(s cobra.Stats) bool { return s.Level == 0 && s.Waiting == 0 && outstanding(m.missed.counts()) == 0 })
	again, lost, open := m.missed.counts()
	if uint64(again) != m.dropped.Load() || lost != 0 || open != 0 {
		t.Errorf("of %d dropped ones %d were taken later, %d are lost, %d open", m.dropped.Load(), again, lost, open)
	}
	if s := m.until("it is not said any more", func(cobra.Stats) bool { return m.shortage.Load() == nil }); s.Matched-s.Dropped != articles || s.Failed != 0 {
		t.Errorf("in the end: %+v", s)
	}
}

// When memory is short, first the content of articles is dropped and then articles. Both work again
// afterwards.
func TestArticlesMissedForLackOfMemoryAreMatchedLater(t *testing.T) {
	m := startKeywords(t, math.MaxInt64)
	level := func(n int) func(cobra.Stats) bool { return func(s cobra.Stats) bool { return s.Level == n } }
	m.publish(0, 5, "the sun shines")
	m.until("they came", func(s cobra.Stats) bool { return s.Matched == 5 && s.Shortened == 0 })
	m.inUse(0.85)
	m.until("titles alone", level(1))
	m.publish(5, 5, "the sun shines")
	m.until("they came", func(s cobra.Stats) bool { return s.Matched == 10 && s.Shortened == 5 && s.Dropped == 0 })
	if said := m.doctorText(); !strings.Contains(said, "only titles and links of new articles are kept: 85 % of the memory is in use") {
		t.Errorf("the doctor says %s", said)
	}
	m.inUse(0.95)
	m.until("nothing", level(2))
	m.publish(10, 5, "the sun shines")
	m.until("they came", func(s cobra.Stats) bool { return s.Matched == 15 && s.Dropped == 5 })
	m.mu.Lock()
	m.window.Entries = m.window.Entries[:14] // the oldest of the last five leaves the window
	m.mu.Unlock()
	m.inUse(0.5)
	m.until("all is kept", func(s cobra.Stats) bool {
		return s.Level == 0 && s.Matched == 19 && outstanding(m.missed.counts()) == 0
	})
	if again, lost, _ := m.missed.counts(); again != 4 || lost != 1 {
		t.Errorf("%d were taken later, %d are lost", again, lost)
	}
	if said := m.doctorText(); !strings.Contains(said, "searched later 4, to be asked for again 0, lost 1") {
		t.Errorf("the doctor says %s", said)
	}
}

// A filter that keeps nothing refuses an entry, so that it comes again. The doctor reports it until then.
func TestEntryRefusedByAFilterComesAgain(t *testing.T) {
	t.Parallel()
	m := startKeywords(t, math.MaxInt64)
	body, err := difference.Delta{Changes: items(t, 0, 5, "the sun shines")}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	d := firehose.Dispatch{URL: "https://example.org/elsewhere", Entry: &owner.Entry{Hash: owner.Hash{1}}, Body: body}
	const said = "did not search 1 entry of the network"
	m.inUse(0.95)
	m.until("nothing is kept", func(cobra.Stats) bool { s := m.shortage.Load(); return s != nil && s.level == 2 })
	for range 2 {
		if m.addEntry(d) {
			t.Error("an entry was taken for which there is no room")
		}
	}
	if got := m.doctorText(); !strings.Contains(got, said) {
		t.Errorf("the doctor says %s", got)
	}
	m.inUse(0.5)
	m.until("all is kept", func(cobra.Stats) bool { return m.shortage.Load() == nil })
	if !m.addEntry(d) {
		t.Error("an entry was refused for which there is room")
	}
	m.until("it is matched", func(s cobra.Stats) bool { return s.Matched == 5 && s.Dropped == 0 })
	if got := m.doctorText(); strings.Contains(got, "entries of the network") {
		t.Errorf("the doctor says %s", got)
	}
}

// Articles that came faster than they could be matched are matched after the burst.
func TestArticlesMissedInABurstAreMatchedLater(t *testing.T) {
	t.Parallel()
	const each = 1000
	m := startKeywords(t, math.MaxInt64)
	held, release := make(chan struct{}), make(chan struct{})
	m.loop.Deliver(func() {
		close(held)
		<-release
	})
	<-held
	articles := 0
	for ; articles < maxWaitingArticles+2*each; articles += each {
		m.publish(articles, each, "the sun shines")
	}
	if dropped := int(m.dropped.Load()); dropped != articles-maxWaitingArticles || outstanding(m.missed.counts()) != dropped {
		t.Errorf("%d of %d were missed, %d are remembered", dropped, articles, outstanding(m.missed.counts()))
	}
	close(release)
	m.until("all are matched", func(s cobra.Stats) bool { return s.Matched == uint64(articles) && outstanding(m.missed.counts()) == 0 })
	if again, lost, _ := m.missed.counts(); again != articles-maxWaitingArticles || lost != 0 {
		t.Errorf("%d were taken later, %d are lost", again, lost)
	}
}

// Articles beyond the bound count as lost.
func TestMissedArticlesAreBounded(t *testing.T) {
	var m missedArticles
	s := feedtree.Subscription{Key: overlay.Key("test", "https://example.org/f")}
	for i := range maxMissed + 10 {
		m.add(s, feed.ID{byte(i), byte(i >> 8), byte(i >> 16)}, time.Unix(0, 0))
	}
	if again, lost, open := m.counts(); again != 0 || lost != 10 || open != maxMissed {
		t.Error(again, lost, open)
	}
}

func TestMemoryInUseIsAShareOfTheLimit(t *testing.T) {
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(math.MaxInt64))
	if share := memoryInUse(); share != 0 {
		t.Errorf("without a limit: %v", share)
	}
	runtime.GC()
	for _, limit := range []int64{1 << 40, 1 << 20} {
		debug.SetMemoryLimit(limit)
		if share := memoryInUse(); share*float64(limit) < 1<<20 || share*float64(limit) > 1<<30 {
			t.Errorf("of %d bytes: %v", limit, share)
		}
	}
}
