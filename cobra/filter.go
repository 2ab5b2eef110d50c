package cobra

import (
	"slices"
	"strings"

	"tidings/cobra/index"
	"tidings/cobra/query"
)

// A SubscriptionID is the number of a subscription, counted from 0 in the order of creation.
type SubscriptionID uint32

// A Filter holds subscriptions and finds those that an article matches (section 3.2). Equal
// clauses of several subscriptions share one entry of its index.
type Filter struct {
	max       int // subscriptions
	index     *index.Index
	extractor *extractor

	// entries holds the clauses of each subscription, by number: a single id, or with listBit
	// set an index of lists, or noEntry.
	entries   []uint32
	lists     [][]index.ClauseID
	freeLists []uint32 // unused entries of lists
	count     int      // subscriptions

	article index.Article    // buffer for Match
	hits    []index.ClauseID // buffer for Match
	terms   []index.Term     // buffer for indexClause
}

const (
	noEntry = ^uint32(0) // no subscription has this number
	listBit = 1 << 31
)

// NewFilter returns a filter without subscriptions over an empty index. Of the Config it needs MaxSubscriptions alone.
func NewFilter(c Config, x *index.Index) *Filter {
	return &Filter{max: c.withDefaults().MaxSubscriptions, index: x, extractor: newExtractor(&x.Terms)}
}

// Subscriptions returns the number of subscriptions.
func (f *Filter) Subscriptions() int { return f.count }

// Extract finds the terms of an article that subscriptions contain, and counts its words.
func (f *Filter) Extract(a *Article, terms *index.Article) { f.extractor.extract(a, terms) }

// Match returns the clauses that an article matches. The slice is valid until the next call.
func (f *Filter) Match(a *Article) []index.ClauseID {
	f.Extract(a, &f.article)
	f.hits = f.index.Match(&f.article, f.hits[:0])
	return f.hits
}

// Add adds a subscription that matches the articles that match one of its clauses, of which there is at least one. Its
// number must exceed all others. Add calls added for each new clause. If it returns ErrFull, nothing was added.
func (f *Filter) Add(number SubscriptionID, clauses []query.Clause, added func(index.ClauseID)) error {
	if f.count >= f.max {
		return ErrFull
	}
	for len(f.entries) < int(number) {
		f.entries = append(f.entries, noEntry)
	}
	ids := make([]index.ClauseID, 0, len(clauses))
	for _, c := range clauses {
		n, isNew := f.index.Add(f.indexClause(c))
		ids = append(ids, n)
		if isNew {
			added(n)
		}
	}
	entry := uint32(ids[0])
	if len(ids) > 1 {
		entry = f.addList(ids) | listBit
	}
	f.entries = append(f.entries, entry)
	f.count++
	return nil
}

// Find returns the subscriptions with exactly these clauses, the oldest first. It compares one number per subscription,
// which takes half a millisecond for a million.
func (f *Filter) Find(clauses []query.Clause) (numbers []SubscriptionID) {
	ids := make([]index.ClauseID, 0, len(clauses))
	known := true
	for _, c := range clauses {
		n, isNew := f.index.Add(f.indexClause(c)) // the index finds clauses by adding them
		ids = append(ids, n)
		known = known && !isNew
	}
	for _, c := range clauses {
		f.index.Remove(f.indexClause(c))
	}
	if !known {
		return nil
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	for n, entry := range f.entries {
		same := len(ids) == 1 && entry == uint32(ids[0])
		if entry&listBit != 0 && entry != noEntry {
			other := slices.Sorted(slices.Values(f.lists[entry&^listBit]))
			same = slices.Equal(ids, slices.Compact(other))
		}
		if same {
			numbers = append(numbers, SubscriptionID(n))
		}
	}
	return numbers
}

// addList stores the clauses of a subscription that has more than one.
func (f *Filter) addList(ids []index.ClauseID) (entry uint32) {
	if last := len(f.freeLists) - 1; last >= 0 {
		entry, f.freeLists = f.freeLists[last], f.freeLists[:last]
		f.lists[entry] = ids
		return entry
	}
	f.lists = append(f.lists, ids)
	return uint32(len(f.lists) - 1)
}

// Remove removes a subscription; clauses are those of its query.
func (f *Filter) Remove(number SubscriptionID, clauses []query.Clause) {
	entry := f.entries[number]
	for _, c := range clauses {
		f.index.Remove(f.indexClause(c))
	}
	if entry&listBit != 0 {
		f.lists[entry&^listBit] = nil
		f.freeLists = append(f.freeLists, entry&^listBit)
	}
	f.entries[number] = noEntry
	f.count--
}

// ClauseIDs returns the clauses of a subscription, or nil if there is none with the number.
func (f *Filter) ClauseIDs(number SubscriptionID) []index.ClauseID {
	if int(number) >= len(f.entries) || f.entries[number] == noEntry {
		return nil
	}
	entry := f.entries[number]
	if entry&listBit == 0 {
		return []index.ClauseID{index.ClauseID(entry)}
	}
	return f.lists[entry&^listBit]
}

// Pack compacts the index after many calls of Add. It renumbers the clauses, so it must be
// called before anything is stored by clause.
func (f *Filter) Pack() {
	moved := f.index.Pack()
	for i, entry := range f.entries {
		if entry&listBit == 0 {
			f.entries[i] = uint32(moved[entry])
		}
	}
	for _, ids := range f.lists {
		for i, n := range ids {
			ids[i] = moved[n]
		}
	}
}

// indexClause converts a clause to terms of the index. The result is valid until the next call.
func (f *Filter) indexClause(c query.Clause) index.Clause {
	f.terms = f.terms[:0]
	for _, key := range c.Terms {
		f.terms = append(f.terms, f.term(key))
	}
	ic := index.Clause{Terms: f.terms}
	for _, check := range c.Checks {
		ic.Program = f.appendProgram(ic.Program, check)
	}
	if len(c.Checks) > 1 {
		ic.Program = ic.Program.And(len(c.Checks))
	}
	return ic
}

func (f *Filter) term(key string) index.Term {
	if n, ok := f.index.Lookup(key); ok {
		return n
	}
	f.extractor.kinds.Add(key)
	return f.index.Register(strings.Clone(key)) // key may be part of a longer text, which must not be kept
}

// appendProgram appends the instructions of a check.
func (f *Filter) appendProgram(p index.Program, c query.Check) index.Program {
	switch c.Op {
	case query.Leaf:
		terms := make([]index.Term, len(c.Keys))
		for i, key := range c.Keys {
			terms[i] = f.term(key)
		}
		if len(terms) == 1 {
			return p.Has(terms[0])
		}
		return p.Phrase(terms)
	case query.Not:
		return f.appendProgram(p, c.Args[0]).Not()
	}
	for _, a := range c.Args {
		p = f.appendProgram(p, a)
	}
	if c.Op == query.And {
		return p.And(len(c.Args))
	}
	return p.Or(len(c.Args))
}
