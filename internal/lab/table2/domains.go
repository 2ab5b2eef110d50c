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

	"tidings/honeycomb"
)

// ReadDomains reads how many feeds domains have: a table of two columns with a heading, domain
// and feeds, as CSV.
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
		feeds = append(feeds, n)
	}
}

// Spread gives channels to domains that have so many feeds each, of all there are. Of more
// channels than feeds domains have as many more; whatever they are, popular channels are no more
// likely on crowded domains than others.
func (w *Workload) Spread(feeds []int) {
	dice := rand.New(rand.NewSource(w.Seed*7919 + 19))
	sum, ends := 0, make([]int, len(feeds))
	for i, n := range feeds {
		sum += n
		ends[i] = sum
	}
	w.domains = make([]int32, len(w.Channels))
	for i := range w.domains {
		at, _ := slices.BinarySearch(ends, 1+dice.Intn(sum))
		w.domains[i] = int32(at)
	}
}

// crowded says which channels are on a domain that would be asked oftener than its budget lets it
// (DESIGN §3), were there none.
func (w *Workload) crowded(p *honeycomb.Problem, channels []honeycomb.Channel) []bool {
	of := make([]bool, len(w.Channels))
	if w.domains == nil {
		return of
	}
	type domain struct{ readers, once, polls float64 }
	domains := map[int32]*domain{}
	n := honeycomb.Ideal(p, channels)
	for i, c := range w.Channels {
		d := domains[w.domains[i]]
		if d == nil {
			d = &domain{}
			domains[w.domains[i]] = d
		}
		d.readers += float64(c.Subscribers)
		d.once++
		d.polls += n[i]
	}
	tau := p.Interval.Seconds()
	for i := range of {
		d := domains[w.domains[i]]
		of[i] = d.polls > min(max(d.readers, tau/longest.Seconds()), max(tau/shortest.Seconds(), d.once))
	}
	return of
}

const (
	// A domain may be asked once in longest in any case, and at most once in shortest, or once
	// for each of its channels.
	longest  = 10 * time.Second
	shortest = time.Second
)
