package page

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
)

// lines is a core of these.
func lines(of ...string) Core { return Core{Lines: of} }

// A watch is a page that is looked at every half hour.
type watch struct {
	t  *testing.T
	m  Memory
	at time.Time
}

func newWatch(t *testing.T) *watch {
	return &watch{t: t, at: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
}

// look says what the next look finds, which has to be this.
func (w *watch) look(want Kind, of ...string) Finding {
	w.t.Helper()
	w.at = w.at.Add(30 * time.Minute)
	old := w.m.Core()
	f := w.m.Look(lines(of...), w.at)
	if f.Kind != want {
		w.t.Fatalf("at %v %q: %v %s, want %v", w.at.Format("15:04"), of, f.Kind, f.Reason, want)
	}
	if f.Kind == News {
		if got, err := f.Patch.Apply(&old); err != nil || got.Text() != f.Core.Text() {
			w.t.Fatalf("the patch leads to %q, not to %q: %v", got.Lines, f.Core.Lines, err)
		}
	}
	return f
}

func TestFirstLookIsNews(t *testing.T) {
	w := newWatch(t)
	if f := w.look(News, "a", "b"); len(f.Patch.Hunks) != 1 {
		t.Error(f.Patch)
	}
	w.look(Same, "a", "b")
	w.look(News, "a", "c")
}

// A clock raises three alarms, and then none: what is news beside it is told alone.
func TestALineThatCountsEarnsItsMark(t *testing.T) {
	w := newWatch(t)
	clock := func(i int) string {
		return fmt.Sprintf("It is %d:%02d, and visitor %d is here", 9+i/60, i%60, 1200+17*i)
	}
	w.look(News, "Head", clock(0), "Text")
	for i := 1; i < 3; i++ {
		w.look(News, "Head", clock(i), "Text")
	}
	for i := 3; i < 20; i++ {
		w.look(Same, "Head", clock(i), "Text")
	}
	f := w.look(News, "Head", clock(21), "Another text")
	if len(f.Patch.Hunks) != 1 || f.Patch.Hunks[0].At != 2 || f.Core.Lines[1] != clock(2) {
		t.Errorf("%+v %q", f.Patch, f.Core.Lines)
	}
	// It moves, and its mark with it.
	w.look(News, clock(22), "Head", "Another text")
	w.look(Same, clock(23), "Head", "Another text")
}

// Numbers that have not changed for a while are content again: what they have come to is told.
func TestALineLosesItsMark(t *testing.T) {
	w := newWatch(t)
	price := func(i int) string { return fmt.Sprint("The price is ", i) }
	for i := range 4 {
		w.look(map[bool]Kind{true: News, false: Same}[i < 3], price(i))
	}
	for range 3*changeWorth - 1 {
		w.look(Same, price(3))
	}
	w.look(News, price(3))
	w.look(Same, price(3))
	w.look(News, price(5))
}

// What stands between the same two lines, and is another at every look, is an advertisement; a
// page of news is not, because more changes of it, and less often.
func TestAPlaceThatTurns(t *testing.T) {
	w := newWatch(t)
	quotes := strings.Split("Know yourself|Nothing too much|All flows|Whereof one cannot speak|Less is more|God is in the detail|Tempus fugit|Carpe diem", "|")
	for i, q := range quotes {
		kind := Same
		if i < 5 {
			kind = News
		}
		w.look(kind, "Quotation of the day", q, "Our terms", "You owe us nothing.")
	}
	w.look(News, "Quotation of the day", "Sapere aude", "Our terms", "You owe us all.")
	w.look(Same, "Quotation of the day", "Memento mori", "Our terms", "You owe us all.")
}

// A line of a page that is looked at often, and that changes at times, is news each time, though
// nothing else of the page ever changes.
func TestWhatChangesSeldomIsNews(t *testing.T) {
	w := newWatch(t)
	w.look(News, "Releases", "Latest release: 1.0")
	for i := range 20 {
		for range 12 {
			w.m.Unchanged(w.at)
		}
		w.look(News, "Releases", fmt.Sprintf("Latest release: 1.%d", i+1))
	}
}

// A number in a table that is another at each look says nothing about the other numbers.
func TestOneNumberDoesNotSilenceOthers(t *testing.T) {
	w := newWatch(t)
	table := func(live, points int) []string {
		return []string{"Table", "Reds", "7", fmt.Sprint(live), "8", "Blues", "2026", fmt.Sprint(points), "99", "End"}
	}
	w.look(News, table(100, 1)...)
	for i := range 12 {
		w.at = w.at.Add(30 * time.Minute)
		w.m.Look(lines(table(101+i*7, 1)...), w.at)
	}
	w.look(Same, table(500, 1)...)
	w.look(News, table(600, 2)...)
	w.look(News, table(700, 3)...)
}

// Links to other articles that are others each time are learned to be, too; a list that grows is not.
func TestLinksToOtherArticlesTurn(t *testing.T) {
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
	w := newWatch(t)
	for i := range 12 {
		w.at = w.at.Add(30 * time.Minute)
		w.m.Look(lines(page(6, 5*i)...), w.at)
	}
	w.look(Same, page(6, 70)...)
	for i := range 12 {
		w.look(News, page(7+i, 75+5*i)...)
	}
}

// A replica that lags tells nothing while the other one goes on saying the same, however long; and the
// version that readers have is none that returns.
func TestReplicasThatLagForLong(t *testing.T) {
	w := newWatch(t)
	w.look(News, "Head", "First")
	w.look(News, "Head", "Second")
	for range 12 {
		w.at = w.at.Add(30 * time.Minute)
		w.m.Unchanged(w.at)
	}
	w.look(Returned, "Head", "First")
	w.look(Same, "Head", "Second")
	w.look(Same, "Head", "Second")
	w.look(Returned, "Head", "First")
	for range 2 { // which stays, now
		w.at = w.at.Add(30 * time.Minute)
		w.m.Unchanged(w.at)
	}
	w.look(News, "Head", "First")
	w.look(Same, "Head", "First")
}

// What a page of few words says of itself is no wall.
func TestStatusPages(t *testing.T) {
	w := newWatch(t)
	w.look(News, "What works", "All systems work: the site, the API, the mail.")
	w.look(News, "What works", "The API is temporarily unavailable. The rest works.")
	w.look(News, "What works", "Scheduled maintenance on Sunday, and all works until then.")
}

// A contract whose numbers change tells so each time: seldom is not at every look.
func TestNumbersThatChangeSeldomAreContent(t *testing.T) {
	w := newWatch(t)
	w.look(News, "You may cancel within 10 days.")
	for i := range 12 {
		w.look(News, fmt.Sprintf("You may cancel within %d days.", 11+i))
		for range 3 {
			w.look(Same, fmt.Sprintf("You may cancel within %d days.", 11+i))
		}
	}
}

// Replicas that flap A-B-A yield one update; an edit that is taken back for good is told
// when nobody has seen it for an hour.
func TestReplicasThatFlap(t *testing.T) {
	w := newWatch(t)
	w.look(News, "a", "old")
	w.look(News, "a", "new")
	for range 5 {
		w.look(Returned, "a", "old")
		w.look(Same, "a", "new")
	}
	w.look(Returned, "a", "old")
	w.look(News, "a", "old")
}

// What stands in a page's place is no version of it.
func TestWhatIsNotThePage(t *testing.T) {
	content := strings.Split(strings.Repeat("A line of the page that says something about what it is about.|", 60), "|")[:60]
	for i := range content {
		content[i] += fmt.Sprint(i)
	}
	for name, c := range map[string]struct {
		core Core
		want string
	}{
		"nothing":           {lines(), "empty"},
		"a wall":            {Core{Title: "Just a moment...", Lines: []string{"Enable JavaScript and cookies to continue"}}, "wall"},
		"a CAPTCHA":         {lines("Please verify that you are human", "Solve the CAPTCHA"), "wall"},
		"an error":          {Core{Title: "502 Bad Gateway", Lines: []string{"502 Bad Gateway", "nginx"}}, "wall"},
		"not found":         {Core{Title: "Oops", Lines: []string{"404", "Page not found"}}, "wall"},
		"a log-in":          {Core{Title: "Sign in - Example", Lines: []string{"Your mail", "Forgot it?"}}, "log-in"},
		"something else":    {lines("It works!"), "shorter"},
		"in German":         {lines("Wartungsarbeiten", "Wir sind bald wieder da."), "wall"},
		"in Spanish":        {Core{Title: "Página no encontrada", Lines: []string{"Lo sentimos"}}, "wall"},
		"a program's error": {lines("Fatal error: Uncaught PDOException in /var/www/index.php:12"), "wall"},
		"an error in data":  {lines("error.code: 17", "error.message: try again"), "error"},
		"the page, edited":  {Core{Title: "Page", Lines: content[:40]}, ""},
		"a new page":        {lines(strings.Split(strings.Repeat("A quite different page, which is long as well.|", 59)+"x", "|")...), ""},
		"a page about them": {lines(append([]string{"What is a CAPTCHA?"}, content[:59]...)...), ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWatch(t)
			w.look(News, content...)
			w.at = w.at.Add(time.Minute)
			f := w.m.Look(c.core, w.at)
			if (f.Kind == Failed) != (c.want != "") || !strings.Contains(f.Reason, c.want) {
				t.Fatal(f.Kind, f.Reason)
			}
			if c.want != "" {
				w.look(Same, content...)
			}
		})
	}
	w := newWatch(t)
	for _, about := range []string{"Index of /pub", "Rate limits", "Scheduled maintenance"} { // what it is from the first on
		w := newWatch(t)
		for i, line := range []string{"../", "Parent directory", "Something else"} {
			if f := w.m.Look(Core{Title: about, Lines: []string{about, line}}, w.at); f.Kind != News {
				t.Error(about, i, f.Kind, f.Reason)
			}
		}
		if f := w.m.Look(Core{Title: about, Lines: []string{"Quite", "another", "list"}}, w.at); f.Kind != News {
			t.Error(about, f.Kind, f.Reason)
		}
	}
	if f := w.m.Look(Core{Title: "Access denied", Lines: []string{"Access denied"}}, w.at); f.Kind != Failed {
		t.Error("a wall is the first version")
	}
	w.look(News, content...)
	about := newWatch(t)
	for i, kind := range []Kind{Failed, Failed, News, Same} { // nothing else was ever there
		about.at = about.at.Add(30 * time.Minute)
		if f := about.m.Look(Core{Title: "CAPTCHA", Lines: []string{"A CAPTCHA is a test"}}, about.at); f.Kind != kind {
			t.Error(i, f.Kind, f.Reason)
		}
	}
	w.look(Failed, "We have moved.", "It is 10:00")
	w.look(Failed, "We have moved.", "It is 10:30")
	w.look(News, "We have moved.", "It is 11:00") // and have been gone for an hour
	w.at = w.at.Add(2 * time.Hour)
	w.look(News, content...)
	w.look(Failed, "We are full: 12:30")
	w.look(Failed, "It works!")
	w.look(Failed, "We are full: 13:30")
	w.look(Failed, "We are full: 14:00")
	w.look(News, "We are full: 14:30")
}

