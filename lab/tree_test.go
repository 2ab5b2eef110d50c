package main

import (
	"strings"
	"testing"
	"time"

	"tidings/lab/tree"
)

func TestTreesRefuseWhatMeansNothing(t *testing.T) {
	t.Parallel()
	for args, says := range map[string]string{
		"--hosts 9":                "--hosts 9: from 10 to 600",
		"--topics 0":               "--topics [0]: from 1",
		"--publications 0":         "--publications 0",
		"--size 60000":             "--size 60000: from 64",
		"--fan-out 1":              "--fan-out 1: from 2",
		"--idle 1ms":               "--idle 1ms: at least a second",
		"--burden 10000":           "--burden 10000: from 0",
		"--connections none,trees": "none excludes all others",
		"--connections many":       "many",
		"--every=-1s":              "--every -1s",
	} {
		code, _, err := lab(t, append([]string{"bench", "tree"}, strings.Fields(args)...)...)
		if code != exitUsage || !strings.Contains(err, says) {
			t.Errorf("%s: exit %d, %q", args, code, err)
		}
	}
}

func TestRunsOfTrees(t *testing.T) {
	t.Parallel()
	c := treeCommand{Hosts: 200, Topics: []int{100, 1000}, Connections: []string{tree.Overlay}, Burden: 4800}
	of := c.benches()
	if len(of) != 3 || of[0].Topics != 100 || of[1].Topics != 1000 || of[2].Topics != 38_400 ||
		len(of[0].Connections) != 1 || len(of[2].Connections) != 0 || of[0].ForgetTime != tree.FullForgetTime {
		t.Errorf("%+v", of)
	}
	c.Connections, c.Burden = []string{"none"}, 0
	if of := c.benches(); len(of) != 2 || len(of[0].Connections) != 0 {
		t.Errorf("%+v", of)
	}
}

func TestTreesArePrintedAndJudged(t *testing.T) {
	t.Parallel()
	results := []tree.Result{
		{System: tree.OfTrees, Hosts: 200, Topics: 1000, Subscriptions: 250_000, Expected: 1000, Delivered: 1000, Envelope: 1127, ContentBytes: 1150, ControlBytes: 20,
			LoadMaxMean: 5.5, HeapPerSubscription: 150, IdleS: 600, IdleMessages: 7.25, OverlayMessages: 3.5, UpBytes: 2345},
		{System: tree.OfGossip, Like: tree.Overlay, Hosts: 200, Topics: 1000, Subscriptions: 25_000, Expected: 1000, Delivered: 850, Envelope: 1127, ContentBytes: 2500,
			IdleS: (90 * time.Second).Seconds()},
	}
	out := shown(func(line printer) { printTrees(line, results) }, append(tree.Judge(results), tree.Speed{PerSecond: 12_345}.Judge()))
	for _, says := range []string{
		"1000 850 15.00 %", "gossipsub, connected as overlay", "10m0s 7.25", "1m30s", "2345",
		"1000 topics delivered 100 % ≥ 100 % met", "relative to the envelope 1.038 ≤ 1.15 met, also the stretch target ≤ 1.05", "maximum by mean 5.5 ≤ 4 MISSED",
		"heap per subscription 150 B ≤ 400 B met, also the stretch target ≤ 200 B", "opened on one core 12345 /s ≥ 10000 /s met",
	} {
		if !strings.Contains(out, says) {
			t.Errorf("nothing says %q in\n%s", says, out)
		}
	}
}
