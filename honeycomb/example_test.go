package honeycomb_test

import (
	"fmt"
	"log"
	"time"

	"tidings/honeycomb"
)

// Four channels have 11,110 subscribers. If each subscriber polled every half an hour, all
// would learn of an update after 15 minutes on average. A tenth of these polls, divided among a
// thousand members, finds it within seconds. Pollers grow with the root of the subscribers.
func ExampleSolve() {
	p := honeycomb.Problem{
		Objective: honeycomb.Lite, Granularity: honeycomb.Ranks, Base: 16,
		Nodes: 1024, Interval: 30 * time.Minute, Load: 0.1,
	}
	own := []honeycomb.Channel{{Subscribers: 10_000}, {Subscribers: 1000}, {Subscribers: 100}, {Subscribers: 10}}
	s, err := honeycomb.Solve(&p, own, nil)
	if err != nil {
		log.Fatal(err)
	}
	for i, c := range own {
		fmt.Printf("%5.0f subscribers, %3d pollers: %4.1f s\n", c.Subscribers, s.Pick[i], 900/float64(s.Pick[i]))
	}
	m := honeycomb.Measure(&p, own, func(i int) float64 { return s.Pollers(&p, own, i) })
	fmt.Printf("%.0f polls of %.0f, %.2f s on average\n", s.Down.G, s.Budget, m.Detection)
	// Output:
	// 10000 subscribers, 767 pollers:  1.2 s
	//  1000 subscribers, 243 pollers:  3.7 s
	//   100 subscribers,  77 pollers: 11.7 s
	//    10 subscribers,  24 pollers: 37.5 s
	// 1111 polls of 1111, 1.53 s on average
}

// Two members know two channels each. Given an aggregate of the other's channels, each decides
// as if it knew all four.
func ExampleSolve_others() {
	p := honeycomb.Problem{
		Objective: honeycomb.Lite, Granularity: honeycomb.Levels, Base: 2,
		Nodes: 8, Interval: 30 * time.Minute, Load: 0.1,
	}
	wedges := p.EstimatedWedges()
	one := []honeycomb.Channel{{Subscribers: 100, Wedges: wedges}, {Subscribers: 4, Wedges: wedges}}
	other := []honeycomb.Channel{{Subscribers: 50, Wedges: wedges}, {Subscribers: 6, Wedges: wedges}}

	a, err := honeycomb.Solve(&p, one, honeycomb.NewBins(&p, other))
	if err != nil {
		log.Fatal(err)
	}
	b, err := honeycomb.Solve(&p, other, honeycomb.NewBins(&p, one))
	if err != nil {
		log.Fatal(err)
	}
	all, err := honeycomb.Solve(&p, append(one, other...), nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(wedges)
	fmt.Println(a.Pick, b.Pick)
	fmt.Println(all.Pick)
	// Output:
	// [1 2 4 8]
	// [3 1] [2 1]
	// [3 1 2 1]
}
