package main

import (
	"cmp"
	"reflect"
	"strings"
	"time"
	"unicode"

	"tidings/internal/wire"
)

// defaultNetwork is the default name of a new network.
const defaultNetwork = "tidings"

// networkFlags holds the flags that describe a new network. Those that were not given are nil.
type networkFlags struct {
	PollInterval        *time.Duration `placeholder:"D" help:"Time between two polls of a feed by one node (30m)."`
	MaintenanceInterval *time.Duration `placeholder:"D" help:"Time between two rounds of optimisation (10m)."`
	BeatInterval        *time.Duration `placeholder:"D" help:"Longest time without an entry in the log of a feed (1h)."`
	Objective           *string        `placeholder:"NAME" help:"Objective of Corona's optimisation: lite (default), fast, fair, fair-sqrt, fair-log."`
	TargetDetection     *time.Duration `placeholder:"D" help:"Time to detect a change that --objective fast aims at (30s)."`
	Load                *float64       `placeholder:"X" help:"Allowed polls, as a multiple of the polls that the readers would make by themselves (1)."`
	Owners              *int           `placeholder:"N" help:"Number of nodes that keep the log of a feed, 1 to 8 (5)."`
	Scheme              *string        `placeholder:"NAME" help:"Preset of the following four flags: bound (default) or paper."`
	Wedge               *string        `placeholder:"NAME" help:"Choice of the nodes that poll a feed: rank, base2, base16."`
	Clusters            *string        `placeholder:"NAME" help:"Form of the summaries of feeds for other nodes: bins, paper."`
	Phases              *string        `placeholder:"NAME" help:"Times of polls within the interval: even, random."`
	Decide              *string        `placeholder:"NAME" help:"Which node decides how many nodes poll: sequencer, dag."`
}

// givenFlags returns the names of the flags that were given.
func (f networkFlags) givenFlags() []string {
	var names []string
	for field, value := range reflect.ValueOf(f).Fields() {
		if !value.IsNil() {
			names = append(names, "--"+flagName(field.Name))
		}
	}
	return names
}

// flagName returns the flag of a field: poll-interval for PollInterval.
func flagName(field string) string {
	var b strings.Builder
	for i, r := range field {
		if unicode.IsUpper(r) && i > 0 {
			b.WriteByte('-')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// network returns the network that the flags describe, with ids of a kind and the given authorities.
func (f networkFlags) network(name, ids, authorities string) (wire.Network, error) {
	n := wire.DefaultNetwork(cmp.Or(name, defaultNetwork))
	n.IDs, n.Authorities = ids, authorities
	if f.Scheme != nil {
		if err := applyScheme(&n, *f.Scheme); err != nil {
			return n, err
		}
	}
	setIfGiven(&n.PollInterval, f.PollInterval)
	setIfGiven(&n.MaintenanceInterval, f.MaintenanceInterval)
	setIfGiven(&n.BeatInterval, f.BeatInterval)
	setIfGiven(&n.Objective, f.Objective)
	setIfGiven(&n.TargetDetection, f.TargetDetection)
	setIfGiven(&n.Load, f.Load)
	setIfGiven(&n.Owners, f.Owners)
	setIfGiven(&n.Wedge, f.Wedge)
	setIfGiven(&n.Clusters, f.Clusters)
	setIfGiven(&n.Phases, f.Phases)
	setIfGiven(&n.Decide, f.Decide)
	n.Witnesses = min(n.Witnesses, n.Owners) // there cannot be more
	if f.TargetDetection != nil && n.Objective != "fast" {
		return n, usagef("--target-detection %v needs --objective fast, and the objective is %s", *f.TargetDetection, n.Objective)
	}
	return n, n.Check()
}

func setIfGiven[T any](to *T, from *T) {
	if from != nil {
		*to = *from
	}
}

// applyScheme sets the four parameters that a scheme stands for.
func applyScheme(n *wire.Network, scheme string) error {
	switch scheme {
	case "bound":
		n.Wedge, n.Clusters, n.Phases, n.Decide = "rank", "bins", "even", "sequencer"
	case "paper":
		n.Wedge, n.Clusters, n.Phases, n.Decide = "base16", "paper", "random", "dag"
	default:
		return usagef("scheme %q: choose paper or bound", scheme)
	}
	return nil
}
