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
	Time     time.Duration // until now, in which the articles came
	Of       int           // how many there were
	Matching int           // how many of them match
	PerDay   float64       // how many are to be expected in a day, where that can be known
	Entries  []feed.Entry  // the newest that match, also of before; each says what it says, and from where
}

const (
	// leastTime is for how long articles must have come, to say how many come in a day.
	leastTime = time.Hour
	day       = 24 * time.Hour
	// From generalDay a day on, or this share of generalOf articles and more, a query selects too little:
	// its reader would miss what a keyword feed has no room for.
	generalDay   = 100
	generalShare = 0.05
	generalOf    = 1000
)

// A Trial is a preview in numbers, for programs, and in words.
type Trial struct {
	Articles int     `json:"articles"` // on which the query was tried
	Hours    float64 `json:"hours"`    // until now, in which they came
	Matching int     `json:"matching"` // of them
	// PerDay estimates how many match in a day, nil where that cannot be said yet.
	PerDay *float64 `json:"per_day,omitempty"`
	// General says that far more match than a keyword feed has room for.
	General bool     `json:"too_general"`
	Hints   []string `json:"hints,omitempty"`
	// Says is the trial in a sentence, Warning what is wrong with it, if anything is.
	Says    string `json:"says"`
	Warning string `json:"warning,omitempty"`
}

// trial is the preview of a query whose feed would have as many articles as are kept.
func (p Preview) trial(kept int) *Trial {
	t := &Trial{Articles: p.Of, Hours: math.Round(p.Time.Hours()*100) / 100, Matching: p.Matching, Hints: p.Hints}
	t.Says = fmt.Sprintf("%d of %s of the last %s match", p.Matching, Plural(p.Of, "article", "articles"), Span(p.Time))
	if p.Of == 0 {
		t.Says = fmt.Sprintf("no articles arrived in the last %s, so the number of matches is not known yet", Span(p.Time))
	} else if p.Time >= leastTime {
		n := math.Round(p.PerDay*100) / 100
		t.PerDay = &n
		t.Says += ": " + aDay(n)
	} else {
		t.Says += "; it is too early to say how many match in a day"
	}
	// What came in less than a day is less than a day's.
	t.General = p.Matching > generalDay && p.Time <= day || t.PerDay != nil && *t.PerDay > generalDay ||
		p.Of >= generalOf && float64(p.Matching) > generalShare*float64(p.Of)
	if t.General {
		t.Warning = fmt.Sprintf("this query is too general: the feed keeps the newest %d articles, and you would miss the others; add a rarer word", kept)
	}
	return t
}

// aDay says how many come a day.
func aDay(n float64) string {
	if n < 1 {
		return "less than one a day"
	}
	return fmt.Sprintf("about %.0f a day", n)
}
