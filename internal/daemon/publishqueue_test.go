package daemon

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tidings/difference"
	"tidings/internal/feed"
)

// Requests for one feed get their turns in order of arrival. Requests for another feed do not wait for them.
func TestTurnsComeInOrderOfRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const url, other, writers = "http://a.example/", "http://b.example/", 50
		w := new(publishQueues)
		turn, err := w.begin(t.Context(), url, nil)
		if err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		var order []int
		var all sync.WaitGroup
		gone, leave := context.WithCancel(t.Context())
		for i := range writers {
			all.Go(func() {
				ctx := t.Context()
				if i%10 == 3 {
					ctx = gone
				}
				turn, err := w.begin(ctx, url, nil)
				if err != nil {
					if i%10 != 3 || !errors.Is(err, context.Canceled) {
						t.Errorf("writer %d: %v", i, err)
					}
					return
				}
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
				turn.end()
			})
			synctest.Wait() // until it waits for its turn
		}
		leave()
		synctest.Wait()
		elsewhere, err := w.begin(t.Context(), other, nil)
		if err != nil {
			t.Fatal(err)
		}
		elsewhere.end()
		if len(order) > 0 {
			t.Errorf("%v had a turn during that of another one", order)
		}
		turn.end()
		all.Wait()
		if !slices.IsSorted(order) || len(order) != writers-writers/10 {
			t.Errorf("the order of %d turns was %v", len(order), order)
		}
		if len(w.queues) > 0 {
			t.Errorf("%d feeds are busy", len(w.queues))
		}
	})
}

// A turn that is granted to a request which has just ended passes to the next one.
func TestTurnOfACancelledRequestPassesOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const url = "http://a.example/"
		w := new(publishQueues)
		for range 200 { // the order of the turn and the end is random
			turn, err := w.begin(t.Context(), url, nil)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			var all sync.WaitGroup
			all.Go(func() {
				if turn, err := w.begin(ctx, url, nil); err == nil {
					turn.end()
				} else if !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			})
			synctest.Wait()
			all.Go(cancel)
			all.Go(turn.end)
			all.Wait()
		}
		if len(w.queues) > 0 {
			t.Errorf("%d feeds are busy", len(w.queues))
		}
	})
}

// An item can follow one that is still on its way. At most maxInFlight items are on their way. If one of them
// is not accepted, the next item waits for all of them, and then follows the network's last item.
func TestNextItemFollowsItemsInFlight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const url = "http://a.example/"
		w := new(publishQueues)
		item := func(seq uint64) *difference.Publication {
			return &difference.Publication{Seq: seq, Hash: feed.Hash{byte(seq)}, Item: &feed.Item{}}
		}
		begin := func() *turn {
			t.Helper()
			turn, err := w.begin(t.Context(), url, nil)
			if err != nil {
				t.Fatal(err)
			}
			return turn
		}
		waits := func() <-chan *turn {
			c := make(chan *turn, 1)
			go func() {
				turn, err := w.begin(t.Context(), url, nil)
				if err != nil {
					t.Error(err)
				}
				c <- turn
			}()
			synctest.Wait()
			if len(c) > 0 {
				t.Error("it does not wait for its turn")
			}
			return c
		}

		first := begin()
		first.sent([]*difference.Publication{item(1)})
		second := waits() // the first item of a feed may be refused
		first.answered(item(1), true)
		first.end()
		turns := []*turn{<-second}
		for seq := uint64(2); ; seq++ {
			turn := turns[len(turns)-1]
			if on, head := turn.predecessor(0, feed.Hash{}); on != seq-1 || head != item(on).Hash {
				t.Errorf("number %d follows on number %d", seq, on)
			}
			turn.sent([]*difference.Publication{item(seq)})
			if len(turns) == maxInFlight {
				break
			}
			turns = append(turns, begin())
		}
		next := waits() // maxInFlight items are on their way
		turns[0].answered(item(2), false)
		for i, turn := range turns {
			turn.end()
			synctest.Wait()
			if i < len(turns)-1 && len(next) > 0 {
				t.Errorf("the next one has its turn when %d are on their way behind one that came to nothing", len(turns)-1-i)
			}
		}
		last := <-next
		if on, _ := last.predecessor(1, item(1).Hash); on != 1 {
			t.Errorf("it follows on number %d, which the network does not have", on)
		}
		last.end()
		if len(w.queues) > 0 {
			t.Errorf("%d feeds are remembered", len(w.queues))
		}
	})
}

