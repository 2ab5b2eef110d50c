package proxy

import (
	"cmp"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"

	"tidings/internal/locale"
	"tidings/internal/plot"
)

// A Network holds what a node knows about its network.
type Network struct {
	Name      string   `json:"name"`
	EstimateN int      `json:"estimate_n"` // estimated number of members
	Members   []Member `json:"members"`    // members that the node knows, including itself
	// History has a sample for every ten minutes of the last week in which the node ran, the oldest first.
	History []NetworkSample `json:"-"`
}

// A Member is a member that the node knows.
type Member struct {
	ID     string   `json:"id"` // position on the ring: 64 hexadecimal digits
	PeerID string   `json:"peer_id"`
	Role   string   `json:"role"` // self, leaf, contact
	RTTMs  *float64 `json:"rtt_ms"`
}

// ShortID returns the first digits of the id, by which people tell members apart.
func (m Member) ShortID() string { return m.ID[:min(8, len(m.ID))] }

// RTT returns the round-trip time for people, or nothing if it is not known.
func (m Member) RTT() locale.Text {
	if m.RTTMs == nil {
		return nil
	}
	if *m.RTTMs < 1 {
		return locale.Say("under 1 ms")
	}
	return locale.Say("%.0f ms", *m.RTTMs)
}

// Roles of members, as seen from the node.
const (
	RoleSelf    = "self"
	RoleLeaf    = "leaf"    // in the leaf set: the members with the nearest ids
	RoleContact = "contact" // elsewhere on the ring
	RoleOther   = "other"   // in the tree of a feed
)

// Sizes of the ring map in SVG units.
const (
	ringSize   = 400
	ringRadius = 160
)

// roleNames holds the names of the roles, in the order of the table.
var roleNames = []struct{ role, name string }{
	{RoleSelf, locale.Key("this node")}, {RoleLeaf, locale.Key("leaf set")}, {RoleContact, locale.Key("contact")}, {RoleOther, locale.Key("in the tree of the feed")},
}

// RoleName returns the name of the role for people.
func (m Member) RoleName() locale.Text {
	if i := m.roleOrder(); i < len(roleNames) {
		return locale.Say(roleNames[i].name)
	}
	return locale.Verbatim(m.Role)
}

// roleOrder returns the position of the role in the table.
func (m Member) roleOrder() int {
	for i, r := range roleNames {
		if r.role == m.Role {
			return i
		}
	}
	return len(roleNames)
}

// compareMembers sorts members by role, and then by round-trip time, unknown times last.
func compareMembers(a, b Member) int {
	rtt := func(m Member) float64 {
		if m.RTTMs == nil {
			return math.Inf(1)
		}
		return *m.RTTMs
	}
	return cmp.Or(cmp.Compare(a.roleOrder(), b.roleOrder()), cmp.Compare(rtt(a), rtt(b)))
}

// networkPage is the ring map, the table of members, and what the network did over time.
type networkPage struct {
	Network
	Node      Status
	Dots      []dot
	Unshown   int // members that the node knows, and that the page leaves out
	Plots     []plot.Chart
	Way       *way          // of the last items of the chosen channel; nil: unknown
	WayText   locale.Text   // why it is unknown
	Wedge     string        // SVG path of the chosen channel's wedge; "" if no channel is chosen
	Key       *dot          // position of the chosen channel's key
	WedgeText locale.Text   // describes the wedge
	Feeds     []channelView // some that can be chosen; see suggestions
	Chosen    string        // what was typed to choose one
	Matches   []channelView // the feeds that this can mean, if they are several
	More      int           // of these, those that are not shown
}

// A dot is a member, or a key, on the ring map.
type dot struct {
	X, Y float64
	Member
	InWedge bool // the member is in the chosen channel's wedge
}

// maxMembers bounds the members on the page, so that it stays small. Those of the leaf set come first.
const maxMembers = 150

// ringPoint returns the coordinates of a point: turn is the part of a full circle from the top, from 0 to 1.
func ringPoint(turn, radius float64) (x, y float64) {
	sin, cos := math.Sincos(2 * math.Pi * turn)
	return round1(ringSize/2 + radius*sin), round1(ringSize/2 - radius*cos)
}

// round1 rounds to a tenth.
func round1(v float64) float64 { return math.Round(10*v) / 10 }

// idBits is the number of bits of an id that are used, far more than needed to tell members apart.
const idBits = 48

// idPrefix returns the first bits of an id. ok is false if the id is invalid.
func idPrefix(id string) (n uint64, ok bool) {
	if len(id) < idBits/4 {
		return 0, false
	}
	n, err := strconv.ParseUint(id[:idBits/4], 16, 64)
	return n, err == nil
}

// ringTurn returns the position of an id as a part of the full circle. ok is false if the id is invalid.
func ringTurn(id string) (turn float64, ok bool) {
	n, ok := idPrefix(id)
	return float64(n) / (1 << idBits), ok
}

func newDot(m Member) (dot, bool) {
	turn, ok := ringTurn(m.ID)
	x, y := ringPoint(turn, ringRadius)
	return dot{X: x, Y: y, Member: m}, ok
}

// wedgeBits returns how many bits the members of a wedge share with its key. The wedge consists of the nearest
// pollers among the members that share that many bits.
func wedgeBits(pollers, members int) int {
	if pollers <= 0 || members <= pollers {
		return 0
	}
	return int(math.Log2(float64(members) / float64(pollers)))
}

