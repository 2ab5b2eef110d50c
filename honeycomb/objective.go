package honeycomb

import (
	"fmt"
	"math"
	"strings"
)

// An Objective determines what is minimised and what is bounded (Corona §3.1, Table 1).
type Objective uint8

const (
	// Lite minimises the mean detection time of subscribers; the load is bounded.
	Lite Objective = iota
	// Fast minimises the load; the mean detection time is bounded.
	Fast
	// Fair minimises detection time relative to the update interval; the load is bounded.
	Fair
	// FairSqrt is Fair with the square root of tau/u, which disadvantages
	// rarely changing channels less.
	FairSqrt
	// FairLog is Fair with the ratio of the logarithms of tau and u, both in seconds.
	FairLog
)

var objectives = [...]string{"lite", "fast", "fair", "fair-sqrt", "fair-log"}

func (o Objective) String() string {
	if int(o) < len(objectives) {
		return objectives[o]
	}
	return fmt.Sprintf("Objective(%d)", uint8(o))
}

// ParseObjective returns the objective with a name that String returns.
func ParseObjective(name string) (Objective, error) {
	for o, n := range objectives {
		if n == name {
			return Objective(o), nil
		}
	}
	return 0, fmt.Errorf("objective %q is none of %s", name, strings.Join(objectives[:], ", "))
}

// weight returns the weight of one second of detection time for a subscriber; tau and u are in
// seconds.
func (o Objective) weight(tau, u float64) float64 {
	switch o {
	case Fair:
		return tau / u
	case FairSqrt:
		return math.Sqrt(tau / u)
	case FairLog:
		return math.Log(max(tau, 2)) / math.Log(u) // the maximum keeps the weight positive; it is the same for all channels
	}
	return 1
}
