package cobra

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"tidings/cobra/query"
)

// The recorded queries find the recorded articles that they should, where there are any.
func TestRecordedQueriesFindTheirArticles(t *testing.T) {
	dir, _ := filepath.Glob(filepath.Join("..", "..", "shared", "cases", "41-*"))
	if len(dir) == 0 {
		t.Skip("the shared case 41 is not beside the project")
	}
	lines := func(name string, each func(line string)) {
		f, err := os.Open(filepath.Join(dir[0], name))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = f.Close() }()
		s := bufio.NewScanner(f)
		for s.Scan() {
			each(s.Text())
		}
	}
	var articles []*Article
	lines("articles.jsonl", func(line string) {
		var a struct{ Title string }
		if err := json.Unmarshal([]byte(line), &a); err != nil {
			t.Fatal(err)
		}
		articles = append(articles, &Article{Title: a.Title})
	})
	lines("queries.tsv", func(line string) {
		text, want, _ := strings.Cut(line, "\t")
		want, _, _ = strings.Cut(want, " ")
		number, err := strconv.Atoi(want)
		q, wrong := query.Parse(text)
		if err != nil || wrong != nil {
			t.Fatal(line, err, wrong)
		}
		if got := Preview(q, articles); len(got) != 1 || got[0] != number-1 {
			t.Errorf("%s finds %v, not %d", text, got, number-1)
		}
	})
}
