package sums

import (
	"cmp"
	"time"

	"tidings/internal/check"
)

// Config holds the settings of an Aggregator. A zero field means its default.
type Config struct {
	// Maintenance is the time between two rounds, ± 25 %, at least 1 s. Default 10 min. A longer
	// time saves messages, and sums are older; all other times of this package grow with it.
	Maintenance time.Duration
}

func (c Config) withDefaults() Config {
	c.Maintenance = cmp.Or(c.Maintenance, 10*time.Minute)
	return c
}

// Validate returns an error that names the first wrong field.
func (c Config) Validate() error {
	return check.AtLeast("sums: Maintenance", c.withDefaults().Maintenance, time.Second)
}

// quickInterval returns the time between two quick rounds: 10 s, or a twentieth of Maintenance if that
// is shorter; at least 1 s.
func (c Config) quickInterval() time.Duration {
	return max(min(10*time.Second, c.Maintenance/20), time.Second)
}

// quickPause returns the shortest time between the starts of two series of quick rounds. It doubles, up
// to Maintenance, while series follow each other closely.
func (c Config) quickPause() time.Duration { return 6 * c.quickInterval() }

// keepFor returns how long a value is kept without confirmation, and how long a sum counts as wanted
// after the last request for it.
func (c Config) keepFor() time.Duration { return 3 * c.Maintenance }

// MaxValue is the size of the largest value in bytes.
const MaxValue = 16 << 10

const (
	// quickRounds is the number of quick rounds in a series: one for each row of a large
	// network's table, and one for the leaf.
	quickRounds = 5

	// responseTimeout is how long a node waits for a response before it sends the request
	// again. It is the overlay's longest retransmission timeout (maxRTO, 3 s). maxTries bounds
	// the requests for one part in one round; a contact that answered none of them is suspected
	// to be dead.
	responseTimeout = 3 * time.Second
	maxTries        = 3

	// newPartGrace is how long a new part without a value keeps sums from being complete. It is
	// about as long as a series of quick rounds.
	newPartGrace = time.Minute

	// A series of quick rounds begins if more than one in changeShare of the parts changed
	// within changeWindow. Slower changes are covered by the request for each new part.
	changeWindow = 2 * time.Minute
	changeShare  = 8

	// scanInterval is the time between two scans of the routing table, because the overlay does
	// not report that a slot got its first contact.
	scanInterval = 30 * time.Second

	// maxBadRounds is the number of rounds in which a contact may fail to deliver a value that
	// counts, before another contact is asked instead.
	maxBadRounds = 2

	// reuseTime is how long a computed sum is sent again although a part has changed. During a
	// round a part changes almost all the time, and computing a sum means to decode all values.
	reuseTime = time.Second

	// maxRequests bounds the requests of one peer that are answered in a minute. Quick rounds
	// need 6 × maxTries requests for a slot, and as many for the own value. Further requests
	// are dropped and counted.
	maxRequests = 64

	// maxParts bounds the parts. Even a large network has fewer slots (15 in each row) and
	// members of a leaf; further members of the leaf do not count.
	maxParts = 1024
	// maxKeptBytes bounds the bytes of all kept values. At the bound a value that is larger
	// than the part's last one is refused.
	maxKeptBytes = 4 << 20
)

// The plausibility check compares the parts of a row with each other; see plausible.go.
const (
	// tolerance is the greatest factor between a plausible value and the median of its row,
	// upwards and downwards. Ids are random, so one member may own ten times as much of the id
	// space as another. The slots of one row differ less.
	tolerance = 16
	// minMedianItems is the number of items that the median of a row must hold for the check to
	// apply. With fewer items, a part may have none by chance.
	minMedianItems = 64
	// minComparedParts is the number of parts of a row that must have a value for the check to
	// apply.
	minComparedParts = 5
	// minDoubtedMembers is the number of members from which on a part is implausible if its
	// value is too small. One or two members may have no items by choice or by chance.
	minDoubtedMembers = 3
)

// Stats counts the events of an Aggregator since it started.
type Stats struct {
	Parts     int    // parts of the network that sums consist of
	Valued    int    // parts that have a value
	Doubted   int    // parts whose value does not count at present
	KeptBytes int    // bytes of all kept values
	Rounds    uint64 // rounds of requests for all parts
	Quick     uint64 // rounds that were quick
	Asked     uint64 // requests sent
	Again     uint64 // requests sent again because no answer came
	Given     uint64 // answers sent
	Same      uint64 // answers sent without a value because it has not changed
	Early     uint64 // answers sent without a value because the sum is not complete
	Bytes     uint64 // bytes of all frames sent
	Taken     uint64 // values accepted
	Refused   uint64 // values refused by the layer above or for lack of room
	Flooded   uint64 // requests dropped because their sender asked too often
	Garbage   uint64 // messages that broke the protocol
}
