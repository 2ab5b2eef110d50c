package daemon

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tidings/internal/env"
	"tidings/internal/feed"
	"tidings/internal/news"
	"tidings/proxy"
)

// Feeds that are read while a group is being recorded form the next group.
func TestWhatIsThereIsRecordedTogether(t *testing.T) {
	for most, want := range map[int][]int{recordsAtOnce: {1, 9}, 4: {1, 4, 4, 1}} {
		synctest.Test(t, func(t *testing.T) {
			read := make(chan int)
			var reading sync.WaitGroup
			send := func(from, to int) {
				for i := from; i < to; i++ {
					reading.Go(func() { read <- i })
				}
				synctest.Wait()
			}
			send(0, 1)
			var sizes []int
			got := map[int]bool{}
			inGroups(read, most, func(group []int) {
				if len(sizes) == 0 {
					send(1, 10)
					go func() { reading.Wait(); close(read) }()
				}
				sizes = append(sizes, len(group))
				for _, i := range group {
					got[i] = true
				}
			})
			if !slices.Equal(sizes, want) || len(got) != 10 {
				t.Errorf("at most %d: groups of %v, %d in all", most, sizes, len(got))
			}
		})
	}
}

// A node that has much to record does so a fifth of the time, but people wait no longer than a second.
func TestThePauseFollowsTheRecord(t *testing.T) {
	for took, want := range map[time.Duration]time.Duration{
		0: recordPause, 12 * time.Millisecond: recordPause, 100 * time.Millisecond: 400 * time.Millisecond, 3 * time.Second: maxRecordPause,
	} {
		if got := pauseAfter(took); got != want {
			t.Errorf("after %v: %v, not %v", took, got, want)
		}
	}
}

// A flakyStore fails at some of its commits, by their numbers from 1 on.
type flakyStore struct {
	env.Store
	fails   []int
	commits int
}

func (s *flakyStore) Commit(ops []env.Op, done func(error)) {
	if s.commits++; slices.Contains(s.fails, s.commits) {
		done(errors.New("out of order"))
		return
	}
	s.Store.Commit(ops, done)
}

// A feed that cannot be recorded is recorded later, and keeps none that is recorded with it from being told.
func TestAFeedThatCannotBeRecordedKeepsNoOtherFromIt(t *testing.T) {
	_, disk, err := openNews(filepath.Join(t.TempDir(), "news.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer disk.Close() //nolint:errcheck // the test is over
	flaky := &flakyStore{Store: disk}
	journal, err := news.Open(flaky, time.Now, proxy.Sanitise)
	if err != nil {
		t.Fatal(err)
	}
	r := &recorder{journal: journal, wake: make(chan struct{}, 1), hurry: make(chan struct{}, 1), whole: map[string]wholeRecord{}, log: slog.New(slog.DiscardHandler)}
	const feeds = 5
	read := func(items ...int) (group []feedReading) {
		for i := range feeds {
			doc := &feed.Document{}
			for _, n := range items {
				it, err := feed.ReadItem(feed.RSS, fmt.Appendf(nil, "<item><guid>%d</guid><title>Pier</title></item>", n), nil, 0)
				if err != nil {
					t.Fatal(err)
				}
				doc.Entries = append(doc.Entries, feed.Entry{Item: it, Arrived: time.Now()})
			}
			group = append(group, feedReading{url: fmt.Sprintf("https://%d.example/", i), marked: &markedFeed{all: true}, doc: news.Document{Document: doc, Complete: true}})
		}
		return group
	}
	if !r.recordGroup(t.Context(), read(1)) {
		t.Fatal("the feeds cannot be recorded")
	}
	flaky.commits, flaky.fails = 0, []int{1, 3} // that of all, and that of the second one by itself
	if r.recordGroup(t.Context(), read(2, 1)) {
		t.Error("a record that failed is not told")
	}
	marked, _ := r.take()
	if len(marked) != 1 || marked["https://1.example/"] == nil || journal.Last() != feeds-1 {
		t.Errorf("%d events; marked again: %v", journal.Last(), marked)
	}
	if !r.recordGroup(t.Context(), read(2, 1)) || journal.Last() != feeds {
		t.Errorf("%d events after the next record", journal.Last())
	}
}
