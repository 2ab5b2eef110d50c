package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"tidings/internal/deployment"
)

// figures are what a demo shows at a moment.
type figures struct {
	about   string
	phase   string // what is done before it runs; "" when it does
	running time.Duration
	rows    [][4]string
	story   string
	gain    float64 // how many times sooner readers see an item
	load    float64 // polls by those that each makes for itself
}

// widest is how many characters of words stand on a line.
const widest = 100

// columns are the headings of the rows.
var columns = []string{"who polls", "polls per second", "bytes per second", "items shown after"}

// figures looks at what runs.
func (d *demo) figures() (f figures) {
	v, c := d.ours.View(), d.ours.Config()
	f.about = fmt.Sprintf("%d nodes have %d subscriptions to %d feeds. A reader that polls alone polls each of its feeds once in %v. The nodes together poll no more often than such readers would, and tell each other what is new.",
		c.Nodes, c.Subscriptions(), len(c.Channels), c.Network.PollInterval)
	if f.running = v.Running; v.Running == 0 {
		f.phase = fmt.Sprintf("%s %.0f %%", v.Phase, 100*v.Progress)
	}
	row := func(name string, p deployment.Polled, since time.Duration, s deployment.Shown) {
		mean := "-"
		if s.Items > 0 {
			mean = fmt.Sprintf("%.2f s", s.MeanDelay().Seconds())
		}
		per := max(since.Seconds(), 1)
		f.rows = append(f.rows, [4]string{name, fmt.Sprintf("%.1f", float64(p.Polls)/per), bytesOf(float64(p.Bytes) / per), mean})
	}
	at := v.LastInterval
	row("each reader alone", at.Legacy, at.Since, at.Shown)
	if d.papers != nil {
		p := d.papers.View().LastInterval
		row("nodes as in the paper", p.Nodes, p.Since, p.ShownByNodes)
	}
	row("nodes together", at.Nodes, at.Since, at.ShownByNodes)
	if at.ShownByNodes.Items > 0 && at.Legacy.Polls > 0 {
		f.gain = at.Shown.MeanDelay().Seconds() / at.ShownByNodes.MeanDelay().Seconds()
		f.load = float64(at.Nodes.Polls) / float64(at.Legacy.Polls)
	}
	f.story = storyOf(v.LastItem)
	return f
}

// nodeNumber finds the number of a node in its User-Agent.
var nodeNumber = regexp.MustCompile(regexp.QuoteMeta(nodeMark) + `(\d+)`)

// storyOf tells the way of an item.
func storyOf(s *deployment.ItemTrace) string {
	if s == nil || len(s.Arrivals) == 0 {
		return ""
	}
	by := "A node"
	if m := nodeNumber.FindStringSubmatch(s.FirstPoll.By); m != nil {
		by = "Node " + m[1]
	}
	after := func(t time.Time) string { return fmt.Sprintf("%.2f s", max(t.Sub(s.PublishedAt), 0).Seconds()) }
	first := slices.MinFunc(s.Arrivals, func(a, b deployment.Arrival) int { return a.At.Compare(b.At) })
	last := slices.MaxFunc(s.Arrivals, func(a, b deployment.Arrival) int { return a.At.Compare(b.At) })
	return fmt.Sprintf("“%s” was published at %s. %s found it after %s. Node %d was the first to show it, after %s, and the last of %d nodes showed it after %s.",
		s.Title, s.PublishedAt.Format("15:04:05.00"), by, after(s.FirstPoll.At), first.Node, after(first.At), s.ReaderNodes, after(last.At))
}

// line is all in one, for a log.
func (f *figures) line() string {
	if f.phase != "" {
		return f.phase
	}
	var parts []string
	for _, r := range f.rows {
		parts = append(parts, fmt.Sprintf("%s: %s polls/s, shown after %s", r[0], r[1], r[3]))
	}
	return fmt.Sprintf("%3.0f s  %s", f.running.Seconds(), strings.Join(parts, "; "))
}

