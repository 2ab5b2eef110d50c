package page

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestACounterGetsItsMark(t *testing.T) {
	w := newChecker(t)
	clock := func(i int) string {
		return fmt.Sprintf("It is %d:%02d, and visitor %d is here", 9+i/60, i%60, 1200+17*i)
	}
	w.check(Changed, "Head", clock(0), "Text")
	for i := 1; i < 3; i++ {
		w.check(Changed, "Head", clock(i), "Text")
	}
	for i := 3; i < 20; i++ {
		w.check(Same, "Head", clock(i), "Text")
	}
	f := w.check(Changed, "Head", clock(21), "Another text")
	if len(f.Patch.Hunks) != 1 || f.Patch.Hunks[0].At != 2 || f.Core.Lines[1] != clock(2) {
		t.Errorf("%+v %q", f.Patch, f.Core.Lines)
	}
	// It moves, and keeps its mark.
	w.check(Changed, clock(22), "Head", "Another text")
	w.check(Same, clock(23), "Head", "Another text")
}

func TestACounterThatStopsLosesItsMark(t *testing.T) {
	w := newChecker(t)
	price := func(i int) string { return fmt.Sprint("The price is ", i) }
	for i := range 4 {
		w.check(map[bool]Kind{true: Changed, false: Same}[i < 3], price(i))
	}
	for range 3*changePoints - 1 {
		w.check(Same, price(3))
	}
	w.check(Changed, price(3))
	w.check(Same, price(3))
	w.check(Changed, price(5))
}

func TestARotatingPlace(t *testing.T) {
	w := newChecker(t)
	quotes := strings.Split("Know yourself|Nothing too much|All flows|Whereof one cannot speak|Less is more|God is in the detail|Tempus fugit|Carpe diem", "|")
	for i, q := range quotes {
		kind := Same
		if i < 5 {
			kind = Changed
		}
		w.check(kind, "Quotation of the day", q, "Our terms", "You owe us nothing.")
	}
	w.check(Changed, "Quotation of the day", "Sapere aude", "Our terms", "You owe us all.")
	w.check(Same, "Quotation of the day", "Memento mori", "Our terms", "You owe us all.")
}

func TestRotatingPlacesSideBySide(t *testing.T) {
	boxes := []string{"Buy a bed at Bob's", "Cars of Carl for all", "Dine with Dora today", "Eat more apples, says Eve", "Fly to Faro", "Go by train, and arrive"}
	page := func(i int, news string) []string {
		return []string{
			"The bees of Ghent", news,
			fmt.Sprintf("It is %d:%02d", 8+i/60, i%60), fmt.Sprintf("Guests so far: %d", 1000+7*i), "Answered by " + strings.Repeat("node"+string(rune('a'+i%26)), 2),
			boxes[i%6], boxes[(i+1)%6], "All rights are with the bees",
		}
	}
	w := newChecker(t)
	for i := range 14 {
		w.at = w.at.Add(30 * time.Minute)
		w.m.Check(lines(page(i, "They sleep")...), w.at)
	}
	for i := range 12 {
		w.check(Same, page(20+i, "They sleep")...)
	}
	for i := range 20 {
		news := fmt.Sprint("They wake, ", strings.Repeat("very ", i/4), "early")
		if i%4 > 0 {
			w.check(Same, page(40+i, news)...)
			continue
		}
		f := w.check(Changed, page(40+i, news)...)
		if len(f.Patch.Hunks) != 1 || f.Patch.Hunks[0].At != 1 || f.Patch.Hunks[0].Omit != 1 {
			t.Errorf("%+v", f.Patch)
		}
	}
}

