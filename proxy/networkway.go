package proxy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"tidings/internal/locale"
)

// A way is the way of the last new items of a feed through its tree, as far as this node knows it.
type way struct {
	Steps []wayStep
	Hops  []hop
	Gap   locale.Text // what the node does not know, in a sentence; empty if it knows the whole way
	More  int         // members below this node that are not drawn
}

// A wayStep is a line of the table.
type wayStep struct {
	Number   int
	From, To locale.Text
	What     locale.Text
	At       *time.Time
}

// A hop is an arrow on the ring.
type hop struct {
	Step    int    // number of the step, from 1
	Path    string // of the arrow
	X, Y    float64
	Unknown bool // members between the two ends are not known
	Label   bool // shows the number of the step at X, Y
}

// maxDrawn bounds the members below this node that are drawn. A tree has fewer, unless many clients are attached.
const maxDrawn = 32

// newWay returns the way of the last items, and adds the members on it to those on the ring.
func (p *networkPage) newWay(t Tree, self *Member) *way {
	if t.Last == nil || self == nil {
		return nil
	}
	w := &way{}
	leader, from := t.Leader, t.Last.From
	name := func(m *Member) locale.Text {
		if m.ID == self.ID {
			return locale.Say("this node")
		}
		return locale.Say("member %s", m.ShortID())
	}
	top := from // the member at which the part of the way begins that this node knows
	if from == nil {
		top = self
	}
	add := func(from, to, what locale.Text, at *time.Time) {
		w.Steps = append(w.Steps, wayStep{len(w.Steps) + 1, from, to, what, at})
	}
	items := locale.Say("%d items", t.Last.Items)
	if leader != nil {
		add(name(leader), nil, locale.Say("took %s into the log of the feed, which it keeps in order", items), &t.Last.Written)
		if leader.ID != top.ID {
			w.Steps[0].To = name(top)
			w.Hops = append(w.Hops, p.newHop(1, leader, top, true, true))
			w.Gap = locale.Say("This node does not know the members between %s and %s. The dashed arrow stands for them.", name(leader), name(top))
		}
	}
	if top.ID != self.ID {
		what := locale.Say("passed on %s", items)
		if t.Last.Known {
			what = locale.Say("passed on %s; this node had this already, because it keeps a copy of the log", items)
		}
		add(name(top), name(self), what, &t.Last.Arrived)
		w.Hops = append(w.Hops, p.newHop(len(w.Steps), top, self, false, true))
	}
	if len(t.Children) > 0 {
		add(name(self), locale.Say("%d members below it in the tree", len(t.Children)), locale.Say("passes new items on"), nil)
		for i := range t.Children[:min(len(t.Children), maxDrawn)] {
			w.Hops = append(w.Hops, p.newHop(len(w.Steps), self, &t.Children[i], false, i == 0))
		}
		w.More = max(0, len(t.Children)-maxDrawn)
	}
	return w
}

// A link leads from this node to a member with which it is in touch.
type link struct{ Role, Path string }

// Links returns the links of this node.
func (p *networkPage) Links() (links []link) {
	i := slices.IndexFunc(p.Dots, func(d dot) bool { return d.Role == RoleSelf })
	if i < 0 {
		return nil
	}
	self := p.Dots[i]
	for _, d := range p.Dots {
		if d.Role == RoleLeaf || d.Role == RoleContact {
			links = append(links, link{d.Role, arrow(self, d).path})
		}
	}
	return links
}

// Count returns how many members of a role this node knows.
func (p *networkPage) Count(role string) (n int) {
	for _, m := range p.Members {
		if m.Role == role {
			n++
		}
	}
	return n
}

// HasOthers reports whether the ring has members that this node knows only from the tree of the chosen feed.
func (p *networkPage) HasOthers() bool {
	return slices.ContainsFunc(p.Dots, func(d dot) bool { return d.Role == RoleOther })
}

// LambdaText returns λ for people.
func (p *networkPage) LambdaText() locale.Text {
	switch {
	case p.Node.Overbooked:
		return locale.Say("none, because one poller for each feed is more than the target allows")
	case p.Node.Lambda == nil:
		return locale.Say("none, because this node leads no feed")
	}
	return locale.Verbatim(strconv.FormatFloat(*p.Node.Lambda, 'g', 3, 64))
}

// LevelText returns the polling levels for people.
func (p *networkPage) LevelText(l *locale.Language) string {
	var texts []string
	for level, n := range p.Node.Levels {
		if n > 0 {
			texts = append(texts, l.Say("%d feeds at level %d", n, level))
		}
	}
	if len(texts) == 0 {
		return l.Say("it leads none")
	}
	return strings.Join(texts, ", ")
}

// newHop returns the arrow from one member to another, and puts both on the ring.
func (p *networkPage) newHop(step int, from, to *Member, unknown, label bool) hop {
	c := arrow(p.dotOf(from), p.dotOf(to))
	return hop{step, c.path, c.x, c.y, unknown, label}
}

// A curve is the path of an arrow, with the place of its label.
type curve struct {
	path string
	x, y float64
}

// arrow returns a curve between two members, which bends to the middle of the ring.
func arrow(a, b dot) curve {
	const bend = 0.45 // part of the way to the middle
	mx, my := (a.X+b.X)/2, (a.Y+b.Y)/2
	cx, cy := round1(mx+bend*(ringSize/2-mx)), round1(my+bend*(ringSize/2-my))
	return curve{fmt.Sprintf("M %g %g Q %g %g %g %g", a.X, a.Y, cx, cy, b.X, b.Y), round1((a.X + 2*cx + b.X) / 4), round1((a.Y + 2*cy + b.Y) / 4)}
}

// dotOf returns the place of a member, which is added to the ring if it is not there.
func (p *networkPage) dotOf(m *Member) dot {
	if i := slices.IndexFunc(p.Dots, func(d dot) bool { return d.ID == m.ID }); i >= 0 {
		return p.Dots[i]
	}
	m.Role = RoleOther
	d, _ := newDot(*m)
	p.Dots = append(p.Dots, d)
	return d
}
