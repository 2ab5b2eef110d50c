package sums

import "time"

// Config is what a Sums is told. A zero field means its default.
type Config struct {
	// Maintenance is the time between two rounds, give or take a quarter. Default 10 min.
	Maintenance time.Duration
	// QuickInterval is the time between two quick rounds. Default 10 s, or less where
	// Maintenance is under some minutes.
	QuickInterval time.Duration
	// QuickPause is the shortest time between the beginnings of two series of quick
	// rounds. While one disturbance follows the other it doubles, up to Maintenance.
	// Default six times QuickInterval.
	QuickPause time.Duration
	// KeepFor is how long a value is kept that nobody confirms. Default three times
	// Maintenance.
	KeepFor time.Duration
}

func (c Config) filled() Config {
	if c.Maintenance <= 0 {
		c.Maintenance = 10 * time.Minute
	}
	if c.QuickInterval <= 0 {
		c.QuickInterval = max(min(10*time.Second, c.Maintenance/20), time.Second)
	}
	if c.QuickPause <= 0 {
		c.QuickPause = 6 * c.QuickInterval
	}
	if c.KeepFor <= 0 {
		c.KeepFor = 3 * c.Maintenance
	}
	return c
}

// MaxValue is the size of the largest value in bytes.
const MaxValue = 16 << 10

const (
	// quickRounds is how many rounds are quick: as many as a large network has rows, and
	// one for the leaf.
	quickRounds = 5

	// answerPatience is how long an answer is waited for: longer than the overlay takes
	// any answer to be on its way (its maxRTO is 3 s). askTries is how often a part is
	// asked in one round; who was silent each time is suspected.
	answerPatience = 3 * time.Second
	askTries       = 3

	// earlyFor is how long a part that is new may keep sums from being whole. It is as
	// long as quick rounds last.
	earlyFor = time.Minute

	// shockTime is the time within which an eighth (shockPart) of the parts must have
	// changed to be a disturbance: what changes bit by bit is asked for bit by bit.
	shockTime = 2 * time.Minute
	shockPart = 8

	// glancePause is the time between two looks at the table: nobody says when a slot gets
	// its first contact.
	glancePause = 30 * time.Second

	// poorRounds is how many rounds a contact may bring nothing that counts before
	// another is asked in its place.
	poorRounds = 2

	// freshFor is how long an answer may be repeated although something has changed
	// since: in the seconds of a round something does all the time, and each new sum costs
	// the reading of all values.
	freshFor = time.Second

	// maxAsks is how often one peer is answered in a minute: quick rounds ask 6 × askTries
	// times for a slot, and as often for the own value. What is more is dropped, counted.
	maxAsks = 64

	// maxParts is more parts than a network has rows for (15 slots each) beside a leaf;
	// further members of the leaf do not count.
	maxParts = 1024
	// maxKept bounds the bytes of all values. At the bound a value that is larger than
	// the one before it is refused.
	maxKept = 4 << 20
)

// Bounds of what is believed of one part beside the others of its row; see believe.go.
const (
	// tolerance is how many times as much as the median a value may count for, or how
	// many times less. Ids are random, so that one member may stand for ten times as much
	// of the id space as another; of a row of slots, none differs as much.
	tolerance = 16
	// enough is how many things the median of a row must hold for it to say anything: of
	// fewer, chance may give a part none.
	enough = 64
	// company is how many parts of a row must have a value before these are compared.
	company = 5
	// several is how many members a part must have to be believed to have something: one
	// or two may have none, because they want to or because they stand too close to others.
	several = 3
)

// Stats counts what a Sums did since it started.
type Stats struct {
	Parts     int    // values of other nodes that sums are made of
	Valued    int    // parts that have a value
	Doubted   int    // parts whose value does not count at present
	KeptBytes int    // bytes of all kept values
	Rounds    uint64 // rounds of requests for all parts
	Quick     uint64 // rounds that were quick
	Asked     uint64 // requests sent
	Again     uint64 // requests sent again because no answer came
	Given     uint64 // answers sent
	Same      uint64 // answers sent that said that the value has not changed
	Early     uint64 // answers sent that said that the sum is not complete
	Bytes     uint64 // bytes of all frames sent
	Taken     uint64 // values accepted
	Refused   uint64 // values that the layer above refused, or that were too large
	Flooded   uint64 // requests dropped because their sender asked too often
	Garbage   uint64 // messages that broke the protocol
}
