//go:build !planted

package plant

// Without the build tag the bugs are constants, and the compiler removes them.
const (
	DoubleRoot   = false
	NoAck        = false
	LateAck      = false
	KeepDead     = false
	StaleCount   = false
	KeepMessages = false

	Cycle       = false
	LostChild   = false
	Duplicate   = false
	SilentDrop  = false
	StaleWeight = false

	LostRank     = false
	CountedTwice = false
	SkippedSlot  = false

	VoteTwice      = false
	EarlyCommit    = false
	StaleSequencer = false
	StaleOwner     = false
	LoseLastEntry  = false

	ShowTwice    = false
	IgnoreGaps   = false
	ForgetWindow = false
	EarlyAck     = false

	IgnoreDiskErrors = false
)