func TestAGrowingListOfSimilarLinesIsNews(t *testing.T) {
	for name, page := range map[string]func(n int) []string{
		"at the top": func(n int) (of []string) {
			for of = []string{"Releases"}; n > 0; n-- {
				of = append(of, fmt.Sprintf("Version 1.%d is out", n))
			}
			return append(of, "Older ones are in the attic")
		},
		"at the end": func(n int) []string {
			of := []string{"Releases"}
			for i := range n {
				of = append(of, fmt.Sprintf("Version 1.%d is out", i+1))
			}
			return append(of, "Older ones are in the attic")
		},
		"the last ten": func(n int) (of []string) {
			for of = []string{"Releases"}; len(of) < 11; n-- {
				of = append(of, fmt.Sprintf("Version 1.%d is out", n))
			}
			return append(of, "Older ones are in the attic")
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newChecker(t)
			w.check(Changed, page(12)...)
			for n := 13; n < 40; n++ {
				f := w.check(Changed, page(n)...)
				if h := f.Patch.Hunks[0]; len(h.Add) != 1 && len(f.Patch.Hunks[len(f.Patch.Hunks)-1].Add) != 1 {
					t.Errorf("%d: %+v", n, f.Patch)
				}
			}
		})
	}
}

func TestRareChangesAreNews(t *testing.T) {
	w := newChecker(t)
	w.check(Changed, "Releases", "Latest release: 1.0")
	for i := range 20 {
		for range 12 {
			w.m.Unchanged(w.at)
		}
		w.check(Changed, "Releases", fmt.Sprintf("Latest release: 1.%d", i+1))
	}
}

func TestOneCounterDoesNotHideOtherNumbers(t *testing.T) {
	w := newChecker(t)
	table := func(live, points int) []string {
		return []string{"Table", "Reds", "7", fmt.Sprint(live), "8", "Blues", "2026", fmt.Sprint(points), "99", "End"}
	}
	w.check(Changed, table(100, 1)...)
	for i := range 12 {
		w.at = w.at.Add(30 * time.Minute)
		w.m.Check(lines(table(101+i*7, 1)...), w.at)
	}
	w.check(Same, table(500, 1)...)
	w.check(Changed, table(600, 2)...)
	w.check(Changed, table(700, 3)...)
}

func TestLinksToOtherArticlesRotate(t *testing.T) {
	links := func(from, n int) (of []string) {
		for i := range n {
			of = append(of, fmt.Sprintf("[What somebody wrote about matter %c%c of another day](/%d)", 'a'+(from+i)%26, 'a'+(from+i)/26, from+i))
		}
		return of
	}
	page := func(news int, other int) []string {
		of := append([]string{"News"}, links(300-news, news)...)
		return append(append(append(of, "Other articles"), links(other, 5)...), "The end")
	}
	w := newChecker(t)
	for i := range 12 {
		w.at = w.at.Add(30 * time.Minute)
		w.m.Check(lines(page(6, 5*i)...), w.at)
	}
	w.check(Same, page(6, 70)...)
	for i := range 12 {
		w.check(Changed, page(7+i, 75+5*i)...)
	}
}

func TestNumbersThatRarelyChangeAreContent(t *testing.T) {
	w := newChecker(t)
	w.check(Changed, "You may cancel within 10 days.")
	for i := range 12 {
		w.check(Changed, fmt.Sprintf("You may cancel within %d days.", 11+i))
		for range 3 {
			w.check(Same, fmt.Sprintf("You may cancel within %d days.", 11+i))
		}
	}
}

func TestSkeletons(t *testing.T) {
	for _, c := range []struct {
		a, b  string
		alike bool
	}{
		{"Updated 3 May 2026, 12:04", "Updated 28 June 2026, 9:41", true},
		{"1,234 visitors", "987 visitors", true},
		{"You may cancel", "You must cancel", false},
		{"v1.2.3 is out", "v1.3 is out", true},
		{"Version A", "Version B", false},
		{"node-7f3a2b", "node-00c1de9", true},
		{"Es ist 9 Uhr", "Es ist 10 Uhr", true},
		{"第3条", "第4条", true},
	} {
		a, _ := skeleton(c.a)
		b, _ := skeleton(c.b)
		if (a == b) != c.alike {
			t.Errorf("%q is %q, %q is %q", c.a, a, c.b, b)
		}
	}
	if s, ok := skeleton("12:04, 3 May"); ok {
		t.Errorf("%q is left of numbers alone", s)
	}
}

