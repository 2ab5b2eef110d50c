package proxy

import (
	"cmp"
	"html"
	"html/template"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"tidings/cobra/query"
	"tidings/internal/feed"
	"tidings/internal/locale"
	"tidings/internal/plot"
)

// A queryBuilder holds the fields of the form that composes a query.
type queryBuilder struct{ All, Any, None, Phrase string }

// readBuilder returns the fields of the form, and the query that they compose; "" if there are none.
func readBuilder(q url.Values) (f queryBuilder, composed string) {
	f = queryBuilder{oneLine(q.Get("all")), oneLine(q.Get("any")), oneLine(q.Get("none")), oneLine(q.Get("phrase"))}
	return f, query.Compose(f.All, f.Any, f.None, f.Phrase)
}

// A previewItem is an article that a query matches, with the words that it asks for marked.
type previewItem struct {
	Title   template.HTML
	Excerpt template.HTML // of the text around the first of these words; "" if it has none
	Link    string
	Feed    string
	At      *time.Time
	Also    []otherTelling // the same story in other feeds
}

// An otherTelling is an article of another feed that tells the same story.
type otherTelling struct{ Feed, Link string }

// AlsoIn returns the names of the other feeds as HTML, with links.
func (i previewItem) AlsoIn() template.HTML {
	names := make([]string, len(i.Also))
	for n, o := range i.Also {
		if names[n] = html.EscapeString(o.Feed); o.Link != "" {
			names[n] = `<a href="` + html.EscapeString(o.Link) + `" rel="noreferrer nofollow noopener" target="_blank">` + names[n] + "</a>"
		}
		names[n] = "<bdi>" + names[n] + "</bdi>"
	}
	return template.HTML(strings.Join(names, ", "))
}

const (
	// maxMarked bounds the text of an article that is searched for words to mark, in bytes. The preview of a search is made
	// while somebody types it.
	maxMarked = 8 << 10
	// excerptBefore and excerptAfter are the bytes of text around the first marked word: two lines.
	excerptBefore, excerptAfter = 60, 140
)

// previewItems returns the articles of a preview, a story of several feeds once.
func (s *Server) previewItems(l *locale.Language, p Preview) (items []previewItem) {
	q, err := query.Parse(p.Query)
	if err != nil { // the node's own text
		q = &query.Expr{Op: query.And}
	}
	stories, _ := storiesOf(p.Entries, nil)
	for _, story := range stories {
		e := story.first
		title := cmp.Or(feed.PlainTitle(e.Meaning.Title), l.Say("(untitled)"))
		i := previewItem{
			Title: marked(title, q.Marks(query.Title, title)), Link: s.pages.sanitiser.link(e.Meaning.Link), Feed: e.Source.Title, At: OptionalTime(e.Arrived),
			Excerpt: excerpt(q, string(feed.AppendText(nil, cmp.Or(e.Meaning.Content, e.Meaning.Summary)))),
		}
		for _, o := range story.others {
			i.Also = append(i.Also, otherTelling{cmp.Or(o.Source.Title, hostOf(o.Source.URL)), s.pages.sanitiser.link(o.Meaning.Link)})
		}
		items = append(items, i)
	}
	return items
}

// marked returns a text as HTML in which places are marked.
func marked(text string, marks []query.Mark) template.HTML {
	var b strings.Builder
	at := 0
	for _, m := range marks {
		b.WriteString(html.EscapeString(text[at:m.Start]) + "<mark>" + html.EscapeString(text[m.Start:m.End]) + "</mark>")
		at = m.End
	}
	b.WriteString(html.EscapeString(text[at:]))
	return template.HTML(b.String())
}

// excerpt returns the part of a text around the first word for which a query asks.
func excerpt(q *query.Expr, text string) template.HTML {
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text[:min(len(text), maxMarked)], "")), " ")
	marks := q.Marks(query.Any, text)
	if len(marks) == 0 {
		return ""
	}
	from, to := max(0, marks[0].Start-excerptBefore), min(len(text), marks[0].End+excerptAfter)
	before, after := "", ""
	if from > 0 {
		if space := strings.IndexByte(text[from:marks[0].Start], ' '); space >= 0 {
			from += space + 1
		}
		for !utf8.RuneStart(text[from]) {
			from++
		}
		before = "… "
	}
	if to < len(text) {
		if space := strings.LastIndexByte(text[marks[0].End:to], ' '); space >= 0 {
			to = marks[0].End + space
		}
		for !utf8.RuneStart(text[to]) {
			to--
		}
		after = " …"
	}
	var within []query.Mark
	for _, m := range marks {
		if m.End <= to {
			within = append(within, query.Mark{Start: m.Start - from, End: m.End - from})
		}
	}
	return template.HTML(before) + marked(text[from:to], within) + template.HTML(after)
}

// daysPlot returns a chart of the matches of each day; nil if there are fewer than two days.
func daysPlot(l *locale.Language, days []int) *plot.Chart {
	if len(days) < 2 {
		return nil
	}
	bars, most := plot.Bars{Name: l.Say("Articles")}, 0
	for i, n := range days {
		ago := len(days) - 1 - i
		label := l.Say("%[2]d to %[3]d hours ago: %[1]d articles", n, ago*24, (ago+1)*24)
		bars.Y, bars.Labels, most = append(bars.Y, float64(n)), append(bars.Labels, label), max(most, n)
	}
	c := plot.Chart{
		Title: l.Say("Matching articles per day"), Text: l.Say("The latest day is on the right. Most in a day: %d articles.", most),
		X:    plot.Axis{Min: -float64(len(days)), Max: 0},
		Y:    plot.Axis{Min: 0, Max: float64(max(most, 1))},
		Bars: []plot.Bars{bars}, BarStart: -float64(len(days)), BarWidth: 1, Width: 360, Height: 120,
	}
	for i := range len(days) + 1 {
		ago := len(days) - i
		label := l.Say("−%d d", ago)
		if ago == 0 {
			label = l.Say("now")
		}
		c.X.Ticks = append(c.X.Ticks, plot.Tick{At: -float64(ago), Label: label})
	}
	return &c
}
