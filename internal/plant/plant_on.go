//go:build planted

package plant

// The planted bugs, all asleep until a test wakes one.
var (
	DoubleRoot  bool
	NoReceipt   bool
	LateReceipt bool
	Undead      bool
	StaleCount  bool
	Hoard       bool

	Cycle       bool
	LostChild   bool
	Duplicate   bool
	SilentDrop  bool
	StaleWeight bool

	LostRank     bool
	CountedTwice bool
	MissedTurn   bool

	VoteTwice  bool
	HeldEarly  bool
	TwoPollers bool
	Clinging   bool
	StepBack   bool

	ShowAgain   bool
	BlindToGaps bool
	ShortMemory bool
	EarlyYes    bool

	DeafToDisk bool
)
