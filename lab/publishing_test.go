package main

import (
	"encoding/json"
	"strings"
	"testing"

	"tidings/lab/publishing"
)

func TestPublishing(t *testing.T) {
	for _, c := range []struct{ args, says string }{
		{"--nodes 8", "from 16"},
		{"--feeds 1000", "half as many"},
		{"--length 1s", "at least a minute"},
		{"--scenario storm", `no scenario "storm"; the scenarios are calm`},
	} {
		code, out, err := lab(t, append([]string{"sim", "publishing"}, strings.Fields(c.args)...)...)
		if code != exitUsage || out != "" || !strings.Contains(err, c.says) {
			t.Errorf("%s: exit %d, %q, %q", c.args, code, out, err)
		}
	}
	small := strings.Fields("sim publishing --nodes 24 --feeds 2 --every 1m --length 3m --scenario loss-1")
	code, out, err := lab(t, small...)
	if code != exitDone || err != "" || !strings.Contains(out, "published to shown, p99 ") || !strings.Contains(out, "p99, relative to calm") {
		t.Errorf("exit %d, %q\n%s", code, err, out)
	}
	code, out, err = lab(t, append(small, "--json")...)
	var got struct {
		Runs []publishing.Result `json:"runs"`
	}
	if bad := json.Unmarshal([]byte(out), &got); code != exitDone || err != "" || bad != nil || len(got.Runs) != 2 || got.Runs[1].Scenario != "loss-1" {
		t.Errorf("exit %d, %q, %v\n%s", code, err, bad, out)
	}
}
