// Package script says what an origin serves at a given time.
//
// A [Script] is a timeline of documents. A [Replay] has one from a list, such as
// the successive snapshots of a real document; a [Lively] feed writes its own,
// from a seed, and knows what is new in it. Both are pure functions of the time
// since the script began: the real origin (internal/daemon/origin) and the
// simulated one play the same script, at any speed, and as often as they like.
//
// The package leaves to others where snapshots come from, how a document is
// served, and how an origin misbehaves.
package script
