// Package index finds which of very many conjunctions of terms an article
// matches, and remembers for each which articles matched it last: the heart of
// Cobra's filter and reflector (NSDI'07, sections 3.2 and 3.3).
//
//	Terms    what subscriptions look for: a number for each, and how often articles have it
//	Index    clauses: conjunctions of terms, with programs where terms are not all
//	Article  the terms of one article, as Index.Match wants them
//	Rings    the last k articles of each clause
//
// # Interning
//
// Readers ask for the same things. Equal clauses are one node, with one row in
// the index and one ring, however many subscriptions contain them; that is
// exact, since a feed depends on its expression alone. With the paper's
// workload an article of 61 words matches 193,000 of 40 million subscriptions,
// but 623 nodes.
//
// # Access
//
// A clause lies in the bucket of its rarest term, so that an article looks only
// at the buckets of its own terms (the access predicates of Fabret et al.,
// SIGMOD 2001, whom the paper follows). Within a bucket, the clauses with as
// many terms lie together in a segment: a table of their other terms, column
// by column, sorted by row, the rarest column first. Matching runs down the
// first column, which nearly always fails; the search for equal rows is the
// interning, and needs no hash table.
//
// Which of two terms is the rarer is asked when the later of them is
// registered, and not again: a clause has one place for all of its life.
// Wrong frequencies cost time and nothing else.
//
// # Programs
//
// What a conjunction cannot say (NOT, phrases, expressions with too many
// clauses) is a program, run for rows whose terms are all there. It is the
// last column of its row and thereby a part of what is interned.
//
// No type here may be used by two goroutines at once. The package leaves to
// others what words are (cobra/words), what queries mean (cobra/query), who
// subscribed, and what the articles say (cobra).
package index
