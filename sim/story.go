package sim

import (
	"fmt"
	"strings"
	"time"
)

// String is the whole of a Nemesis as text, as ParseNemesis reads it: a line that says
// of which world, and one for each strike.
func (n Nemesis) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d members %d length %v\n", n.Seed, n.Members, n.Length)
	for _, s := range n.Plan {
		fmt.Fprintln(&b, s)
	}
	return b.String()
}

// ParseNemesis reads a story: what String wrote. Empty lines are passed over, and what
// follows # on a line.
func ParseNemesis(story string) (n Nemesis, err error) {
	for line := range strings.Lines(story) {
		line, _, _ = strings.Cut(line, "#")
		switch line = strings.TrimSpace(line); {
		case line == "":
		case n.Members == 0:
			var length string
			if _, err := fmt.Sscanf(line, "seed %d members %d length %s", &n.Seed, &n.Members, &length); err != nil {
				return n, fmt.Errorf("story %q: %w", line, err)
			}
			if n.Length, err = time.ParseDuration(length); err != nil {
				return n, fmt.Errorf("story %q: %w", line, err)
			}
			if n.Members < 1 {
				return n, fmt.Errorf("story %q: %d members", line, n.Members)
			}
		default:
			s, err := ParseStrike(line)
			if err != nil {
				return n, err
			}
			for _, m := range append(append([]int(nil), s.Hosts...), s.To...) {
				if m < 0 || m >= n.machines() {
					return n, fmt.Errorf("strike %q: there is no machine %d", line, m)
				}
			}
			n.Plan = append(n.Plan, s)
		}
	}
	if n.Members == 0 {
		return n, fmt.Errorf("an empty story")
	}
	return n, nil
}

// machines is how many there are: members, and clients.
func (n Nemesis) machines() int { return n.Members + n.Members/8 }
