package page

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// A history is a page of some kind of site over time, with its noise and its changes.
type history struct {
	contentType string
	every       time.Duration
	page        func(look, edits int, r *rand.Rand) string
	alarms      int // maximum for each edit after the page is learned, because noise then has other neighbours
}

// story returns a line of news that differs only by its number.
func story(k int) string {
	r := rand.New(rand.NewPCG(uint64(k), 1))
	of := drawn(r, strings.Fields("river bridge council school storm harbour market train museum garden budget strike doctor team minister island valley factory court judge"), 5)
	return fmt.Sprintf("The %s of the %s asks the %s for a %s, and the %s does not", of[0], of[1], of[2], of[3], of[4])
}

// stories returns the newest stories in some markup.
func stories(newest, count int, markup func(k int) string) string {
	var b strings.Builder
	for k := newest; k > newest-count; k-- {
		b.WriteString(markup(k))
	}
	return b.String()
}

var histories = map[string]history{
	"news": {"text/html", 30 * time.Minute, func(look, edits int, r *rand.Rand) string {
		of := func(k int) string {
			return fmt.Sprintf("<h3><a href=/s/%d>%s</a></h3><p>%s.<p>%d comments", k, story(k), story(k+1000), k%7+look/3)
		}
		paid := func() string { return "<div class=box><p>Paid: " + story(5000+r.IntN(90)) + "</div>" }
		return fmt.Sprintf("<nav><a href=/a>World</a></nav><p>%02d:%02d, %d °C<h1>News</h1>", look%24, look*7%60, 10+look%9) +
			stories(100+edits, 3, of) + paid() + stories(97+edits, 3, of) + paid() + "<p>Made by people who live here."
	}, 4}, // the advertisement after the last story is learned again when that story goes
	"blog": {"text/html", 30 * time.Minute, func(look, edits int, r *rand.Rand) string {
		of := func(k int) string {
			return fmt.Sprintf("<article><h2>%s</h2><p>%s.<p>%d views</article>", story(k), story(k+1000), k+look*3)
		}
		archive := "<h3>From the archive</h3>"
		for _, k := range r.Perm(40)[:3+r.IntN(4)] {
			archive += fmt.Sprintf("<p><a href=/%d>%s</a>", k, story(2000+k))
		}
		return stories(100+edits, 5, of) + archive + "<p>Powered by a box in the cellar"
	}, 0},
	"manual": {"text/html", 30 * time.Minute, func(look, edits int, r *rand.Rand) string {
		return fmt.Sprintf("<p>Built at %02d:%02d from %x", look%24, look*7%60, r.Uint64()) + stories(30, 30, func(k int) string {
			return "<p>" + story(k+1000*map[bool]int{true: edits}[k == 1+edits*7%30])
		})
	}, 0},
	"services": {"text/html", 5 * time.Minute, func(look, edits int, r *rand.Rand) string {
		page := fmt.Sprintf("<h1>What works</h1><p>As of %02d:%02d", look%24, look*5%60)
		for k, service := range []string{"API", "Web", "Mail", "DNS"} {
			state := map[bool]string{true: "It works", false: "It is slow"}[(edits+k)%4 > 0]
			page += fmt.Sprintf("<p>%s: %s, 99.%02d %% of the time<p>Answers in %d ms", service, state, r.IntN(100), 40+r.IntN(60))
		}
		return page + stories(9, 5, func(k int) string { return "<p>" + story(k) })
	}, 1},
	"shop": {"text/html", 30 * time.Minute, func(_, edits int, r *rand.Rand) string {
		page := fmt.Sprintf("<h1>A chair</h1><p>%d.00 €<p>Only %d left<p>Order within %d h %d min<p>%s", 100+edits*5, 1+r.IntN(9), r.IntN(12), r.IntN(60), story(1))
		for _, k := range r.Perm(30)[:4] {
			page += fmt.Sprintf("<p><a href=/p/%d>%s</a><p>%d.99 €", k, story(3000+k), k)
		}
		return page + "<p>We deliver on weekdays"
	}, 1},
	"data": {"application/json", 10 * time.Minute, func(look, edits int, r *rand.Rand) string {
		return fmt.Sprintf(`{"request_id":"%x","served_by":"web-%d","uptime":%d,"results":[`, r.Uint64(), r.IntN(12), look*600) +
			strings.TrimSuffix(stories(100+edits, 9, func(k int) string { return fmt.Sprintf(`{"id":%d,"title":"%s"},`, k, story(k)) }), ",") + "]}"
	}, 0},
	"site map": {"application/xml", 30 * time.Minute, func(look, edits int, _ *rand.Rand) string {
		return "<urlset>" + stories(20+edits, 20+edits, func(k int) string {
			return fmt.Sprintf("<url><loc>https://x.example/%d</loc><lastmod>2026-01-%02dT%02d:00:00Z</lastmod></url>", k, 1+look/24, look%24)
		}) + "</urlset>"
	}, 0},
	"text": {"text/plain", 30 * time.Minute, func(_, edits int, _ *rand.Rand) string {
		return stories(60, 60, func(k int) string {
			return "   " + story(k+1000*map[bool]int{true: edits}[k == 1+edits*13%60]) + "\n\n"
		})
	}, 0},
	"in German": {"text/html", 30 * time.Minute, func(look, edits int, r *rand.Rand) string {
		return fmt.Sprintf("<p>Stand: %d. März 2026, %02d:%02d Uhr", 1+look/24, look%24, look*7%60) + stories(50+edits, 8, func(k int) string {
			return fmt.Sprintf("<h3>Satzung Nr. %d</h3><p>%s<p>vor %d Stunden", k, story(k), k%9+look%4+2)
		}) + fmt.Sprintf("<p>Sie sind Besucher Nr. %d<p>Heute: %s", 10000+look*3, story(r.IntN(90)))
	}, 0},
	"in Japanese": {"text/html", 30 * time.Minute, func(look, edits int, _ *rand.Rand) string {
		return fmt.Sprintf("<p>最終更新：2026年3月%d日 %d時%d分", 1+look/24, look%24, look*7%60) + stories(50+edits, 8, func(k int) string {
			return fmt.Sprintf("<p>第%d号　%c市の橋は%d月から通行できません。<p>%d分前", k, '東'+rune(k%40), k%12+1, k%9*7+look%5+1)
		}) + fmt.Sprintf("<p>アクセス数：%d", 10000+look*3)
	}, 0},
	"in Arabic": {"text/html", 30 * time.Minute, func(look, edits int, _ *rand.Rand) string {
		return fmt.Sprintf("<p>آخر تحديث: %d مارس 2026 الساعة %02d:%02d", 1+look/24, look%24, look*7%60) + stories(50+edits, 8, func(k int) string {
			return fmt.Sprintf("<p>الخبر رقم %d: سيتم إغلاق %s<p>منذ %d دقيقة", k, []string{"الجسر", "المدرسة", "السوق", "المكتبة"}[k%4], k%9*7+look%5+1)
		}) + fmt.Sprintf("<p>عدد الزوار: %d", 10000+look*3)
	}, 0},
}

// Pages of many kinds are learned within 24 checks. Then every edit is reported, and almost nothing else.
func TestPagesOfManyKinds(t *testing.T) {
	const learned, looks, every = 24, 90, 7
	for name, h := range histories {
		t.Run(name, func(t *testing.T) {
			w := newChecker(t)
			edits, alarms := 0, 0
			for look := range looks {
				edited := look > learned && look%every == 0
				if edited {
					edits++
				}
				c, err := Read([]byte(h.page(look, edits, rand.New(rand.NewPCG(uint64(look), 2)))), h.contentType, Location{})
				if err != nil {
					t.Fatal(err)
				}
				w.at = w.at.Add(h.every)
				switch f := w.m.Check(c, w.at); {
				case f.Kind == Failed, edited && f.Kind != Changed:
					t.Errorf("look %d: %v %s", look, f.Kind, f.Reason)
				case f.Kind == Changed && !edited && look > learned:
					alarms++
					t.Logf("look %d:\n%s", look, f.Patch.Text(&f.Before))
				}
			}
			if alarms > h.alarms*edits {
				t.Errorf("%d alarms beside %d edits", alarms, edits)
			}
		})
	}
}
