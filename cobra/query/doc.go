// Package query implements the language of keyword subscriptions.
//
//	solar battery                 both words (same as solar AND battery)
//	solar OR wind                 at least one of them
//	solar NOT advert, -advert     without the second word
//	(solar OR wind) storage       NOT binds tightest, then AND, then OR
//	"heat pump"                   a phrase: consecutive words
//	photo*, "heat pum*"           words with a prefix of at least three letters
//	~running                      words with the same stem: run, runs, running
//	title:solar, title:(a OR b)   in the title; likewise author: and tag:
//	feed:https://example.org/f    only articles of a feed,
//	site:example.org              of the feeds of a site and its subdomains,
//	lang:en                       in a language
//
// The operators AND, OR and NOT are in capitals; and, or and not are words. A word without a
// field is searched in titles, texts and tags. Package words defines how text is split and
// folded: case and width do not matter, and diacritics matter only if the query has them. Stems
// are those of the language that the query requires, or of English.
//
//	Parse    text          an Expr, or an Error with position, problem and hint
//	String   an Expr       its text; Parse(e.String()) equals e
//	Clauses  an Expr       conjunctions of keys with additional checks, for an index
//
// A query has at most MaxText bytes, MaxTerms words and MaxDepth levels of parentheses, and is
// expanded into at most MaxClauses conjunctions.
//
// The package leaves to others which articles match (cobra/index), and which keys an article has
// (cobra).
package query
