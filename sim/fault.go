package sim

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A FaultKind is a kind of fault.
type FaultKind string

const (
	// Crash: hosts die, silently or with a hint to their peers, and come back with their disks.
	Crash FaultKind = "crash"
	// Leave: hosts leave in good order, and come back.
	Leave FaultKind = "leave"
	// DiskLost: a host dies and its disk is lost; another host takes its place.
	DiskLost FaultKind = "wipe"
	// TornWrite: a disk breaks during a write; its host dies some time later, and comes back.
	TornWrite FaultKind = "torn"
	// NoDiskSpace: disks have no room for bodies, or for anything.
	NoDiskSpace FaultKind = "disk"
	// Loss: the network loses, duplicates and delays frames.
	Loss FaultKind = "loss"
	// Partition: the network is split into two sides.
	Partition FaultKind = "halves"
	// OneWayPartition: some hosts are not heard by others, whose frames they receive.
	OneWayPartition FaultKind = "oneway"
	// Pause: hosts stop, and go on later.
	Pause FaultKind = "pause"
	// Slow: hosts take a long time for each event.
	Slow FaultKind = "slow"
	// ClockJump: a clock jumps forward, or is wrong after a restart.
	ClockJump FaultKind = "clock"
)

// FaultKinds are all kinds.
var FaultKinds = []FaultKind{Crash, Leave, DiskLost, TornWrite, NoDiskSpace, Loss, Partition, OneWayPartition, Pause, Slow, ClockJump}

// A Fault is one entry of a plan.
type Fault struct {
	At       time.Duration // since the start of the period with faults
	Duration time.Duration // until the fault ends, or the dead host is back
	Kind     FaultKind
	Hosts    []int         // affected machines; of a Partition, the machines of one side
	To       []int         // of a OneWayPartition: the machines that do not hear Hosts
	Silent   bool          // of a death: peers get no hint
	Disk     DiskFault     // of NoDiskSpace
	Network  NetworkFaults // of Loss
	Amount   time.Duration // of Slow: time per event; of ClockJump: offset from the world's clock
}

// String returns the fault as one line that ParseFault reads.
func (s Fault) String() string {
	line := fmt.Sprintf("%v %s lasts=%v", s.At, s.Kind, s.Duration)
	field := func(there bool, format string, value any) {
		if there {
			line += fmt.Sprintf(" "+format, value)
		}
	}
	field(len(s.Hosts) > 0, "hosts=%s", formatList(s.Hosts))
	field(len(s.To) > 0, "to=%s", formatList(s.To))
	field(s.Silent, "silent=%v", s.Silent)
	field(s.Disk != DiskOK, "disk=%d", s.Disk)
	field(s.Network.Loss > 0, "loss=%v", s.Network.Loss)
	field(s.Network.Duplicate > 0, "duplicate=%v", s.Network.Duplicate)
	field(s.Network.Reorder > 0, "reorder=%v", s.Network.Reorder)
	field(s.Network.Late > 0, "late=%v", s.Network.Late)
	field(s.Amount != 0, "by=%v", s.Amount)
	return line
}

func formatList(of []int) string {
	var words []string
	for _, n := range of {
		words = append(words, strconv.Itoa(n))
	}
	return strings.Join(words, ",")
}

// ParseFault reads one line of a plan.
func ParseFault(line string) (s Fault, err error) {
	words := strings.Fields(line)
	if len(words) < 2 {
		return s, fmt.Errorf("fault %q: want a time and a kind of fault", line)
	}
	if s.At, err = time.ParseDuration(words[0]); err != nil {
		return s, fmt.Errorf("fault %q: %w", line, err)
	}
	if s.At < 0 {
		return s, fmt.Errorf("fault %q: the time is negative", line)
	}
	s.Kind = FaultKind(words[1])
	if !slices.Contains(FaultKinds, s.Kind) {
		return s, fmt.Errorf("fault %q: there is no kind of fault %q", line, s.Kind)
	}
	for _, w := range words[2:] {
		name, value, _ := strings.Cut(w, "=")
		if err := s.set(name, value); err != nil {
			return s, fmt.Errorf("fault %q: %s: %w", line, name, err)
		}
	}
	if s.Kind == Slow && s.Amount < 0 {
		return s, fmt.Errorf("fault %q: by is negative", line)
	}
	return s, nil
}

// set parses one name=value field.
func (s *Fault) set(name, value string) (err error) {
	share := func(p *float64) {
		if *p, err = strconv.ParseFloat(value, 64); err == nil && !(*p >= 0 && *p <= 1) {
			err = errors.New("a probability is between 0 and 1")
		}
	}
	span := func(p *time.Duration) {
		if *p, err = time.ParseDuration(value); err == nil && *p < 0 {
			err = errors.New("the time is negative")
		}
	}
	switch name {
	case "lasts":
		span(&s.Duration)
	case "late":
		span(&s.Network.Late)
	case "by":
		s.Amount, err = time.ParseDuration(value) // may be negative: a clock can be behind
	case "loss":
		share(&s.Network.Loss)
	case "duplicate":
		share(&s.Network.Duplicate)
	case "reorder":
		share(&s.Network.Reorder)
	case "hosts":
		s.Hosts, err = parseList(value)
	case "to":
		s.To, err = parseList(value)
	case "silent":
		s.Silent, err = strconv.ParseBool(value)
	case "disk":
		var n uint64
		n, err = strconv.ParseUint(value, 10, 2)
		s.Disk = DiskFault(n)
	default:
		err = errors.New("there is no such field")
	}
	return err
}

func parseList(value string) (of []int, err error) {
	for word := range strings.SplitSeq(value, ",") {
		n, err := strconv.Atoi(word)
		if err != nil {
			return nil, err
		}
		of = append(of, n)
	}
	return of, nil
}
