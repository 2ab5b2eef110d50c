// Package keywords measures cobra: how long it takes to match an article with very many subscriptions, and
// how much memory these take.
//
//	Words        a vocabulary with frequencies: the paper's, or that of real articles
//	Postgres     a database that answers the same questions, for comparison
//	Match        subscriptions and articles of such words, in a complete filter
//
// Times are wall-clock times of one thread, so other work of the machine affects them. Articles are parsed
// into terms before the measurement, except for the whole path, which begins with HTML.
//
// Flags and tables belong to the command.
package keywords
