package provision

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

// paperNodes are the nodes of section 4.3: "a bandwidth constraint of 100 Mbps, a memory
// constraint of 1024 MB, and a CPU constraint of the default value (1x)", over-provisioned by a
// tenth.
var paperNodes = Constraints{Bandwidth: 100e6, Memory: 1024, CPU: 1, Overprovision: 0.1}

func TestPlans(t *testing.T) {
	slow, slower, cpu := Published(), Published(), workload
	slow.MatchPerMillion, slower.MatchPerMillion, cpu.MatchPerMillion = 10, 20, 47
	measured := workload
	measured.MatchPerMillion, measured.FilterPerMillion, measured.ReflectorFixed, measured.ReflectorPerMillion = 0.17, 34, 30, 75
	polls := measured
	polls.PollBytes = 300
	loads := []Load{{1e6, 10e6}, {500e3, 20e6}, {250e3, 40e6}, {100e3, 1e6}}
	for _, test := range []struct {
		name  string
		model Model
		want  [4][3]int
	}{
		{"Figure 11, by fitted costs", Paper(), [4][3]int{{1, 28, 28}, {1, 25, 25}, {1, 28, 28}, {1, 1, 1}}},
		{"published costs", Published(), [4][3]int{{1, 2, 5}, {1, 4, 10}, {1, 7, 19}, {1, 1, 1}}},
		{"10 ms of section 3.2", slow, [4][3]int{{1, 6, 6}, {1, 6, 10}, {1, 7, 19}, {1, 1, 1}}},
		{"20 ms of 2,000 words", slower, [4][3]int{{1, 11, 11}, {1, 11, 11}, {1, 11, 19}, {1, 1, 1}}},
		{"processor alone", cpu, [4][3]int{{1, 26, 26}, {1, 26, 26}, {1, 26, 26}, {1, 1, 1}}},
		{"a prototype's costs", measured, [4][3]int{{1, 1, 4}, {1, 1, 8}, {1, 2, 15}, {1, 1, 1}}},
		{"most polls 304s", polls, [4][3]int{{1, 1, 1}, {1, 1, 2}, {1, 2, 4}, {1, 1, 1}}},
	} {
		for i, load := range loads {
			plan, err := Plan(load, paperNodes, test.model)
			if err != nil {
				t.Fatal(err)
			}
			if got := [3]int{plan.Crawlers, plan.Filters, plan.Reflectors}; got != test.want[i] || len(plan.Violations) > 0 {
				t.Errorf("%s, %g feeds and %g subscriptions: %v %v, not %v", test.name, load.Feeds, load.Subscriptions, got, plan.Violations, test.want[i])
			}
		}
	}
}

// TestFigure2 compares four times the processor and a quarter of the bandwidth: "this
// configuration requires half the number of crawlers, 50% more reflectors and three times as
// many filters", in reverse, within a tenth. The costs were not fitted to this figure.
func TestFigure2(t *testing.T) {
	load := Load{Feeds: 800e3, Subscriptions: 8e6}
	a, err := Plan(load, Constraints{Bandwidth: 25e6, Memory: 1024, CPU: 4, Overprovision: 0.1}, Paper())
	if err != nil {
		t.Fatal(err)
	}
	b, err := Plan(load, paperNodes, Paper())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []struct {
		what            string
		got, want, most float64
	}{
		{"crawlers", float64(b.Crawlers) / float64(a.Crawlers), 0.5, 0.1},
		{"filters", float64(b.Filters) / float64(a.Filters), 3, 0.1},
		{"reflectors", float64(b.Reflectors) / float64(a.Reflectors), 1.5, 0.1},
	} {
		t.Logf("%s: %.2f times as many; the paper has %.2f", r.what, r.got, r.want)
		if math.Abs(r.got/r.want-1) > r.most {
			t.Errorf("%s: %.2f times as many, not %.2f", r.what, r.got, r.want)
		}
	}
}

