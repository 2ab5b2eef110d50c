package index

import (
	"encoding/binary"
	"iter"
	"slices"
)

// A Program is a condition on an article that a conjunction cannot express. It is a list of
// instructions in postfix order. Each takes truth values from a stack and pushes one; the last
// value is the result.
//
//	has term             the article has the term
//	phrase n term…       it has the terms at consecutive positions
//	not                  the last value is false
//	and, or n            all of the last n values are true; at least one is
type Program []uint32

const (
	opHas uint32 = iota
	opPhrase
	opNot
	opAnd
	opOr
)

// Has appends an instruction: the article has a term.
func (p Program) Has(w Term) Program { return append(p, opHas, uint32(w)) }

// Phrase appends an instruction: the article has the terms at consecutive positions.
func (p Program) Phrase(ws []Term) Program {
	p = append(p, opPhrase, uint32(len(ws)))
	for _, w := range ws {
		p = append(p, uint32(w))
	}
	return p
}

// Not appends an instruction: the last value is false.
func (p Program) Not() Program { return append(p, opNot) }

// And appends an instruction: the last n values are true.
func (p Program) And(n int) Program { return append(p, opAnd, uint32(n)) }

// Or appends an instruction: at least one of the last n values is true.
func (p Program) Or(n int) Program { return append(p, opOr, uint32(n)) }

// terms yields the terms of a program, including duplicates.
func (p Program) terms() iter.Seq[Term] {
	return func(yield func(Term) bool) {
		for i := 0; i < len(p); {
			n := 0
			switch p[i] {
			case opHas:
				n, i = 1, i+1
			case opPhrase:
				n, i = int(p[i+1]), i+2
			case opNot:
				i++
			default:
				i += 2
			}
			for range n {
				if !yield(Term(p[i])) {
					return
				}
				i++
			}
		}
	}
}

// run runs a program for an article whose terms are in x.present.
func (p Program) run(x *Index, a *Article) bool {
	stack := x.stack[:0]
	for i := 0; i < len(p); {
		switch p[i] {
		case opHas:
			stack = append(stack, x.isPresent(p[i+1]))
			i += 2
		case opPhrase:
			n := int(p[i+1])
			stack = append(stack, a.hasPhrase(p[i+2:i+2+n]))
			i += 2 + n
		case opNot:
			stack[len(stack)-1] = !stack[len(stack)-1]
			i++
		default:
			all := p[i] == opAnd
			n := len(stack) - int(p[i+1])
			v := all
			for _, s := range stack[n:] {
				if s != all {
					v = !all
					break
				}
			}
			stack = append(stack[:n], v)
			i += 2
		}
	}
	x.stack = stack
	return stack[len(stack)-1]
}

// programs holds the distinct programs of an index.
type programs struct {
	numbers map[string]uint32
	all     []Program
	uses    []uint32
	free    []uint32
	key     []byte
}

func newPrograms() programs { return programs{numbers: map[string]uint32{}} }

// number returns the number of a program. A new program stays until it has been used and is no
// longer used.
func (ps *programs) number(p Program) uint32 {
	ps.key = ps.key[:0]
	for _, v := range p {
		ps.key = binary.LittleEndian.AppendUint32(ps.key, v)
	}
	if n, ok := ps.numbers[string(ps.key)]; ok {
		return n
	}
	var n uint32
	if last := len(ps.free) - 1; last >= 0 {
		n, ps.free = ps.free[last], ps.free[:last]
	} else {
		n = uint32(len(ps.all))
		ps.all, ps.uses = append(ps.all, nil), append(ps.uses, 0)
	}
	ps.numbers[string(ps.key)], ps.all[n] = n, slices.Clone(p)
	return n
}

// countUse adds by to the uses of a program, whose key must be in ps.key.
func (ps *programs) countUse(n uint32, by int) {
	ps.uses[n] += uint32(by)
	if ps.uses[n] == 0 {
		delete(ps.numbers, string(ps.key))
		ps.all[n] = nil
		ps.free = append(ps.free, n)
	}
}
