package sim

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// String returns the scenario as text that ParseScenario reads: a header line, and one line per
// fault.
func (n Scenario) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d members %d length %v", n.Seed, n.Members, n.Length)
	if n.Public {
		b.WriteString(" public")
	}
	b.WriteByte('\n')
	for _, s := range n.Plan {
		fmt.Fprintln(&b, s)
	}
	return b.String()
}

// ParseScenario reads the text that String writes. Empty lines, and the rest of a line after #, are
// ignored.
func ParseScenario(text string) (n Scenario, err error) {
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		switch line = strings.TrimSpace(line); {
		case line == "":
		case n.Members == 0:
			if n, err = parseHeader(line); err != nil {
				return n, fmt.Errorf("scenario %q: %w", line, err)
			}
		default:
			s, err := ParseFault(line)
			if err != nil {
				return n, err
			}
			if s.At > n.Length {
				return n, fmt.Errorf("fault %q: it begins after the scenario's length of %v", line, n.Length)
			}
			for _, m := range append(append([]int(nil), s.Hosts...), s.To...) {
				if m < 0 || m >= n.machineCount() {
					return n, fmt.Errorf("fault %q: there is no machine %d", line, m)
				}
			}
			n.Plan = append(n.Plan, s)
		}
	}
	if n.Members == 0 {
		return n, fmt.Errorf("the scenario is empty: want a line seed N members N length TIME")
	}
	return n, nil
}

// parseHeader reads the header line.
func parseHeader(line string) (n Scenario, err error) {
	words := strings.Fields(line)
	if n.Public = len(words) == 7 && words[6] == "public"; n.Public {
		words = words[:6]
	}
	if len(words) != 6 || words[0] != "seed" || words[2] != "members" || words[4] != "length" {
		return n, fmt.Errorf("want seed N members N length TIME, and perhaps public")
	}
	if n.Seed, err = strconv.ParseUint(words[1], 10, 64); err != nil {
		return n, err
	}
	if n.Members, err = strconv.Atoi(words[3]); err != nil {
		return n, err
	}
	if n.Length, err = time.ParseDuration(words[5]); err != nil {
		return n, err
	}
	switch {
	case n.Members < 1:
		return n, fmt.Errorf("members %d: want at least one", n.Members)
	case n.Length <= 0:
		return n, fmt.Errorf("length %v: want more than zero", n.Length)
	}
	return n, nil
}

// machineCount is the number of machines: members and clients.
func (n Scenario) machineCount() int { return n.Members + n.Members/8 }
