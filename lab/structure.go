package main

import (
	"cmp"
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"

	"tidings/lab/mark"
	"tidings/lab/structure"
)

// A structureCommand is "tidings-lab eval structure".
type structureCommand struct {
	reporter
	Root string   `placeholder:"DIR" help:"The module's folder, instead of that of tidings."`
	Dirs []string `arg:"" optional:"" name:"package" help:"Folders of packages, relative to the module's; all if there are none."`
}

// Help is appended to the command's help.
func (c *structureCommand) Help() string {
	return "An arrow runs from a file to another one of the same package if it names something that the other declares. The files " +
		"are put into the order in which the fewest arrows run upwards. At most a fifth of them may in corona, feedtree, internal/daemon, overlay and the " +
		"packages below it. Tests and generated files are left out. With --quick only overlay/scribe is measured."
}

// fewUpward are the packages with a target for upward arrows; mostUpward is that target in percent.
var fewUpward = []string{"corona", "feedtree", "internal/daemon", "overlay", "overlay/owner", "overlay/scribe", "overlay/wedge"}

const mostUpward = 20

// Run measures and prints the results.
func (c *structureCommand) Run(ctx context.Context, s stdio) error {
	dirs := c.Dirs
	if c.Quick {
		dirs = []string{"overlay/scribe"}
	}
	if c.Root == "" {
		out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "tidings").Output()
		if err != nil {
			return fmt.Errorf("find the module tidings: %w; say with --root where it is", err)
		}
		c.Root = strings.TrimSpace(string(out))
	}
	found, err := structure.Measure(c.Root, dirs...)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return fmt.Errorf("%s has no packages: give its folder with --root", c.Root)
	}
	slices.SortStableFunc(found, func(a, b structure.Package) int { return cmp.Compare(b.Lines, a.Lines) })
	total := structure.Package{Path: "all"}
	var marks []mark.Mark
	for _, p := range found {
		total.Lines, total.Files = total.Lines+p.Lines, total.Files+p.Files
		if slices.Contains(fewUpward, p.Path) && p.Arrows > 0 {
			marks = append(marks, mark.AtMost("upward arrows of "+p.Path, "%", 100*float64(p.Upward)/float64(p.Arrows), mostUpward))
		}
	}
	marks = append(marks, mark.Info("lines", "", float64(total.Lines)))
	return c.report(s.out, struct {
		Packages []structure.Package `json:"packages"`
	}{found}, func(line printer) {
		line("package\tlines\tfiles\tlongest\tupward arrows\t\tmost fields\tmost methods")
		for _, p := range found {
			line("%s", p)
		}
	}, marks)
}
