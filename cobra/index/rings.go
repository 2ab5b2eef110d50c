package index

import "slices"

// Rings remember of each node the articles that matched it last, by number.
// Numbers rise from 1; 0 is none.
type Rings struct {
	k      int
	chunks []ringChunk // growing copies nothing
	sorted []Node
}

// A ringChunk has the rings of chunkNodes nodes, and in each the place of the
// oldest article. The places are apart, and small enough to stay in a cache: an
// article is then put where nothing has to be read before.
type ringChunk struct {
	articles []uint32
	oldest   []uint8
}

const chunkNodes = 1 << 16

// NewRings returns rings of k articles each.
func NewRings(k int) *Rings { return &Rings{k: k} }

// Grow makes room for nodes up to a number.
func (r *Rings) Grow(limit int) {
	for len(r.chunks)*chunkNodes < limit {
		r.chunks = append(r.chunks, ringChunk{make([]uint32, chunkNodes*r.k), make([]uint8, chunkNodes)})
	}
}

// Put puts an article into the rings of nodes, each once in nodes.
func (r *Rings) Put(article uint32, nodes []Node) {
	if len(nodes) > many*len(r.chunks) {
		nodes = r.together(nodes)
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

// many is from how many nodes of a chunk on it pays to put them together: memory
// is then written page by page.
const many = 32

// together returns nodes ordered by chunk.
func (r *Rings) together(nodes []Node) []Node {
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

// Last returns the newest article of a node's ring, 0 if there is none.
func (r *Rings) Last(n Node) uint32 {
	c := &r.chunks[n/chunkNodes]
	at := int(c.oldest[n%chunkNodes]) - 1
	if at < 0 {
		at = r.k - 1
	}
	return c.articles[int(n%chunkNodes)*r.k+at]
}

// Has says whether a node's ring has an article.
func (r *Rings) Has(n Node, article uint32) bool {
	c := &r.chunks[n/chunkNodes]
	return slices.Contains(c.articles[int(n%chunkNodes)*r.k:][:r.k], article)
}

// Clear empties a node's ring.
func (r *Rings) Clear(n Node) {
	c := &r.chunks[n/chunkNodes]
	clear(c.articles[int(n%chunkNodes)*r.k:][:r.k])
	c.oldest[n%chunkNodes] = 0
}
