package sim

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Trouble is a kind of fault.
type Trouble string

const (
	// Crash: hosts die, silently or so that their links are seen to close, and come
	// back with their disks.
	Crash Trouble = "crash"
	// Leave: hosts leave in good order, and come back.
	Leave Trouble = "leave"
	// Wipe: a host dies and its disk is lost; another comes in its place.
	Wipe Trouble = "wipe"
	// Torn: a disk breaks in the middle of what it writes; its host dies in a while,
	// and comes back.
	Torn Trouble = "torn"
	// Disk: disks have no room, for bodies or at all.
	Disk Trouble = "disk"
	// Loss: the network loses, repeats and holds back frames.
	Loss Trouble = "loss"
	// Halves: the network is parted.
	Halves Trouble = "halves"
	// OneWay: some hosts are not heard by others whom they hear.
	OneWay Trouble = "oneway"
	// Pause: hosts stand still, and go on.
	Pause Trouble = "pause"
	// Slow: hosts take long for everything.
	Slow Trouble = "slow"
	// Clock: a clock leaps, or is wrong when its host comes back.
	Clock Trouble = "clock"
)

// Troubles are all kinds.
var Troubles = []Trouble{Crash, Leave, Wipe, Torn, Disk, Loss, Halves, OneWay, Pause, Slow, Clock}

// A Strike is one trouble of a plan.
type Strike struct {
	At      time.Duration // since the troubles began
	Lasts   time.Duration // until it is over, or who died is back
	Trouble Trouble
	Hosts   []int         // whom it befalls, by machine; of Halves those of one side
	To      []int         // of OneWay: who does not hear these
	Silent  bool          // nobody hears of a death
	Disk    DiskFault     // of Disk
	Net     Faults        // of Loss
	By      time.Duration // of Slow: for each event; of Clock: ahead of the world's
}

// String is the strike in one line, as ParseStrike reads it.
func (s Strike) String() string {
	line := fmt.Sprintf("%v %s lasts=%v", s.At, s.Trouble, s.Lasts)
	field := func(there bool, format string, value any) {
		if there {
			line += fmt.Sprintf(" "+format, value)
		}
	}
	field(len(s.Hosts) > 0, "hosts=%s", list(s.Hosts))
	field(len(s.To) > 0, "to=%s", list(s.To))
	field(s.Silent, "silent=%v", s.Silent)
	field(s.Disk != Sound, "disk=%d", s.Disk)
	field(s.Net.Loss > 0, "loss=%v", s.Net.Loss)
	field(s.Net.Duplicate > 0, "duplicate=%v", s.Net.Duplicate)
	field(s.Net.Reorder > 0, "reorder=%v", s.Net.Reorder)
	field(s.Net.Late > 0, "late=%v", s.Net.Late)
	field(s.By != 0, "by=%v", s.By)
	return line
}

func list(of []int) string {
	var words []string
	for _, n := range of {
		words = append(words, strconv.Itoa(n))
	}
	return strings.Join(words, ",")
}

// ParseStrike reads a line of a plan.
func ParseStrike(line string) (s Strike, err error) {
	words := strings.Fields(line)
	if len(words) < 2 {
		return s, fmt.Errorf("strike %q: want a time and a trouble", line)
	}
	if s.At, err = time.ParseDuration(words[0]); err != nil {
		return s, fmt.Errorf("strike %q: %w", line, err)
	}
	if s.At < 0 {
		return s, fmt.Errorf("strike %q: before the troubles begin", line)
	}
	s.Trouble = Trouble(words[1])
	if !slices.Contains(Troubles, s.Trouble) {
		return s, fmt.Errorf("strike %q: no trouble is called %s", line, s.Trouble)
	}
	for _, w := range words[2:] {
		name, value, _ := strings.Cut(w, "=")
		if err := s.set(name, value); err != nil {
			return s, fmt.Errorf("strike %q: %s: %w", line, name, err)
		}
	}
	if s.Trouble == Slow && s.By < 0 {
		return s, fmt.Errorf("strike %q: no event takes less than no time", line)
	}
	return s, nil
}

// set reads one field.
func (s *Strike) set(name, value string) (err error) {
	share := func(p *float64) {
		if *p, err = strconv.ParseFloat(value, 64); err == nil && !(*p >= 0 && *p <= 1) {
			err = errors.New("a probability lies between 0 and 1")
		}
	}
	span := func(p *time.Duration) {
		if *p, err = time.ParseDuration(value); err == nil && *p < 0 {
			err = errors.New("no time is negative")
		}
	}
	switch name {
	case "lasts":
		span(&s.Lasts)
	case "late":
		span(&s.Net.Late)
	case "by":
		s.By, err = time.ParseDuration(value) // a clock may be behind
	case "loss":
		share(&s.Net.Loss)
	case "duplicate":
		share(&s.Net.Duplicate)
	case "reorder":
		share(&s.Net.Reorder)
	case "hosts":
		s.Hosts, err = unlist(value)
	case "to":
		s.To, err = unlist(value)
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

func unlist(value string) (of []int, err error) {
	for word := range strings.SplitSeq(value, ",") {
		n, err := strconv.Atoi(word)
		if err != nil {
			return nil, err
		}
		of = append(of, n)
	}
	return of, nil
}
