package cobra

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"tidings/cobra/cobrapb"
	"tidings/cobra/query"
	"tidings/internal/env"
	"tidings/internal/feed"
	"tidings/internal/wire"
)

// A new subscription starts with the matching articles of the backlog, also after a crash.
// Other subscriptions do not get these articles, though they match.
func TestSubscriptionStartsWithTheBacklog(t *testing.T) {
	d := newDisk()
	c := Config{}
	c.ArticlesPerFeed = 3
	r := open(t, d, c)
	other := subscribe(t, r, d, "wind OR sun") // its clauses differ from those of the next subscription
	var late []BacklogArticle
	for i, text := range []string{"sun", "sun shines", "moon shines", "sun shines again", "sun shines", "sun shines"} {
		late = append(late, BacklogArticle{Article: article(i, text), Received: d.now.Add(time.Duration(i-6) * time.Hour)})
	}
	var first SubscriptionID
	r.Subscribe(0, "sun shines OR moon", late, func(n SubscriptionID, err error) {
		if first = n; err != nil {
			t.Fatal(err)
		}
	})
	d.write(100)
	want := []string{"Article 5", "Article 4", "Article 3"}
	for again := range 3 {
		if got := titlesOf(t, r, d, first); !slices.Equal(got, want) {
			t.Errorf("%d: it has %v, not %v", again, got, want)
		}
		if got := titlesOf(t, r, d, other); len(got) != again {
			t.Errorf("%d: the other subscription has %v", again, got)
		}
		f, _ := r.Feed(first)
		if kept, err := f.Read(d); err != nil || again == 0 && !kept[0].Received.Equal(d.now.Add(-time.Hour)) {
			t.Errorf("it came at %v, %v", kept[0].Received, err)
		}
		r = open(t, d, c) // as after a crash: no page of rings has been written
		r.Receive(article(10+again, "the sun shines on"), func() {})
		d.write(100)
		want = append([]string{fmt.Sprint("Article ", 10+again)}, want[:2]...)
	}
	second := subscribe(t, r, d, "moon")
	if got := titlesOf(t, r, d, second); !slices.Equal(got, []string{"Article 2"}) {
		t.Errorf("a clause that another subscription shares has %v", got)
	}
}

// distinctArticle returns an article with an identity of its own.
func distinctArticle(i int, text string) *Article {
	a := article(i, text)
	a.ID = feed.ID{byte(i + 1)}
	return a
}

// A subscription that starts with an article that others have, or will receive, takes it from
// none of them, and has it once.
func TestBacklogDoesNotAffectOtherSubscriptions(t *testing.T) {
	d := newDisk()
	c := Config{}
	c.ArticlesPerFeed = 3
	r := open(t, d, c)
	begin := func(text string, late ...BacklogArticle) (n SubscriptionID) {
		r.Subscribe(0, text, late, func(number SubscriptionID, err error) {
			if n = number; err != nil {
				t.Fatal(err)
			}
		})
		d.write(100)
		return n
	}
	has := func(n SubscriptionID, want ...string) {
		t.Helper()
		if got := titlesOf(t, r, d, n); !slices.Equal(got, want) {
			t.Errorf("%d has %q, not %q", n, got, want)
		}
	}
	take := func(a *Article) (lost bool) {
		r.Receive(a, func() { lost = true })
		d.write(100)
		return lost
	}
	sun := begin("solar")
	var late []BacklogArticle
	for i := range 3 {
		a := distinctArticle(i, "solar battery")
		take(a)
		late = append(late, BacklogArticle{Article: a, Received: d.now})
	}
	// Both clauses of the second subscription have the articles, under other numbers.
	has(begin("solar OR battery", late...), "Article 2", "Article 1", "Article 0")
	has(sun, "Article 2", "Article 1", "Article 0")

	// One article is still on its way to other subscriptions.
	wind := begin("wind")
	onWay := distinctArticle(3, "the wind turbine")
	turbine := begin("turbine", BacklogArticle{Article: onWay, Received: d.now})
	mill := begin("turbine OR mill", BacklogArticle{Article: onWay, Received: d.now}) // both have it under one number
	kept := r.articles.last
	has(turbine, "Article 3")
	for again := range 2 {
		take(onWay)
		has(wind, "Article 3")
		has(turbine, "Article 3")
		has(mill, "Article 3")
		if again == 0 && r.articles.last != kept+1 {
			t.Errorf("it has %d numbers more", r.articles.last-kept)
		}
		r = open(t, d, c)
	}

	// One article was dropped for lack of room, and there is still none when a subscription
	// starts with it.
	tide := begin("tide")
	r.SetMemoryUse(0.95)
	missed := distinctArticle(4, "the tide comes")
	if !take(missed) {
		t.Error("it was kept without room")
	}
	comes := begin("tide comes", BacklogArticle{Article: missed, Received: d.now})
	has(comes)
	r.SetMemoryUse(0)
	take(missed)
	has(tide, "Article 4")
	has(comes, "Article 4")

	// Each clause starts with its own matches, even if another clause matches more often.
	late = late[:0]
	for i := range 9 {
		late = append(late, BacklogArticle{Article: distinctArticle(10+i, []string{"rocket", "ocean", "ocean"}[i%3]), Received: d.now})
	}
	has(begin("ocean OR rocket", late...), "Article 18", "Article 17", "Article 16")
	has(begin("rocket"), "Article 16", "Article 13", "Article 10")
}

