package keywords

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"html"
	"maps"
	"os"
	"slices"
	"strings"

	"tidings/cobra"
	"tidings/cobra/words"
)

// ReadArticles reads articles from a gzipped file of JSON lines: objects with title, body and lang.
func ReadArticles(name string) ([]cobra.Article, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	lines := bufio.NewScanner(z)
	lines.Buffer(nil, 1<<24)
	var articles []cobra.Article
	for lines.Scan() {
		var a struct{ Title, Body, Lang string }
		if err := json.Unmarshal(lines.Bytes(), &a); err != nil {
			return nil, fmt.Errorf("read %s, line %d: %w", name, len(articles)+1, err)
		}
		_, lang, of := strings.Cut(a.Lang, ":") // a translation has the name of its corpus before its language
		if !of {
			lang = a.Lang
		}
		paragraphs := strings.ReplaceAll(html.EscapeString(a.Body), "\n", "</p><p>")
		articles = append(articles, cobra.Article{Title: a.Title, HTML: "<p>" + paragraphs + "</p>", Language: lang})
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if len(articles) == 0 {
		return nil, fmt.Errorf("%s has no articles", name)
	}
	return articles, nil
}

// wordsOf returns the words of articles with their counts. In scripts without spaces, words are
// pairs of letters.
func wordsOf(articles []cobra.Article) *Words {
	counts := map[string]float64{}
	var c words.Tokenizer
	for _, a := range articles {
		for _, text := range []string{a.Title, html.UnescapeString(strings.ReplaceAll(a.HTML, "</p><p>", "\n"))} {
			c.Tokenize(text, func(form []byte, _ int, f words.TokenKind) {
				if f == words.Word || f == words.Bigram {
					counts[string(form)]++
				}
			})
		}
	}
	delete(counts, "p") // markup
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), strings.Compare(a, b))
	})
	values := make([]float64, len(names))
	for i, name := range names {
		values[i] = counts[name]
	}
	return newWords(names, values)
}
