package table2

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"slices"
	"strconv"
	"time"

	"golang.org/x/net/publicsuffix"

	"tidings/honeycomb"
)

// ReadDomains reads the number of feeds of domains: a CSV file with a header and the columns domain
// and feeds. Below a public suffix, such as that of a blog host, each feed has a domain of its own.
func ReadDomains(r io.Reader) (feeds []int, err error) {
	rows := csv.NewReader(r)
	rows.FieldsPerRecord = 2
	for line := 1; ; line++ {
		row, err := rows.Read()
		switch {
		case errors.Is(err, io.EOF) && len(feeds) == 0:
			return nil, errors.New("domains: there are none")
		case errors.Is(err, io.EOF):
			return feeds, nil
		case err != nil:
			return nil, fmt.Errorf("domains: %w", err)
		case line == 1:
			continue // header
		}
		n, err := strconv.Atoi(row[1])
		if err != nil || n < 1 {
			return nil, fmt.Errorf("domains: line %d: %q feeds of %s", line, row[1], row[0])
		}
		if suffix, _ := publicsuffix.PublicSuffix(row[0]); suffix != row[0] {
			feeds = append(feeds, n)
			continue
		}
		for range n {
			feeds = append(feeds, 1)
		}
	}
}

// AssignDomains assigns channels to domains with the given numbers of feeds, in proportion if there
// are more channels than feeds. Popular channels are as likely on crowded domains as others.
func (w *Workload) AssignDomains(feeds []int) {
	rng := rand.New(rand.NewSource(w.Seed*7919 + 19))
	sum, ends := 0, make([]int, len(feeds))
	for i, n := range feeds {
		sum += n
		ends[i] = sum
	}
	w.domains = make([]int32, len(w.Channels))
	for i := range w.domains {
		at, _ := slices.BinarySearch(ends, 1+rng.Intn(sum))
		w.domains[i] = int32(at)
	}
}

// PoliteBound returns the bound of all schedules that keep to the budgets of domains, and which
// channels are on crowded domains: those that would be polled more often than their budget allows.
// The polls that these cannot use go to the others.
func (w *Workload) PoliteBound(p *honeycomb.Problem, channels []honeycomb.Channel) (bound honeycomb.Measurement, crowded []bool) {
	n, crowded := honeycomb.Ideal(p, channels), make([]bool, len(channels))
	domains := w.byDomain()
	tau := p.Interval.Seconds()
	for more := w.domains != nil; more; {
		more = false
		for _, of := range domains {
			readers, polls := 0., 0.
			for _, i := range of {
				readers += channels[i].Subscribers
				polls += n[i]
			}
			budget := min(max(readers, tau/minBudgetInterval.Seconds()), max(tau/shortest.Seconds(), float64(len(of))))
			if crowded[of[0]] || polls <= budget {
				continue
			}
			more = true
			solve(p, channels, of, budget, n)
			for _, i := range of {
				crowded[i] = true
			}
		}
		if more {
			left, others, all := 0., []int{}, 0.
			for i := range channels {
				all += channels[i].Subscribers
				if crowded[i] {
					left -= n[i]
				} else {
					others = append(others, i)
				}
			}
			solve(p, channels, others, left+p.Load*all, n)
		}
	}
	return honeycomb.Measure(p, channels, func(i int) float64 { return n[i] }), crowded
}

// solve distributes a number of polls per interval among some channels.
func solve(p *honeycomb.Problem, channels []honeycomb.Channel, of []int, polls float64, n []float64) {
	some, readers := make([]honeycomb.Channel, len(of)), 0.
	for j, i := range of {
		some[j] = channels[i]
		readers += channels[i].Subscribers
	}
	part := *p
	part.Load = polls / readers
	for j, x := range honeycomb.Ideal(&part, some) {
		n[of[j]] = x
	}
}

// byDomain returns the channels of each domain, in the order of the domains' first channels.
func (w *Workload) byDomain() (of [][]int) {
	at := map[int32]int{}
	for i, d := range w.domains {
		j, ok := at[d]
		if !ok {
			j = len(of)
			at[d], of = j, append(of, nil)
		}
		of[j] = append(of[j], i)
	}
	return of
}

const (
	// A domain may be polled once in minBudgetInterval in any case, and at most once in shortest,
	// or once per interval for each of its channels.
	minBudgetInterval = 10 * time.Second
	shortest          = time.Second
)
