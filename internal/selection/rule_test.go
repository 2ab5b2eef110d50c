package selection

import (
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for _, c := range []struct{ fragment, want string }{ // a want that begins with ! is a part of the error
		{"", ""},
		{"top", ""},
		{"/route?selected=1&page=2", ""},
		{"select=.price", "select=.price"},
		{"select=%2Eprice", "select=.price"},
		{"select= #main  h2 ", "select=%23main%20%20h2"},
		{"select=h2+p", "select=h2%2Bp"},
		{"select=a%26b[x='%']", "!%25"},
		{"select=[href=\"?a%26b\"]", "select=%5Bhref%3D%22%3Fa%26b%22%5D"},
		{"select=.a&omit=.b&only=added", "omit=.b&only=added&select=.a"},
		{"only=added", "only=added"},
		{"number=.price", "number=.price"},
		{"number=.price<50", "number=.price%3C50"},
		{"number=.price <= 50.00&omit=.old", "number=.price%3C%3D50&omit=.old"},
		{"number=.price>%3D49,90", "number=.price%3E%3D49.9"},
		{"number=[data-x=\"5\"]=-5", "number=%5Bdata-x%3D%225%22%5D%3D-5"},
		{"number=.a<-0", "number=.a%3C0"},
		{"number=.a=-0,00", "number=.a%3D0"},
		{"number=td:nth-child(2)>1e9", "!number="},
		{"select=", "!empty"},
		{"select", "!empty"},
		{"select=.a&select=.b", "!twice"},
		{"select=.a&colour=red", "!\"colour=red\""},
		{"only=removed", "!only=added"},
		{"number=.a&select=.b", "!beside"},
		{"number=.a&only=added", "!beside"},
		{"number=<50", "!number="},
		{"select=%ff", "!percent-encoded"},
		{"select=%zz", "!percent-encoded"},
		{"select=div[", "!not closed"},
		{"select=" + strings.Repeat("a", MaxSelector), "select=" + strings.Repeat("a", MaxSelector)},
		{"select=" + strings.Repeat("a", MaxSelector+1), "!257 bytes"},
	} {
		r, err := Parse(c.fragment)
		if part, fails := strings.CutPrefix(c.want, "!"); fails {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("Parse(%q) = %q, %v; want an error with %q", c.fragment, r.String(), err, part)
			}
		} else if err != nil || r.String() != c.want {
			t.Errorf("Parse(%q) = %q, %v; want %q", c.fragment, r.String(), err, c.want)
		}
	}
}

func TestConditions(t *testing.T) {
	for _, c := range []struct {
		condition string
		holds     string // of 49, 50 and 51
	}{{"", "yyy"}, {"<50", "ynn"}, {"<=50", "yyn"}, {">50", "nny"}, {">=50", "nyy"}, {"=50", "nyn"}} {
		r, err := Parse("number=b" + c.condition)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, n := range []float64{49, 50, 51} {
			if r.If.Holds(n) {
				got += "y"
			} else {
				got += "n"
			}
		}
		if got != c.holds {
			t.Errorf("number=b%s holds %s, not %s", c.condition, got, c.holds)
		}
	}
}

// A rule has one canonical form, which says the same.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"select=.a&omit=b > c", "number=.p<5,0", "only=added", "select=%23x:not(.y)", "number=a=>=1", "select=%20"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, fragment string) {
		r, err := Parse(fragment)
		if err != nil {
			return
		}
		again, err := Parse(r.String())
		if err != nil || again.String() != r.String() || again.If != r.If || again.Added != r.Added ||
			(again.Number == nil) != (r.Number == nil) || (again.Select == nil) != (r.Select == nil) || (again.Omit == nil) != (r.Omit == nil) {
			t.Errorf("Parse(%q) = %q, and again %q, %v", fragment, r.String(), again.String(), err)
		}
	})
}
