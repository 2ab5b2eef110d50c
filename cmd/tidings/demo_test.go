package main

import (
	"bytes"
	"context"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"tidings/internal/locale"
	"tidings/internal/longtest"
)

// The demo runs without Internet access, prints its result, and ends. It runs beside no other test of the package, because it
// measures time.
func TestDemoShowsTheEffect(t *testing.T) {
	skipIfShort(t)
	// On a busy machine the nodes need longer to share their work, so the demo runs until it shows the effect, and
	// not for a fixed time.
	ctx, stop := context.WithTimeout(t.Context(), 2*timeout)
	defer stop()
	out := stopWriter{stop: stop, matches: func(line string) bool {
		seen := regexp.MustCompile(`alone: ([0-9.]+) polls/s, shown after ([0-9.]+) s; .*: ([0-9.]+) polls/s, shown after ([0-9.]+) s`).FindStringSubmatch(line)
		if seen == nil {
			return false
		}
		var values [4]float64
		for i := range values {
			values[i], _ = strconv.ParseFloat(seen[i+1], 64)
		}
		load := values[2] / values[0]
		return values[1] >= 2*values[3] && load >= 0.2 && load <= 1.2
	}}
	c := demoCommand{Nodes: 20, Feeds: longtest.Pick(8, 20), Interval: 4 * time.Second, Every: 5 * time.Second, For: 2 * timeout, HTTP: "127.0.0.1:0", Seed: 1}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	if err := c.Run(ctx, streams{out: &out}); err != nil {
		t.Fatal(err)
	}
	if !out.met {
		t.Errorf("it never showed items twice as soon with 20 to 120 %% of the polls:\n%s", out.String())
	}
	if !regexp.MustCompile(`[0-9.]+ times sooner, with [0-9.]+ %`).MatchString(out.String()) {
		t.Errorf("it ended without a verdict:\n%s", out.String())
	}
	for _, words := range []string{"20 nodes over real sockets", "Zipf", "tidings run"} {
		if !strings.Contains(out.String(), words) {
			t.Errorf("nothing of %q in\n%s", words, out.String())
		}
	}
}

// A stopWriter collects what is written to it, and calls stop when the text matches.
type stopWriter struct {
	bytes.Buffer
	matches func(string) bool
	stop    func()
	met     bool
}

func (u *stopWriter) Write(b []byte) (int, error) {
	if !u.met && u.matches(string(b)) {
		u.met = true
		u.stop()
	}
	return u.Buffer.Write(b)
}

// The demo ends soon after an interrupt at any time, and leaves no files behind.
func TestDemoEndsOnInterrupt(t *testing.T) {
	skipIfShort(t)
	for _, after := range longtest.Pick([]time.Duration{300 * time.Millisecond}, []time.Duration{0, 300 * time.Millisecond, 2 * time.Second}) {
		dir := t.TempDir()
		t.Setenv("TMPDIR", dir)
		ctx, stop := context.WithTimeout(t.Context(), after)
		c := demoCommand{Nodes: 20, Feeds: 20, Interval: 4 * time.Second, Every: 5 * time.Second, For: time.Minute, HTTP: "127.0.0.1:0", Seed: 1, Paper: true}
		began := time.Now()
		err := c.Run(ctx, streams{out: &bytes.Buffer{}})
		stop()
		if took := time.Since(began) - after; err != nil || took > 20*time.Second {
			t.Errorf("interrupted after %v: %v, %v later", after, err, took)
		}
		if left := entries(t, dir); len(left) > 0 {
			t.Errorf("interrupted after %v it leaves %q", after, left)
		}
	}
}

func TestDemoFlagsAreChecked(t *testing.T) {
	good := demoCommand{Nodes: 24, Feeds: 100, Interval: 20 * time.Second, Every: 25 * time.Second, For: time.Minute, HTTP: "127.0.0.1:0"}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for flag, change := range map[string]func(*demoCommand){
		"--nodes":    func(c *demoCommand) { c.Nodes = 19 },
		"--feeds":    func(c *demoCommand) { c.Feeds = 0 },
		"--interval": func(c *demoCommand) { c.Interval = 2500 * time.Millisecond },
		"--every":    func(c *demoCommand) { c.Every = 0 },
		"--http":     func(c *demoCommand) { c.HTTP = "8190" },
	} {
		c := good
		if change(&c); c.Validate() == nil || !strings.Contains(c.Validate().Error(), flag) {
			t.Errorf("%s: %v", flag, c.Validate())
		}
	}
}

// entries returns the names in a folder.
func entries(t *testing.T, dir string) (names []string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

// The demo also ends when its output is closed.
func TestDemoEndsWithoutAReader(t *testing.T) {
	skipIfShort(t)
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	_ = r.Close()
	c := demoCommand{Nodes: 20, Feeds: 20, Interval: 4 * time.Second, Every: 5 * time.Second, For: time.Minute, HTTP: "127.0.0.1:0", Seed: 1}
	began := time.Now()
	if err := c.Run(t.Context(), streams{out: w}); err != nil || time.Since(began) > 30*time.Second {
		t.Errorf("%v after %v", err, time.Since(began))
	}
	if left := entries(t, dir); len(left) > 0 {
		t.Errorf("it leaves %q", left)
	}
	_ = w.Close()
}

// No line of the screen's table is longer than 80 characters, and no line is longer than the terminal.
func TestDemoFitsATerminal(t *testing.T) {
	f := figures{about: locale.Text{strings.Repeat("words ", 40)}, running: 20 * time.Second, gain: 11, load: 0.9, story: locale.Text{strings.Repeat("and more ", 40)},
		rows: [][4]locale.Text{{{"each reader alone"}, {"123.4"}, {"1.23 MB"}, {"10.12 s"}}, {{"nodes as in the paper"}, {"123.4"}, {"123 kB"}, {"1.12 s"}}}}
	for line := range strings.Lines(f.screen("http://127.0.0.1:12345/", 80)) {
		if len(line) > 81 {
			t.Errorf("%d characters: %s", len(line), line)
		}
	}
	var out bytes.Buffer
	d := demo{out: &out, terminal: terminal{width: 40, escapes: true}, command: &demoCommand{}}
	for range 2 {
		if err := d.draw(f); err != nil {
			t.Fatal(err)
		}
	}
	rows := 0
	first, _, _ := strings.Cut(out.String(), "\x1b")
	for line := range strings.Lines(first) {
		rows += max(1, (len(line)-1+39)/40)
	}
	if want := "\x1b[" + strconv.Itoa(rows) + "A"; !strings.Contains(out.String(), want) {
		t.Errorf("the second picture does not begin %d lines above", rows)
	}
}

// The verdict names the readers that have seen no item yet.
func TestDemoVerdict(t *testing.T) {
	rows := func(alone, together string) [][4]locale.Text {
		return [][4]locale.Text{{{"each reader alone"}, {"1.0"}, {"1 kB"}, {alone}}, {{"nodes together"}, {"1.0"}, {"1 kB"}, {together}}}
	}
	for _, c := range []struct {
		f    figures
		want string
	}{
		{figures{rows: rows("-", "-")}, "no new item has been shown yet"},
		{figures{rows: rows("-", "1.03 s")}, "readers that poll alone have seen no new item yet"},
		{figures{rows: rows("10.00 s", "1.00 s"), gain: 10, load: 0.9}, "the nodes together show new items 10.0 times sooner, with 90.0 % of the polls"},
	} {
		if got := c.f.verdict().String(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
