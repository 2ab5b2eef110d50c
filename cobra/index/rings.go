package index

import "slices"

// Rings hold the last k articles of each node, by number. Numbers ascend from 1; 0 means none.
type Rings struct {
	k      int
	chunks []ringChunk // in chunks, so that growing copies nothing
	sorted []Node      // buffer for sortByChunk
}

// A ringChunk holds the rings of chunkNodes nodes, and the position of the oldest article in
// each. The positions are in a slice of their own, which is small enough for a cache, so that
// adding an article reads no other memory.
type ringChunk struct {
	articles []uint32
	oldest   []uint8
}

const chunkNodes = 1 << 16

// NewRings returns rings of k articles each.
func NewRings(k int) *Rings { return &Rings{k: k} }

// Grow makes room for the nodes below limit.
func (r *Rings) Grow(limit int) {
	for len(r.chunks)*chunkNodes < limit {
		r.chunks = append(r.chunks, ringChunk{make([]uint32, chunkNodes*r.k), make([]uint8, chunkNodes)})
	}
}

// Put adds an article to the rings of nodes, which must have no duplicates.
func (r *Rings) Put(article uint32, nodes []Node) {
	if len(nodes) > minSorted*len(r.chunks) {
		nodes = r.sortByChunk(nodes)
	}
	k, chunks := r.k, r.chunks
	for _, n := range nodes {
		c := &chunks[n/chunkNodes]
		at := c.oldest[n%chunkNodes]
		c.articles[int(n%chunkNodes)*k+int(at)] = article
		if at++; int(at) == k {
			at = 0
		}
		c.oldest[n%chunkNodes] = at
	}
}

// minSorted is the number of nodes per chunk from which on sorting them by chunk pays, because
// memory is then written page by page.
const minSorted = 32

// sortByChunk returns the nodes sorted by chunk.
func (r *Rings) sortByChunk(nodes []Node) []Node {
	starts := make([]uint32, len(r.chunks)+1)
	for _, n := range nodes {
		starts[n/chunkNodes+1]++
	}
	for i := range r.chunks {
		starts[i+1] += starts[i]
	}
	if cap(r.sorted) < len(nodes) {
		r.sorted = make([]Node, len(nodes))
	}
	sorted := r.sorted[:len(nodes)]
	for _, n := range nodes {
		at := &starts[n/chunkNodes]
		sorted[*at] = n
		*at++
	}
	return sorted
}

// Newest appends the articles of a node's ring, the newest first.
func (r *Rings) Newest(n Node, articles []uint32) []uint32 {
	c := &r.chunks[n/chunkNodes]
	ring := c.articles[int(n%chunkNodes)*r.k:][:r.k]
	for i := range ring {
		article := ring[(int(c.oldest[n%chunkNodes])+2*r.k-1-i)%r.k]
		if article == 0 {
			break
		}
		articles = append(articles, article)
	}
	return articles
}

// Last returns the newest article of a node's ring, or 0.
func (r *Rings) Last(n Node) uint32 {
	c := &r.chunks[n/chunkNodes]
	at := int(c.oldest[n%chunkNodes]) - 1
	if at < 0 {
		at = r.k - 1
	}
	return c.articles[int(n%chunkNodes)*r.k+at]
}

// Contains reports whether a node's ring contains an article.
func (r *Rings) Contains(n Node, article uint32) bool {
	c := &r.chunks[n/chunkNodes]
	return slices.Contains(c.articles[int(n%chunkNodes)*r.k:][:r.k], article)
}

// Clear empties a node's ring.
func (r *Rings) Clear(n Node) {
	c := &r.chunks[n/chunkNodes]
	clear(c.articles[int(n%chunkNodes)*r.k:][:r.k])
	c.oldest[n%chunkNodes] = 0
}
