package daemon

import (
	"fmt"
	"slices"
	"testing"

	"tidings/proxy"
)

// The parts of the list of subscriptions are the whole list, whatever their size, and a filter looks at addresses, titles and
// tags.
func TestListParts(t *testing.T) {
	t.Parallel()
	c := founding(t, "quick")
	c.AllowPrivateOrigins = true
	m := running(t, c)
	m.awaitMembers(t, 1)
	var all []string
	for i := range 7 {
		url := fmt.Sprintf("http://127.0.0.1:9/%d.xml", i)
		if err := m.Subscribe(t.Context(), url, false); err != nil {
			t.Fatal(err)
		}
		all = append(all, url)
	}
	if err := m.Describe(t.Context(), all[2], proxy.Description{Title: "Solar News"}); err != nil {
		t.Fatal(err)
	}
	if err := m.Describe(t.Context(), all[4], proxy.Description{Tags: []string{"Solar"}}); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		q    proxy.ListQuery
		want []string
	}{
		{proxy.ListQuery{}, all},
		{proxy.ListQuery{From: all[5]}, all[5:]},
		{proxy.ListQuery{Filter: "sOLAR"}, []string{all[2], all[4]}},
		{proxy.ListQuery{Filter: "/3.xml"}, all[3:4]},
		{proxy.ListQuery{Filter: "nothing"}, nil},
		{proxy.ListQuery{URLs: []string{all[6], "http://127.0.0.1:9/none", all[1], all[6]}}, []string{all[1], all[6]}},
	} {
		for limit := 1; limit < 9; limit++ {
			var got []string
			q := test.q
			q.Limit = limit
			for more := true; more; {
				p, err := m.ListPart(t.Context(), q)
				if err != nil || len(p.Channels) > limit {
					t.Fatalf("%+v: %d channels, %v", q, len(p.Channels), err)
				}
				for _, c := range p.Channels {
					got = append(got, c.URL)
				}
				q.From, more = p.Next, p.Next != ""
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("%+v, %d at a time: %q, want %q", test.q, limit, got, test.want)
			}
		}
	}
	m.stop(t)

	c.Found = nil
	again := running(t, c)
	if list, err := again.List(t.Context()); err != nil || len(list) != len(all) { // it waits until the store is read
		t.Errorf("while the node starts the list has %d feeds of %d: %v", len(list), len(all), err)
	}
	again.stop(t)
}
