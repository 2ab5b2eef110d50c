package cobra

import (
	"tidings/cobra/index"
	"tidings/cobra/query"
)

// Preview returns which of some articles match a query, by their places among them.
func Preview(q *query.Expr, articles []*Article) (matching []int) {
	f := NewFilter(DefaultFilterConfig(), index.New())
	if err := f.Add(0, q.Clauses(), func(index.Node) {}); err != nil {
		return nil // a filter of its own takes any query
	}
	for i, a := range articles {
		if len(f.Match(a)) > 0 {
			matching = append(matching, i)
		}
	}
	return matching
}
