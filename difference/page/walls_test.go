package page

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestStatusPages(t *testing.T) {
	w := newChecker(t)
	w.check(Changed, "What works", "All systems work: the site, the API, the mail.")
	w.check(Changed, "What works", "The API is temporarily unavailable. The rest works.")
	w.check(Changed, "What works", "Scheduled maintenance on Sunday, and all works until then.")
}

func TestReplacementsAreRejected(t *testing.T) {
	content := strings.Split(strings.Repeat("A line of the page that says something about what it is about.|", 60), "|")[:60]
	for i := range content {
		content[i] += fmt.Sprint(i)
	}
	for name, c := range map[string]struct {
		core Core
		want string
	}{
		"nothing":           {lines(), "empty"},
		"a wall":            {Core{Title: "Just a moment...", Lines: []string{"Enable JavaScript and cookies to continue"}}, "log-in page"},
		"a CAPTCHA":         {lines("Please verify that you are human", "Solve the CAPTCHA"), "an error or log-in page"},
		"an error":          {Core{Title: "502 Bad Gateway", Lines: []string{"502 Bad Gateway", "nginx"}}, "an error or log-in page"},
		"not found":         {Core{Title: "Oops", Lines: []string{"404", "Page not found"}}, "an error or log-in page"},
		"a log-in":          {Core{Title: "Sign in - Example", Lines: []string{"Your mail", "Forgot it?"}}, "log-in"},
		"something else":    {lines("It works!"), "shorter"},
		"in German":         {lines("Wartungsarbeiten", "Wir sind bald wieder da."), "an error or log-in page"},
		"in Spanish":        {Core{Title: "Página no encontrada", Lines: []string{"Lo sentimos"}}, "an error or log-in page"},
		"a program's error": {lines("Fatal error: Uncaught PDOException in /var/www/index.php:12"), "an error or log-in page"},
		"an error in data":  {lines("error.code: 17", "error.message: try again"), "error"},
		"the page, edited":  {Core{Title: "Page", Lines: content[:40]}, ""},
		"a new page":        {lines(strings.Split(strings.Repeat("A quite different page, which is long as well.|", 59)+"x", "|")...), ""},
		"a page about them": {lines(append([]string{"What is a CAPTCHA?"}, content[:59]...)...), ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newChecker(t)
			w.check(Changed, content...)
			w.at = w.at.Add(time.Minute)
			f := w.m.Check(c.core, w.at)
			if (f.Kind == Failed) != (c.want != "") || !strings.Contains(f.Reason, c.want) {
				t.Fatal(f.Kind, f.Reason)
			}
			if c.want != "" {
				w.check(Same, content...)
			}
		})
	}
	w := newChecker(t)
	for _, about := range []string{"Index of /pub", "Rate limits", "Scheduled maintenance"} { // the page itself
		w := newChecker(t)
		for i, line := range []string{"../", "Parent directory", "Something else"} {
			if f := w.m.Check(Core{Title: about, Lines: []string{about, line}}, w.at); f.Kind != Changed {
				t.Error(about, i, f.Kind, f.Reason)
			}
		}
		if f := w.m.Check(Core{Title: about, Lines: []string{"Quite", "another", "list"}}, w.at); f.Kind != Changed {
			t.Error(about, f.Kind, f.Reason)
		}
	}
	if f := w.m.Check(Core{Title: "Access denied", Lines: []string{"Access denied"}}, w.at); f.Kind != Failed {
		t.Error("a wall is the first version")
	}
	w.check(Changed, content...)
	about := newChecker(t)
	for i, kind := range []Kind{Failed, Failed, Changed, Same} { // there was never another document
		about.at = about.at.Add(30 * time.Minute)
		if f := about.m.Check(Core{Title: "CAPTCHA", Lines: []string{"A CAPTCHA is a test"}}, about.at); f.Kind != kind {
			t.Error(i, f.Kind, f.Reason)
		}
	}
	w.check(Failed, "We have moved.", "It is 10:00")
	w.check(Failed, "We have moved.", "It is 10:30")
	w.check(Changed, "We have moved.", "It is 11:00") // they have been gone for an hour
	w.at = w.at.Add(2 * time.Hour)
	w.check(Changed, content...)
	w.check(Failed, "We are full: 12:30")
	w.check(Failed, "It works!")
	w.check(Failed, "We are full: 13:30")
	w.check(Failed, "We are full: 14:00")
	w.check(Changed, "We are full: 14:30")
}

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
			w := newChecker(t)
			w.m.Check(HTML([]byte(c.page)), w.at)
			w.at = w.at.Add(time.Minute)
			f := w.m.Check(HTML([]byte("<title>How bees sleep</title>"+c.wall)), w.at)
			if (f.Kind == Failed) != (c.want != "") || !strings.Contains(f.Reason, c.want) {
				t.Fatal(f.Kind, f.Reason)
			}
			if f = w.m.Check(HTML([]byte(c.page)), w.at); c.want != "" && f.Kind != Same {
				t.Error(f.Kind)
			}
		})
	}
}

