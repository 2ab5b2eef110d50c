//go:build planted

package plant

// The planted bugs are off until a test turns one on.
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
