package sim

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"tidings/internal/env"
)

// witnessedPage returns a world whose first members, so many, follow a page. It changes six times in the second hour, when its
// clock and its counter are known to be volatile; if still is set, it has none.
func witnessedPage(seed uint64, readers int, still bool) (*Swarm, *Feed) {
	page := newsPage{still: still}
	for i := range 6 {
		page.times = append(page.times, time.Hour+time.Duration(i)*9*time.Minute)
	}
	return followers(Config{Seed: seed}, readers, page)
}

// Most owners of a page see each of its changes themselves, although a clock and a counter show each of them another text. They
// fetch each version of a page without a clock once.
func TestChangesOfPagesAreWitnessed(t *testing.T) {
	t.Parallel()
	for i, readers := range []int{1, 3, 12, 1, 3, 12} {
		still := i >= 3
		s, f := witnessedPage(uint64(readers), readers, still)
		s.World.Run(2 * time.Hour)
		t.Logf("%d readers, still %v: %d polls, %d full", readers, still, f.Polls, f.Full)
		if still && f.Full > 7*5 { // seven versions, five owners
			t.Errorf("%d readers: the page is fetched in full %d times", readers, f.Full)
		}
		reader := s.Peers()[0]
		vouched, single := 0, 0
		for raw, of := range reader.provenances(pageChannel) {
			if !strings.Contains(raw, "and more") {
				continue // the clock, before it was known to be volatile
			}
			if strings.HasPrefix(of, "witnessed ") {
				vouched++
			} else {
				single++
				t.Logf("%d readers: %s: %s", readers, of, raw)
			}
		}
		if vouched < 6 || single > 0 {
			t.Errorf("%d readers: %d changes are witnessed, %d are not", readers, vouched, single)
		}
		report(t, s)
	}
}

// A change that only one node has found stays single, whichever node that is.
func TestAForgedChangeOfAPageIsNotWitnessed(t *testing.T) {
	t.Parallel()
	for liar := range 3 {
		s, _ := witnessedPage(1, 12, false)
		s.World.Run(65 * time.Minute)
		near := nearestPeers(s, pageChannel)
		near[liar].FilterAnswer = func(_ env.Request, a env.Answer) env.Answer {
			a.Body = bytes.Replace(a.Body, []byte("<h1>News</h1>"), []byte("<h1>News</h1><p>The page says something forged in this sentence.</p>"), 1)
			return a
		}
		s.World.Run(time.Hour)
		forged := map[string]int{}
		for _, p := range s.Peers()[:12] {
			if p == near[liar] {
				continue
			}
			for raw, of := range p.provenances(pageChannel) {
				if strings.Contains(raw, "The page says something forged") { // also as a line that is gone
					forged[of]++
				}
			}
		}
		if len(forged) == 0 && liar == 0 {
			t.Error("nobody was shown the forged change, so nothing is tested")
		}
		for of, n := range forged {
			if of != "single" {
				t.Errorf("liar %d: the forged change is %s at %d readers", liar, of, n)
			}
		}
	}
}
