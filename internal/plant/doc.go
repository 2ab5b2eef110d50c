// Package plant names bugs that can be planted into the protocols, so that the
// simulator's checkers can be seen to catch them.
//
//	DoubleRoot   overlay: a member acts as root of keys that others are nearer to
//	NoReceipt    overlay: the root of some keys acknowledges nothing
//	LateReceipt  overlay: the root of some keys acknowledges only what comes a fourth time
//	Undead       overlay: who died stays in the leaf
//	StaleCount   overlay: counts once learned are never corrected
//	Hoard        overlay: messages that passed are never forgotten
//	Cycle        scribe: a node hands a child on to one that hangs below it
//	LostChild    scribe: a parent forgets a child and goes on acknowledging it
//	Duplicate    scribe: a subscriber delivers what it had already
//	SilentDrop   scribe: a parent passes over a child now and then
//	StaleWeight  scribe: a parent is not told that there are more clients, or fewer
//	LostRank     wedge: a member does not serve the ranks that it was given, for some keys
//	CountedTwice sums: the value of a member of the leaf is added twice
//	MissedTurn   corona: one poller of four polls at every other turn only
//	VoteTwice    owner: an owner promises and signs epochs of one number to several,
//	             and all try to lead at one time
//	HeldEarly    owner: an entry is handed up before a quorum holds it
//	TwoPollers   owner: who was sequencer goes on acting as one
//	Clinging     owner: who is no owner any more does not take note of that
//	StepBack     owner: a follower loses its last entry when the epoch changes
//	ShowAgain    feedtree: readers are shown again what they were shown
//	BlindToGaps  feedtree: a subscriber does not look for what is missing
//	ShortMemory  feedtree: a window forgets all that the last entry did not bring
//	EarlyYes     feedtree: a subscription is acknowledged before it is durable
//	DeafToDisk   sim: a node acts as if what its disk refused were durable
//
// In a build without the tag "planted" each is the constant false. With
// it, a test sets one of them: make planted.
package plant
