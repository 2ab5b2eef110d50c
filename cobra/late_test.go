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
)

// Who subscribes has those articles of late that match, from the start and after a crash; nobody else
// has them, though they would match.
func TestASubscriptionBeginsWithArticlesOfLate(t *testing.T) {
	d := newDisk()
	c := DefaultConfig()
	c.Kept = 3
	r := open(t, d, c)
	other := subscribe(t, r, d, "wind OR sun") // its clauses are not those of the next
	var late []Late
	for i, text := range []string{"sun", "sun shines", "moon shines", "sun shines again", "sun shines", "sun shines"} {
		late = append(late, Late{Article: article(i, text), Came: d.now.Add(time.Duration(i-6) * time.Hour)})
	}
	var first Number
	r.Subscribe("sun shines OR moon", late, func(n Number, err error) {
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
			t.Errorf("%d: another one has %v", again, got)
		}
		f, _ := r.Feed(first)
		if kept, err := f.Read(d); err != nil || again == 0 && !kept[0].Seen.Equal(d.now.Add(-time.Hour)) {
			t.Errorf("it came at %v, %v", kept[0].Seen, err)
		}
		r = open(t, d, c) // as after a crash: no page of rings has been written
		r.Take(article(10+again, "the sun shines on"), func() {})
		d.write(100)
		want = append([]string{fmt.Sprint("Article ", 10+again)}, want[:2]...)
	}
	second := subscribe(t, r, d, "moon")
	if got := titlesOf(t, r, d, second); !slices.Equal(got, []string{"Article 2"}) {
		t.Errorf("a clause that another one has, has %v", got)
	}
}

// named is an article that can be told from others.
func named(i int, text string) *Article {
	a := article(i, text)
	a.ID = feed.ID{byte(i + 1)}
	return a
}

// Who begins with an article that others have, or are to have, takes it from nobody, and has it once.
func TestArticlesOfLateAreOnceThereForAll(t *testing.T) {
	d := newDisk()
	c := DefaultConfig()
	c.Kept = 3
	r := open(t, d, c)
	begin := func(text string, late ...Late) (n Number) {
		r.Subscribe(text, late, func(number Number, err error) {
			if n = number; err != nil {
				t.Fatal(err)
			}
		})
		d.write(100)
		return n
	}
	has := func(n Number, want ...string) {
		t.Helper()
		if got := titlesOf(t, r, d, n); !slices.Equal(got, want) {
			t.Errorf("%d has %q, not %q", n, got, want)
		}
	}
	take := func(a *Article) (lost bool) {
		r.Take(a, func() { lost = true })
		d.write(100)
		return lost
	}
	sun := begin("solar")
	var late []Late
	for i := range 3 {
		a := named(i, "solar battery")
		take(a)
		late = append(late, Late{Article: a, Came: d.now})
	}
	// Both clauses of the second have the articles, under other numbers.
	has(begin("solar OR battery", late...), "Article 2", "Article 1", "Article 0")
	has(sun, "Article 2", "Article 1", "Article 0")

	// One is on its way still, to others.
	wind := begin("wind")
	onWay := named(3, "the wind turbine")
	turbine := begin("turbine", Late{Article: onWay, Came: d.now})
	mill := begin("turbine OR mill", Late{Article: onWay, Came: d.now}) // both have one number
	kept := r.stock.last
	has(turbine, "Article 3")
	for again := range 2 {
		take(onWay)
		has(wind, "Article 3")
		has(turbine, "Article 3")
		has(mill, "Article 3")
		if again == 0 && r.stock.last != kept+1 {
			t.Errorf("it has %d numbers more", r.stock.last-kept)
		}
		r = open(t, d, c)
	}

	// One was missed, and there is no room for it when somebody begins.
	tide := begin("tide")
	r.Strain(0.95)
	missed := named(4, "the tide comes")
	if !take(missed) {
		t.Error("it was kept without room")
	}
	comes := begin("tide comes", Late{Article: missed, Came: d.now})
	has(comes)
	r.Strain(0)
	take(missed)
	has(tide, "Article 4")
	has(comes, "Article 4")

	// Each clause begins with its own, however busy another one is.
	late = late[:0]
	for i := range 9 {
		late = append(late, Late{Article: named(10+i, []string{"rocket", "ocean", "ocean"}[i%3]), Came: d.now})
	}
	has(begin("ocean OR rocket", late...), "Article 18", "Article 17", "Article 16")
	has(begin("rocket"), "Article 16", "Article 13", "Article 10")
}

