package index

import (
	"math"
	"unicode/utf8"

	"github.com/cespare/xxhash/v2"
)

// A Term is the number of a term that clauses contain. Numbers of terms that no clause contains
// any more are reused.
type Term uint32

// Terms holds the terms of an index by their keys, which are short strings without a meaning to
// the index.
//
// Terms also estimates the frequency of keys, registered or not, because a term gets its rank
// when it is registered. Keys share counters by their hash. A key that shares a counter seems
// more frequent than it is, which costs only time.
type Terms struct {
	numbers map[string]Term
	keys    []string // keys by term
	uses    []uint32 // by term: number of distinct clauses that contain it
	ranks   []uint8  // by term: rank of its frequency when it was registered
	free    []Term   // unused term numbers

	articles      float64 // counted articles, halved from time to time
	articleNumber uint32  // number of the present article
	cells         []cell
}

// A cell counts the articles that have one of its keys.
type cell struct{ count, lastArticle uint32 } // lastArticle: the last article that was counted

const (
	frequencyCells = 1 << 18 // 2 MiB; terms of subscriptions nearly always have a cell of their own
	// maxCountedArticles is the number of articles after which all counts are halved, so that
	// they follow changing frequencies.
	maxCountedArticles = 1 << 20
	// priorWeight is the weight of the frequency that is assumed for a new key, in articles.
	priorWeight = 8
)

func newTerms() Terms {
	return Terms{numbers: map[string]Term{}, cells: make([]cell, frequencyCells)}
}

// Find returns the term of a key, if it is registered.
func (t *Terms) Find(key []byte) (Term, bool) {
	n, ok := t.numbers[string(key)]
	return n, ok
}

// Lookup is Find for a string.
func (t *Terms) Lookup(key string) (Term, bool) {
	n, ok := t.numbers[key]
	return n, ok
}

// Register returns the term of a key. A term that no clause ever contains leaks one entry, so
// register only terms of a clause that is about to be added.
func (t *Terms) Register(key string) Term {
	if n, ok := t.numbers[key]; ok {
		return n
	}
	var n Term
	if last := len(t.free) - 1; last >= 0 {
		n, t.free = t.free[last], t.free[:last]
	} else {
		n = Term(len(t.keys))
		t.keys, t.uses, t.ranks = append(t.keys, ""), append(t.uses, 0), append(t.ranks, 0)
	}
	t.numbers[key], t.keys[n], t.ranks[n] = n, key, rankOf(t.Share(key))
	return n
}

// countUse adds by to the number of distinct clauses that contain a term.
func (t *Terms) countUse(n Term, by int) {
	t.uses[n] += uint32(by)
	if t.uses[n] == 0 {
		delete(t.numbers, t.keys[n])
		t.keys[n] = ""
		t.free = append(t.free, n)
	}
}

// CountArticle counts an article, CountKey a key of that article.
func (t *Terms) CountArticle() {
	t.articleNumber++
	if t.articles++; t.articles < maxCountedArticles {
		return
	}
	t.articles /= 2
	for i := range t.cells {
		t.cells[i].count /= 2
	}
}

// CountKey counts a key of the last counted article, at most once.
func (t *Terms) CountKey(key []byte) {
	c := &t.cells[xxhash.Sum64(key)%frequencyCells]
	if c.lastArticle != t.articleNumber {
		c.lastArticle = t.articleNumber
		c.count++
	}
}

// SeedKey counts a key as if it had been in that many of the articles.
func (t *Terms) SeedKey(key string, articles uint32) {
	t.cells[xxhash.Sum64String(key)%frequencyCells].count += articles
}

// SeedArticles counts articles whose keys are added by SeedKey only.
func (t *Terms) SeedArticles(n float64) { t.articles += n }

// Share returns the estimated share of articles that have a key, above 0 and at most 1. Without
// articles, the estimate assumes that short keys are frequent.
func (t *Terms) Share(key string) float64 {
	prior := priors[min(utf8.RuneCountInString(key), len(priors)-1)]
	count := float64(t.cells[xxhash.Sum64String(key)%frequencyCells].count)
	return min(1, (count+priorWeight*prior)/(t.articles+priorWeight))
}

// priors are the assumed shares of keys by their length.
var priors = func() (p [17]float64) {
	for i := range p {
		p[i] = math.Pow(0.45, float64(i))
	}
	return p
}()

// rankOf returns the rank of a share: twelve ranks for each factor of two, the rarest first.
func rankOf(share float64) uint8 {
	return uint8(max(0, min(255, 12*(21+math.Log2(share)))))
}

// compareRarity compares terms by rarity; the result does not change while both are registered.
// Within a rank, the term that was registered later counts as rarer, because frequent terms are
// registered soon.
func (t *Terms) compareRarity(a, b Term) int {
	if d := int(t.ranks[a]) - int(t.ranks[b]); d != 0 {
		return d
	}
	return int(int64(b) - int64(a))
}
