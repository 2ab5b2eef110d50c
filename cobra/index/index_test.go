package index

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

func register(x *Index, n int) (ws []Term) {
	for i := range n {
		ws = append(ws, x.Register(fmt.Sprint("word", i)))
	}
	return ws
}

// TestEqualClausesShareOneID: also with terms in another order, and until the last use is
// removed.
func TestEqualClausesShareOneID(t *testing.T) {
	x := New()
	ws := register(x, 4)
	a, isNew := x.Add(Clause{Terms: []Term{ws[0], ws[1]}})
	b, again := x.Add(Clause{Terms: []Term{ws[1], ws[0], ws[1]}})
	if a != b || !isNew || again || x.Clauses() != 1 || x.Uses(a) != 2 {
		t.Fatalf("%d %v, %d %v, %d clauses", a, isNew, b, again, x.Clauses())
	}
	not := Clause{Terms: []Term{ws[0], ws[1]}, Program: Program{}.Has(ws[2]).Not()}
	c, isNew := x.Add(not)
	if c == a || !isNew {
		t.Fatal("a clause with a program equals one without")
	}
	article := &Article{Terms: []Term{ws[1], ws[3], ws[0]}}
	hits := x.Match(article, nil)
	slices.Sort(hits)
	if !slices.Equal(hits, []ClauseID{a, c}) {
		t.Errorf("hits %v, want %d and %d", hits, a, c)
	}
	if hits := x.Match(&Article{Terms: ws}, nil); !slices.Equal(hits, []ClauseID{a}) {
		t.Errorf("hits %v, want %d", hits, a)
	}
	for i, want := range []bool{false, true} {
		if _, last := x.Remove(Clause{Terms: []Term{ws[0], ws[1]}}); last != want {
			t.Errorf("removal %d is the last one: %v", i, last)
		}
	}
	if hits := x.Match(article, nil); !slices.Equal(hits, []ClauseID{c}) {
		t.Errorf("hits %v, want %d", hits, c)
	}
	x.Remove(not)
	if _, ok := x.Lookup("word2"); ok || x.Clauses() != 0 {
		t.Errorf("%d clauses, and word2 is registered: %v", x.Clauses(), ok)
	}
}

// TestMatchAfterAddRemoveAndPack compares matches with those of a plain list of the clauses.
func TestMatchAfterAddRemoveAndPack(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	x := New()
	type entry struct {
		clause Clause
		id     ClauseID
	}
	var plain []entry
	words := make([]string, 40)
	for i := range words {
		words[i] = fmt.Sprint("w", i)
	}
	term := func() Term { return x.Register(words[int(float64(len(words))*r.Float64()*r.Float64())]) }
	for step := range 20000 {
		switch {
		case len(plain) < 500 || r.IntN(2) == 0:
			var c Clause
			for range 1 + r.IntN(4) {
				c.Terms = append(c.Terms, term())
			}
			if r.IntN(4) == 0 {
				c.Program = c.Program.Has(term()).Not()
			}
			n, _ := x.Add(c)
			plain = append(plain, entry{c, n})
		default:
			i := r.IntN(len(plain))
			if n, _ := x.Remove(plain[i].clause); n != plain[i].id {
				t.Fatalf("step %d: removed clause %d, which was %d", step, n, plain[i].id)
			}
			plain[i] = plain[len(plain)-1]
			plain = plain[:len(plain)-1]
		}
		if step%1000 == 999 {
			moved := x.Pack()
			for i := range plain {
				plain[i].id = moved[plain[i].id]
			}
		}
		if step%20 != 0 {
			continue
		}
		var a Article
		for _, w := range words {
			if n, ok := x.Lookup(w); ok && r.IntN(2) == 0 {
				a.Terms = append(a.Terms, n)
			}
		}
		want := map[ClauseID]bool{}
		for _, e := range plain {
			has := func(w Term) bool { return slices.Contains(a.Terms, w) }
			if !slices.ContainsFunc(e.clause.Terms, func(w Term) bool { return !has(w) }) && (e.clause.Program == nil || !has(Term(e.clause.Program[1]))) {
				want[e.id] = true
			}
		}
		hits := x.Match(&a, nil)
		for _, h := range hits {
			if !want[h] {
				t.Fatalf("step %d: hits %d twice, or wrongly", step, h)
			}
			delete(want, h)
		}
		if len(want) > 0 {
			t.Fatalf("step %d: misses %v", step, want)
		}
	}
}

// Short articles are matched by searching large segments, long ones by scanning them. Both find what a plain list of the
// clauses finds.
func TestSearchedSegmentsMatchLikeScannedOnes(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 1))
	x := New()
	words := register(x, 60)
	var plain []Clause
	var ids []ClauseID
	for len(plain) < 20000 {
		c := Clause{Terms: []Term{words[0]}}
		for range 1 + r.IntN(3) {
			c.Terms = append(c.Terms, words[1+r.IntN(len(words)-1)])
		}
		if r.IntN(8) == 0 {
			c.Program = Program{}.Has(words[r.IntN(len(words))]).Not()
		}
		n, isNew := x.Add(c)
		if !isNew {
			x.Remove(c)
			continue
		}
		plain, ids = append(plain, c), append(ids, n)
	}
	largest := 0
	for _, b := range x.buckets {
		for s := range b.each() {
			largest = max(largest, s.rows)
		}
	}
	if largest < 20*searchFactor || largest > len(words)*searchFactor {
		t.Fatalf("the largest segment has %d rows: no article is matched in one of the two ways", largest)
	}
	for length := 1; length <= len(words); length++ {
		var a Article
		for _, i := range r.Perm(len(words))[:length] {
			a.Terms = append(a.Terms, words[i])
		}
		var want []ClauseID
		for i, c := range plain {
			has := func(w Term) bool { return slices.Contains(a.Terms, w) }
			if !slices.ContainsFunc(c.Terms, func(w Term) bool { return !has(w) }) && (c.Program == nil || !has(Term(c.Program[1]))) {
				want = append(want, ids[i])
			}
		}
		got := x.Match(&a, nil)
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Fatalf("an article of %d terms hits %d clauses, want %d", length, len(got), len(want))
		}
	}
}