// What an earlier version took and this one cannot read matches nothing, is counted, and can be ended.
func TestAQueryThatCannotBeReadAnyMoreCanBeEnded(t *testing.T) {
	d := newDisk()
	r := open(t, d, DefaultConfig())
	n := subscribe(t, r, d, "sun")
	record := marshal(&cobrapb.Subscription{Query: "sun (", Since: 1})
	d.Commit([]env.Op{{Key: numbered(subscriptionPrefix, uint32(n)), Value: record}}, func(error) {})
	d.write(100)
	r = open(t, d, DefaultConfig())
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

// A preview finds what a subscription would have.
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

// A new clause's articles of last week do not hide today's of one that was there.
func TestAFeedIsInTheOrderInWhichArticlesCame(t *testing.T) {
	d := newDisk()
	c := DefaultConfig()
	c.Kept = 3
	r := open(t, d, c)
	subscribe(t, r, d, "solar")
	var late []Late
	for i := range 3 {
		late = append(late, Late{Article: named(i, "battery"), Came: d.now.Add(time.Duration(i-150) * time.Hour)})
	}
	for i := range 2 {
		r.Take(named(3+i, "solar"), func() {})
		d.write(100)
		d.now = d.now.Add(time.Second)
	}
	var both Number
	r.Subscribe("solar OR battery", late, func(n Number, _ error) { both = n })
	d.write(100)
	for range 2 {
		if got := titlesOf(t, r, d, both); !slices.Equal(got, []string{"Article 4", "Article 3", "Article 2"}) {
			t.Errorf("it has %q", got)
		}
		r = open(t, d, c)
	}
}

// What a subscription has of one that it shares a clause with is its own after that has ended.
func TestSharedArticlesOutliveWhoHadThemFirst(t *testing.T) {
	d := newDisk()
	r := open(t, d, DefaultConfig())
	first := subscribe(t, r, d, "solar")
	r.Take(named(0, "solar"), func() {})
	d.write(100)
	d.now = d.now.Add(time.Hour)
	r.Run(d.now) // all pages are written
	d.write(100)
	second := subscribe(t, r, d, "solar OR battery")
	r.Unsubscribe(first, func(error) {})
	d.write(100)
	for range 2 {
		if got := titlesOf(t, r, d, second); !slices.Equal(got, []string{"Article 0"}) {
			t.Errorf("it has %q", got)
		}
		r = open(t, d, DefaultConfig())
	}
}

// Who began with an article does not get it again when others do, nor when it is matched again after a crash.
func TestNobodyLosesAnArticleToOneThatHeHas(t *testing.T) {
	d := newDisk()
	c := DefaultConfig()
	c.Kept = 3
	r := open(t, d, c)
	subscribe(t, r, d, "wind")
	var late []Late
	for i := range 3 {
		late = append(late, Late{Article: named(i, "the wind turbine"), Came: d.now.Add(time.Duration(i-9) * time.Minute)})
	}
	var turbine Number
	r.Subscribe("turbine", late, func(n Number, _ error) { turbine = n })
	d.write(100)
	r.Take(late[2].Article, func() {})
	d.write(100)
	for again := range 3 {
		if got := titlesOf(t, r, d, turbine); !slices.Equal(got, []string{"Article 2", "Article 1", "Article 0"}) {
			t.Errorf("%d: it has %q", again, got)
		}
		r = open(t, d, c) // before its page is written
	}
}

// Each article has its month, however few come and whatever its shelf began with.
func TestArticlesHaveTheirMonth(t *testing.T) {
	d := newDisk()
	c := DefaultConfig()
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
		r.Take(named(i, "sun"), func() {})
		d.write(100)
		if i == 1 {
			r = open(t, d, c)
		}
	}
	for i, want := range [][]string{{"Article 2", "Article 1", "Article 0"}, {"Article 2", "Article 1"}, {"Article 2"}, {}} {
		d.now = begun.Add(time.Duration(24+12*i)*day + 7*day/2) // 27 days and a half, 39, …
		sweep()
		if got := titlesOf(t, r, d, sun); !slices.Equal(got, want) {
			t.Errorf("after %v: %q", d.now.Sub(begun), got)
		}
	}
}

