package cobra

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"tidings/cobra/index"
	"tidings/cobra/query"
	"tidings/cobra/words"
)

var pairs = flag.Int("pairs", 200_000, "how many pairs of queries and articles TestMatchingEqualsANaiveEvaluator compares")

// A naive evaluator compares every word of an article with every word of a query, without keys,
// clauses or an index.
type naive struct {
	parts    []part
	language string
	feed     string
	sites    []string
	stems    string // language of the stems in the query
}

type part struct {
	field query.Field
	at    [][]string // forms at each position
}

func newNaive(a *Article) *naive {
	n := &naive{language: strings.ToLower(a.Language), feed: a.Feed, sites: []string{query.SiteOf(a.Feed), query.SiteOf(a.Link)}}
	var c words.Tokenizer
	add := func(f query.Field, text string) {
		p := part{field: f}
		c.Tokenize(text, func(form []byte, at int, _ words.TokenKind) {
			for len(p.at) <= at {
				p.at = append(p.at, nil)
			}
			p.at[at] = append(p.at[at], string(form))
		})
		n.parts = append(n.parts, p)
	}
	add(query.Title, a.Title)
	add(query.Author, a.Author)
	for _, t := range a.Tags {
		add(query.Tag, t)
	}
	add(query.Any, strings.ReplaceAll(a.HTML, "<br>", "\n"))
	return n
}

// matches reports whether the article matches a query.
func (n *naive) matches(q *query.Expr) bool {
	// Stems are in the language that the query requires, or in English.
	n.stems = "en"
	for _, a := range q.Args {
		if q.Op == query.And && a.Op == query.Leaf && a.Field == query.Lang {
			n.stems = words.Language(a.Text)
		}
	}
	return n.evaluate(q)
}

// evaluate evaluates a part of a query.
func (n *naive) evaluate(e *query.Expr) bool {
	switch e.Op {
	case query.And:
		return !slices.ContainsFunc(e.Args, func(a *query.Expr) bool { return !n.evaluate(a) })
	case query.Or:
		return slices.ContainsFunc(e.Args, n.evaluate)
	case query.Not:
		return !n.evaluate(e.Args[0])
	}
	switch e.Field {
	case query.Feed:
		return e.Text == n.feed
	case query.Site:
		return slices.ContainsFunc(n.sites, func(s string) bool { return s == e.Text || strings.HasSuffix(s, "."+e.Text) })
	case query.Lang:
		return n.language == e.Text || strings.HasPrefix(n.language, e.Text+"-")
	}
	wanted := queryWords(e)
	for _, p := range n.parts {
		if p.field == e.Field || e.Field == query.Any && p.field != query.Author {
			for at := range p.at {
				if n.startsWith(e, wanted, p.at[at:]) {
					return true
				}
			}
		}
	}
	return false
}

// queryWords returns a leaf's words, position by position.
func queryWords(e *query.Expr) (wanted []string) {
	for _, w := range strings.Fields(strings.NewReplacer("-", " ", "ß", "ss").Replace(strings.ToLower(e.Text))) {
		for runes := []rune(w); len(runes) > 0; {
			end := 1
			for end < len(runes) && withoutBlanks(runes[end]) == withoutBlanks(runes[0]) {
				end++
			}
			if run := runes[:end]; withoutBlanks(run[0]) {
				for i := range run { // each letter with the one after it
					wanted = append(wanted, string(run[i:min(i+2, len(run))]))
				}
			} else {
				wanted = append(wanted, string(run))
			}
			runes = runes[end:]
		}
	}
	return wanted
}

// startsWith reports whether a leaf's words are at the first positions.
func (n *naive) startsWith(e *query.Expr, wanted []string, at [][]string) bool {
	if len(wanted) > len(at) {
		return false
	}
	for i, w := range wanted {
		last := i == len(wanted)-1
		if !slices.ContainsFunc(at[i], func(form string) bool {
			switch {
			case e.Stem:
				return words.Stem(n.stems, form) == words.Stem(n.stems, w) && (n.language == "" || words.Language(n.language) == n.stems)
			case e.Prefix && last:
				return strings.HasPrefix(form, w)
			}
			return form == w
		}) {
			return false
		}
	}
	return true
}

var (
	someWords    = strings.Fields("solar wind battery Café cafe naïve storage power heat pump the of and running runs run ran photo photon photovoltaic Zürich zurich ÖL öl 東京 京都 東京都 都市 大学 ソーラー l'avion avion don't Obama's Obama 12 3.14 e-mail ß ss")
	somePrefixes = strings.Fields("pho photo run sol bat zür zur caf obam")
	someSites    = strings.Fields("example.org news.example.org example.com")
)