// A certain wall is never reported, and a possible one after a day.
func TestWallsThatLast(t *testing.T) {
	page := "<title>River news</title><h1>River news</h1>" + strings.Repeat("<p>The river rose by a foot in the night, and is to rise by another one.", 30)
	field, terms := "<p>Word<input type=password>", strings.Repeat("<p>By signing in you agree that we know what you read.", 60)
	for name, c := range map[string]struct {
		wall string
		days int // days until the report; 0: never
	}{
		"a test for people": {"<title>Just a moment...</title><p>Checking your browser", 0},
		"no page":           {"<title>404 Not Found</title><h1>404 Not Found</h1>", 0},
		"nothing yet":       {"<title>River news</title><h1>River news</h1><p>Loading…", 0},
		"a long log-in":     {"<title>Sign in</title><p>Mail" + field + terms, 0},
		"a short one":       {"<title>River news</title><p>For members" + field, 0},
		"a page with a box": {"<title>River news</title><p>Now with a word for each reader" + field + terms, 1},
		"a fault, perhaps":  {"<title>River news</title><p>Seiten in Wartungsmodus" + strings.Repeat("<p>Our crew of three works at the pumps, and at this.", 25), 1},
	} {
		w := newChecker(t)
		w.m.Check(HTML([]byte(page)), w.at)
		for hour := range 72 {
			w.at = w.at.Add(time.Hour)
			f := w.m.Check(HTML([]byte(c.wall)), w.at)
			if told := f.Kind == Changed; told != (c.days > 0 && hour == 24*c.days) {
				t.Errorf("%s, after %d hours: %v %s", name, hour, f.Kind, f.Reason)
			}
		}
	}
}

// A wall may keep the head of the page.
func TestWallsBelowThePagesHead(t *testing.T) {
	head := "<title>River news</title><h1>River news</h1>"
	text := "<p>The river rose by a foot in the night, and is to rise by another one until tomorrow's evening.<p>The bridge at the mill is closed, and so is the road that leads to it from the north.<p>Whoever lives below the mill is asked to take what he needs to the upper floor."
	site := "<main><p>River news is made by volunteers<p>It comes out each day<p>Write to us<p>We are here since 1998"
	for _, c := range []struct{ name, page, wall string }{
		{"nothing", head + text, head},
		{"a session", head + text, head + "<p>Your session has expired. Please reload the page."},
		{"waiting", head + text, head + "<p>Loading…"},
		{"a fault", head + text, head + "<p>Oops! We could not load this page. Please try again later."},
		{"one line", head + "<p>Opening hours: from nine to five, and on Sundays until noon", head + "<p>500 Internal Server Error"},
		{"a log-in", head + site + text, head + site + "<p>Please log in<form><input type=password></form>"},
		{"a database", head + site + text, head + site + "<p>Error establishing a database connection"},
		{"a check", head + text, head + "<p>Please complete the security check to access this site."},
		{"a button", head + text, head + "<p>Press and hold the button to confirm you are a person and not a bot."},
		{"a block", head + text, head + "<p>Sorry, you have been blocked<p>Cloudflare Ray ID: 8f1"},
		{"subscribers", head + text, head + "<p>This article is for subscribers only.<p>Already a subscriber? Log in"},
		{"an account", head + text, head + "<p>You need an account to read this article.<p>Sign in with Google"},
		{"consent", head + text, head + "<p>We use cookies.<p>Accept all Reject all"},
	} {
		w := newChecker(t)
		w.m.Check(HTML([]byte(c.page)), w.at)
		for range 4 { // for longer than a moment
			w.at = w.at.Add(14 * time.Minute)
			if f := w.m.Check(HTML([]byte(c.wall)), w.at); f.Kind != Failed {
				t.Errorf("%s: %v %+v", c.name, f.Kind, f.Patch)
			}
		}
		if f := w.m.Check(HTML([]byte(c.page)), w.at); f.Kind != Same {
			t.Errorf("%s: %v when it is over", c.name, f.Kind)
		}
	}
}