// A sweep that is under way leaves an article that somebody begins with meanwhile.
func TestASweepLeavesWhatSomebodyBeginsWith(t *testing.T) {
	d := newDisk()
	c := DefaultConfig()
	r := open(t, d, c)
	first := subscribe(t, r, d, "moon")
	late := []Late{{Article: named(0, "the sun shines"), Came: d.now}}
	var sun, shines Number
	r.Subscribe("sun", late, func(n Number, _ error) { sun = n })
	d.write(100)
	r.Unsubscribe(sun, func(error) {})
	d.write(100)
	star := subscribe(t, r, d, "star")      // in its place: nobody has the article
	r.Take(named(1, "the moon"), func() {}) // another one is there
	d.write(100)
	d.now = r.sweep(d.now)
	for range 2 { // it begins, and has read all rings
		r.sweep(d.now)
	}
	if w := &r.stock.sweeper; w.marks == nil || w.node < r.filter.index.Limit() || w.shelf > 0 {
		t.Fatalf("it is at %+v", w)
	}
	r.Unsubscribe(star, func(error) {}) // whose ring, which was read, the next one has
	r.Subscribe("shines", late, func(n Number, _ error) { shines = n })
	if r.stock.last != 2 {
		t.Errorf("the article got another number: %d", r.stock.last)
	}
	d.write(100)
	for range 10 {
		r.sweep(d.now)
		d.write(100)
	}
	for n, want := range map[Number]string{shines: "Article 0", first: "Article 1"} {
		if got := titlesOf(t, r, d, n); !slices.Equal(got, []string{want}) {
			t.Errorf("%d has %q", n, got)
		}
	}
}

// Who begins with articles that are told of twice, and in whatever order, has as many of the newest as one who is
// told of each once.
func TestArticlesOfLateThatAreToldOfTwiceCountOnce(t *testing.T) {
	d := newDisk()
	c := DefaultConfig()
	c.Kept = 3
	r := open(t, d, c)
	var late []Late
	for i := range 4 {
		late = append(late, Late{Article: named(i, "sun"), Came: d.now.Add(time.Duration(i-9) * time.Minute)})
	}
	late = append(late, late[2], late[3], late[0])
	var sun Number
	r.Subscribe("sun", late, func(n Number, _ error) { sun = n })
	d.write(100)
	if got := titlesOf(t, r, d, sun); !slices.Equal(got, []string{"Article 3", "Article 2", "Article 1"}) {
		t.Errorf("it has %q", got)
	}
}

// What goes for a new article is what came first, whatever others began with before: the feed has the newest.
func TestTheOldestArticleOfLateGoesFirst(t *testing.T) {
	d := newDisk()
	c := DefaultConfig()
	c.Kept = 3
	r := open(t, d, c)
	var late []Late
	for i, text := range []string{"space", "space", "space rocket"} {
		late = append(late, Late{Article: named(i, text), Came: d.now.Add(time.Duration(i-9) * time.Minute)})
	}
	begin := func(text string) (number Number) {
		r.Subscribe(text, late, func(n Number, _ error) { number = n })
		d.write(100)
		return number
	}
	begin("rocket") // with what is the last one of space
	space := begin("space")
	r.Take(named(3, "space"), func() {})
	d.write(100)
	r.Take(late[2].Article, func() {}) // which both have, by two numbers
	d.write(100)
	for again := range 2 {
		if got := titlesOf(t, r, d, space); !slices.Equal(got, []string{"Article 3", "Article 2", "Article 1"}) {
			t.Errorf("%d: it has %q", again, got)
		}
		r = open(t, d, c)
	}
}