// wedgePath returns the SVG path of the part of the ring whose ids share some bits, at least one, with the id at a position.
func wedgePath(turn float64, bits int) string {
	parts := math.Exp2(float64(bits))
	from := math.Floor(turn*parts) / parts
	to := from + 1/parts
	large := 0
	if to-from > 0.5 {
		large = 1
	}
	const inner, outer = ringRadius - 14, ringRadius + 14
	x0, y0 := ringPoint(from, outer)
	x1, y1 := ringPoint(to, outer)
	x2, y2 := ringPoint(to, inner)
	x3, y3 := ringPoint(from, inner)
	return fmt.Sprintf("M %g %g A %d %d 0 %d 1 %g %g L %g %g A %d %d 0 %d 0 %g %g Z",
		x0, y0, outer, outer, large, x1, y1, x2, y2, inner, inner, large, x3, y3)
}

func (s *Server) network(w http.ResponseWriter, r *http.Request) error {
	net, err := s.subs.Network(r.Context())
	if err != nil {
		return err
	}
	chosen := newTypedFeed(r.URL.Query().Get("channel"))
	field := &fieldFinder{typed: []*typedFeed{chosen}}
	if err := s.subs.Each(r.Context(), field.see); err != nil {
		return err
	}
	status, err := s.subs.Status(r.Context())
	if err != nil {
		return err
	}
	p := networkPage{Network: net, Node: status, Chosen: chosen.text}
	if p.Feeds, err = s.suggestions(r, field); err != nil {
		return err
	}
	slices.SortStableFunc(net.Members, compareMembers)
	for _, m := range net.Members[:min(len(net.Members), maxMembers)] {
		if d, ok := newDot(m); ok {
			p.Dots = append(p.Dots, d)
		}
	}
	p.Unshown = max(0, len(net.Members)-maxMembers)
	for _, chart := range networkPlots(s.language(r), net.History) {
		if chart != nil {
			p.Plots = append(p.Plots, *chart)
		}
	}
	found := chosen.found()
	matches, err := s.views(r, found[:min(len(found), maxMatches)])
	if err != nil {
		return err
	}
	switch {
	case len(matches) == 1:
		c := matches[0].Channel
		p.choose(c)
		tree, err := s.subs.Tree(r.Context(), c.URL)
		if err != nil {
			return err
		}
		p.follow(tree, &c)
	case len(matches) > 1:
		p.Matches, p.More = matches, len(found)-len(matches)
	case p.Chosen != "":
		p.WedgeText = locale.Say("No feed that you follow fits “%s”.", p.Chosen)
	}
	return s.writePage(w, r, http.StatusOK, "network.html", locale.Say("Network"), &p)
}

// choose shows the wedge of a channel.
func (p *networkPage) choose(c Channel) {
	if c.Private {
		p.WedgeText = locale.Say("This feed is private: only this node polls it.")
		return
	}
	turn, ok := ringTurn(c.Key)
	if !ok || c.Pollers == 0 {
		p.WedgeText = locale.Say("This node does not know yet which members poll this feed.")
		return
	}
	bits := wedgeBits(c.Pollers, p.EstimateN)
	if bits > 0 { // otherwise it would be the whole ring
		p.Wedge = wedgePath(turn, bits)
	}
	x, y := ringPoint(turn, ringRadius)
	p.Key = &dot{X: x, Y: y}
	key, _ := idPrefix(c.Key)
	nearest := make([]*dot, len(p.Dots))
	for i := range p.Dots {
		nearest[i] = &p.Dots[i]
	}
	distance := func(d *dot) uint64 {
		at, _ := idPrefix(d.ID)
		return at ^ key
	}
	slices.SortFunc(nearest, func(a, b *dot) int { return cmp.Compare(distance(a), distance(b)) })
	known := 0
	for _, d := range nearest[:min(c.Pollers, len(nearest))] { // the node may know only a few of them
		if d.InWedge = distance(d)>>(idBits-bits) == 0; d.InWedge {
			known++
		}
	}
	p.WedgeText = locale.Say("%d of about %d members poll this feed: those with the ids nearest to its key. This node knows %d of them, which have an outline.",
		c.Pollers, max(p.EstimateN, 1), known)
	if p.Wedge != "" {
		p.WedgeText = locale.Say("%d of about %d members poll this feed: those with the ids nearest to its key, in the shaded part of the ring. This node knows %d of them, which have an outline.",
			c.Pollers, max(p.EstimateN, 1), known)
	}
}

// follow shows the way of the last items of a channel.
func (p *networkPage) follow(t Tree, c *Channel) {
	var self *Member
	for i := range p.Members {
		if p.Members[i].Role == RoleSelf {
			self = &p.Members[i]
		}
	}
	p.Way = p.newWay(t, self)
	switch {
	case p.Way != nil, c.Private:
	case t.Quiet:
		p.WayText = locale.Say("This node follows the feed through two other members, so that no member knows both. They know the way of its items, and this node does not.")
	case !t.Known:
		p.WayText = locale.Say("This node has no place in the tree of this feed yet.")
	default:
		p.WayText = locale.Say("No item of this feed has come down its tree since this node started.")
	}
}
