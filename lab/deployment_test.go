package main

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"tidings/internal/longtest"
)

// Sixteen nodes poll feeds that another process serves, and the simulator does the same.
func TestDeployment(t *testing.T) {
	for _, flags := range longtest.Pick([]string{"--scheme paper"}, []string{"", "--politeness", "--scheme paper"}) {
		t.Run(flags, func(t *testing.T) {
			t.Parallel()
			args := "bench deployment --nodes 16 --channels 20 --subscriptions 160 --interval 3s --length 2 --settle 2 --json " + flags
			code, out, err := lab(t, strings.Fields(args)...)
			if code != exitDone && !strings.Contains(err, "marks missed") { // the machine may be busy
				t.Fatalf("exit %d, %q", code, err)
			}
			var r deploymentResult
			if err := json.Unmarshal([]byte(out), &r); err != nil || len(r.Rows) != 4 {
				t.Fatalf("%v: %s", err, out)
			}
			for _, row := range r.Rows {
				if row.Polls <= 0 || row.Wait <= 0 || row.Wait > 3 {
					t.Errorf("%+v", row)
				}
			}
			if rate := r.Rows[0].Polls; rate < 40 || rate > 65 {
				t.Errorf("readers alone make %.1f polls a second, with 160 subscriptions", rate)
			}
			if r.Overlay <= 0 {
				t.Errorf("%+v", r)
			}
		})
	}
}

func TestDeploymentFlagsAreChecked(t *testing.T) {
	good := deploymentCommand{Nodes: 40, Channels: 1000, Subscriptions: 20_000, Interval: time.Minute, Length: 8, Load: 1, Settle: 3}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for flag, change := range map[string]func(*deploymentCommand){
		"--nodes":         func(c *deploymentCommand) { c.Nodes = 15 },
		"--channels":      func(c *deploymentCommand) { c.Channels = 0 },
		"--subscriptions": func(c *deploymentCommand) { c.Subscriptions = 999 },
		"--interval":      func(c *deploymentCommand) { c.Interval = 4 * time.Second },
		"--length":        func(c *deploymentCommand) { c.Length = 0 },
		"--load":          func(c *deploymentCommand) { c.Load = math.NaN() },
	} {
		c := good
		if change(&c); c.Validate() == nil || !strings.Contains(c.Validate().Error(), flag) {
			t.Errorf("%s: %v", flag, c.Validate())
		}
	}
}
