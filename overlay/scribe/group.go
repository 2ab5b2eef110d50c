package scribe

import (
	"slices"
	"time"

	"tidings/internal/env"
	"tidings/internal/plant"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/scribe/scribepb"
)

// A group is this node's part in one tree.
type group struct {
	id       overlay.ID
	own      uint32 // weight of the node's own subscription; 0: none
	root     bool
	parents  []*link // at most one; a client has up to two, and counts at the first
	children []child
	sent     uint32 // weight last told to the first parent
	recent   []recent

	seeking bool
	seekDue time.Time
	tries   int
	target  env.PeerID // the parent asked by name, if any

	pushing bool      // a look at children asked to move is due
	offered time.Time // when the parent was last asked to take the children
}

// A child is an edge down.
type child struct {
	link   *link
	weight uint32
	client bool
	given  uint32    // children sent to it
	moving time.Time // when it was asked to find another parent; zero: it was not
}

// recent is a message that passed a while ago.
type recent struct {
	id    uint64
	at    time.Time
	frame []byte
}

func (g *group) keep(r recent) {
	if len(g.recent) == maxRecent {
		g.recent = slices.Delete(g.recent, 0, 1)
	}
	g.recent = append(g.recent, r)
}

// age forgets messages older than recentLife.
func (g *group) age(now time.Time) {
	i := 0
	for i < len(g.recent) && now.Sub(g.recent[i].at) > recentLife {
		i++
	}
	g.recent = slices.Delete(g.recent, 0, i)
	if len(g.recent) == 0 {
		g.recent = nil
	}
}

// weight is the sum of the clients at and below the node.
func (g *group) weight() uint32 {
	w := g.own
	for i := range g.children {
		w += g.children[i].weight
	}
	return w
}

// idle says that the node has no subscription, and at most member children.
func (g *group) idle() bool {
	return g.own == 0 && !slices.ContainsFunc(g.children, func(c child) bool { return c.client })
}

// child returns the edge down on a link, or nil.
func (g *group) child(l *link) *child {
	for i := range g.children {
		if g.children[i].link == l {
			return &g.children[i]
		}
	}
	return nil
}

// members counts the children that count against the fan-out.
func (g *group) members() (count int) {
	for i := range g.children {
		if c := &g.children[i]; !c.client && c.moving.IsZero() {
			count++
		}
	}
	return count
}

// group returns the state of a group, making it if there is none.
func (s *Scribe) group(id overlay.ID) *group {
	g := s.groups[id]
	if g == nil {
		g = &group{id: id}
		s.groups[id] = g
	}
	return g
}

// seek looks for a parent: along the route to the root, or, for a client, at the
// members that act for it.
func (s *Scribe) seek(g *group) {
	g.seeking, g.tries = true, 0
	s.seekNow(g)
}

func (s *Scribe) seekAgain(g *group, now time.Time) {
	if g == nil || !g.seeking || now.Before(g.seekDue) {
		return
	}
	if g.tries < 8 {
		g.tries++
	}
	s.seekNow(g)
}

func (s *Scribe) seekNow(g *group) {
	hosts := s.node.Hosts()
	client := s.node.State() == overlay.Attached
	if g.root || !client && len(g.parents) > 0 || g.own == 0 && len(g.children) == 0 {
		g.seeking, g.target = false, ""
		return
	}
	wait := s.spread(min(joinPatience<<g.tries, joinPauseMax))
	g.seekDue = s.clock.Now().Add(wait)
	s.cal.Add(g.seekDue, task{kind: taskSeek, group: g.id})
	g.target = ""
	s.stats.Joins++
	if !client {
		s.node.Route(wire.Scribe, g.id, encode(s.join(g, g.weight())), func(overlay.Receipt, bool) {})
		return
	}
	complete := true
	for _, h := range hosts {
		if !slices.ContainsFunc(g.parents, func(l *link) bool { return l.peer.ID == h.Peer.ID }) {
			complete = false
			s.send(h.Peer, s.join(g, g.share(0 == len(g.parents))))
		}
	}
	g.seeking = !complete
}

// share is the weight told to a parent: the first is told all of it.
func (g *group) share(first bool) uint32 {
	if first {
		return g.weight()
	}
	return 0
}

func (s *Scribe) join(g *group, weight uint32) *scribepb.Message {
	j := &scribepb.Join{Group: g.id[:], Record: s.node.Self().Raw, Weight: weight}
	for _, r := range g.recent {
		j.Have = append(j.Have, r.id)
	}
	return &scribepb.Message{Body: &scribepb.Message_Join{Join: j}}
}