// A query that an earlier version accepted and this one cannot parse matches nothing, is
// counted, and can be removed.
func TestUnreadableQueryCanBeRemoved(t *testing.T) {
	d := newDisk()
	r := open(t, d, Config{})
	n := subscribe(t, r, d, "sun")
	record := wire.Encode(&cobrapb.Subscription{Query: "sun (", Since: 1})
	d.Commit([]env.Op{{Key: numbered(subscriptionPrefix, uint32(n)), Value: record}}, func(error) {})
	d.write(100)
	r = open(t, d, Config{})
	if s := r.Stats(); s.Subscriptions != 0 || s.Unreadable != 1 {
		t.Fatalf("%+v", s)
	}
	for _, want := range []error{nil, ErrUnknown} {
		err := errors.New("nothing was said")
		r.Unsubscribe(n, func(e error) { err = e })
		d.write(100)
		if !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
	if s := r.Stats(); s.Unreadable != 0 {
		t.Errorf("%+v", s)
	}
}

// A preview finds what a subscription would match.
func TestPreview(t *testing.T) {
	var articles []*Article
	for i, text := range []string{"sun", "wind", "the sun and the wind", "an advert for the sun"} {
		articles = append(articles, article(i, text))
	}
	for text, want := range map[string][]int{"sun": {0, 2, 3}, "sun NOT advert": {0, 2}, "wind OR advert": {1, 2, 3}, "moon": nil, `"the sun"`: {2, 3}} {
		q, err := query.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := Preview(q, articles); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}

// A reader's query finds what the eye reads, however publishers and keyboards write it.
func TestWhatTheEyeDoesNotSeeMakesNoDifference(t *testing.T) {
	for text, queries := range map[string][]string{
		"Hydro\u00adpower\u2060s, 20\u00a0%\u200b off": {"hydropowers", `"20 off"`, "hydro\u00adpowers"},
		"A\u0308RGER mit ＧＲＯẞＥＮ":                       {"ärger", "arger", "GROSSEN", "großen", "ｇｒｏｓｓｅｎ"},
		"İZMİR Izmir":                                  {"izmir", "İzmir", "ızmır", `"IZMIR İZMİR"`},
		"ΛΟΓΟΣ":                                        {"λογος", "λογοσ"},
		"L’été, O‘Neill and Hawaiʻi":                   {"l'ete", "été", "o'neill", "O′Neill", "hawai'i"},
		"می\u200cخواهم مـــن":                          {"میخواهم", "من"},
		"明日の港祭り":                                       {"港祭り", "の港"},
		"❤️ hearts 👩\u200d🔬":                           {"❤", `"❤ hearts"`, "👩🔬"},
	} {
		for _, q := range queries {
			e, err := query.Parse(q)
			if err != nil {
				t.Fatal(err)
			}
			if got := Preview(e, []*Article{{Title: text}, {HTML: "<p>" + text}, {Title: "Something else"}}); !slices.Equal(got, []int{0, 1}) {
				t.Errorf("%s does not find %s: %v", q, text, got)
			}
		}
	}
}

// Old backlog articles of a new clause do not displace today's articles of an existing clause.
func TestFeedIsOrderedByArrival(t *testing.T) {
	d := newDisk()
	c := Config{}
	c.ArticlesPerFeed = 3
	r := open(t, d, c)
	subscribe(t, r, d, "solar")
	var late []BacklogArticle
	for i := range 3 {
		late = append(late, BacklogArticle{Article: distinctArticle(i, "battery"), Received: d.now.Add(time.Duration(i-150) * time.Hour)})
	}
	for i := range 2 {
		r.Receive(distinctArticle(3+i, "solar"), func() {})
		d.write(100)
		d.now = d.now.Add(time.Second)
	}
	var both SubscriptionID
	r.Subscribe(0, "solar OR battery", late, func(n SubscriptionID, _ error) { both = n })
	d.write(100)
	for range 2 {
		if got := titlesOf(t, r, d, both); !slices.Equal(got, []string{"Article 4", "Article 3", "Article 2"}) {
			t.Errorf("it has %q", got)
		}
		r = open(t, d, c)
	}
}

// A subscription keeps the articles of a shared clause after the subscription that had them
// first has ended.
func TestSharedArticlesOutliveTheirFirstSubscription(t *testing.T) {
	d := newDisk()
	r := open(t, d, Config{})
	first := subscribe(t, r, d, "solar")
	r.Receive(distinctArticle(0, "solar"), func() {})
	d.write(100)
	d.now = d.now.Add(time.Hour)
	r.Run(d.now) // writes all pages
	d.write(100)
	second := subscribe(t, r, d, "solar OR battery")
	r.Unsubscribe(first, func(error) {})
	d.write(100)
	for range 2 {
		if got := titlesOf(t, r, d, second); !slices.Equal(got, []string{"Article 0"}) {
			t.Errorf("it has %q", got)
		}
		r = open(t, d, Config{})
	}
}

// A subscription that started with an article does not get it again when others do, nor when
// the article is matched again after a crash.
func TestBacklogArticleIsNotAddedAgain(t *testing.T) {
	d := newDisk()
	c := Config{}
	c.ArticlesPerFeed = 3
	r := open(t, d, c)
	subscribe(t, r, d, "wind")
	var late []BacklogArticle
	for i := range 3 {
		late = append(late, BacklogArticle{Article: distinctArticle(i, "the wind turbine"), Received: d.now.Add(time.Duration(i-9) * time.Minute)})
	}
	var turbine SubscriptionID
	r.Subscribe(0, "turbine", late, func(n SubscriptionID, _ error) { turbine = n })
	d.write(100)
	r.Receive(late[2].Article, func() {})
	d.write(100)
	for again := range 3 {
		if got := titlesOf(t, r, d, turbine); !slices.Equal(got, []string{"Article 2", "Article 1", "Article 0"}) {
			t.Errorf("%d: it has %q", again, got)
		}
		r = open(t, d, c) // before its page is written
	}
}

// Each article is kept for maxArticleAge, whatever the age of its segment.
func TestArticlesAreKeptForMaxArticleAge(t *testing.T) {
	d := newDisk()
	c := Config{}
	r := open(t, d, c)
	sun := subscribe(t, r, d, "sun")
	const day = 24 * time.Hour
	sweep := func() {
		for range 10 {
			d.now = r.sweep(d.now)
			d.write(100)
		}
	}
	begun := d.now
	for i := range 3 {
		d.now = begun.Add(time.Duration(i) * 12 * day)
		r.Receive(distinctArticle(i, "sun"), func() {})
		d.write(100)
		if i == 1 {
			r = open(t, d, c)
		}
	}
	for i, want := range [][]string{{"Article 2", "Article 1", "Article 0"}, {"Article 2", "Article 1"}, {"Article 2"}, {}} {
		d.now = begun.Add(time.Duration(24+12*i)*day + 7*day/2) // 27.5 days, 39.5 days, …
		sweep()
		if got := titlesOf(t, r, d, sun); !slices.Equal(got, want) {
			t.Errorf("after %v: %q", d.now.Sub(begun), got)
		}
	}
}

// A sweep in progress keeps an article with which a new subscription starts meanwhile.
func TestSweepKeepsNewBacklogArticles(t *testing.T) {
	d := newDisk()
	c := Config{}
	r := open(t, d, c)
	first := subscribe(t, r, d, "moon")
	late := []BacklogArticle{{Article: distinctArticle(0, "the sun shines"), Received: d.now}}
	var sun, shines SubscriptionID
	r.Subscribe(0, "sun", late, func(n SubscriptionID, _ error) { sun = n })
	d.write(100)
	r.Unsubscribe(sun, func(error) {})
	d.write(100)
	star := subscribe(t, r, d, "star")                   // reuses its clause number, so no ring has the article
	r.Receive(distinctArticle(1, "the moon"), func() {}) // a second article
	d.write(100)
	d.now = r.sweep(d.now)
	for range 2 { // the sweep begins and reads all rings
		r.sweep(d.now)
	}
	if w := &r.articles.sweeper; w.marks == nil || w.nextRing < r.filter.index.Limit() || w.segment > 0 {
		t.Fatalf("it is at %+v", w)
	}
	r.Unsubscribe(star, func(error) {}) // its ring was read already, and the next subscription reuses it
	r.Subscribe(0, "shines", late, func(n SubscriptionID, _ error) { shines = n })
	if r.articles.last != 2 {
		t.Errorf("the article got another number: %d", r.articles.last)
	}
	d.write(100)
	for range 10 {
		r.sweep(d.now)
		d.write(100)
	}
	for n, want := range map[SubscriptionID]string{shines: "Article 0", first: "Article 1"} {
		if got := titlesOf(t, r, d, n); !slices.Equal(got, []string{want}) {
			t.Errorf("%d has %q", n, got)
		}
	}
}

// Duplicates in a backlog, in any order, do not reduce the articles that a subscription starts
// with.
func TestDuplicateBacklogArticlesCountOnce(t *testing.T) {
	d := newDisk()
	c := Config{}
	c.ArticlesPerFeed = 3
	r := open(t, d, c)
	var late []BacklogArticle
	for i := range 4 {
		late = append(late, BacklogArticle{Article: distinctArticle(i, "sun"), Received: d.now.Add(time.Duration(i-9) * time.Minute)})
	}
	late = append(late, late[2], late[3], late[0])
	var sun SubscriptionID
	r.Subscribe(0, "sun", late, func(n SubscriptionID, _ error) { sun = n })
	d.write(100)
	if got := titlesOf(t, r, d, sun); !slices.Equal(got, []string{"Article 3", "Article 2", "Article 1"}) {
		t.Errorf("it has %q", got)
	}
}

// A new article replaces the oldest one, whatever other subscriptions started with.
func TestOldestBacklogArticleIsReplacedFirst(t *testing.T) {
	d := newDisk()
	c := Config{}
	c.ArticlesPerFeed = 3
	r := open(t, d, c)
	var late []BacklogArticle
	for i, text := range []string{"space", "space", "space rocket"} {
		late = append(late, BacklogArticle{Article: distinctArticle(i, text), Received: d.now.Add(time.Duration(i-9) * time.Minute)})
	}
	begin := func(text string) (number SubscriptionID) {
		r.Subscribe(0, text, late, func(n SubscriptionID, _ error) { number = n })
		d.write(100)
		return number
	}
	begin("rocket") // starts with the newest article of space
	space := begin("space")
	r.Receive(distinctArticle(3, "space"), func() {})
	d.write(100)
	r.Receive(late[2].Article, func() {}) // both have it, under two numbers
	d.write(100)
	for again := range 2 {
		if got := titlesOf(t, r, d, space); !slices.Equal(got, []string{"Article 3", "Article 2", "Article 1"}) {
			t.Errorf("%d: it has %q", again, got)
		}
		r = open(t, d, c)
	}
}
