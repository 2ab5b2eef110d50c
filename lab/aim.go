package main

import (
	"context"
	"fmt"

	"tidings/internal/wire"
	"tidings/lab/aim"
	"tidings/lab/mark"
)

// An aimCommand is "tidings-lab sim aim".
type aimCommand struct {
	reporter
	Nodes int    `default:"1024" quick:"128" help:"Number of honest members (${default})."`
	Feeds int    `default:"200000" quick:"20000" help:"Number of random feeds for which chances are computed (${default})."`
	Seed  uint64 `default:"1" help:"Seed (${default})."`
}

// Validate is called by kong after parsing the flags.
func (c *aimCommand) Validate() error {
	if c.Nodes < 64 || c.Nodes > 16_384 || c.Feeds < 1 {
		return fmt.Errorf("--nodes %d --feeds %d: from 64 to 16,384 nodes, and at least one feed", c.Nodes, c.Feeds)
	}
	return nil
}

// rented are the attackers whose chances are computed, each with blocks of as many providers and with blocks of two.
var rented = []aim.Chance{
	{Blocks: 16, Providers: 16}, {Blocks: 64, Providers: 64}, {Blocks: 256, Providers: 256},
	{Blocks: 16, Providers: 2}, {Blocks: 64, Providers: 2}, {Blocks: 256, Providers: 2},
}

// Run computes the chances, and attacks a network of each kind of ids.
func (c *aimCommand) Run(ctx context.Context, s stdio) error {
	n := wire.DefaultNetwork("sim")
	chances := aim.Chances(c.Seed, c.Nodes, c.Feeds, n, rented)
	kinds := []string{wire.KeyIDs, wire.AddressIDs, wire.CertificateIDs}
	p := newProgress(s.err, fmt.Sprintf("%d attacks", len(kinds)))
	var attacks []aim.Attack
	var stopped error
	for i, kind := range kinds {
		a, err := aim.Attack{IDs: kind, Members: c.Nodes}.Run(ctx, c.Seed, func(done float64) { p.at((float64(i) + done) / float64(len(kinds))) })
		if err != nil {
			stopped = err
			break
		}
		attacks = append(attacks, a)
	}
	p.end()
	var marks []mark.Mark
	for _, h := range chances {
		run := fmt.Sprintf("%d blocks of %d providers", h.Blocks, h.Providers)
		held := mark.Info("feeds of which the attacker holds most owners", "%", 100*h.Held).WithNote(fmt.Sprintf("formula: %.3g %%", 100*h.Formula))
		if h.Providers == 2 {
			held = mark.AtMost("feeds of which the attacker holds most owners", "%", 100*h.Held, 0)
		}
		marks = append(marks, mark.ForRun(run, held)...)
	}
	for _, a := range attacks {
		held := mark.AtMost("owners of the chosen feed that are the attacker's", "", float64(a.Held), 0)
		switch a.IDs {
		case wire.KeyIDs:
			held = mark.Info("owners of the chosen feed that are the attacker's", "", float64(a.Held)).WithNote("keys cost nothing")
		case wire.AddressIDs:
			held = mark.AtMost("owners of the chosen feed that are the attacker's", "", float64(a.Held), float64(n.Witnesses-1))
		}
		marks = append(marks, mark.ForRun("ids "+a.IDs, held)...)
	}
	return joinErrors(stopped, c.report(s.out, map[string]any{"chances": chances, "attacks": attacks}, func(line printer) {
		line("%d honest members, each of a provider of its own; %d of %d owners are most", c.Nodes, n.Witnesses, n.Owners)
		line("blocks\tproviders\tfeeds held\tbinomial formula")
		for _, h := range chances {
			line("%d\t%d\t%.3g %%\t%.3g %%", h.Blocks, h.Providers, 100*h.Held, 100*h.Formula)
		}
		line("")
		line("ids\tattacker's nodes\tjoined as members\tkeys made\towners of the chosen feed\tthe attacker's")
		for _, a := range attacks {
			line("%s\t%d\t%d\t%d\t%d\t%d", a.IDs, a.Attackers, a.Joined, a.Tries, a.Owners, a.Held)
		}
	}, marks))
}