func pick(r *rand.Rand, from []string) string {
	// Lower indices are more frequent, as some words are.
	i := int(float64(len(from)) * r.Float64() * r.Float64())
	return from[i]
}

func randomQuery(r *rand.Rand, depth int) string {
	field := ""
	if r.IntN(6) == 0 {
		field = []string{"title:", "author:", "tag:"}[r.IntN(3)]
	}
	if depth > 0 {
		switch r.IntN(5) {
		case 0, 1:
			return randomQuery(r, depth-1) + " " + randomQuery(r, depth-1)
		case 2:
			return "(" + randomQuery(r, depth-1) + " OR " + randomQuery(r, depth-1) + ")"
		case 3:
			return randomQuery(r, depth-1) + " NOT (" + randomQuery(r, depth-1) + ")"
		}
	}
	switch r.IntN(12) {
	case 0:
		return field + pick(r, somePrefixes) + "*"
	case 1, 2:
		return fmt.Sprintf(`%s"%s %s"`, field, pick(r, someWords), pick(r, someWords))
	case 3:
		return fmt.Sprintf(`%s"%s %s*"`, field, pick(r, someWords), pick(r, somePrefixes))
	case 4:
		return field + "~" + pick(r, []string{"running", "run", "photons"})
	case 5:
		return "site:" + pick(r, someSites)
	case 6:
		return "lang:" + pick(r, []string{"en", "de", "en-gb"})
	case 7:
		return "feed:https://" + pick(r, someSites) + "/f"
	}
	return field + pick(r, someWords)
}

func randomText(r *rand.Rand, n int) string {
	var b strings.Builder
	for range n {
		b.WriteString(pick(r, someWords))
		b.WriteString([]string{" ", " ", " ", ", ", "<br>", ""}[r.IntN(6)])
	}
	return b.String()
}

func randomArticle(r *rand.Rand) *Article {
	return &Article{
		Feed: "https://" + pick(r, someSites) + "/f", Link: "https://www." + pick(r, someSites) + "/" + fmt.Sprint(r.IntN(100)),
		Title: strings.ReplaceAll(randomText(r, r.IntN(6)), "<br>", " "), Author: pick(r, someWords), Tags: []string{pick(r, someWords)},
		HTML: randomText(r, r.IntN(40)), Language: pick(r, []string{"", "en", "de", "en-GB"}),
	}
}

// TestMatchingEqualsANaiveEvaluator compares the matches of changing sets of subscriptions with
// the paper's definition: "each word of the subscription is marked either true or false based
// on whether it appears anywhere in the article; if the resulting boolean expression evaluates
// to true then the article is considered to have matched" (section 3.2).
// these come and go.
func TestMatchingEqualsANaiveEvaluator(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(8, 1))
	f := NewFilter(Config{}, index.New())
	type subscription struct {
		number SubscriptionID
		query  *query.Expr
	}
	var alive []subscription
	next := SubscriptionID(0)
	subscribe := func() {
		q, err := query.Parse(randomQuery(r, 3))
		if err != nil {
			return // a query of negated words only
		}
		if err := f.Add(next, q.Clauses(), func(index.ClauseID) {}); err != nil {
			t.Fatal(err)
		}
		alive = append(alive, subscription{next, q})
		next++
	}
	compared, matched := 0, 0
	for compared < *pairs {
		for len(alive) < 300 {
			subscribe()
		}
		if compared%50 == 0 {
			f.Pack()
		}
		for range 3 {
			i := r.IntN(len(alive))
			f.Remove(alive[i].number, alive[i].query.Clauses())
			alive = slices.Delete(alive, i, i+1)
		}
		a := randomArticle(r)
		n := newNaive(a)
		hit := map[index.ClauseID]bool{}
		for _, h := range f.Match(a) {
			if hit[h] || f.index.Uses(h) == 0 {
				t.Fatalf("clause %d was hit twice, or was removed", h)
			}
			hit[h] = true
		}
		for _, s := range alive {
			compared++
			got := slices.ContainsFunc(f.ClauseIDs(s.number), func(n index.ClauseID) bool { return hit[n] })
			if want := n.matches(s.query); got != want {
				t.Fatalf("%q matches %+v: %v, want %v", s.query, a, got, want)
			} else if want {
				matched++
			}
		}
	}
	t.Logf("%d of %d pairs match", matched, compared)
	if matched*50 < compared {
		t.Errorf("only %d of %d pairs match: the test covers too little", matched, compared)
	}
}
