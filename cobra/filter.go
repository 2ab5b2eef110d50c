package cobra

import (
	"errors"
	"slices"
	"strings"

	"tidings/cobra/index"
	"tidings/cobra/query"
)

// maxGeneralClauses bounds the clauses with frequent words only. Each of them costs about a nanosecond
// for every article that has its rarest word.
const maxGeneralClauses = 1 << 16

// ErrTooGeneral is returned for a query with frequent words only, if the filter already has
// maxGeneralClauses such clauses.
var ErrTooGeneral = errors.New("the query is too general: all its words are frequent, and this node has as many such queries as it takes; add a rarer word")

// A SubscriptionID is the number of a subscription, counted from 0 in the order of creation.
type SubscriptionID uint32

// A Filter holds subscriptions and finds those that an article matches (section 3.2). Equal
// clauses of several subscriptions share one entry of its index.
type Filter struct {
	maxTermShare float64 // share of articles above which a word is frequent
	maxGeneral   int     // maximum number of generalClauses

	index     *index.Index
	extractor *extractor

	// entries holds the clauses of each subscription, by number: a single id, or with listBit
	// set an index of lists, or noEntry.
	entries   []uint32
	lists     [][]index.ClauseID
	freeLists []uint32 // unused entries of lists
	count     int      // subscriptions

	generalClauses map[index.ClauseID]struct{} // clauses with frequent words only
	article        index.Article               // buffer for Match
	hits           []index.ClauseID            // buffer for Match
	terms          []index.Term                // buffer for indexClause
}

const (
	noEntry = ^uint32(0) // no subscription has this number
	listBit = 1 << 31
)

// NewFilter returns a filter without subscriptions over an empty index. See Config for maxTermShare.
func NewFilter(maxTermShare float64, x *index.Index) *Filter {
	return &Filter{
		maxTermShare: maxTermShare, maxGeneral: maxGeneralClauses, index: x,
		extractor: newExtractor(&x.Terms), generalClauses: map[index.ClauseID]struct{}{},
	}
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

// Add adds a subscription that matches the articles that match one of its clauses. Its number
// must exceed all others. Add calls added for each new clause. If it returns ErrTooGeneral,
// nothing was added.
func (f *Filter) Add(number SubscriptionID, clauses []query.Clause, added func(index.ClauseID)) error {
	if len(f.generalClauses) >= f.maxGeneral && slices.ContainsFunc(clauses, f.isGeneral) {
		return ErrTooGeneral
	}
	for len(f.entries) < int(number) {
		f.entries = append(f.entries, noEntry)
	}
	ids := make([]index.ClauseID, 0, len(clauses))
	for _, c := range clauses {
		n, isNew := f.index.Add(f.indexClause(c))
		ids = append(ids, n)
		if isNew {
			if f.isGeneral(c) {
				f.generalClauses[n] = struct{}{}
			}
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

// isGeneral reports whether all words of a clause are frequent.
func (f *Filter) isGeneral(c query.Clause) bool {
	for _, key := range c.Terms {
		if f.index.Share(key) <= f.maxTermShare {
			return false
		}
	}
	return true
}

// Remove removes a subscription; clauses are those of its query.
func (f *Filter) Remove(number SubscriptionID, clauses []query.Clause) {
	entry := f.entries[number]
	for _, c := range clauses {
		if n, last := f.index.Remove(f.indexClause(c)); last {
			delete(f.generalClauses, n)
		}
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
	general := make(map[index.ClauseID]struct{}, len(f.generalClauses))
	for n := range f.generalClauses {
		general[moved[n]] = struct{}{}
	}
	f.generalClauses = general
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