// onJoin takes a Join that was sent to this node by name.
func (s *Scribe) onJoin(from env.PeerID, j *scribepb.Join) error {
	c, err := s.node.OpenRecord(j.Record)
	if err != nil || c.Peer.ID != from {
		s.stats.Garbage++
		return env.ErrFrame
	}
	id := overlay.ID(j.Group)
	g := s.groups[id]
	switch {
	case s.node.State() != overlay.Active:
		s.sendDrop(c.Peer, id)
	case !c.Member:
		g = s.group(id)
		s.accept(g, c, j)
		if !g.root && len(g.parents) == 0 && !g.seeking {
			s.seek(g)
		}
	case g == nil || !overlay.Nearer(id, s.node.ID(), c.ID) && !plant.Cycle:
		s.sendDrop(c.Peer, id)
	default:
		s.accept(g, c, j)
	}
	return nil
}

// accept takes a child on, or sends it on to one of the children when there are
// enough.
func (s *Scribe) accept(g *group, c *overlay.Contact, j *scribepb.Join) {
	weight := min(j.Weight, uint32(s.cfg.MaxWeight*max(s.node.Count(0), 1)))
	known := g.child(s.links[c.Peer.ID])
	if known == nil && c.Member && g.members() >= s.cfg.FanOut && s.farthest(g, c.ID) == nil {
		if to := s.pick(g, c.ID); to != nil {
			s.redirect(g, c.Peer, to)
			return
		}
	}
	l := s.link(c)
	if known == nil {
		g.children = append(g.children, child{link: l, weight: weight, client: !c.Member})
		l.down.add(g.id, weight)
		l.renewed = s.clock.Now()
	} else {
		l.down.change(g.id, known.weight, weight)
		known.weight, known.moving = weight, time.Time{}
	}
	s.send(c.Peer, &scribepb.Message{Body: &scribepb.Message_Accept{Accept: &scribepb.Accept{
		Group: g.id[:], Record: s.node.Self().Raw,
	}}})
	for _, r := range g.recent {
		if !slices.Contains(j.Have, r.id) && s.clock.Now().Sub(r.at) < recentLife {
			s.sendDown(l, g.id, r.id, r.frame)
		}
	}
	s.weigh(g)
	s.pushDown(g)
}

// farthest returns the child farthest from the key that may be asked to move,
// if it is farther than id.
func (s *Scribe) farthest(g *group, id overlay.ID) *child {
	var far *child
	for i := range g.children {
		c := &g.children[i]
		if !c.client && c.moving.IsZero() && overlay.Nearer(g.id, id, c.link.contact.ID) &&
			(far == nil || overlay.Nearer(g.id, far.link.contact.ID, c.link.contact.ID)) {
			far = c
		}
	}
	return far
}

// pick chooses the child under which another is to hang: nearer to the key than
// that one, and with the least below it.
func (s *Scribe) pick(g *group, below overlay.ID) *child {
	var best *child
	for i := range g.children {
		c := &g.children[i]
		if !c.client && c.moving.IsZero() && overlay.Nearer(g.id, c.link.contact.ID, below) &&
			(best == nil || c.weight+c.given < best.weight+best.given) {
			best = c
		}
	}
	return best
}

func (s *Scribe) redirect(g *group, who env.Peer, to *child) {
	to.given++
	s.stats.Pushed++
	s.sendRedirect(g, who, to.link.contact)
}

func (s *Scribe) sendRedirect(g *group, who env.Peer, to *overlay.Contact) {
	s.send(who, &scribepb.Message{Body: &scribepb.Message_Redirect{Redirect: &scribepb.Redirect{
		Group: g.id[:], Record: to.Raw,
	}}})
}

// pushDown asks the farthest children to move below nearer ones as long as there
// are more than the fan-out. A child stays one until it has its new parent.
func (s *Scribe) pushDown(g *group) {
	now := s.clock.Now()
	for i := range g.children {
		if c := &g.children[i]; !c.moving.IsZero() && now.Sub(c.moving) >= pushPause {
			c.moving = time.Time{} // it did not find its way; ask somebody again
		}
	}
	for g.members() > s.cfg.FanOut {
		far := s.farthest(g, g.id)
		if far == nil {
			break
		}
		to := s.pick(g, far.link.contact.ID)
		if to == nil {
			break
		}
		far.moving = now
		s.redirect(g, far.link.peer, to)
	}
	if !g.pushing && slices.ContainsFunc(g.children, func(c child) bool { return !c.moving.IsZero() }) {
		g.pushing = true
		s.after(pushPause, task{kind: taskPush, group: g.id})
	}
}

