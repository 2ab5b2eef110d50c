package keywords

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"tidings/cobra"
)

// TestTheWorkloadIsThePapers: subscriptions have three words in the median and at most eight;
// articles have 61 words in the median and 637 at the 90th percentile (section 4).
func TestTheWorkloadIsThePapers(t *testing.T) {
	w := PaperWords()
	r := rand.New(rand.NewPCG(1, 1))
	lengths := map[int]int{}
	total := 0
	for range 20000 {
		words := w.Subscription(r, nil)
		lengths[len(words)]++
		total += len(words)
		for _, word := range words {
			if word <= Excluded || word > Vocabulary {
				t.Fatalf("a subscription has the word of rank %d", word)
			}
		}
	}
	short := lengths[1] + lengths[2]
	if short > 10000 || short+lengths[3] < 10000 || lengths[MaxLength] == 0 || lengths[MaxLength+1] > 0 {
		t.Errorf("lengths of subscriptions: %v", lengths)
	}
	if mean := float64(total) / 20000; math.Abs(mean-2.80) > 0.05 {
		t.Errorf("a subscription has %.2f words", mean)
	}
	var below, above int
	for range 20000 {
		n := len(w.Article(r, Mix, nil))
		if n <= MedianWords {
			below++
		}
		if n > ManyWords {
			above++
		}
	}
	if math.Abs(float64(below)/20000-0.5) > 0.03 || math.Abs(float64(above)/20000-0.1) > 0.02 {
		t.Errorf("of 20,000 articles %d have the median's words or fewer, and %d more than the 90th percentile's", below, above)
	}
	names := map[string]bool{}
	for _, name := range w.names[1:] {
		if names[name] {
			t.Fatalf("two words are spelled %s", name)
		}
		names[name] = true
	}
}

// TestMatchCountsWhatItHits: with a proportional number of subscriptions, half a per cent of them
// match an article of 61 words.
func TestMatchCountsWhatItHits(t *testing.T) {
	var runs []MatchRun
	change, err := Match(t.Context(), MatchConfig{Resident: untold, CPUTime: untimed, Subscriptions: 20000, Lengths: []int{MedianWords, Mix}}, func(float64) {}, func(r MatchRun) { runs = append(runs, r) })
	if err != nil {
		t.Fatal(err)
	}
	if len(runs) != 3 || runs[2].Path != "html" {
		t.Fatalf("%+v", runs)
	}
	if m := runs[0].Matches / 20000; m < 0.0040 || m > 0.0056 {
		t.Errorf("%.2f %% of subscriptions match, not 0.48 %%", 100*m)
	}
	if runs[1].Hits != runs[2].Hits {
		t.Errorf("articles hit %g nodes by terms, and %g from HTML", runs[1].Hits, runs[2].Hits)
	}
	if runs[0].P50 <= 0 || runs[0].P90 < runs[0].P50 || change.AddP50 <= 0 {
		t.Errorf("%+v %+v", runs[0], change)
	}
	separate, hits := runs[0], 0.0
	if _, err := Match(t.Context(), MatchConfig{Resident: untold, CPUTime: untimed, Subscriptions: 20000, Lengths: []int{MedianWords}, Distinct: true}, func(float64) {}, func(r MatchRun) { hits = r.Hits }); err != nil {
		t.Fatal(err)
	}
	if math.Abs(hits-separate.Matches) > 1e-6 {
		t.Errorf("apart, %g nodes are hit, of %g subscriptions that match", hits, separate.Matches)
	}
}

// TestRealArticlesAreMatched: the subscriptions consist of the articles' words.
func TestRealArticlesAreMatched(t *testing.T) {
	articles := []cobra.Article{{HTML: "<p>" + wordsInRow(200) + "</p>"}, {HTML: "<p>" + wordsInRow(100) + "</p>"}}
	var runs []MatchRun
	if _, err := Match(t.Context(), MatchConfig{Resident: untold, CPUTime: untimed, Subscriptions: 1000, Lengths: []int{Mix}, Real: articles}, func(float64) {}, func(r MatchRun) { runs = append(runs, r) }); err != nil {
		t.Fatal(err)
	}
	if len(runs) != 2 || runs[0].Matches < 500 {
		t.Errorf("%+v", runs)
	}
}

func wordsInRow(n int) string {
	w := PaperWords()
	words := make([]uint32, n)
	for i := range words {
		words[i] = uint32(i + 1)
	}
	return string(w.Text(nil, words))
}

// TestAReflectorIsFoundAgain: after a restart on a real disk, every feed is as it was.
func TestAReflectorIsFoundAgain(t *testing.T) {
	run, err := Reflect(t.Context(), ReflectConfig{Resident: untold, Mapped: untold, CPUTime: untimed, Subscriptions: 2000, Articles: 100, Words: MedianWords, Dir: t.TempDir()}, func(float64) {})
	if err != nil {
		t.Fatal(err)
	}
	if !run.Same || run.Live == 0 || run.Live > 100 || run.Disk == 0 {
		t.Errorf("%+v", run)
	}
	if n := len(run.Growth); n <= memoryPoints || run.Growth[0].Articles != 0 || run.Growth[n-1].Articles != 100 {
		t.Errorf("memory after some articles: %+v", run.Growth)
	}
}

func untold() int { return 0 }

func untimed() time.Duration { return 0 }
