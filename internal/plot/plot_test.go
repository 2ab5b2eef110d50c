package plot

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// parse fails the test unless a drawing is well-formed, and returns its texts.
func parse(t *testing.T, svg string) (texts []string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(svg))
	for in := ""; ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return texts
		}
		if err != nil {
			t.Fatalf("%v in %s", err, svg)
		}
		switch token := token.(type) {
		case xml.StartElement:
			in = token.Name.Local
			for _, a := range token.Attr {
				if a.Name.Local == "style" || strings.Contains(a.Value, "NaN") || strings.Contains(a.Value, "Inf") {
					t.Errorf("%s has %s=%q", in, a.Name.Local, a.Value)
				}
			}
		case xml.CharData:
			if in == "text" {
				texts = append(texts, string(token))
			}
		case xml.EndElement:
			in = ""
		}
	}
}

// A chart of a page has a name and a description, is scaled by its view box, and has no style of its own.
func TestChartOfAPage(t *testing.T) {
	svg := Chart{
		Title: "Items", Text: "Three items in two hours.", Y: Axis{Label: "items"},
		Bars: []Bars{{Name: "here", Y: []float64{1, 0}, Labels: []string{"one"}}, {Name: "elsewhere", Y: []float64{1, 1}}},
	}.SVG()
	texts := parse(t, svg)
	for _, part := range []string{`role="img"`, "<title>Items</title>", "<desc>Three items in two hours.</desc>", `viewBox="0 `, "<title>one</title>"} {
		if !strings.Contains(svg, part) {
			t.Errorf("%s is missing in %s", part, svg)
		}
	}
	if strings.Contains(svg, "<style") || strings.Contains(svg, "#") {
		t.Errorf("the chart has a style: %s", svg)
	}
	for _, text := range []string{"items", "here", "elsewhere"} {
		if !slices.Contains(texts, text) {
			t.Errorf("%s is missing in %q", text, texts)
		}
	}
	if n := strings.Count(svg, "<rect"); n != 3+2 { // and two in the legend
		t.Errorf("%d bars", n)
	}
}

// Texts may come from strangers.
func TestTextsAreEscaped(t *testing.T) {
	const evil = `<script>alert("x")</script>&`
	c := Chart{Title: evil, Text: evil, X: Axis{Label: evil, Ticks: []Tick{{1, evil}}}, Y: Axis{Label: evil},
		Lines: []Line{{Name: evil, X: []float64{1, 2}, Y: []float64{1, 2}, Labels: []string{evil}}},
		Bars:  []Bars{{Name: evil, Y: []float64{1}, Labels: []string{evil}}},
	}
	for _, svg := range []string{c.SVG(), c.File(evil)} {
		if parse(t, svg); strings.Contains(svg, "<script") {
			t.Errorf("%s", svg)
		}
	}
}

// Whatever the numbers are, a drawing ends and has only places that exist.
func TestAnyNumbers(t *testing.T) {
	odd := []float64{math.NaN(), math.Inf(1), math.Inf(-1), 0, math.Copysign(0, -1), -1, 1, 1e-300, 5e-324, 1e15, 1e15 - 0.125, 1e300, math.MaxFloat64}
	for _, x := range odd {
		for _, y := range odd {
			for _, isLog := range []bool{false, true} {
				for _, l := range []Line{{X: []float64{x, y}, Y: []float64{y, x}}, {X: []float64{x, 3}, Y: []float64{y}}} {
					c := Chart{
						X: Axis{Log: isLog, Min: x}, Y: Axis{Log: isLog, Max: y}, Lines: []Line{l, {}}, Bars: []Bars{{Y: []float64{x, y}}, {}},
						BarStart: x, BarWidth: y,
					}
					if svg := c.SVG(); len(svg) > 100_000 {
						t.Errorf("%v, %v: %d bytes", x, y, len(svg))
					} else {
						parse(t, svg)
					}
				}
			}
		}
	}
	parse(t, Chart{}.SVG())
}

// Bars begin at zero and are stacked, and all of a chart is inside its view box.
func TestPlaces(t *testing.T) {
	svg := Chart{Bars: []Bars{{Y: []float64{10}}, {Y: []float64{30}}}, Width: 100, Height: 50}.SVG()
	var tops, heights []float64
	for _, m := range regexp.MustCompile(`<rect x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="([\d.]+)">`).FindAllStringSubmatch(svg, -1) {
		var v [4]float64
		for i := range v {
			v[i], _ = strconv.ParseFloat(m[i+1], 64)
		}
		if v[0]+v[2] > 100 || v[1] < 0 {
			t.Errorf("a bar at %v", v)
		}
		tops, heights = append(tops, v[1]), append(heights, v[3])
	}
	if len(tops) != 2 || math.Abs(tops[1]+heights[1]-tops[0]) > 0.2 || math.Abs(heights[1]-3*heights[0]) > 0.5 {
		t.Errorf("tops %v, heights %v in %s", tops, heights, svg)
	}
}

