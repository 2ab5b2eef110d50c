package index

import (
	"math"
	"unicode/utf8"

	"github.com/cespare/xxhash/v2"
)

// A Term is the number of something that clauses look for. Numbers of terms
// that no clause has any more are given again.
type Term uint32

// Terms are all that the clauses of an index look for, by their keys: short
// strings to which the index attaches no meaning.
//
// They also count how often articles have what keys stand for, registered or
// not, since a term has its frequency when it is registered or never: in cells
// that keys share by their hash. A key that shares a cell seems more frequent
// than it is, which costs time only.
type Terms struct {
	numbers map[string]Term
	keys    []string // by number
	uses    []uint32 // nodes that have the term
	rank    []uint8  // of its frequency when it was registered
	free    []Term

	articles float64
	seen     uint32
	cells    []cell
}

// A cell counts the articles that have one of its keys.
type cell struct{ count, last uint32 } // last: which article was counted last

const (
	frequencyCells = 1 << 18 // 2 MiB; what subscriptions look for is in cells of its own, nearly always
	// maxArticles is after how many articles all counts are halved, so that they
	// follow the times.
	maxArticles = 1 << 20
	// guess is how many articles the guess about a new key is worth.
	guess = 8
)

func newTerms() Terms {
	return Terms{numbers: map[string]Term{}, cells: make([]cell, frequencyCells)}
}

// Find returns a key's term, if it is registered.
func (t *Terms) Find(key []byte) (Term, bool) {
	n, ok := t.numbers[string(key)]
	return n, ok
}

// Lookup is Find of a string.
func (t *Terms) Lookup(key string) (Term, bool) {
	n, ok := t.numbers[key]
	return n, ok
}

// Register returns a key's term. A term that no clause comes to have is a leak
// of one entry: register the terms of a clause that is about to be added.
func (t *Terms) Register(key string) Term {
	if n, ok := t.numbers[key]; ok {
		return n
	}
	var n Term
	if last := len(t.free) - 1; last >= 0 {
		n, t.free = t.free[last], t.free[:last]
	} else {
		n = Term(len(t.keys))
		t.keys, t.uses, t.rank = append(t.keys, ""), append(t.uses, 0), append(t.rank, 0)
	}
	t.numbers[key], t.keys[n], t.rank[n] = n, key, rankOf(t.Share(key))
	return n
}

// use counts a node more, or less, that has the term.
func (t *Terms) use(n Term, by int) {
	t.uses[n] += uint32(by)
	if t.uses[n] == 0 {
		delete(t.numbers, t.keys[n])
		t.keys[n] = ""
		t.free = append(t.free, n)
	}
}

// Seen counts an article; Has counts its keys.
func (t *Terms) Seen() {
	t.seen++
	if t.articles++; t.articles < maxArticles {
		return
	}
	t.articles /= 2
	for i := range t.cells {
		t.cells[i].count /= 2
	}
}

// Has counts a key of the article that was Seen last, once.
func (t *Terms) Has(key []byte) {
	c := &t.cells[xxhash.Sum64(key)%frequencyCells]
	if c.last != t.seen {
		c.last = t.seen
		c.count++
	}
}

// Seed counts a key as if it had been in so many of as many articles as were Seen.
func (t *Terms) Seed(key string, articles uint32) {
	t.cells[xxhash.Sum64String(key)%frequencyCells].count += articles
}

// SeedArticles counts articles of which nothing is known but what Seed says.
func (t *Terms) SeedArticles(n float64) { t.articles += n }

// Share is the share of articles, more than 0 and at most 1, that have a key,
// as far as is known. Before articles were seen, short keys are taken for
// frequent ones.
func (t *Terms) Share(key string) float64 {
	prior := priors[min(utf8.RuneCountInString(key), len(priors)-1)]
	count := float64(t.cells[xxhash.Sum64String(key)%frequencyCells].count)
	return min(1, (count+guess*prior)/(t.articles+guess))
}

// priors are the shares that keys are taken to have by their length.
var priors = func() (p [17]float64) {
	for i := range p {
		p[i] = math.Pow(0.45, float64(i))
	}
	return p
}()

// rankOf orders shares: twelve ranks for a factor of two, the rarest first.
func rankOf(share float64) uint8 {
	return uint8(max(0, min(255, 12*(21+math.Log2(share)))))
}

// rarer orders terms, and stays as it is for as long as both are registered.
// Of terms of one rank the later is taken for the rarer: what is frequent was
// soon registered.
func (t *Terms) rarer(a, b Term) int {
	if d := int(t.rank[a]) - int(t.rank[b]); d != 0 {
		return d
	}
	return int(int64(b) - int64(a))
}
