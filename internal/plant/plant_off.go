//go:build !planted

package plant

// Without the build tag the bugs are constants, and gone from the binary.
const (
	DoubleRoot = false
	Cycle      = false
	LostChild  = false
	StaleCount = false
	SilentDrop = false
	Duplicate  = false

	VoteTwice   = false
	HeldEarly   = false
	ShowAgain   = false
	BlindToGaps = false

	DeafToDisk = false
)
