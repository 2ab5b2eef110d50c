package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
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
	Feeds     float64  `placeholder:"N" help:"Number of feeds. Needed without --measured."`
	Subs      float64  `placeholder:"N" help:"Number of keyword subscriptions. Needed without --measured."`
	Measured  []string `placeholder:"FILE" help:"Take the costs from what a node of a running plan has measured in the last five minutes: a file with the answer of tidings status --json, or the node's HOST:PORT or URL. May be repeated, best with all nodes. What is not measured, and what --feeds and --subs do not say, is that of --model and that of these nodes."`
	Addresses string   `placeholder:"FILE" help:"Topology file from which nodes of the same name take their addresses."`
	Memory    float64  `default:"1024" placeholder:"MB" help:"Memory of a node in megabytes (${default})."`
	Bandwidth float64  `default:"100" placeholder:"Mb/s" help:"Bandwidth of a node in each direction, in megabits per second (${default})."`
	CPU       float64  `name:"cpu" default:"1" help:"Processor speed of a node, as a multiple of the model's (${default})."`
	Over      float64  `default:"0.1" help:"Spare capacity, as a fraction of what is needed (${default})."`
	Model     string   `default:"measured" enum:"paper,published,measured" help:"Cost model: that of the plans in the paper, that of the measurements in the paper, or that of tidings (${enum}; ${default})."`
	JSON      bool     `name:"json" help:"Print one JSON object: a topology file."`
	DOT       bool     `name:"dot" help:"Print the nodes and their links for Graphviz."`
}

// Help returns additional help.
func (c *planCommand) Help() string {
	return "Plans a hosting centre for keyword subscriptions, as Cobra does (NSDI 2007, section 3.5): how many crawlers, filters " +
		"and reflectors it needs, and which of them send articles to which. The costs of \"paper\" were fitted to the plans in the " +
		"paper. They are many times the costs that the paper measured, which are \"published\".\n\n" +
		"tidings provision apply turns a plan into configurations, and compares what the nodes do with it.\n\n" +
		examples("tidings provision --feeds 1000000 --subs 40000000",
			"tidings provision --measured crawler-1.json --measured filter-1-1.json --measured reflector-1.json --addresses plan.json --json")
}

// Run computes a plan. It fails if no number of nodes can carry the load.
func (c *planCommand) Run(ctx context.Context, s streams) error {
	if c.JSON && c.DOT {
		return usagef("give either --json or --dot")
	}
	model := map[string]func() provision.Model{"paper": provision.Paper, "published": provision.Published, "measured": provision.Measured}[c.Model]()
	load := provision.Load{Feeds: c.Feeds, Subscriptions: c.Subs}
	if len(c.Measured) > 0 {
		nodes, missing, err := measurements(ctx, c.Measured)
		if err != nil {
			return fmt.Errorf("provision --measured: %w", err)
		}
		if len(missing) > 0 {
			if _, err := fmt.Fprintf(s.err, "not measured: %s. What these nodes carry is not in the plan, unless you give their status with --measured, too, or all with --feeds and --subs.\n", strings.Join(missing, ", ")); err != nil {
				return err
			}
		}
		model, load = model.Fitted(nodes)
		load.Feeds, load.Subscriptions = cmp.Or(c.Feeds, load.Feeds), cmp.Or(c.Subs, load.Subscriptions)
		if _, err := fmt.Fprint(s.err, modelText(model, load)); err != nil {
			return err
		}
	}
	if load.Feeds == 0 || load.Subscriptions == 0 {
		return usagef("give --feeds and --subs, or the status of the crawlers and reflectors of a running plan with --measured")
	}
	plan, err := provision.Plan(load,
		provision.Constraints{Bandwidth: c.Bandwidth * 1e6, Memory: c.Memory, CPU: c.CPU, Overprovision: c.Over}, model)
	if err != nil {
		return usagef("provision: %w", err)
	}
	if c.Addresses != "" {
		if err := takeAddresses(&plan, c.Addresses); err != nil {
			return fmt.Errorf("provision --addresses: %w", err)
		}
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

// measurements returns what nodes have measured, by their status, and the names of the others that these exchange articles
// with.
func measurements(ctx context.Context, sources []string) (nodes []provision.Measurement, missing []string, err error) {
	measured, linked := map[string]bool{}, map[string]bool{}
	for _, source := range sources {
		st, err := statusFrom(ctx, source)
		if err != nil {
			return nil, nil, err
		}
		h := st.Hosting
		switch {
		case h == nil:
			return nil, nil, fmt.Errorf("the node of %s runs without a topology, so it has measured nothing", source)
		case h.Rates == nil:
			return nil, nil, fmt.Errorf("%s at %s has measured nothing yet, because it has just started; try again in a few minutes", h.Name, source)
		}
		m := provision.Measurement{
			Role: h.Role, Feeds: h.Feeds, Queries: h.Queries, Articles: h.Rates.Articles, ArticleBytes: h.Rates.ArticleBytes, Sent: h.Rates.Sent,
			Polls: h.Rates.Polls, Documents: h.Rates.Documents, DocumentBytes: h.Rates.DocumentBytes, MatchSeconds: h.Rates.MatchS, Memory: h.Rates.MemoryMB,
		}
		measured[h.Name] = true
		for _, l := range h.Links {
			linked[l.Name] = true
			if l.Way == "to" {
				m.Links++
			}
		}
		nodes = append(nodes, m)
	}
	for name := range linked {
		if !measured[name] {
			missing = append(missing, name)
		}
	}
	slices.Sort(missing)
	return nodes, missing, nil
}

// modelText says what a plan is made from.
func modelText(m provision.Model, load provision.Load) string {
	return fmt.Sprintf("%.0f feeds, each polled every %.0f s, of which %.3g%% bring a document of %.0f bytes\n"+
		"%.3g articles a second of %.0f bytes, of which %.3g%% are for a reflector\n"+
		"%.0f subscriptions; matching an article takes %.3g ms, and %.3g ms for each million\n",
		load.Feeds, m.CrawlInterval, 100*m.DownloadShare, m.DocumentBytes, load.Feeds*m.ArticleRate, m.ArticleBytes, 100*m.PassShare,
		load.Subscriptions, m.MatchFixed, m.MatchPerMillion)
}

// takeAddresses gives the nodes of a plan the addresses that nodes of the same name and role have in a topology file.
func takeAddresses(plan *provision.Topology, file string) error {
	old, err := readTopology(file)
	if err != nil {
		return err
	}
	for i := range plan.Nodes {
		n := &plan.Nodes[i]
		at := slices.IndexFunc(old.Nodes, func(o provision.Node) bool { return o.Name == n.Name && o.Role == n.Role })
		if at >= 0 {
			n.Peer, n.HTTP = old.Nodes[at].Peer, old.Nodes[at].HTTP
		}
	}
	return nil
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
