// Package keywords measures cobra: how long it takes to match an article with
// very many subscriptions, and what these cost in memory.
//
//	Words        a vocabulary with frequencies: the paper's, or that of real articles
//	Postgres     a database that is asked for the same, as the peer
//	Match        subscriptions and articles of such words, through the whole of a filter
//
// Times are of one thread, by the wall: what else the machine does is in them.
// Articles that are matched are read before, into terms, unless the whole path
// is asked for, which begins with HTML.
//
// The package leaves flags and tables to the command.
package keywords
