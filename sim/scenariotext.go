package sim

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// String is the whole of a Nemesis as text, as ParseNemesis reads it: a line that says
// of which world, and one for each strike.
func (n Nemesis) String() string {
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

// ParseNemesis reads a story: what String wrote. Empty lines are passed over, and what
// follows # on a line.
func ParseNemesis(story string) (n Nemesis, err error) {
	for line := range strings.Lines(story) {
		line, _, _ = strings.Cut(line, "#")
		switch line = strings.TrimSpace(line); {
		case line == "":
		case n.Members == 0:
			if n, err = parseHeader(line); err != nil {
				return n, fmt.Errorf("story %q: %w", line, err)
			}
		default:
			s, err := ParseStrike(line)
			if err != nil {
				return n, err
			}
			if s.At > n.Length {
				return n, fmt.Errorf("strike %q: the troubles are over after %v", line, n.Length)
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

// parseHeader reads the line that says of which world a story is.
func parseHeader(line string) (n Nemesis, err error) {
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
		return n, fmt.Errorf("%d members", n.Members)
	case n.Length <= 0:
		return n, fmt.Errorf("troubles last longer than %v", n.Length)
	}
	return n, nil
}

// machines is how many there are: members, and clients.
func (n Nemesis) machines() int { return n.Members + n.Members/8 }
