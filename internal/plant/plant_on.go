//go:build planted

package plant

// The planted bugs, all asleep until a test wakes one.
var (
	DoubleRoot bool
	Cycle      bool
	LostChild  bool
	StaleCount bool
	SilentDrop bool
	Duplicate  bool

	VoteTwice   bool
	HeldEarly   bool
	ShowAgain   bool
	BlindToGaps bool

	DeafToDisk bool
)
