// Package script defines what a test origin serves at a given time.
//
// A [Script] is a timeline of documents. A [Replay] serves the documents of a list, such as the
// successive snapshots of a real document. A [Lively] feed generates its documents from a seed, and
// knows which items are new. Both are pure functions of the time since the script began. The real test
// origin (internal/daemon/origin) and the simulated one can therefore play the same script, at any
// speed and repeatedly.
//
// The package does not know where snapshots come from, how a document is served, or how an origin
// fails.
package script
