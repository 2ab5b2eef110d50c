package signature

import (
	"encoding/binary"

	"filippo.io/edwards25519"
)

const (
	// parts is into how many parts a scalar is divided. With multiples for each part, all doublings but partBits disappear.
	parts    = 16
	partBits = scalarBits / parts
	// scalarBits is the size of a scalar. The highest three bits are zero.
	scalarBits = 256
	// keyWidth and baseWidth are the widths of the digits by which the multiples of keys and of the base point are chosen: on average,
	// one addition for each width+1 bits. One bit more takes twice the memory. For keys it would save a seventh of the additions, and
	// the digits of the base point would not fit into a byte.
	keyWidth  = 5
	baseWidth = 8
)

// multiples are those of a point P by n·2^(partBits·i), for each part i and for the odd n below 2^(width-1), so that a multiple of P by
// any scalar is the sum of a few (Möller, "Algorithms for Multi-exponentiation", 2001, and Lim and Lee, "More Flexible
// Exponentiation with Precomputation", 1994).
type multiples struct {
	width uint
	odd   []summand // 2^(width-2) of each part, one part after the other
}

// base has the multiples of the base point B. They take half a millisecond at the start of a process.
var base = multiplesOf(edwards25519.NewGeneratorPoint(), baseWidth)

// multiplesOf calculates the multiples of a point.
func multiplesOf(p *edwards25519.Point, width uint) *multiples {
	first, twice := make([]point, parts), make([]point, parts) // of each part: its first multiple, and the step from one to the next
	current := pointOf(p)
	for i := range parts {
		first[i] = current
		current.double()
		twice[i] = current
		for range partBits - 1 {
			current.double()
		}
	}
	normalise(twice)
	all := make([]point, 0, parts<<(width-2))
	for i, current := range first {
		step := twice[i].summand()
		for range 1 << (width - 2) {
			all = append(all, current)
			current.add(&step, false)
		}
	}
	normalise(all)
	m := &multiples{width, make([]summand, len(all))}
	for i := range all {
		m.odd[i] = all[i].summand()
	}
	return m
}

// of returns the odd multiple for a digit at a position of the scalar, without its sign.
func (m *multiples) of(digit int8, position int) *summand {
	n := max(int(digit), -int(digit))
	return &m.odd[position/partBits<<(m.width-2)+n/2]
}

// sum returns nP + mQ. It first copies the multiples of Q that it adds: copies do not wait for each other, whereas additions would wait for
// the memory of one multiple after the other. Those of many keys do not fit into a processor's caches. P is the base point.
func sum(ofP *multiples, n *edwards25519.Scalar, ofQ *multiples, m *edwards25519.Scalar) point {
	byP, byQ := digits(n, ofP.width), digits(m, ofQ.width)
	var copies [scalarBits/keyWidth + 1]summand
	used := 0
	for i := partBits - 1; i >= 0; i-- {
		for position := i; position < scalarBits; position += partBits {
			if d := byQ[position]; d != 0 {
				copies[used] = *ofQ.of(d, position)
				used++
			}
		}
	}
	total := identity()
	used = 0
	for i := partBits - 1; i >= 0; i-- {
		total.double()
		for position := i; position < scalarBits; position += partBits {
			if d := byP[position]; d != 0 {
				total.add(ofP.of(d, position), d < 0)
			}
			if d := byQ[position]; d != 0 {
				total.add(&copies[used], d < 0)
				used++
			}
		}
	}
	return total
}

// digits returns the non-adjacent form of a scalar: each digit is zero or odd, its absolute value is below 2^(width-1), and of any
// width digits in a row at most one is not zero.
func digits(n *edwards25519.Scalar, width uint) (all [scalarBits]int8) {
	b := n.Bytes()
	var words [scalarBits/64 + 1]uint64
	for i := range words[:scalarBits/64] {
		words[i] = binary.LittleEndian.Uint64(b[8*i:])
	}
	carry := uint64(0)
	for position := uint(0); position < scalarBits; {
		word, shift := position/64, position%64
		window := (words[word]>>shift|words[word+1]<<(64-shift))&(1<<width-1) + carry
		if window%2 == 0 {
			position++
			continue
		}
		carry = window >> (width - 1)
		all[position] = int8(int(window) - int(carry<<width))
		position += width
	}
	return all
}