// A wall may stand under the title of the page, and be as long as it.
func TestWallsUnderThePagesTitle(t *testing.T) {
	page := "<title>How bees sleep</title><h1>How bees sleep</h1><p>They sleep at night, from five to eight hours, and hold each other by the legs.<p>" +
		"Those that sleep less dance less well, and the others do not understand them.<p>Nobody knows what they dream of."
	long := page + strings.Repeat("<p>Another line of those that say more about what bees do in their hives at night, and why they do it.", 30)
	for name, c := range map[string]struct{ page, wall, want string }{
		"a log-in": {page, "<h1>How bees sleep</h1><p>You must be logged in to read this article.<form><p>User name<input><p>Password<input type=password></form><p>" +
			"Forgot your password? Create an account", "log-in"},
		"an error":     {page, "<h1>How bees sleep</h1><p>Sorry! Error 503: Service Unavailable.<p>Please come back later.<p>We do what we can.", "Error 503"},
		"a field":      {page, "<h1>How bees sleep</h1><p>Members<form><p>Name<input><p>Word<input name=p type=Password></form>", "password"},
		"a notice":     {long, "<h1>How bees sleep</h1><p>" + strings.Join(strings.Split(long, "<p>")[1:4], "<p>") + "<p>Sign in to continue", "log-in"},
		"its own form": {page + "<form><input type=password></form>", "<h1>Bees</h1><p>All about them is new here.<p>Now in two parts.<form><input type=password></form>", ""},
		"a new page":   {page, "<h1>Bees</h1><p>All about them is new here.<p>Now in two parts.", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWatch(t)
			w.m.Look(HTML([]byte(c.page)), w.at)
			w.at = w.at.Add(time.Minute)
			f := w.m.Look(HTML([]byte("<title>How bees sleep</title>"+c.wall)), w.at)
			if (f.Kind == Failed) != (c.want != "") || !strings.Contains(f.Reason, c.want) {
				t.Fatal(f.Kind, f.Reason)
			}
			if f = w.m.Look(HTML([]byte(c.page)), w.at); c.want != "" && f.Kind != Same {
				t.Error(f.Kind)
			}
		})
	}
}