// A line with steps has only horizontal and vertical segments.
func TestSteps(t *testing.T) {
	svg := Chart{Lines: []Line{Distribution("those that came", []float64{4, 1, 9}, 4)}}.SVG()
	if !regexp.MustCompile(`<path class="line" d="M[\d.]+ [\d.]+(H[\d.]+V[\d.]+){3}"/>`).MatchString(svg) {
		t.Errorf("%s", svg)
	}
}

// A file of its own has its title, style, ground and caption, which is broken into lines.
func TestFile(t *testing.T) {
	svg := Chart{Title: "Growth", Width: 300}.File("what there is to see " + strings.Repeat("and more ", 40))
	texts := parse(t, svg)
	caption := 0
	for _, text := range texts {
		if strings.Contains(text, "and more and more") {
			caption++
		}
	}
	if caption < 3 || !slices.Contains(texts, "Growth") || !strings.Contains(svg, "<style>") || !strings.Contains(svg, `class="ground"`) {
		t.Errorf("%s", svg)
	}
}

// A line has its hue in every chart; lines without one get one in turn. The style sheet has a rule for each.
func TestHues(t *testing.T) {
	seen := map[string]bool{}
	for i := range 7 {
		if got := Green.class(i); got != "green" {
			t.Errorf("line %d in green is %v", i, got)
		}
		class := NoHue.class(i)
		seen[class] = true
		if !strings.Contains(CSS, ".plot ."+class+" {") {
			t.Errorf("no style for %s", class)
		}
	}
	if len(seen) != 6 || seen["black"] {
		t.Errorf("in turn: %v", seen)
	}
}

// Events that did not happen are not in the distribution.
func TestDistribution(t *testing.T) {
	l := Distribution("", []float64{4, 1}, 4)
	if !slices.Equal(l.X, []float64{0, 1, 4}) || !slices.Equal(l.Y, []float64{0, 25, 50}) {
		t.Errorf("%v", l)
	}
}

func TestSorted(t *testing.T) {
	l := Line{X: []float64{3, 1, 2}, Y: []float64{30, 10, 20}}.Sorted()
	if !slices.Equal(l.X, []float64{1, 2, 3}) || !slices.Equal(l.Y, []float64{10, 20, 30}) {
		t.Errorf("%v", l)
	}
}

func labels(ticks []Tick) (of []string) {
	for _, tick := range ticks {
		if tick.Label != "" {
			of = append(of, tick.Label)
		}
	}
	return of
}

func TestTicks(t *testing.T) {
	logarithmic := func(from, to float64) extent { return extent{least: from, most: to, known: true, log: true} }
	linear := func(from, to float64) (e extent) {
		e.add(from)
		e.add(to)
		return e
	}
	seconds := []Tick{{1, "1 s"}, {10, "10 s"}, {60, "1 min"}, {600, "10 min"}, {3600, "1 h"}, {6 * 3600, "6 h"}}
	for name, c := range map[string]struct {
		axis Axis
		of   extent
		want string
	}{
		"counts":                {Axis{}, linear(0, 4), "0 1 2 3 4"},
		"hundreds":              {Axis{}, linear(13, 900), "0 200 400 600 800 1000"},
		"small parts":           {Axis{}, linear(0, 0.04), "0.00 0.01 0.02 0.03 0.04"},
		"one value":             {Axis{}, linear(0, 0), "0 1"},
		"below zero":            {Axis{}, linear(-3, 3), "-4 -2 0 2 4"},
		"less than a decade":    {Axis{Log: true}, logarithmic(56, 57), "50 100"},
		"many decades":          {Axis{Log: true}, logarithmic(0.3, 20000), "1 10 100 1000 10000"},
		"spans":                 {Axis{Log: true, Ticks: seconds}, logarithmic(12, 700), "10 s 1 min 10 min 1 h"},
		"one span":              {Axis{Log: true, Ticks: seconds}, logarithmic(60, 60), "1 min 10 min"},
		"a range that is asked": {Axis{Max: 10}, linear(1, 2), "0 2 4 6 8 10"},
	} {
		if got := strings.Join(labels(newScale(c.axis, c.of, true).ticks), " "); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	if got := strings.Join(labels(newScale(Axis{Log: true}, logarithmic(4330, 4440), false).ticks), " "); got != "4350 4400" {
		t.Errorf("a small part of a decade: %s", got)
	}
}

// Hours of a day are those of the zone, even one that is half an hour off, and days have dates.
func TestTimes(t *testing.T) {
	zone := time.FixedZone("", 5*3600+1800)
	from := time.Date(2026, 3, 1, 10, 15, 0, 0, zone)
	for span, want := range map[time.Duration]string{
		5 * time.Minute:     "10:15 10:16 10:17 10:18 10:19 10:20",
		3 * time.Hour:       "10:00 11:00 12:00 13:00",
		24 * time.Hour:      "09:00 12:00 15:00 18:00 21:00 00:00 03:00 06:00 09:00",
		30 * 24 * time.Hour: "03-01 03-05 03-09 03-13 03-17 03-21 03-25 03-29",
	} {
		if got := strings.Join(labels(Times(from, from.Add(span))), " "); got != want {
			t.Errorf("%v: %s, want %s", span, got, want)
		}
	}
}
