package cobra

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	"tidings/cobra/index"
	"tidings/cobra/query"
)

// realArticles reads real texts in many scripts. It removes characters of markup, because the
// naive evaluator parses none.
func realArticles(t *testing.T) (of []*Article) {
	t.Helper()
	f, err := os.Open(filepath.Join("..", "..", "shared", "data", "articles", "articles.jsonl.gz"))
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("articles.jsonl.gz of the shared data is not beside the project")
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	plain := strings.NewReplacer("<", " ", ">", " ", "&", " ", "\n", "<br>", "\r", " ")
	lines := bufio.NewScanner(z)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var a struct{ Title, Body, Lang string }
		if err := json.Unmarshal(lines.Bytes(), &a); err != nil {
			t.Fatal(err)
		}
		lang := a.Lang[strings.LastIndexByte(a.Lang, ':')+1:]
		of = append(of, &Article{Feed: "https://example.org/f", Title: a.Title, HTML: plain.Replace(a.Body), Language: lang})
	}
	return of
}

// quoted returns a text with letters, digits and marks only, as a query can contain it.
func quoted(text string) string {
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r) }), " ")
}

// realQuery makes a query of words from some articles.
func realQuery(r *rand.Rand, articles []*Article, depth int) string {
	if depth > 0 {
		switch r.IntN(5) {
		case 0, 1:
			return realQuery(r, articles, depth-1) + " " + realQuery(r, articles, depth-1)
		case 2:
			return "(" + realQuery(r, articles, depth-1) + " OR " + realQuery(r, articles, depth-1) + ")"
		case 3:
			return realQuery(r, articles, depth-1) + " NOT (" + realQuery(r, articles, depth-1) + ")"
		}
	}
	a := articles[r.IntN(len(articles))]
	fields := strings.Fields(strings.ReplaceAll(a.HTML, "<br>", " "))
	if len(fields) == 0 {
		return "the"
	}
	at := r.IntN(len(fields))
	word := quoted(fields[at])
	if runes := []rune(word); len(runes) > 3 && withoutBlanks(runes[0]) {
		begin := r.IntN(len(runes) - 2)
		word = string(runes[begin : begin+2+r.IntN(min(3, len(runes)-begin-1))])
	}
	if word == "" {
		return "of"
	}
	switch r.IntN(8) {
	case 0:
		if title := strings.Fields(quoted(a.Title)); len(title) > 0 && !withoutBlanks([]rune(title[0])[0]) {
			return `title:"` + title[r.IntN(len(title))] + `"`
		}
	case 1:
		if next := at + 1; next < len(fields) && quoted(fields[next]) != "" {
			return `"` + word + " " + quoted(fields[next]) + `"`
		}
	case 2:
		if runes := []rune(word); len(runes) >= 4 && !withoutBlanks(runes[0]) && !strings.Contains(word, " ") {
			return string(runes[:3]) + "*"
		}
	}
	return `"` + word + `"`
}

// withoutBlanks reports whether a letter is of a script without blanks between words.
func withoutBlanks(r rune) bool {
	return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar)
}

// Real articles match as random ones do, with queries of their own words in their own scripts.
func TestMatchingRealArticlesEqualsANaiveEvaluator(t *testing.T) {
	t.Parallel()
	articles := realArticles(t)
	r := rand.New(rand.NewPCG(9, 1))
	f := NewFilter(Config{}, index.New())
	var queries []*query.Expr
	for len(queries) < 1000 {
		q, err := query.Parse(realQuery(r, articles, 2))
		if err != nil {
			continue // a query of negated words only, or two words where one is required
		}
		if err := f.Add(SubscriptionID(len(queries)), q.Clauses(), func(index.ClauseID) {}); err != nil {
			t.Fatal(err)
		}
		queries = append(queries, q)
	}
	compared, matched, scripts := 0, 0, map[string]int{}
	for compared < *pairs {
		a := articles[r.IntN(len(articles))]
		n := newNaive(a)
		hit := map[index.ClauseID]bool{}
		for _, h := range f.Match(a) {
			hit[h] = true
		}
		for i, q := range queries {
			compared++
			got := slices.ContainsFunc(f.ClauseIDs(SubscriptionID(i)), func(n index.ClauseID) bool { return hit[n] })
			if want := n.matches(q); got != want {
				t.Fatalf("%q matches %+v: %v, want %v", q, a, got, want)
			} else if want {
				matched++
				scripts[a.Language]++
			}
		}
	}
	t.Logf("%d of %d pairs match, in %d languages", matched, compared, len(scripts))
	if matched*5000 < compared || len(scripts) < 5 {
		t.Errorf("only %d of %d pairs match, in %d languages: the test covers too little", matched, compared, len(scripts))
	}
}
