package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"tidings/cobra/provision"
)

// A provisionCommand is "tidings provision".
type provisionCommand struct {
	Plan  planCommand  `cmd:"" default:"withargs" help:"Compute the nodes (what provision does if it is given no command)."`
	Apply applyCommand `cmd:"" help:"Write a configuration for each node of a plan, and check which nodes run as planned."`
}

// A planCommand is "tidings provision plan".
type planCommand struct {
	Feeds     float64 `required:"" placeholder:"N" help:"Number of feeds."`
	Subs      float64 `required:"" placeholder:"N" help:"Number of keyword subscriptions."`
	Memory    float64 `default:"1024" placeholder:"MB" help:"Memory of a node in megabytes (${default})."`
	Bandwidth float64 `default:"100" placeholder:"Mb/s" help:"Bandwidth of a node in each direction, in megabits per second (${default})."`
	CPU       float64 `name:"cpu" default:"1" help:"Processor speed of a node, as a multiple of the model's (${default})."`
	Over      float64 `default:"0.1" help:"Spare capacity, as a fraction of what is needed (${default})."`
	Model     string  `default:"measured" enum:"paper,published,measured" help:"Cost model: that of the plans in the paper, that of the measurements in the paper, or that of tidings (${enum}; ${default})."`
	JSON      bool    `name:"json" help:"Print one JSON object: a topology file."`
	DOT       bool    `name:"dot" help:"Print the nodes and their links for Graphviz."`
}

// Help returns additional help.
func (c *planCommand) Help() string {
	return "Plans a hosting centre for keyword subscriptions, as Cobra does (NSDI 2007, section 3.5): how many crawlers, filters " +
		"and reflectors it needs, and which of them send articles to which. The costs of \"paper\" were fitted to the plans in the " +
		"paper. They are many times the costs that the paper measured, which are \"published\".\n\n" +
		"tidings provision apply turns a plan into configurations, and compares what the nodes do with it.\n\n" +
		examples("tidings provision --feeds 1000000 --subs 40000000")
}

// Run computes a plan. It fails if no number of nodes can carry the load.
func (c *planCommand) Run(s streams) error {
	if c.JSON && c.DOT {
		return usagef("give either --json or --dot")
	}
	model := map[string]func() provision.Model{"paper": provision.Paper, "published": provision.Published, "measured": provision.Measured}[c.Model]()
	plan, err := provision.Plan(provision.Load{Feeds: c.Feeds, Subscriptions: c.Subs},
		provision.Constraints{Bandwidth: c.Bandwidth * 1e6, Memory: c.Memory, CPU: c.CPU, Overprovision: c.Over}, model)
	if err != nil {
		return usagef("provision: %w", err)
	}
	switch {
	case c.JSON:
		err = printJSON(s.out, plan)
	case len(plan.Violations) > 0: // there is no plan to show
	case c.DOT:
		_, err = fmt.Fprint(s.out, plan.DOT())
	default:
		_, err = fmt.Fprint(s.out, planTable(plan, terminalOf(s.out)))
	}
	if len(plan.Violations) > 0 {
		err = errors.Join(err, fmt.Errorf("provision: no number of such nodes is enough: %s", strings.Join(plan.Violations, "; ")))
	}
	return err
}

// planTable formats a plan for people. Each kind of node has a row with the largest values of any node of that
// kind.
func planTable(plan provision.Topology, t terminal) string {
	table := table{terminal: t, columns: []column{
		{head: "NODES"}, {head: "", right: true}, {head: "FEEDS EACH", right: true}, {head: "SUBSCRIPTIONS EACH", right: true}, {head: "SEND TO", right: true},
	}}
	for _, role := range []string{provision.Crawler, provision.Filter, provision.Reflector} {
		var n, feeds, subs, links int
		for _, node := range plan.Nodes {
			if node.Role == role {
				n++
				feeds, subs, links = max(feeds, node.Feeds), max(subs, node.Subscriptions), max(links, len(node.Links))
			}
		}
		table.row(cell{text: role + "s", colour: bold}, cell{text: strconv.Itoa(n)}, cell{text: strconv.Itoa(feeds)}, cell{text: strconv.Itoa(subs)}, cell{text: strconv.Itoa(links)})
	}
	return table.String()
}
