// Package plant names bugs that can be planted into the protocols. Tests use them to show that the
// simulator's checkers catch such bugs.
//
//	DoubleRoot       overlay: a member acts as root of keys to which others are nearer
//	NoAck            overlay: the root of some keys acknowledges nothing
//	LateAck          overlay: the root of some keys acknowledges only the fifth copy of a message
//	KeepDead         overlay: dead members stay in the leaf
//	StaleCount       overlay: counts are never corrected
//	KeepMessages     overlay: forwarded messages are never forgotten
//	Cycle            scribe: a node hands a child on to one of its descendants
//	LostChild        scribe: a parent forgets a child and still acknowledges its heartbeats
//	Duplicate        scribe: a subscriber delivers a message twice
//	SilentDrop       scribe: a parent sometimes skips a child
//	StaleWeight      scribe: a parent is not told that the number of clients has changed
//	LostRank         wedge: a member does not serve the ranks that it was given, for some keys
//	CountedTwice     sums: the value of a member of the leaf is added twice
//	SkippedSlot      corona: one poller of four polls in every other slot only
//	VoteTwice        owner: an owner promises and signs epochs of one number to several candidates,
//	                        all of which try to lead at one time
//	EarlyCommit      owner: an entry is delivered before a quorum has it
//	StaleSequencer   owner: a former sequencer continues to act as one
//	StaleOwner       owner: a former owner ignores that it is one no longer
//	LoseLastEntry    owner: a follower loses its last entry when the epoch changes
//	ShowTwice        feedtree: readers are shown an item twice
//	IgnoreGaps       feedtree: a subscriber does not fetch missing entries
//	ForgetWindow     feedtree: a window forgets everything that the last entry did not contain
//	EarlyAck         feedtree: a subscription is acknowledged before it is durable
//	IgnoreDiskErrors sim: a node treats records that its disk refused as durable
//
// The product does not hold these bugs: sim/planted.patch adds them to a copy of it, where a test
// sets one of the variables (make planted).
package plant

// The bugs are off until a test turns one on.
var (
	DoubleRoot   bool
	NoAck        bool
	LateAck      bool
	KeepDead     bool
	StaleCount   bool
	KeepMessages bool

	Cycle       bool
	LostChild   bool
	Duplicate   bool
	SilentDrop  bool
	StaleWeight bool

	LostRank     bool
	CountedTwice bool
	SkippedSlot  bool

	VoteTwice      bool
	EarlyCommit    bool
	StaleSequencer bool
	StaleOwner     bool
	LoseLastEntry  bool

	ShowTwice    bool
	IgnoreGaps   bool
	ForgetWindow bool
	EarlyAck     bool

	IgnoreDiskErrors bool
)
