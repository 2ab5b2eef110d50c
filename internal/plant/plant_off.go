//go:build !planted

package plant

// Without the build tag the bugs are constants, and gone from the binary.
const (
	DoubleRoot  = false
	NoReceipt   = false
	LateReceipt = false
	Undead      = false
	StaleCount  = false
	Hoard       = false

	Cycle       = false
	LostChild   = false
	Duplicate   = false
	SilentDrop  = false
	StaleWeight = false

	LostRank     = false
	CountedTwice = false
	MissedTurn   = false

	VoteTwice  = false
	HeldEarly  = false
	TwoPollers = false
	Clinging   = false
	StepBack   = false

	ShowAgain   = false
	BlindToGaps = false
	ShortMemory = false
	EarlyYes    = false

	DeafToDisk = false
)
