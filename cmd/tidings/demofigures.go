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
	"tidings/internal/locale"
	"tidings/proxy"
)

// figures holds the figures of a demo at a moment.
type figures struct {
	about   locale.Text
	phase   locale.Text // what is being prepared; empty while it runs
	running time.Duration
	rows    [][4]locale.Text
	story   locale.Text
	gain    float64 // how many times sooner readers see an item
	load    float64 // the nodes' polls, divided by those of readers that poll alone
}

// maxTextWidth is the maximum length of text lines in characters.
const maxTextWidth = 100

// columns holds the column names of the table.
var columns = []locale.Text{locale.Say("polled by"), locale.Say("polls per second"), locale.Say("bytes per second"), locale.Say("items shown after")}

// phases holds the texts of the phases before a deployment runs.
var phases = map[string]string{
	"": locale.Key("starting nodes"), "starting nodes": locale.Key("starting nodes"), "joining the network": locale.Key("joining the network"), "subscribing": locale.Key("subscribing"),
}

// nothingShown stands for the time of items of which there are none.
var nothingShown = locale.Verbatim("-")

// figures reads the current figures.
func (d *demo) figures() (f figures) {
	v, c := d.together.View(), d.together.Config()
	f.about = locale.Say("%d nodes have %d subscriptions to %s. A reader that polls alone polls each of its feeds once in %v. The nodes together poll no more often than such readers would, and tell each other what is new.",
		c.Nodes, c.Subscriptions(), locale.Say("%d feeds", len(c.Channels)), c.Network.PollInterval)
	if f.running = v.Running; v.Running == 0 {
		f.phase = locale.Say("%s %.0f %%", locale.Say(phases[v.Phase]), 100*v.Progress)
	}
	row := func(name locale.Text, p deployment.Polled, since time.Duration, s deployment.Shown) {
		mean := nothingShown
		if s.Items > 0 {
			mean = locale.Say("%.2f s", s.MeanDelay().Seconds())
		}
		per := max(since.Seconds(), 1)
		f.rows = append(f.rows, [4]locale.Text{name, locale.Say("%.1f", float64(p.Polls)/per), locale.Verbatim(formatBytes(float64(p.Bytes) / per)), mean})
	}
	at := v.LastInterval
	row(locale.Say("each reader alone"), at.Legacy, at.Since, at.Shown)
	if d.paper != nil {
		p := d.paper.View().LastInterval
		row(locale.Say("nodes as in the paper"), p.Nodes, p.Since, p.ShownByNodes)
	}
	row(locale.Say("nodes together"), at.Nodes, at.Since, at.ShownByNodes)
	if at.ShownByNodes.Items > 0 && at.Legacy.Polls > 0 {
		f.gain = at.Shown.MeanDelay().Seconds() / at.ShownByNodes.MeanDelay().Seconds()
		f.load = float64(at.Nodes.Polls) / float64(at.Legacy.Polls)
	}
	f.story = itemStory(v.LastItem)
	return f
}

// nodeNumber finds the number of a node in its User-Agent.
var nodeNumber = regexp.MustCompile(regexp.QuoteMeta(nodeMark) + `(\d+)`)

// itemStory describes how an item reached readers.
func itemStory(s *deployment.ItemTrace) locale.Text {
	if s == nil || len(s.Arrivals) == 0 {
		return nil
	}
	by := locale.Say("A node")
	if m := nodeNumber.FindStringSubmatch(s.FirstPoll.By); m != nil {
		by = locale.Say("Node %s", m[1])
	}
	after := func(t time.Time) locale.Text { return locale.Say("%.2f s", max(t.Sub(s.PublishedAt), 0).Seconds()) }
	first := slices.MinFunc(s.Arrivals, func(a, b deployment.Arrival) int { return a.At.Compare(b.At) })
	last := slices.MaxFunc(s.Arrivals, func(a, b deployment.Arrival) int { return a.At.Compare(b.At) })
	return locale.Say("“%s” was published at %s. %s found it after %s. Node %d was the first to show it, after %s, and the last of %d nodes showed it after %s.",
		s.Title, s.PublishedAt.Format("15:04:05.00"), by, after(s.FirstPoll.At), first.Node, after(first.At), s.ReaderNodes, after(last.At))
}

