package index

import "slices"

// Rings hold the last k articles of each clause, by number. Numbers ascend from 1; 0 means none.
type Rings struct {
	k      int
	chunks []ringChunk // in chunks, so that growing copies nothing
	sorted []ClauseID  // buffer for sortByChunk
}

// A ringChunk holds the rings of chunkRings clauses, and the position of the oldest article in
// each. The positions are in a slice of their own, which is small enough for a cache, so that
// adding an article reads no other memory.
type ringChunk struct {
	articles []uint32
	oldest   []uint8
}

const chunkRings = 1 << 16

// NewRings returns rings of k articles each.
func NewRings(k int) *Rings { return &Rings{k: k} }

// Grow makes room for the clauses below limit.
func (r *Rings) Grow(limit int) {
	for len(r.chunks)*chunkRings < limit {
		r.chunks = append(r.chunks, ringChunk{make([]uint32, chunkRings*r.k), make([]uint8, chunkRings)})
	}
}

// Put adds an article to the rings of clauses, which must have no duplicates.
func (r *Rings) Put(article uint32, ids []ClauseID) {
	if len(ids) > minSorted*len(r.chunks) {
		ids = r.sortByChunk(ids)
	}
	k, chunks := r.k, r.chunks
	for _, n := range ids {
		c := &chunks[n/chunkRings]
		at := c.oldest[n%chunkRings]
		c.articles[int(n%chunkRings)*k+int(at)] = article
		if at++; int(at) == k {
			at = 0
		}
		c.oldest[n%chunkRings] = at
	}
}

// minSorted is the number of clauses per chunk from which on sorting them by chunk pays, because
// memory is then written page by page.
const minSorted = 32

// sortByChunk returns the clauses sorted by chunk.
func (r *Rings) sortByChunk(ids []ClauseID) []ClauseID {
	starts := make([]uint32, len(r.chunks)+1)
	for _, n := range ids {
		starts[n/chunkRings+1]++
	}
	for i := range r.chunks {
		starts[i+1] += starts[i]
	}
	if cap(r.sorted) < len(ids) {
		r.sorted = make([]ClauseID, len(ids))
	}
	sorted := r.sorted[:len(ids)]
	for _, n := range ids {
		at := &starts[n/chunkRings]
		sorted[*at] = n
		*at++
	}
	return sorted
}

// Newest appends the articles of a clause's ring, the newest first.
func (r *Rings) Newest(n ClauseID, articles []uint32) []uint32 {
	c := &r.chunks[n/chunkRings]
	ring := c.articles[int(n%chunkRings)*r.k:][:r.k]
	for i := range ring {
		article := ring[(int(c.oldest[n%chunkRings])+2*r.k-1-i)%r.k]
		if article == 0 {
			break
		}
		articles = append(articles, article)
	}
	return articles
}

// Last returns the newest article of a clause's ring, or 0.
func (r *Rings) Last(n ClauseID) uint32 {
	c := &r.chunks[n/chunkRings]
	at := int(c.oldest[n%chunkRings]) - 1
	if at < 0 {
		at = r.k - 1
	}
	return c.articles[int(n%chunkRings)*r.k+at]
}

// Contains reports whether a clause's ring contains an article.
func (r *Rings) Contains(n ClauseID, article uint32) bool {
	c := &r.chunks[n/chunkRings]
	return slices.Contains(c.articles[int(n%chunkRings)*r.k:][:r.k], article)
}

// Clear empties a clause's ring.
func (r *Rings) Clear(n ClauseID) {
	c := &r.chunks[n/chunkRings]
	clear(c.articles[int(n%chunkRings)*r.k:][:r.k])
	c.oldest[n%chunkRings] = 0
}
