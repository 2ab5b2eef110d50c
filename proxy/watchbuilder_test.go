package proxy

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"tidings/internal/feed"
	"tidings/internal/locale"
)

// solarPreview is a preview in which two feeds tell one story.
var solarPreview = Preview{
	Period: 7 * day, Articles: 4000, Matching: 13, PerDay: 1.9, Days: []int{1, 0, 3, 2, 5, 0, 2},
	Entries: []feed.Entry{
		{Arrived: time.Unix(1.7e9, 0), Source: &feed.Source{URL: "https://b.example/feed", Title: "Later & louder"}, Meaning: &feed.Meaning{
			GUID: "b", Title: "A Solar roof", Link: "https://news.example/roof"}},
		{Arrived: time.Unix(1.7e9-60, 0), Source: &feed.Source{URL: "https://a.example/feed", Title: "The first"}, Meaning: &feed.Meaning{
			GUID: "a", Title: "A <i>solar</i> roof for <batteries>", Link: "https://news.example/roof",
			Content: "<p>" + strings.Repeat("Before it there is much to say. ", 9) + "Then a solar roof and a <b>battery</b> &lt;here&gt;. " + strings.Repeat("And more is said behind it. ", 9) + "</p>"}},
		{Arrived: time.Unix(1.7e9-90, 0), Source: &feed.Source{URL: "https://c.example/feed", Title: "Other"}, Meaning: &feed.Meaning{GUID: "c", Title: "Nothing", Link: "javascript:x()", Content: "solar"}},
	},
}

func newSolarServer(t *testing.T) *testServer {
	return newTestServer(t, func(c *Config) { c.Keywords = &memoryKeywords{preview: &solarPreview} })
}

// The fields of the form compose a query, which the text box then has, and which is tried.
func TestTheQueryBuilder(t *testing.T) {
	b := newSolarServer(t)
	page := body(t, b.ask("GET", "/watch?all=solar+battery&any=roof+balcony&none=advert&phrase=heat+pump"))
	const query = `solar battery &#34;heat pump&#34; (roof OR balcony) NOT advert`
	if strings.Count(page, `value="`+query+`"`) != 2 || !strings.Contains(page, `name="any" type="text" maxlength="1024" autocapitalize="none" autocomplete="off" value="roof balcony"`) || !strings.Contains(page, `<details class="builder" open>`) {
		t.Errorf("the page of a composed query: %s", page)
	}
	if part := body(t, b.ask("GET", "/watch?part=1&all=solar+battery")); !strings.Contains(part, `<data id="built" value="solar battery">`) || strings.Contains(part, "<form") {
		t.Errorf("the preview for the script: %s", part)
	}
	if part := body(t, b.ask("GET", "/watch?part=1&q=solar")); strings.Contains(part, `id="built"`) {
		t.Errorf("the preview of a query that was typed: %s", part)
	}
	if page := body(t, b.ask("GET", "/watch?q=sun")); !strings.Contains(page, `value="sun"`) || !strings.Contains(page, `<details class="builder">`) {
		t.Errorf("the page of a query that was typed: %s", page)
	}
}

// A preview marks the words that are asked for, shows a story of several feeds once, and how many articles match each day.
func TestPreviewsShowWhyArticlesMatch(t *testing.T) {
	b := newSolarServer(t)
	page := body(t, b.ask("GET", "/watch?q=solar+battery"))
	for _, want := range []string{
		`<a href="https://news.example/roof" rel="noreferrer nofollow noopener" target="_blank">A <mark>solar</mark> roof for`,
		`Then a <mark>solar</mark> roof and a <mark>battery</mark> &lt;here&gt;.`, `also in <bdi><a href="https://news.example/roof" rel="noreferrer nofollow noopener" target="_blank">Later &amp; louder</a>`,
		`<svg`, "Most in a day: 5 articles", "0 to 24 hours ago: 2 articles",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("no %s in %s", want, page)
		}
	}
	if strings.Contains(page, "Later &amp; louder</span>") || strings.Contains(page, "javascript:x") {
		t.Errorf("a story is shown twice, or a script is linked: %s", page)
	}
	if found := activeParts(t, page); len(found) > 0 {
		t.Errorf("active: %q", found)
	}
	if daysPlot(locale.English, []int{3}) != nil || daysPlot(locale.English, nil) != nil {
		t.Error("a single day has a chart")
	}
}

// fillBuilder fills in the form that composes a query: the text box and the preview follow.
func fillBuilder(ctx context.Context, t *testing.T, address string) {
	t.Helper()
	err := chromedp.Do(ctx,
		chromedp.Navigate(address+"/watch"), chromedp.Click(".builder summary"),
		chromedp.SendKeys(`[name="all"]`, "solar roof"), chromedp.SendKeys(`[name="none"]`, "advert"),
		chromedp.WaitVisible("#preview mark"), chromedp.WaitReady(`#built[value$="advert"]`))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := chromedp.Run(ctx, chromedp.Evaluate[string](`document.getElementById("q").value`)); err != nil || got != "solar roof NOT advert" {
		t.Errorf("the text box has %q, %v", got, err)
	}
}
