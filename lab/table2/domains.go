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

// ReadDomains reads how many feeds domains have: a table of two columns with a heading, domain
// and feeds, as CSV. Below a public suffix, as that of a host of blogs, each is of a domain of
// its own.
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
			continue // the heading
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

// Spread gives channels to domains that have so many feeds each, of all there are. Of more
// channels than feeds domains have as many more; whatever they are, popular channels are no more
// likely on crowded domains than others.
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

// PoliteBound is what no schedule can beat that keeps to the budgets of domains, and
// which channels are on crowded domains: those that would be asked oftener than their budget lets
// them. What these leave goes to the others.
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

// solve shares some polls of an interval among some channels.
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

// byDomain are the channels of each domain, in the order in which domains come up.
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
	// A domain may be asked once in longest in any case, and at most once in shortest, or once
	// for each of its channels.
	minBudgetInterval = 10 * time.Second
	shortest          = time.Second
)