func TestVolatileTextIsLeftOut(t *testing.T) {
	for text, want := range map[string]string{
		"Posted 5 minutes ago by Ann":      "Posted … by Ann",
		"an hour ago":                      "…",
		"vor 3 Tagen":                      "…",
		"Vor einer Stunde":                 "…",
		"il y a une heure":                 "…",
		"3分钟前":                             "…",
		"1,204 views · 3 comments":         "… · …",
		"1 comment":                        "…",
		"12 replies by 3 members":          "12 replies by 3 members",
		"Kommentare (14)":                  "…",
		"1.204 Aufrufe":                    "…",
		"1204 просмотра":                   "…",
		"24件のコメント":                         "…",
		"There are 3 comments on this law": "There are 3 comments on this law",
		"Views: 1204":                      "…",
		"5 minuten geleden":                "…",
		"3 часа назад":                     "…",
		"Pubblicato 2 ore fa":              "Pubblicato …",
		"Free plan: 5 downloads per month": "Free plan: 5 downloads per month",
		"They own 3 shares of stock":       "They own 3 shares of stock",
		"What was bought 30 days ago or earlier cannot be returned": "What was bought 30 days ago or earlier cannot be returned",
		"The chicago ago 7":                      "The chicago ago 7",
		"Within 30 days of now":                  "Within 30 days of now",
		strings.Repeat("x", 300) + " 3 days ago": strings.Repeat("x", 300) + " 3 days ago",
	} {
		if got := new(volatileFilter).strip(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestMonthlyChangesAreNews(t *testing.T) {
	w := newChecker(t)
	for i := range 12 {
		w.at = w.at.AddDate(0, 1, 0)
		w.check(Changed, "Downloads", fmt.Sprintf("Release 1.%d.0 of 2026-%02d-01", 20+i, 1+i), "All releases are signed")
	}
}

// New text beside a rotating text, or beside a clock without words, is reported at once.
func TestNewsBesideARotatingPlace(t *testing.T) {
	for name, turning := range map[string]func(i int) string{
		"an advertisement": func(i int) string {
			return "Buy " + strings.Repeat("a ", i%7) + string(rune('b'+i%20)) + " from Bob and his " + string(rune('a'+i%26))
		},
		"a clock": func(i int) string { return fmt.Sprintf("%02d:%02d:%02d", i%24, (i*7)%60, (i*13)%60) },
	} {
		for at, page := range map[string]func(turns, news string) []string{
			"before": func(turns, news string) []string { return []string{"Head", "The river rose", news, turns, "The end"} },
			"behind": func(turns, news string) []string { return []string{"Head", "The river rose", turns, news, "The end"} },
		} {
			t.Run(name+" "+at, func(t *testing.T) {
				look := func(i int, news string) []string {
					return slices.DeleteFunc(page(turning(i), news), func(l string) bool { return l == "" })
				}
				w := newChecker(t)
				for i := range 14 {
					w.at = w.at.Add(30 * time.Minute)
					w.m.Check(lines(look(i, "")...), w.at)
				}
				for i := range 4 {
					w.check(Same, look(14+i, "")...)
				}
				f := w.check(Changed, look(20, "The bridge is open again")...)
				if !strings.Contains(f.Core.Text(), "The bridge is open again") {
					t.Errorf("%+v", f.Patch)
				}
			})
		}
	}
}

// A list is reported even if its newest line also stands above it.
func TestAListBelowItsNewestLine(t *testing.T) {
	w := newChecker(t)
	for n := 3; n < 30; n++ {
		of := []string{"Latest:", fmt.Sprintf("Version 1.%d is out", n), "All:"}
		for i := range n {
			of = append(of, fmt.Sprintf("Version 1.%d is out", n-i))
		}
		if f := w.check(Changed, of...); !strings.Contains(f.Core.Text(), fmt.Sprintf("All:\nVersion 1.%d is out\n", n)) {
			t.Fatalf("%d: %q", n, f.Core.Lines)
		}
	}
}