// onRedirect moves this node below another parent, if that one is nearer to the
// key. The old edge stays until the new one stands.
func (s *Scribe) onRedirect(from env.PeerID, m *scribepb.Redirect) error {
	g := s.groups[overlay.ID(m.Group)]
	to, err := s.node.OpenRecord(m.Record)
	if err != nil {
		s.stats.Garbage++
		return env.ErrFrame
	}
	if g == nil || g.root || !to.Member || s.node.State() != overlay.Active {
		return nil
	}
	current := len(g.parents) > 0
	if current && g.parents[0].peer.ID != from || !current && !g.seeking ||
		!overlay.Nearer(g.id, to.ID, s.node.ID()) {
		return nil
	}
	g.target = to.Peer.ID
	if !current { // give the named parent its time to answer
		g.seekDue = s.clock.Now().Add(joinPatience)
		s.cal.Add(g.seekDue, task{kind: taskSeek, group: g.id})
	}
	s.stats.Joins++
	s.link(to) // so that Accept finds who it is from
	s.send(to.Peer, s.join(g, g.weight()))
	return nil
}

// onAccept takes the parent that has accepted this node.
func (s *Scribe) onAccept(from env.PeerID, m *scribepb.Accept) error {
	c, err := s.node.OpenRecord(m.Record)
	if err != nil || c.Peer.ID != from {
		s.stats.Garbage++
		return env.ErrFrame
	}
	if s.takeParent(overlay.ID(m.Group), c) {
		return nil
	}
	s.sendPart(c.Peer, overlay.ID(m.Group))
	return nil
}

// takeParent makes the node that has accepted this one its parent, unless it has
// one, or that one cannot be.
func (s *Scribe) takeParent(id overlay.ID, c *overlay.Contact) bool {
	g := s.groups[id]
	client := s.node.State() == overlay.Attached
	switch {
	case g == nil || g.root || g.own == 0 && len(g.children) == 0:
		return false
	case slices.ContainsFunc(g.parents, func(l *link) bool { return l.peer.ID == c.Peer.ID }):
		return true
	case client:
		if !slices.ContainsFunc(s.node.Hosts(), func(h *overlay.Contact) bool { return h.ID == c.ID }) {
			return false
		}
	case !overlay.Nearer(id, c.ID, s.node.ID()) && !plant.Cycle:
		return false
	case len(g.parents) > 0 && g.target != c.Peer.ID:
		return false // I have one
	case len(g.parents) > 0:
		s.leaveParent(g, g.parents[0])
	}
	l := s.link(c)
	g.target = ""
	g.parents = append(g.parents, l)
	told := g.share(len(g.parents) == 1)
	l.up.add(g.id, told)
	if len(g.parents) == 1 {
		g.sent = told
	}
	if !client {
		g.seeking = false
	}
	s.startBeat(l)
	s.weigh(g)
	s.prune(g)
	return true
}

// leaveParent ends an edge up and tells the parent.
func (s *Scribe) leaveParent(g *group, l *link) {
	s.forgetParent(g, l)
	s.sendPart(l.peer, g.id)
}

// forgetParent ends an edge up.
func (s *Scribe) forgetParent(g *group, l *link) {
	for i, p := range g.parents {
		if p != l {
			continue
		}
		if i == 0 {
			l.up.remove(g.id, g.sent)
		} else {
			l.up.remove(g.id, 0)
		}
		g.parents = slices.Delete(g.parents, i, i+1)
		if i == 0 && len(g.parents) > 0 { // the second now counts
			g.sent = 0
			s.weigh(g)
		}
		return
	}
}

// forgetChild ends an edge down.
func (s *Scribe) forgetChild(g *group, l *link) {
	g.children = slices.DeleteFunc(g.children, func(c child) bool {
		if c.link == l {
			l.down.remove(g.id, c.weight)
		}
		return c.link == l
	})
	s.weigh(g)
}

func (s *Scribe) onPart(l *link, id overlay.ID) {
	g := s.groups[id]
	if g == nil || l == nil {
		return
	}
	if g.child(l) != nil {
		s.forgetChild(g, l)
		s.prune(g)
	}
	if slices.Contains(g.parents, l) {
		s.forgetParent(g, l)
		s.seek(g)
	}
}