// picture is all, for a terminal so wide.
func (f *figures) picture(page string, width int) string {
	var b strings.Builder
	words := func(text string) { fmt.Fprintf(&b, "%s\n", strings.Join(wrap(text, min(width, widest)), "\n")) }
	words(f.about)
	if page != "" {
		words(pageLine(page))
	}
	if f.phase != "" {
		fmt.Fprintf(&b, "\n%s\n", f.phase)
		return b.String()
	}
	fmt.Fprintf(&b, "\n%s", f.table())
	b.WriteByte('\n')
	words(fmt.Sprintf("after %.0f s: %s", f.running.Seconds(), f.verdict()))
	if f.story != "" {
		words(f.story)
	}
	return b.String()
}

func pageLine(page string) string { return "Page of one of the nodes, for your browser: " + page }

func (f *figures) table() string {
	var b strings.Builder
	line := func(cells []string) {
		fmt.Fprintf(&b, "%-25s", cells[0])
		for i, c := range cells[1:] {
			fmt.Fprintf(&b, "  %*s", len(columns[i+1]), c)
		}
		b.WriteByte('\n')
	}
	line(columns)
	for _, r := range f.rows {
		line(r[:])
	}
	return b.String()
}

func (f *figures) verdict() string {
	switch seen := f.rows[len(f.rows)-1][3] != "-"; {
	case f.gain == 0 && seen:
		return "readers that poll alone have seen no new item yet"
	case f.gain == 0:
		return "no new item has been shown yet"
	}
	return fmt.Sprintf("the nodes together show new items %.1f times sooner, with %.1f %% of the polls", f.gain, 100*f.load)
}

// summary is what the demo has shown, and what to do next.
func (f *figures) summary(c deployment.Config) string {
	most, least := 0, c.Nodes
	for i := range c.Channels {
		n := c.Channels[i].ReaderCount()
		most, least = max(most, n), min(least, n)
	}
	papers := ""
	if len(f.rows) > 2 {
		papers = fmt.Sprintf(`
With the scheme of the Corona paper, nodes made %s polls per second and showed
a new item after %s. Its polling levels are steps of sixteen, so nodes leave
allowed polls unused.
`, f.rows[1][1], f.rows[1][3])
	}
	story := ""
	if f.story != "" {
		story = "\nThe way of one item:\n" + strings.Join(wrap(f.story, 80), "\n") + "\n"
	}
	return fmt.Sprintf(`
These were %d nodes over real sockets and %d feeds with %d to %d readers each
(Zipf's law, exponent 0.1), in all %d subscriptions. In the last %v, readers
that poll alone made %s polls per second and saw a new item after %s on
average. The nodes together made %s polls per second and showed it after %s.
%s
%s%s
Next:  %[14]s run              runs a node of your own
       %[14]s subscribe URL    prints an address for your feed reader
       %[14]s demo --paper     also shows the scheme of the Corona paper
`, c.Nodes, len(c.Channels), least, most, c.Subscriptions(), c.Network.PollInterval, f.rows[0][1], f.rows[0][3], f.rows[len(f.rows)-1][1], f.rows[len(f.rows)-1][3], sentenceOf(f.verdict()), papers, story, typed())
}

// typed is how this program is called on a command line: it may not be installed.
func typed() string {
	if self, err := os.Executable(); err == nil && filepath.Base(filepath.Dir(self)) == "exe" { // where go run builds
		return "go run ./cmd/tidings"
	}
	return "tidings"
}

// sentenceOf makes a sentence of words.
func sentenceOf(words string) string { return strings.ToUpper(words[:1]) + words[1:] + "." }

// bytesOf is an amount, for people.
func bytesOf(n float64) string {
	for _, unit := range []string{"B", "kB", "MB"} {
		if n < 1000 {
			return fmt.Sprintf("%.3g %s", n, unit)
		}
		n /= 1000
	}
	return fmt.Sprintf("%.3g GB", n)
}
