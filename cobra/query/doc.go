// Package query is the language of keyword subscriptions.
//
//	solar battery                 both words (as does solar AND battery)
//	solar OR wind                 one of them
//	solar NOT advert, -advert     without the other
//	(solar OR wind) storage       AND binds closer than OR, NOT closest
//	"heat pump"                   words one behind the other
//	photo*, "heat pum*"           words that begin so, with three letters at least
//	~running                      words of the same stem: run, runs, running
//	title:solar, title:(a OR b)   in the title; author: and tag: likewise
//	feed:https://example.org/f    only articles of a feed,
//	site:example.org              of feeds of a site and below it,
//	lang:en                       in a language
//
// AND, OR and NOT are written in capitals; and, or and not are words. Words
// without a field are looked for in titles, texts and tags. How words are cut
// and folded says package words: case and width do not count, diacritics only
// if the query has them. Stems are those of the language that the query asks
// for, or else of English.
//
//	Parse    text          an Expr, or an Error that says where and what
//	String   an Expr       its text; Parse(e.String()) is e again
//	Clauses  an Expr       conjunctions of keys, and checks beyond them, for an index
//
// Bounds: a query has MaxText bytes, MaxTerms words and MaxDepth parentheses
// within each other, and MaxClauses conjunctions when it is taken apart.
//
// The package leaves to others which articles match (cobra/index), and what
// articles have at which key (cobra).
package query
