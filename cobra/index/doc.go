// Package index finds which of very many conjunctions of terms an article matches, and keeps for
// each the articles that matched it last. It is the core of Cobra's filter and reflector
// (NSDI'07, sections 3.2 and 3.3).
//
//	Terms    the numbers of terms that clauses contain, and frequencies of terms
//	Index    clauses: conjunctions of terms, with programs for other conditions
//	Article  the terms of one article, as input of Index.Match
//	Rings    the last k articles of each clause
//
// # Interning
//
// Many readers search for the same things. Equal clauses have one id, one row in the index
// and one ring, however many subscriptions contain them. This loses nothing, since a feed depends
// only on its query. With the paper's workload an article of 61 words matches 193,000 of 40
// million subscriptions, but only 623 distinct clauses.
//
// # Access
//
// A clause is stored in the bucket of its rarest term, so matching an article reads only the
// buckets of the article's terms (the access predicates of Fabret et al., SIGMOD 2001, which the
// paper follows). Within a bucket, clauses with the same number of terms form a segment: a table
// of their other terms, stored by column, sorted by row, with the rarest term in the first
// column. Matching scans the first column, where nearly all rows fail. Searching the sorted rows
// for an equal one is the interning, so no hash table is needed.
//
// The relative rarity of two terms is decided when the later one is registered and never changes,
// so that a clause has one place for its whole life. Wrong frequencies only cost time.
//
// # Programs
//
// Conditions that a conjunction cannot express (NOT, phrases, expressions with too many clauses)
// are compiled to a program, which runs for rows whose terms are all present. The program is the
// last column of its row, and thereby part of the interned clause.
//
// No type is safe for concurrent use. The package leaves to others how text becomes words
// (cobra/words), what queries mean (cobra/query), and subscriptions and articles (cobra).
package index
