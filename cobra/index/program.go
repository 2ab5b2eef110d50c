package index

import (
	"encoding/binary"
	"iter"
	"slices"
)

// A Program says of an article what a conjunction cannot. It is a row of
// instructions in postfix order, each of which takes truth values from a stack
// and puts one there; the last one on it is the answer.
//
//	has term             does the article have the term
//	phrase n term…       does it have the terms one behind the other
//	not                  is the last value false
//	and, or n            are all of the last n values true; is any
type Program []uint32

const (
	opHas uint32 = iota
	opPhrase
	opNot
	opAnd
	opOr
)

// Has appends: the article has a term.
func (p Program) Has(w Term) Program { return append(p, opHas, uint32(w)) }

// Phrase appends: it has the terms one behind the other.
func (p Program) Phrase(ws []Term) Program {
	p = append(p, opPhrase, uint32(len(ws)))
	for _, w := range ws {
		p = append(p, uint32(w))
	}
	return p
}

// Not appends: the value before is false.
func (p Program) Not() Program { return append(p, opNot) }

// And appends: the n values before are true.
func (p Program) And(n int) Program { return append(p, opAnd, uint32(n)) }

// Or appends: one of the n values before is true.
func (p Program) Or(n int) Program { return append(p, opOr, uint32(n)) }

// terms yields each term a program has, as often as it has it.
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

// run runs a program on an article whose bits are set.
func (p Program) run(x *Index, a *Article) bool {
	stack := x.stack[:0]
	for i := 0; i < len(p); {
		switch p[i] {
		case opHas:
			stack = append(stack, x.bit(p[i+1]))
			i += 2
		case opPhrase:
			n := int(p[i+1])
			stack = append(stack, a.phrase(p[i+2:i+2+n]))
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

// programs are the programs of an index, each once.
type programs struct {
	numbers map[string]uint32
	all     []Program
	uses    []uint32
	free    []uint32
	key     []byte
}

func newPrograms() programs { return programs{numbers: map[string]uint32{}} }

// number returns a program's number. One that no node uses stays until it is
// used and is not any more.
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

// use counts a node more, or less, that has the program; ps.key is its key.
func (ps *programs) use(n uint32, by int) {
	ps.uses[n] += uint32(by)
	if ps.uses[n] == 0 {
		delete(ps.numbers, string(ps.key))
		ps.all[n] = nil
		ps.free = append(ps.free, n)
	}
}
