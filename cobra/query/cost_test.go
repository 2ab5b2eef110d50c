package query

import (
	"strings"
	"testing"
	"time"
)

// shortestTime returns the shortest time that f takes in several attempts. It makes more
// attempts on a busy machine.
func shortestTime(f func()) time.Duration {
	best := time.Hour
	for try := 0; try < 5 || best > limit && try < 100; try++ {
		begin := time.Now()
		f()
		best = min(best, time.Since(begin))
	}
	return best
}

// limit is the longest time for refusing or expanding a query.
const limit = 10 * time.Millisecond

// Queries made to be costly are refused at once, with a reason.
func TestCostlyQueriesAreRefused(t *testing.T) {
	for name, test := range map[string]struct{ text, why string }{
		"nested deep":                 {strings.Repeat("(", 2000) + "a" + strings.Repeat(")", 2000), "nested parentheses"},
		"nested deep, not closed":     {strings.Repeat("(", MaxText), "nested parentheses"},
		"closed only":                 {strings.Repeat(")", MaxText), "there is no ("},
		"a tower of NOT":              {strings.Repeat("NOT ", 1000) + "a", "nested parentheses"},
		"a tower of minus and (":      {"x " + strings.Repeat("-(a OR ", 500) + "a" + strings.Repeat(")", 500), "nested parentheses"},
		"10,000 words":                {strings.Repeat("word ", 10_000), "bytes"},
		"10,000 alternatives":         {strings.Repeat("w OR ", 10_000) + "w", "bytes"},
		"2,000 words":                 {strings.Repeat("w ", 2000), "more than 256 words"},
		"1,000 prefixes":              {strings.Repeat("abc* ", 800), "more than 256 words"},
		"one prefix of 4,000 letters": {strings.Repeat("a", 4000) + "*", "is too long"},
		"a phrase of 2,000 words":     {`"` + strings.Repeat("w ", 2000) + `"`, "more than 256 words"},
		"a phrase of 1,300 signs":     {`"` + strings.Repeat("東", 1300) + `"`, "more than 256 words"},
		"300 stems":                   {strings.Repeat("~running ", 300), "more than 256 words"},
		"4,000 minus signs":           {strings.Repeat("-", 4000) + "a", "nested parentheses"},
		"a million clauses":           {strings.Repeat("(a OR b) ", 20), "combinations"},
		"2¹²⁸ clauses":                {strings.Repeat("(a OR b)", 128), "combinations"},
		"as many by De Morgan":        {"x " + strings.Repeat("-(a b) ", 20), "combinations"},
		"as many, nested":             {strings.Repeat("(x ", 30) + "(a OR b) " + strings.Repeat("(a OR b)) ", 30), "combinations"},
		"64 megabytes":                {strings.Repeat("(a OR b) ", 64<<20/9), "bytes"},
		"what is not UTF-8":           {strings.Repeat("\xff", MaxText), "UTF-8"},
		"combining marks":             {strings.Repeat("\u0301", MaxText/2), "there is no word"},
	} {
		var err error
		took := shortestTime(func() { _, err = Clauses(test.text) })
		if err == nil || !strings.Contains(err.Error(), test.why) {
			t.Errorf("%s: %v", name, err)
		}
		if took > limit {
			t.Errorf("%s: refused after %v", name, took)
		}
	}
}

// The largest valid queries are expanded within the same time.
func TestLargestQueriesAreCheap(t *testing.T) {
	for name, text := range map[string]string{
		"as many words":                 strings.Repeat("w ", MaxTerms),
		"as many different ones":        distinctWords(MaxTerms, " "),
		"as many alternatives":          distinctWords(MaxTerms, " OR "),
		"as many that are not":          "x -" + distinctWords(MaxTerms-1, " -"),
		"as many combinations":          strings.Repeat("(a OR b) ", 16),
		"as many nested as may be":      strings.Repeat("(x OR (y ", MaxDepth/2) + "z" + strings.Repeat("))", MaxDepth/2),
		"64 clauses of many words":      strings.Repeat("(a OR b) ", 6) + distinctWords(MaxTerms-12, " "),
		"64 clauses with many excluded": strings.Repeat("(a OR b) ", 6) + "-" + distinctWords(MaxTerms-12, " -"),
		"a phrase as long as may be":    `"` + distinctWords(MaxTerms, " ") + `"`,
	} {
		var clauses []Clause
		var err error
		took := shortestTime(func() { clauses, err = Clauses(text) })
		if err != nil || len(clauses) == 0 || len(clauses) > MaxTerms {
			t.Errorf("%s: %d clauses, %v", name, len(clauses), err)
		}
		if took > limit {
			t.Errorf("%s: expanded after %v", name, took)
		}
	}
}

// distinctWords returns n different words.
func distinctWords(n int, between string) string {
	all := make([]string, n)
	for i := range all {
		all[i] = string(rune('a'+i/26%26)) + string(rune('a'+i%26)) + string(rune('a'+i/676))
	}
	return strings.Join(all, between)
}