// Limits are kept, whatever a page does.
func TestMemoryIsBounded(t *testing.T) {
	w := newWatch(t)
	for i := range 200 {
		var of []string
		for j := range 400 {
			of = append(of, fmt.Sprintf("line %c%c has %d", 'a'+j%26, 'a'+j/26, i*j+i))
		}
		w.at = w.at.Add(2 * time.Hour)
		w.m.Look(HTML([]byte("<p>"+strings.Join(of, "<p>")+strings.Repeat("<nav>Menu "+strconv.Itoa(i)+"</nav>", 2*maxOut))), w.at)
		if m := &w.m; len(m.marks.of) > maxMarks || len(m.before) > maxVersions || len(m.out) > maxOut || len(m.odd.lines) > maxLines || m.last.all != nil || m.told.all != nil {
			t.Fatal(len(m.marks.of), len(m.before), len(m.out), len(m.odd.lines))
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

func TestWhatChangesByItselfIsLeftOut(t *testing.T) {
	for text, want := range map[string]string{
		"Posted 5 minutes ago by Ann":      "Posted … by Ann",
		"an hour ago":                      "…",
		"vor 3 Tagen":                      "…",
		"il y a une heure":                 "…",
		"3分钟前":                             "…",
		"1,204 views · 3 comments":         "… · 3 comments",
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
		if got := new(calm).still(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// Who looks once a month sees another number each time, and is told each time.
func TestWhatChangesFromMonthToMonthIsNews(t *testing.T) {
	w := newWatch(t)
	for i := range 12 {
		w.at = w.at.AddDate(0, 1, 0)
		w.look(News, "Downloads", fmt.Sprintf("Release 1.%d.0 of 2026-%02d-01", 20+i, 1+i), "All releases are signed")
	}
}

// Data that ends in its middle is not the page, unless it goes on to.
func TestDataThatIsCutOff(t *testing.T) {
	for name, c := range map[string][2]string{
		"JSON": {`{"a": "` + one + `", "b": "` + two + `"}`, `{"a": "` + one + `", "b": "The sec`},
		"XML":  {"<a><b>" + one + "</b><b>" + two + "</b></a>", "<a><b>" + one + "</b><b>The sec"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWatch(t)
			look := func(doc string) Kind {
				core, err := Read([]byte(doc), map[string]string{"JSON": "application/json", "XML": "text/xml"}[name])
				if err != nil {
					t.Fatal(err)
				}
				w.at = w.at.Add(30 * time.Minute)
				return w.m.Look(core, w.at).Kind
			}
			for i, want := range []struct {
				look int
				kind Kind
			}{{0, News}, {1, Failed}, {0, Same}, {1, Failed}, {1, Failed}, {1, News}, {1, Same}} {
				if kind := look(c[want.look]); kind != want.kind {
					t.Errorf("look %d: %v, want %v", i, kind, want.kind)
				}
			}
		})
	}
}

// Where a link leads is the same place by HTTP and by HTTPS.
func TestLinksByHTTPS(t *testing.T) {
	w := newWatch(t)
	w.look(News, "See [it](http://h.example/)", one)
	w.look(Same, "See [it](https://h.example/)", one)
	w.look(News, "See [it](https://h.example/a)", one)
}

// A region that is near the bound between noise and content stays where it was, and so do links
// that become a menu.
func TestSidesAreKept(t *testing.T) {
	w := newWatch(t)
	look := func(want Kind, doc string) Finding {
		t.Helper()
		core := HTML([]byte(doc))
		w.at = w.at.Add(30 * time.Minute)
		f := w.m.Look(core, w.at)
		if f.Kind != want {
			t.Fatalf("%s: %v, want %v: %+v", doc, f.Kind, want, f.Patch)
		}
		return f
	}
	aside := "<aside>" + two + "</aside>"
	look(News, "<p>"+one+one+"<p>"+two+aside)
	for _, more := range []string{strings.Repeat("<p>"+one, 10), "<p>x", strings.Repeat("<p>"+one, 12)} {
		for _, h := range look(News, more+"<p>"+one+one+"<p>"+two+aside).Patch.Hunks {
			if h.At != 0 {
				t.Errorf("at line %d: %q", h.At, h.Add)
			}
		}
	}
	w = newWatch(t)
	side := func(more string) string {
		return strings.Repeat("<p>"+one, 4) + "<p>" + more + "<aside>What stands beside it is of no great length.</aside>"
	}
	if f := look(News, side("")); len(f.Core.Lines) != 4 {
		t.Fatal(f.Core.Lines)
	}
	short := "<p>" + one + "<aside>What stands beside it is of no great length.</aside>" // it is half of the page now
	if f := look(News, short); len(f.Core.Lines) != 1 {
		t.Error(f.Core.Lines)
	}
	w = newWatch(t)
	page := strings.Repeat("<p>"+one+two, 4)
	links := []string{"<p><a href=/1>One</a>", "<p><a href=/2>Two</a>", "<p><a href=/3>Three</a>", "<p><a href=/4>Four</a>"}
	look(News, page+links[0]+links[1])
	if f := look(News, page+strings.Join(links, "")); len(f.Patch.Hunks) != 1 || len(f.Patch.Hunks[0].Add) != 2 || f.Patch.Hunks[0].Omit > 0 {
		t.Errorf("%+v", f.Patch)
	}
	w = newWatch(t)
	look(News, page+strings.Join(links, ""))
	look(Same, page+links[0])
}
