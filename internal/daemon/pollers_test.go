package daemon

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"tidings/corona"
	"tidings/internal/news"
	"tidings/overlay/wedge"
	"tidings/proxy"
)

// The turns of all ranks follow from that of one: each comes once in the next interval, at the distance of the phases.
func TestTurnsOfOtherPollers(t *testing.T) {
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	const n, interval = 5, 10 * time.Minute
	phase := func(rank int) time.Duration { return time.Duration(wedge.Phase(rank, n) * float64(interval)) }
	for own := range n {
		for _, wait := range []time.Duration{0, time.Minute, interval - time.Second} {
			slot := corona.Slot{Rank: own, Of: n, Phase: phase(own), Interval: interval, Next: now.Add(wait)}
			for rank := range n {
				turn := turnOf(rank, slot, now)
				if turn.Before(now) || turn.After(now.Add(interval)) || (turn.Sub(slot.Next)-phase(rank)+slot.Phase)%interval != 0 {
					t.Errorf("rank %d is next in %v: rank %d in %v", own, wait, rank, turn.Sub(now))
				}
			}
			if got := turnOf(own, slot, now); !got.Equal(slot.Next) {
				t.Errorf("rank %d is next in %v, and in %v", own, wait, got.Sub(now))
			}
		}
	}
}

// A person has a feed polled an hour before its next poll, whichever node leads it, and sees who polls it.
func TestAFeedIsPolledOnRequest(t *testing.T) {
	t.Parallel()
	const compression = 30000 // five minutes are ten milliseconds
	var items atomic.Int64
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/rss+xml")
		_, _ = fmt.Fprint(w, `<rss version="2.0"><channel><title>Feed</title><link>http://a.example/</link><description/>`)
		for n := items.Load(); n >= 0; n-- {
			_, _ = fmt.Fprintf(w, "<item><guid>%d</guid><title>item %d</title></item>", n, n)
		}
		_, _ = fmt.Fprint(w, "</channel></rss>")
	}))
	defer site.Close()
	first := founding(t, "asked")
	first.Found.PollInterval, first.AllowPrivateOrigins, first.Compression = time.Hour, true, compression
	a := running(t, first)
	b := running(t, Config{Dir: t.TempDir(), Bootstrap: a.awaitMembers(t, 1).Addrs, AllowPrivateOrigins: true, Compression: compression})
	b.awaitMembers(t, 2)
	a.awaitMembers(t, 2)
	address := site.URL + "/feed"
	if err := b.PollSoon(t.Context(), address); !errors.Is(err, proxy.ErrNoSubscription) {
		t.Errorf("a feed that is not followed: %v", err)
	}
	nodes := []*member{a, b}
	for _, d := range nodes {
		if err := d.Subscribe(t.Context(), address, false); err != nil {
			t.Fatal(err)
		}
	}
	for i, d := range nodes {
		shown := func(want int) {
			t.Helper()
			within(t, awaitTimeout, "all items", func() error {
				list, err := d.List(t.Context())
				if err == nil && list[0].Items != want {
					err = fmt.Errorf("%d items", list[0].Items)
				}
				return err
			})
		}
		shown(i + 1)
		items.Add(1)
		if err := d.PollSoon(t.Context(), address); err != nil {
			t.Fatal(err)
		}
		shown(i + 2)
	}
	// On a slow machine another node may lead the feed meanwhile, and find an item that the first one has found.
	within(t, awaitTimeout, "news that the node that leads the feed has found, and the other one not", func() error {
		here := [2]int{}
		for i, d := range nodes {
			d.recorder.journal.EachNewItem(address, time.Time{}, func(n news.NewItem) {
				if n.Here {
					here[i]++
				}
			})
		}
		switch {
		case here[0]+here[1] < int(items.Load()):
			return fmt.Errorf("the nodes have found %v of %d items themselves", here, items.Load())
		case here[0] == here[1]:
			items.Add(1)
			return errors.Join(fmt.Errorf("each node has found %d items itself", here[0]), nodes[0].PollSoon(t.Context(), address))
		}
		return nil
	})
	within(t, awaitTimeout, "a poller that knows its turn", func() error {
		known := 0
		for _, d := range nodes {
			p, err := d.Pollers(t.Context(), address)
			if err != nil {
				return err
			}
			for _, m := range p.Pollers {
				if m.Role == proxy.RoleSelf && m.Next != nil && p.Interval > 0 {
					known++
				}
			}
		}
		if known == 0 {
			return errors.New("no node knows that it polls the feed")
		}
		return nil
	})
}

// A private feed is polled on request, but not within five minutes after its last poll.
func TestAPrivateFeedIsPolledOnRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newPrivateBench(t, t.TempDir())
		b.answers[privateURL] = rss("1", "one")
		f := b.mustSubscribe(privateURL)
		state := func() corona.State {
			b.mu.Lock()
			defer b.mu.Unlock()
			return f.State
		}
		polled := state().Polled
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); b.run(ctx, b.rules) }()
		time.Sleep(time.Minute)
		if err := b.pollSoon(f.Name); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := state().Next.Sub(polled); got != corona.HintGap {
			t.Errorf("the next poll is %v after the last one", got)
		}
		time.Sleep(corona.HintGap)
		synctest.Wait()
		if got := state().Polled.Sub(polled); got != corona.HintGap {
			t.Errorf("it was polled %v after the last poll", got)
		}
		if err := b.pollSoon("private:unknown"); !errors.Is(err, proxy.ErrNoSubscription) {
			t.Errorf("an unknown feed: %v", err)
		}
		stop()
		<-ended
	})
}
