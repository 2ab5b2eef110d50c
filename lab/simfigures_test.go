package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tidings/internal/longtest"
)

// The same seed draws the same bytes.
func TestFiguresAreDrawnAlike(t *testing.T) {
	t.Parallel()
	dirs := []string{t.TempDir(), t.TempDir()}
	channels := longtest.Pick("6", "12")
	for _, dir := range dirs {
		for _, args := range []string{
			"sim figures --nodes 16 --channels " + channels + " --hours 2 --out " + dir,
			"sim deployment --nodes 16 --channels " + channels + " --subscriptions 360 --grow 20m --hours 2 --out " + dir,
		} {
			if code, _, err := lab(t, strings.Fields(args)...); code != exitDone || err != "" {
				t.Fatalf("exit %d, %q", code, err)
			}
		}
	}
	names, err := filepath.Glob(filepath.Join(dirs[0], "*"))
	if err != nil || len(names) != 6+2 {
		t.Fatalf("%d files, %v", len(names), err)
	}
	for _, name := range names {
		one, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		other, err := os.ReadFile(filepath.Join(dirs[1], filepath.Base(name)))
		if err != nil || !bytes.Equal(one, other) || len(one) < 1000 {
			t.Errorf("%s: %v, %d bytes, and %d", filepath.Base(name), err, len(one), len(other))
		}
	}
}

func TestFigureFlagsAreChecked(t *testing.T) {
	t.Parallel()
	figures := simFiguresCommand{Nodes: 64, Channels: 100, Hours: 4}
	deployment := simDeploymentCommand{Nodes: 60, Channels: 100, Subscriptions: 1000, Grow: time.Hour, Hours: 3, Part: []float64{1}, Scheme: ours}
	if figures.Validate() != nil || deployment.Validate() != nil {
		t.Fatal(figures.Validate(), deployment.Validate())
	}
	for flag, change := range map[string]func(*simFiguresCommand){
		"--nodes": func(c *simFiguresCommand) { c.Nodes = 2 }, "--channels": func(c *simFiguresCommand) { c.Channels = 0 },
		"--hours": func(c *simFiguresCommand) { c.Hours = 1 }, "--workers": func(c *simFiguresCommand) { c.Workers = -1 },
	} {
		c := figures
		if change(&c); c.Validate() == nil || !strings.Contains(c.Validate().Error(), flag) {
			t.Errorf("%s: %v", flag, c.Validate())
		}
	}
	for flag, change := range map[string]func(*simDeploymentCommand){
		"--nodes": func(c *simDeploymentCommand) { c.Nodes = 2 }, "--channels": func(c *simDeploymentCommand) { c.Subscriptions = 0 },
		"--grow": func(c *simDeploymentCommand) { c.Grow = 3 * time.Hour }, "--part": func(c *simDeploymentCommand) { c.Part = []float64{0} },
		"no scheme": func(c *simDeploymentCommand) { c.Scheme = "mine" },
	} {
		c := deployment
		if change(&c); c.Validate() == nil || !strings.Contains(c.Validate().Error(), flag) {
			t.Errorf("%s: %v", flag, c.Validate())
		}
	}
}
