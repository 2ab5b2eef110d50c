package page

import (
	"regexp"
	"slices"
	"time"
)

const (
	// wallLength is how many bytes of text what stands in a page's place has at most, if its
	// words are to count: a page about CAPTCHAs is longer.
	wallLength = 2000
	// stays is for how long what has little in common with a page has to be there to be the
	// page. What says that it is an error, or a wall, is not in the place of another page, but may be
	// what a page is about of which nothing else was ever seen.
	stays = time.Hour
)

// walls are what errors, log-ins and tests for people say in their titles or in their few
// words.
var walls = regexp.MustCompile(`(?i)captcha|are you (?:a )?human|not a robot|verify(?:ing)? (?:that )?you(?: are|'re)|checking your browser|just a moment|attention required|` +
	`unusual (?:traffic|activity)|enable (?:javascript|cookies)|javascript (?:is|must be|to be) (?:disabled|enabled|required)|access (?:is |has been )?(?:denied|blocked)|` +
	`request (?:was |has been )?(?:blocked|rejected|denied)|\b(?:40[0-9]|41[0-9]|42[0-9]|50[0-9]|52[0-9])\b.{0,20}(?:error|forbidden|found|unauthori[sz]ed|unavailable|gateway|timeout|gone|requests)|` +
	`\berror.{0,12}\b(?:4\d\d|5\d\d)\b|page (?:was )?not found|bad gateway|gateway time-?out|service (?:is )?(?:temporarily )?unavailable|temporarily (?:unavailable|down|offline)|` +
	`internal server error|too many requests|rate limit|down for maintenance|under maintenance|scheduled maintenance|something went wrong`)

// logins are what the titles of walls for strangers say.
var logins = regexp.MustCompile(`(?i)^\W*(?:please )?(?:sign|log) ?in(?:\W*$|\s*[|·–—-]|\s+to\b)|\b(?:sign|log) ?in(?: required)?\W*$|\blogin required\b|^\W*login\b`)

// odd is a page that has turned into another one, perhaps for a moment.
type odd struct {
	lines []string // of the other one, when it was first seen, as skeletons
	since time.Time
}

// judge returns why what a fetch has brought is not the page; "" if it is.
func (o *odd) judge(now, told *Core, first bool, at time.Time) string {
	if len(now.Lines) == 0 {
		return "the document is empty"
	}
	text := now.Text()
	short := len(text) <= wallLength
	if alike := !first && common(now.Lines, told.Lines)*2 >= len(now.Lines); alike {
		*o = odd{}
		return ""
	}
	if short {
		said := walls.FindString(now.Title)
		if said == "" && !first && len(text)*2 <= len(told.Text()) { // else it may be what the page is about
			said = walls.FindString(text)
		}
		if said != "" && !(first && o.lasts(now, at)) {
			return "an error or a wall in its place: " + said
		}
		if logins.MatchString(now.Title) && !(first && o.lasts(now, at)) {
			return "a log-in in its place: " + now.Title
		}
	}
	if first || len(text)*10 >= len(told.Text()) {
		return ""
	}
	if o.lasts(now, at) {
		return ""
	}
	return "another document in its place, much shorter"
}

// lasts says whether a document like this one has been there for long enough to be believed.
func (o *odd) lasts(now *Core, at time.Time) bool {
	lines := skeletons(now.Lines)
	if o.since.IsZero() || common(lines, o.lines)*2 < len(lines) {
		*o = odd{lines: lines, since: at}
	}
	return at.Sub(o.since) >= stays
}

// skeletons are lines without what may change by itself.
func skeletons(lines []string) []string {
	of := make([]string, len(lines))
	for i, l := range lines {
		of[i], _ = skeleton(l)
	}
	return of
}

// common is how many of some lines are among others.
func common(of, others []string) int {
	others = slices.Clone(others)
	slices.Sort(others)
	n := 0
	for _, l := range of {
		if _, ok := slices.BinarySearch(others, l); ok {
			n++
		}
	}
	return n
}
