package cobra

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"tidings/cobra/query"
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
