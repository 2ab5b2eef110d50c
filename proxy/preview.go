package proxy

import (
	"math"
	"time"

	"tidings/internal/feed"
	"tidings/internal/locale"
)

// A Preview says which recent articles a query would have matched.
type Preview struct {
	Query    string        // in normalised form
	Hints    []string      // about parts of the query that may not mean what the user thinks
	Period   time.Duration // until now, in which the articles arrived; 0: the node does not keep articles for this
	Articles int           // number of articles
	Matching int           // number of these that match
	PerDay   float64       // expected number of matches per day, if it can be estimated
	Entries  []feed.Entry  // the newest matches, including older ones, each with its content and source
	// Days counts the matches of each of the last whole days of which articles are known, 24 hours each until now, the oldest
	// first.
	Days []int
}

const (
	// minSamplePeriod is the time for which articles must have arrived before matches per day are estimated.
	minSamplePeriod = time.Hour
	day             = 24 * time.Hour
	// A query is too general if more than tooGeneralPerDay articles per day match, or more than tooGeneralShare of
	// at least tooGeneralSample articles. Its reader would miss the articles for which the keyword feed has no
	// room.
	tooGeneralPerDay = 100
	tooGeneralShare  = 0.05
	tooGeneralSample = 1000
)

// A PreviewResult is a preview as numbers, for programs, and in words.
type PreviewResult struct {
	Articles int     `json:"articles"` // number of articles on which the query was tried
	Hours    float64 `json:"hours"`    // until now, in which they arrived
	Matching int     `json:"matching"` // number of these that match
	// PerDay estimates how many match in a day. It is nil if that is not known yet.
	PerDay *float64 `json:"per_day,omitempty"`
	// TooGeneral says that far more articles match than a keyword feed has room for.
	TooGeneral bool     `json:"too_general"`
	Hints      []string `json:"hints,omitempty"`
	// Summary describes the result in a sentence. Warning describes a problem with the query, if there is one.
	Summary locale.Text `json:"says"`
	Warning locale.Text `json:"warning,omitempty"`
}

// result converts the preview of a query whose feed would have at most maxArticles articles.
func (p Preview) result(maxArticles int) *PreviewResult {
	t := &PreviewResult{Articles: p.Articles, Hours: math.Round(p.Period.Hours()*100) / 100, Matching: p.Matching, Hints: p.Hints}
	period := SpanText(p.Period)
	switch n := math.Round(p.PerDay*100) / 100; {
	case p.Articles == 0 && p.Period == 0:
		t.Summary = locale.Say("this node has only the articles that somebody searches for, so how many match is not known")
	case p.Articles == 0:
		t.Summary = locale.Say("no articles arrived in the last %s, so the number of matches is not known yet", period)
	case p.Period < minSamplePeriod:
		t.Summary = locale.Say("%[2]d of %[1]d articles of the last %[3]s match; it is too early to say how many match in a day", p.Articles, p.Matching, period)
	case n < 1:
		t.PerDay = &n
		t.Summary = locale.Say("%[2]d of %[1]d articles of the last %[3]s match; on average less than one a day", p.Articles, p.Matching, period)
	default:
		t.PerDay = &n
		t.Summary = locale.Say("%[2]d of %[1]d articles of the last %[3]s match; on average about %[4]d a day", p.Articles, p.Matching, period, int(math.RoundToEven(n)))
	}
	// A count over less than a day is a lower bound of the count per day.
	t.TooGeneral = p.Matching > tooGeneralPerDay && p.Period <= day || t.PerDay != nil && *t.PerDay > tooGeneralPerDay ||
		p.Articles >= tooGeneralSample && float64(p.Matching) > tooGeneralShare*float64(p.Articles)
	if t.TooGeneral {
		t.Warning = locale.Say("this query is too general: the feed keeps the newest %d articles, and you would miss the others; add a rarer word", maxArticles)
	}
	return t
}