// line formats all figures on one line, for a log.
func (f *figures) line() string {
	if len(f.phase) > 0 {
		return f.phase.String()
	}
	var parts []string
	for _, r := range f.rows {
		parts = append(parts, fmt.Sprintf("%s: %s polls/s, shown after %s", r[0], r[1], r[3]))
	}
	return fmt.Sprintf("%3.0f s  %s", f.running.Seconds(), strings.Join(parts, "; "))
}

// screen formats all figures for a terminal of a width.
func (f *figures) screen(page string, width int) string {
	var b strings.Builder
	writeText := func(text string) { fmt.Fprintf(&b, "%s\n", strings.Join(wrap(text, min(width, maxTextWidth)), "\n")) }
	writeText(f.about.String())
	if page != "" {
		writeText(pageLine(page))
	}
	if len(f.phase) > 0 {
		fmt.Fprintf(&b, "\n%s\n", f.phase)
		return b.String()
	}
	fmt.Fprintf(&b, "\n%s", f.table())
	b.WriteByte('\n')
	writeText(fmt.Sprintf("after %.0f s: %s", f.running.Seconds(), f.verdict()))
	if len(f.story) > 0 {
		writeText(f.story.String())
	}
	return b.String()
}

func pageLine(page string) string { return "Page of one of the nodes, for your browser: " + page }

func (f *figures) table() string {
	var b strings.Builder
	line := func(cells []locale.Text) {
		fmt.Fprintf(&b, "%-25s", cells[0])
		for i, c := range cells[1:] {
			fmt.Fprintf(&b, "  %*s", len(columns[i+1].String()), c)
		}
		b.WriteByte('\n')
	}
	line(columns)
	for _, r := range f.rows {
		line(r[:])
	}
	return b.String()
}

func (f *figures) verdict() locale.Text {
	switch seen := f.rows[len(f.rows)-1][3].String() != nothingShown.String(); {
	case f.gain == 0 && seen:
		return locale.Say("readers that poll alone have seen no new item yet")
	case f.gain == 0:
		return locale.Say("no new item has been shown yet")
	}
	return locale.Say("the nodes together show new items %.1f times sooner, with %.1f %% of the polls", f.gain, 100*f.load)
}

// summary describes what the demo has shown, and what to do next.
func (f *figures) summary(c deployment.Config) string {
	most, least := 0, c.Nodes
	for i := range c.Channels {
		n := c.Channels[i].ReaderCount()
		most, least = max(most, n), min(least, n)
	}
	paperText := ""
	if len(f.rows) > 2 {
		paperText = fmt.Sprintf(`
With the scheme of the Corona paper, nodes made %s polls per second and showed
a new item after %s. Its polling levels are steps of sixteen, so nodes leave
allowed polls unused.
`, f.rows[1][1], f.rows[1][3])
	}
	storyText := ""
	if len(f.story) > 0 {
		storyText = "\nThe way of one item:\n" + strings.Join(wrap(f.story.String(), 80), "\n") + "\n"
	}
	return fmt.Sprintf(`
These were %d nodes over real sockets and %s with %d to %d readers each
(Zipf's law, exponent 0.1), in all %d subscriptions. In the last %v, readers
that poll alone made %s polls per second and saw a new item after %s on
average. The nodes together made %s polls per second and showed it after %s.
%s
%s%s
Next:  %[14]s run              runs a node of your own
       %[14]s subscribe URL    prints an address for your feed reader
       %[14]s demo --paper     also shows the scheme of the Corona paper
`, c.Nodes, proxy.Plural(len(c.Channels), "feed", "feeds"), least, most, c.Subscriptions(), c.Network.PollInterval, f.rows[0][1], f.rows[0][3], f.rows[len(f.rows)-1][1], f.rows[len(f.rows)-1][3], toSentence(f.verdict().String()), paperText, storyText, programCall())
}

// programCall returns how this program is called on a command line. It may not be installed.
func programCall() string {
	if self, err := os.Executable(); err == nil && filepath.Base(filepath.Dir(self)) == "exe" { // the folder in which go run builds
		return "go run ./cmd/tidings"
	}
	return "tidings"
}

// toSentence converts a text to a sentence.
func toSentence(text string) string { return strings.ToUpper(text[:1]) + text[1:] + "." }

// formatBytes formats a number of bytes for people.
func formatBytes(n float64) string {
	for _, unit := range []string{"B", "kB", "MB"} {
		if n < 1000 {
			return fmt.Sprintf("%.3g %s", n, unit)
		}
		n /= 1000
	}
	return fmt.Sprintf("%.3g GB", n)
}
