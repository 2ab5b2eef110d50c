package proxy

import (
	"fmt"
	"math"
	"time"

	"tidings/internal/feed"
)

// A Preview is what a query would have matched.
type Preview struct {
	Query    string        // as it is spelled here
	Hints    []string      // at what was perhaps not meant so
	Period   time.Duration // until now, in which the articles came
	Articles int           // how many there were
	Matching int           // how many of them match
	PerDay   float64       // how many are to be expected in a day, where that can be known
	Entries  []feed.Entry  // the newest that match, also of before; each says what it says, and from where
}

const (
	// leastTime is for how long articles must have come, to say how many come in a day.
	minSamplePeriod = time.Hour
	day             = 24 * time.Hour
	// From generalDay a day on, or this share of generalOf articles and more, a query selects too little:
	// its reader would miss what a keyword feed has no room for.
	tooGeneralPerDay = 100
	tooGeneralShare  = 0.05
	tooGeneralSample = 1000
)

// A Trial is a preview in numbers, for programs, and in words.
type PreviewResult struct {
	Articles int     `json:"articles"` // on which the query was tried
	Hours    float64 `json:"hours"`    // until now, in which they came
	Matching int     `json:"matching"` // of them
	// PerDay estimates how many match in a day, nil where that cannot be said yet.
	PerDay *float64 `json:"per_day,omitempty"`
	// General says that far more match than a keyword feed has room for.
	TooGeneral bool     `json:"too_general"`
	Hints      []string `json:"hints,omitempty"`
	// Says is the trial in a sentence, Warning what is wrong with it, if anything is.
	Summary string `json:"says"`
	Warning string `json:"warning,omitempty"`
}

// trial is the preview of a query whose feed would have as many articles as are kept.
func (p Preview) result(kept int) *PreviewResult {
	t := &PreviewResult{Articles: p.Articles, Hours: math.Round(p.Period.Hours()*100) / 100, Matching: p.Matching, Hints: p.Hints}
	t.Summary = fmt.Sprintf("%d of %s of the last %s match", p.Matching, Plural(p.Articles, "article", "articles"), FormatSpan(p.Period))
	if p.Articles == 0 {
		t.Summary = fmt.Sprintf("no articles arrived in the last %s, so the number of matches is not known yet", FormatSpan(p.Period))
	} else if p.Period >= minSamplePeriod {
		n := math.Round(p.PerDay*100) / 100
		t.PerDay = &n
		t.Summary += ": " + perDayText(n)
	} else {
		t.Summary += "; it is too early to say how many match in a day"
	}
	// What came in less than a day is less than a day's.
	t.TooGeneral = p.Matching > tooGeneralPerDay && p.Period <= day || t.PerDay != nil && *t.PerDay > tooGeneralPerDay ||
		p.Articles >= tooGeneralSample && float64(p.Matching) > tooGeneralShare*float64(p.Articles)
	if t.TooGeneral {
		t.Warning = fmt.Sprintf("this query is too general: the feed keeps the newest %d articles, and you would miss the others; add a rarer word", kept)
	}
	return t
}

// aDay says how many come a day.
func perDayText(n float64) string {
	if n < 1 {
		return "less than one a day"
	}
	return fmt.Sprintf("about %.0f a day", n)
}