// TestSeparateIndexSharesNothing checks the index against which interning is measured.
func TestSeparateIndexSharesNothing(t *testing.T) {
	x := NewSeparate()
	ws := register(x, 3)
	for range 5 {
		x.Add(Clause{Terms: ws[:1]})
		x.Add(Clause{Terms: ws[:2]})
	}
	if hits := x.Match(&Article{Terms: ws}, nil); len(hits) != 10 || x.Clauses() != 10 {
		t.Errorf("%d clauses, of which an article hits %d; want 10", x.Clauses(), len(hits))
	}
}

// A clause is in the bucket of its rarest word, in whatever order words were registered.
func TestClauseIsInTheBucketOfItsRarestTerm(t *testing.T) {
	x := New()
	x.SeedArticles(1000)
	x.SeedKey("frequent", 900)
	x.SeedKey("rare", 1)
	frequent, rare := x.Register("frequent"), x.Register("rare")
	x.Add(Clause{Terms: []Term{frequent, rare}})
	if x.bucketOf[rare] == 0 || len(x.bucketOf) > int(frequent) && x.bucketOf[frequent] != 0 {
		t.Error("the clause is found by its frequent word")
	}
	if s := x.Share("frequent"); s < 0.85 || s > 0.95 {
		t.Errorf("a word of 900 articles in 1,000 has a share of %g", s)
	}
}

func TestRings(t *testing.T) {
	r := NewRings(3)
	r.Grow(chunkRings + 1)
	for article := uint32(1); article <= 5; article++ {
		r.Put(article, []ClauseID{7, chunkRings})
	}
	r.Put(6, []ClauseID{8})
	for n, want := range map[ClauseID][]uint32{7: {5, 4, 3}, chunkRings: {5, 4, 3}, 8: {6}, 9: nil} {
		if got := r.Newest(n, nil); !slices.Equal(got, want) {
			t.Errorf("clause %d has %v, not %v", n, got, want)
		}
	}
	r.Clear(7)
	if got := r.Newest(7, nil); len(got) != 0 {
		t.Errorf("a cleared ring has %v", got)
	}
}

// Put to many rings has the same result as single Puts.
func TestSortedPutEqualsSinglePuts(t *testing.T) {
	random := rand.New(rand.NewPCG(2, 2))
	together, alone := NewRings(4), NewRings(4)
	together.Grow(3 * chunkRings)
	alone.Grow(3 * chunkRings)
	for article := uint32(1); article < 20; article++ {
		var ids []ClauseID
		for n := range ClauseID(3 * chunkRings) {
			if random.IntN(100) == 0 {
				ids = append(ids, n)
			}
		}
		random.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
		for _, n := range ids {
			alone.Put(article, []ClauseID{n})
		}
		together.Put(article, ids)
	}
	for n := range ClauseID(3 * chunkRings) {
		if a, b := together.Newest(n, nil), alone.Newest(n, nil); !slices.Equal(a, b) {
			t.Fatalf("clause %d has %v, not %v", n, a, b)
		}
	}
}

// A phrase is found where it stands, also if its words are frequent, and if several terms are at one position.
func TestPhrasesEqualAScanOfTheText(t *testing.T) {
	r := rand.New(rand.NewPCG(12, 1))
	x := New()
	words := register(x, 12)
	for range 2000 {
		var a Article
		at := map[Position]bool{}
		seen := map[Term]bool{}
		for i := range 60 {
			for range 1 + r.IntN(2) {
				p := Position{words[r.IntN(len(words))], uint32(i + i/20*5)} // no phrase spans a gap
				if at[p] {
					continue
				}
				at[p] = true
				a.Positions = append(a.Positions, p)
				if !seen[p.Term] {
					seen[p.Term] = true
					a.Terms = append(a.Terms, p.Term)
				}
			}
		}
		r.Shuffle(len(a.Positions), func(i, j int) { a.Positions[i], a.Positions[j] = a.Positions[j], a.Positions[i] })
		phrase := make([]uint32, 2+r.IntN(3))
		for i := range phrase {
			phrase[i] = uint32(words[r.IntN(len(words))])
		}
		want := false
		for p := range at {
			here := true
			for i, w := range phrase {
				here = here && at[Position{Term(w), p.At + uint32(i)}]
			}
			want = want || here
		}
		if got := a.hasPhrase(phrase); got != want {
			t.Fatalf("%v in %v: %v, want %v", phrase, a.Positions, got, want)
		}
	}
}
