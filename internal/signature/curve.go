package signature

import (
	"filippo.io/edwards25519"
	"filippo.io/edwards25519/field"
)

// A point is a point (x/z, y/z) of the curve -x² + y² = 1 + dx²y² in extended coordinates, where t = xy/z. The formulas are those of Hisil,
// Wong, Carter and Dawson, "Twisted Edwards Curves Revisited" (ASIACRYPT 2008), which hold for all points of this curve.
type point struct{ x, y, z, t field.Element }

// identity returns the neutral element.
func identity() (p point) {
	p.y.One()
	p.z.One()
	return p
}

func pointOf(p *edwards25519.Point) point {
	x, y, z, t := p.ExtendedCoordinates()
	return point{*x, *y, *z, *t}
}

// A summand is a point with z = 1 in the form in which add takes it: y+x, y-x and 2dxy.
type summand struct{ sum, difference, product field.Element }

// twiceD is 2d, where d = -121665/121666.
var twiceD = func() *field.Element {
	one := new(field.Element).One()
	d := new(field.Element).Mult32(one, 121666)
	d.Multiply(d.Invert(d), new(field.Element).Mult32(one, 121665))
	return d.Negate(d.Add(d, d))
}()

// summand converts a point whose z is 1 for add.
func (p *point) summand() (s summand) {
	s.sum.Add(&p.y, &p.x)
	s.difference.Subtract(&p.y, &p.x)
	s.product.Multiply(&p.t, twiceD)
	return s
}

// add adds a point, or subtracts it (section 3.1).
func (p *point) add(q *summand, minus bool) {
	sum, difference := &q.sum, &q.difference
	if minus {
		sum, difference = difference, sum
	}
	var a, b, c, d, e, f, g, h field.Element
	a.Multiply(a.Subtract(&p.y, &p.x), difference)
	b.Multiply(b.Add(&p.y, &p.x), sum)
	c.Multiply(&p.t, &q.product)
	if minus {
		c.Negate(&c)
	}
	d.Add(&p.z, &p.z)
	p.set(e.Subtract(&b, &a), f.Subtract(&d, &c), g.Add(&d, &c), h.Add(&b, &a))
}

// double adds a point to itself (section 3.3, with all signs of e, f, g and h changed).
func (p *point) double() {
	var a, b, c, e, f, g, h field.Element
	a.Square(&p.x)
	b.Square(&p.y)
	c.Square(&p.z)
	h.Add(&a, &b)
	e.Square(e.Add(&p.x, &p.y))
	g.Subtract(&a, &b)
	p.set(e.Subtract(&h, &e), f.Add(f.Add(&c, &c), &g), &g, &h)
}

// set sets the point from e, f, g and h, which is the last step of both formulas.
func (p *point) set(e, f, g, h *field.Element) {
	p.x.Multiply(e, f)
	p.y.Multiply(g, h)
	p.t.Multiply(e, h)
	p.z.Multiply(f, g)
}

// normalise makes all z equal to 1. An inversion costs far more than a multiplication, so it inverts only the product of all z, and derives
// each inverse from it (Montgomery, "Speeding the Pollard and Elliptic Curve Methods of Factorization", 1987, section 10.3.1).
func normalise(points []point) {
	if len(points) == 0 {
		return
	}
	before := make([]field.Element, len(points)) // the product of all z before each
	var inverse field.Element
	inverse.One()
	for i := range points {
		before[i] = inverse
		inverse.Multiply(&inverse, &points[i].z)
	}
	inverse.Invert(&inverse)
	for i := len(points) - 1; i >= 0; i-- {
		p, own := &points[i], &before[i]
		own.Multiply(own, &inverse)
		inverse.Multiply(&inverse, &p.z)
		p.x.Multiply(&p.x, own)
		p.y.Multiply(&p.y, own)
		p.t.Multiply(&p.x, &p.y)
		p.z.One()
	}
}

// encoded returns the encoding of a point whose z is 1 (RFC 8032, section 5.1.2).
func (p *point) encoded() []byte {
	b := p.y.Bytes()
	b[len(b)-1] |= byte(p.x.IsNegative() << 7)
	return b
}
