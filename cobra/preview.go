package cobra

import (
	"tidings/cobra/index"
	"tidings/cobra/query"
)

// Preview returns the indices of the articles that match a query.
func Preview(q *query.Expr, articles []*Article) (matching []int) {
	f := NewFilter(Config{}, index.New())
	if err := f.Add(0, q.Clauses(), func(index.ClauseID) {}); err != nil {
		return nil // not possible, because a new filter has room
	}
	for i, a := range articles {
		if len(f.Match(a)) > 0 {
			matching = append(matching, i)
		}
	}
	return matching
}