// Large items take turns by their bytes. One that is larger than all that may be on its way has its turn when nothing else
// is.
func TestLargeItemsWaitForTheirTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const url = "http://a.example/"
		w := new(publishQueues)
		var granted []int // how many items the turns had
		var open []*turn
		sized := func(bytes int) {
			go func() {
				turn, err := w.begin(t.Context(), url, &draft{meaning: feed.Meaning{Content: string(make([]byte, bytes))}, answer: make(chan draftAnswer, 1)})
				if err != nil {
					t.Error(err)
				}
				if turn == nil {
					return
				}
				granted, open = append(granted, len(turn.drafts)), append(open, turn)
				var items []*difference.Publication
				for i, d := range turn.drafts {
					items = append(items, &difference.Publication{Seq: uint64(2 + i), Item: &feed.Item{}, Raw: make([]byte, len(d.meaning.Content))})
				}
				turn.sent(items)
			}()
			time.Sleep(gatherTime) // until it waits for no others
			synctest.Wait()
		}
		sized(0)
		sized(maxInFlightBytes / 2)
		sized(maxInFlightBytes) // waits, and so does what comes later
		for range 3 {
			sized(maxInFlightBytes / 4)
		}
		if !slices.Equal(granted, []int{1, 1}) {
			t.Errorf("the turns had %v items", granted)
		}
		for n := 0; n < len(open); n++ {
			open[n].end()
			synctest.Wait()
		}
		if !slices.Equal(granted, []int{1, 1, 1, 3}) {
			t.Errorf("the turns had %v items", granted)
		}
	})
}

// While items are on their way, others gather for the next turn, but not for long. After the answer the next turn waits for as many
// as the last one had, and for less time. A program that is alone never waits.
func TestItemsGatherWhileOthersAreOnTheirWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const url = "http://a.example/"
		w := new(publishQueues)
		seq := uint64(1)
		began := time.Now()
		var turns []*turn
		var at []time.Duration // when each of them began
		write := func() {
			go func() {
				d := &draft{answer: make(chan draftAnswer, 1)}
				turn, err := w.begin(t.Context(), url, d)
				if err != nil {
					t.Error(err)
				}
				if turn == nil {
					return
				}
				var items []*difference.Publication
				for range turn.drafts {
					seq++
					items = append(items, &difference.Publication{Seq: seq, Item: &feed.Item{}})
				}
				turns, at = append(turns, turn), append(at, time.Since(began))
				turn.sent(items)
			}()
			synctest.Wait()
		}
		answer := func(i int) {
			turns[i].end()
			synctest.Wait()
		}
		write() // at once
		for range 3 {
			write()
		}
		time.Sleep(gatherTime / 2)
		answer(0) // and the three that have gathered have their turn
		for range 2 {
			write()
		}
		time.Sleep(gatherTime) // which these two do not wait for any longer
		synctest.Wait()
		answer(1)
		answer(2)
		write() // waits for one more
		time.Sleep(gatherPause)
		synctest.Wait()
		answer(3)
		write() // at once again
		var sizes []int
		for _, turn := range turns {
			sizes = append(sizes, len(turn.drafts))
		}
		last := gatherTime/2 + gatherTime + gatherPause
		if !slices.Equal(sizes, []int{1, 3, 2, 1, 1}) || !slices.Equal(at, []time.Duration{0, gatherTime / 2, gatherTime * 3 / 2, last, last}) {
			t.Errorf("turns with %v items began after %v", sizes, at)
		}
	})
}

// Items that wait for a turn get it together, and their feed is locked once for all of them. The first item of a feed,
// which may be refused, has its turn alone, and so has a heartbeat. A request that goes away when its turn begins does not
// take the items of others with it.
func TestItemsThatWaitShareATurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const url = "http://a.example/"
		w := new(publishQueues)
		seq := uint64(0)
		var all sync.WaitGroup
		var sizes []int
		write := func(ctx context.Context) {
			all.Go(func() {
				d := &draft{answer: make(chan draftAnswer, 1)}
				turn, err := w.begin(ctx, url, d)
				if err != nil {
					t.Error(err)
				}
				if turn != nil {
					sizes = append(sizes, len(turn.drafts))
					var items []*difference.Publication
					for range turn.drafts {
						seq++
						items = append(items, &difference.Publication{Seq: seq, Item: &feed.Item{}})
					}
					turn.sent(items)
					for i, d := range turn.drafts {
						turn.answered(items[i], true)
						d.answer <- draftAnswer{}
					}
					turn.end()
				}
				<-d.answer
			})
			synctest.Wait()
		}
		hold, err := w.begin(t.Context(), url, nil)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			write(t.Context())
		}
		hold.end()
		all.Wait()
		if hold, err = w.begin(t.Context(), url, nil); err != nil {
			t.Fatal(err)
		}
		ctx, leave := context.WithCancel(t.Context())
		write(ctx)
		for range maxInFlight {
			write(t.Context())
		}
		all.Go(leave)
		hold.end()
		all.Wait()
		n := 0
		for _, size := range sizes {
			n += size
		}
		if sizes[0] != 1 || sizes[1] != 2 || n != 3+maxInFlight && n != 4+maxInFlight || slices.Max(sizes) > maxInFlight {
			t.Errorf("the turns had %v items", sizes)
		}
	})
}