// becomeRoot makes this node the root of a group: the overlay has delivered what
// was routed to the group's key.
func (s *Scribe) becomeRoot(g *group) {
	if g.root {
		return
	}
	for len(g.parents) > 0 {
		s.leaveParent(g, g.parents[0])
	}
	g.root, g.seeking, g.target = true, false, ""
}

// prune ends what a node has no use for: the whole group, or forwarding for
// children that the parent has room for.
func (s *Scribe) prune(g *group) {
	if !g.idle() {
		return
	}
	if len(g.children) == 0 {
		if g.root && len(g.recent) > 0 {
			return // children may still come from a lost root
		}
		for len(g.parents) > 0 {
			s.leaveParent(g, g.parents[0])
		}
		delete(s.groups, g.id)
		return
	}
	now := s.clock.Now()
	if !g.root && len(g.parents) > 0 && (g.offered.IsZero() || now.Sub(g.offered) >= s.cfg.BeatInterval) {
		g.offered = now
		s.send(g.parents[0].peer, &scribepb.Message{Body: &scribepb.Message_Offer{Offer: &scribepb.Offer{Group: g.id[:]}}})
	}
}

// onOffer answers how many more children there is room for; or hands on as many
// as the parent has said.
func (s *Scribe) onOffer(l *link, m *scribepb.Offer) {
	g := s.groups[overlay.ID(m.Group)]
	if g == nil || l == nil {
		return
	}
	if !m.Reply {
		if g.child(l) != nil {
			s.send(l.peer, &scribepb.Message{Body: &scribepb.Message_Offer{Offer: &scribepb.Offer{
				Group: m.Group, Room: uint32(max(s.cfg.FanOut-g.members(), 0)), Reply: true,
			}}})
		}
		return
	}
	if len(g.parents) == 0 || g.parents[0] != l || !g.idle() {
		return
	}
	for i := range min(int(m.Room), len(g.children)) {
		s.sendRedirect(g, g.children[i].link.peer, l.contact)
	}
}

// LeafChanged looks whether this node is still the root of what it is root of,
// and whether its parents may still be its parents: a client's are the members
// that act for it, a member's is nearer to the key.
func (s *Scribe) LeafChanged() {
	switch s.node.State() {
	case overlay.Active:
		for _, g := range s.sorted(func(g *group) bool { return g.root && !s.node.IsRoot(g.id) }) {
			g.root = false
			s.seek(g)
		}
		s.reseat(func(g *group, l *link) bool { return overlay.Nearer(g.id, l.contact.ID, s.node.ID()) })
	case overlay.Attached:
		hosts := s.node.Hosts()
		for _, g := range s.sorted(func(*group) bool { return true }) {
			g.root = false
			for len(g.children) > 0 { // a client has none
				s.sendPart(g.children[0].link.peer, g.id)
				s.forgetChild(g, g.children[0].link)
			}
			s.prune(g)
		}
		s.reseat(func(_ *group, l *link) bool {
			return slices.ContainsFunc(hosts, func(h *overlay.Contact) bool { return h.Peer.ID == l.peer.ID })
		})
		for _, g := range s.sorted(func(g *group) bool { return len(g.parents) < len(hosts) }) {
			s.seek(g)
		}
	case overlay.Alone, overlay.Joining, overlay.Left:
	}
}

// reseat leaves the parents that are none to stay with, and looks for others.
func (s *Scribe) reseat(stays func(*group, *link) bool) {
	leaves := func(g *group) bool {
		return slices.ContainsFunc(g.parents, func(l *link) bool { return !stays(g, l) })
	}
	for _, g := range s.sorted(leaves) {
		for _, l := range slices.Clone(g.parents) {
			if !stays(g, l) {
				s.leaveParent(g, l)
			}
		}
		s.seek(g)
	}
}

// PeerGone ends all edges to a peer that is dead or has left.
func (s *Scribe) PeerGone(id env.PeerID) {
	l := s.links[id]
	if l == nil {
		return
	}
	l.out, l.queue = nil, nil
	for _, g := range s.sorted(func(g *group) bool { return slices.Contains(g.parents, l) }) {
		s.forgetParent(g, l)
		s.seek(g)
	}
	s.childLost(l)
	s.dropIdle(l)
}

// childLost ends all edges down to a peer.
func (s *Scribe) childLost(l *link) {
	for _, g := range s.sorted(func(g *group) bool { return g.child(l) != nil }) {
		s.forgetChild(g, l)
		s.prune(g)
	}
}