// TestTopologiesAreConsistent: parts add up, all nodes are linked, and a plan with violations
// has no nodes.
func TestTopologiesAreConsistent(t *testing.T) {
	for _, load := range []Load{{1, 1}, {1e3, 1e9}, {1e8, 1e3}, {3e6, 7e6}, {123457, 7654321}} {
		plan, err := Plan(load, Constraints{Bandwidth: 300e6, Memory: 2048, CPU: 2}, Paper())
		if err != nil {
			t.Fatal(err)
		}
		if len(plan.Violations) > 0 {
			if len(plan.Nodes) > 0 {
				t.Errorf("%v: a failed plan has nodes", load)
			}
			continue
		}
		if err := plan.Validate(); err != nil {
			t.Errorf("%v: %v", load, err)
		}
		feeds, subscriptions, reached := 0, 0, map[string]bool{}
		for _, n := range plan.Nodes {
			switch n.Role {
			case Crawler:
				feeds += n.Feeds
			case Reflector:
				subscriptions += n.Subscriptions
			}
			if n.Role != Reflector && len(n.Links) == 0 {
				t.Errorf("%v: %s has no links", load, n.Name)
			}
			for _, l := range n.Links {
				reached[l] = true
			}
		}
		if feeds != int(load.Feeds) || subscriptions != int(load.Subscriptions) {
			t.Errorf("%v: %d feeds and %d subscriptions in parts", load, feeds, subscriptions)
		}
		if want := plan.Filters + plan.Reflectors; len(reached) != want {
			t.Errorf("%v: %d nodes are linked, want %d", load, len(reached), want)
		}
	}
}

// TestUnresolvableViolations: "if a violation is found that cannot be resolved, the algorithm
// terminates and reports failure".
func TestUnresolvableViolations(t *testing.T) {
	for _, test := range []struct {
		load  Load
		nodes Constraints
		model Model
		want  string
	}{
		{Load{1e9, 1e6}, paperNodes, Paper(), "reflectors, bandwidth in"},
		{Load{1e6, 1e6}, Constraints{100e6, 100, 1, 0.1}, Published(), "reflectors, memory"},
		{Load{1e7, 1e6}, Constraints{1e9, 1024, 1, 0.1}, Paper(), "processor"},
	} {
		plan, err := Plan(test.load, test.nodes, test.model)
		if err != nil || !strings.Contains(strings.Join(plan.Violations, "; "), test.want) {
			t.Errorf("%v: %v %v, not %s", test.load, plan.Violations, err, test.want)
		}
	}
	for _, load := range []Load{{0, 1}, {1, 0}, {math.NaN(), 1}, {1, math.Inf(1)}} {
		if _, err := Plan(load, paperNodes, Paper()); err == nil {
			t.Errorf("%v is planned", load)
		}
	}
}

// TestTopologiesThatMissFeeds: what plans say is valid, and a topology that was changed by hand is refused if a node of it could not
// run or if a search would miss articles.
func TestTopologiesThatMissFeeds(t *testing.T) {
	filters := func(out int, names ...string) Topology {
		t := Topology{OutFilters: out, Nodes: []Node{{Name: "c", Role: Crawler, Links: names}}}
		for i, name := range names {
			t.Nodes = append(t.Nodes, Node{Name: name, Role: Filter, Links: []string{fmt.Sprint("r", i)}}, Node{Name: fmt.Sprint("r", i), Role: Reflector})
		}
		return t
	}
	good := filters(3, "f1", "f2", "f3") // three filters that divide the searches, one for each reflector
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	alone := Topology{Nodes: []Node{{Name: "c", Role: Crawler}}}
	if err := alone.Validate(); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(t *Topology){
		"r0 is linked with 1 of 3":   func(t *Topology) { t.OutFilters = 1 }, // three that divide the feeds
		"c is linked with 2 of 3":    func(t *Topology) { t.Nodes[0].Links = []string{"f1", "f2"} },
		"not in_filters":             func(t *Topology) { t.OutFilters = 2 },
		"in_filters (2)":             func(t *Topology) { t.InFilters = 2 },
		"r2 is linked with no":       func(t *Topology) { t.Nodes[5].Links = nil },
		"from f1 to \"f2\"":          func(t *Topology) { t.Nodes[1].Links = []string{"f2"} },
		"from c to \"f9\"":           func(t *Topology) { t.Nodes[0].Links[0] = "f9" },
		"from r0 to \"f1\"":          func(t *Topology) { t.Nodes[2].Links = []string{"f1"} },
		"the role of f1 is \"filt\"": func(t *Topology) { t.Nodes[1].Role = "filt" },
		"the name \"f2\"":            func(t *Topology) { t.Nodes[1].Name = "f2" },
	} {
		wrong := filters(3, "f1", "f2", "f3")
		change(&wrong)
		if err := wrong.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
