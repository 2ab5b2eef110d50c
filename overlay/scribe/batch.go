package scribe

import (
	"time"

	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/scribe/scribepb"
)

// A word is what a node says to another of one group. Those that are said at one time go
// together: a node that starts joins thousands of groups, but has some hundred neighbours.
type word struct {
	kind   wordKind
	weight uint32 // of a Join
	edge   uint64 // of all but a Drop and a Redirect
	group  overlay.ID
	who    *overlay.Contact // the child-to-be of a way; the parent of a Redirect
}

type wordKind uint8

const (
	aPart wordKind = iota
	aDrop
	aJoin // to a parent by name
	aWay  // a Join on its way to the root, from hop to hop
	anAccept
	aRedirect
	kinds int = iota
)

// An outbox holds the words that have not been sent.
type outbox struct {
	by    map[env.PeerID]*letters
	order []*letters // as they were begun
	at    moment     // when they go; never: there are none
	level int        // words said of late: fewWords of them are forgotten in a batchDelay
	since moment     // when that was reckoned
}

// letters are the words for one peer.
type letters struct {
	to    env.Peer
	words []word
}

// usualWords is for how many words there is room in letters at once: about as many as there are for a peer when a
// node starts.
const usualWords = 8

// delay says how long one more word waits.
func (o *outbox) delay(now moment) time.Duration {
	if past := now.sub(o.since) / batchDelay; past > 0 {
		o.level = max(0, o.level-int(min(past, fewWords))*fewWords)
		o.since = now
	}
	if o.level++; o.level <= fewWords {
		return 0
	}
	o.level = min(o.level, 2*fewWords)
	return batchDelay
}

// tell sends a word, together with others to the same peer.
func (s *Scribe) tell(to env.Peer, w word) {
	o := &s.outbox
	of := o.by[to.ID]
	if of == nil {
		of = &letters{to: to, words: make([]word, 0, usualWords)}
		o.by[to.ID] = of
		o.order = append(o.order, of)
	}
	of.words = append(of.words, w)
	at := s.clock.Now().Add(o.delay(s.now()))
	if o.at == never || momentOf(at) < o.at {
		o.at = momentOf(at)
		s.cal.Add(at, task{kind: taskTell})
	}
}

// tellAll sends all that was to be said.
func (s *Scribe) tellAll(now time.Time) {
	o := &s.outbox
	if o.at == never || momentOf(now) < o.at {
		return
	}
	order := o.order
	o.order, o.at = nil, never
	clear(o.by)
	for _, of := range order {
		s.sendWords(of)
	}
}

// sendWords sends the words for one peer. A lone one is a message of its own, and so are a
// few of the node's own Joins, which go by the overlay's ways.
func (s *Scribe) sendWords(of *letters) {
	var left [kinds]int // to be added
	own := true
	for i := range of.words {
		w := &of.words[i]
		left[w.kind]++
		own = own && (w.kind != aWay || w.who == s.node.Self())
	}
	alone := own && left[aWay] < fewWays
	b := s.newBatch(&left)
	for i := range of.words {
		w := &of.words[i]
		switch {
		case w.kind == aWay && alone:
			if g := s.groups.Get(w.group); g != nil && g.seeking() && g.sought.asking == w.edge {
				s.routeJoin(g)
			}
		case w.kind != aWay && len(of.words) == 1:
			s.send(of.to, s.alone(w))
		default:
			b.add(w)
			if b.entries == maxBatch || b.bytes > batchBytes {
				s.sendBatch(of.to, b)
				b = s.newBatch(&left)
			}
		}
	}
	if b.entries > 0 {
		s.sendBatch(of.to, b)
	}
}

// alone is the message of one word.
func (s *Scribe) alone(w *word) *scribepb.Message {
	id := w.group[:]
	switch w.kind {
	case aPart:
		return &scribepb.Message{Body: &scribepb.Message_Part{Part: &scribepb.Part{Group: id, Edge: w.edge}}}
	case aDrop:
		return &scribepb.Message{Body: &scribepb.Message_Drop{Drop: &scribepb.Drop{Groups: [][]byte{id}}}}
	case anAccept:
		return &scribepb.Message{Body: &scribepb.Message_Accept{Accept: &scribepb.Accept{
			Group: id, Record: s.node.Self().Raw, Edge: w.edge,
		}}}
	case aRedirect:
		return &scribepb.Message{Body: &scribepb.Message_Redirect{Redirect: &scribepb.Redirect{Group: id, Record: w.who.Raw}}}
	}
	return &scribepb.Message{Body: &scribepb.Message_Join{Join: &scribepb.Join{
		Group: id, Record: s.node.Self().Raw, Weight: w.weight, Edge: w.edge,
	}}}
}

// A batch is a Batch in the making.
type batch struct {
	*scribepb.Batch
	self    *overlay.Contact            // whose record is the first
	place   map[*overlay.Contact]uint32 // of the other records
	left    *[kinds]int                 // words that are to come, here and in batches that follow
	entries int
	bytes   int // about
}

func (s *Scribe) newBatch(left *[kinds]int) *batch {
	self := s.node.Self()
	return &batch{Batch: &scribepb.Batch{Records: [][]byte{self.Raw}}, self: self, left: left, bytes: len(self.Raw)}
}

// record returns the place of a record.
func (b *batch) record(c *overlay.Contact) uint32 {
	if c == b.self {
		return 0
	}
	i, ok := b.place[c]
	if !ok {
		if b.place == nil {
			b.place = map[*overlay.Contact]uint32{}
		}
		i = uint32(len(b.Records))
		b.place[c] = i
		b.Records = append(b.Records, c.Raw)
		b.bytes += len(c.Raw)
	}
	return i
}

func (b *batch) add(w *word) {
	b.entries++
	b.bytes += len(w.group) + 16
	switch w.kind {
	case aPart:
		b.in(&b.Parts, w)
	case aDrop:
		b.in(&b.Drops, w)
	case aJoin:
		c := b.in(&b.Joins, w)
		c.Weights = append(c.Weights, w.weight)
	case aWay:
		c := b.in(&b.Ways, w)
		c.Weights, c.Records = append(c.Weights, w.weight), append(c.Records, b.record(w.who))
	case anAccept:
		b.in(&b.Accepts, w)
	case aRedirect:
		c := b.in(&b.Redirects, w)
		c.Records = append(c.Records, b.record(w.who))
	}
	b.left[w.kind]--
}

// in puts a word's group, and its edge if such words have one, into their column.
func (b *batch) in(c **scribepb.Column, w *word) *scribepb.Column {
	edged := w.kind != aDrop && w.kind != aRedirect
	if *c == nil {
		n := min(b.left[w.kind], maxBatch)
		*c = &scribepb.Column{Groups: make([]byte, 0, n*len(w.group))}
		if edged {
			(*c).Edges = make([]uint64, 0, n)
		}
	}
	(*c).Groups = append((*c).Groups, w.group[:]...)
	if edged {
		(*c).Edges = append((*c).Edges, w.edge)
	}
	return *c
}

func (s *Scribe) sendBatch(to env.Peer, b *batch) {
	s.stats.Control++
	frame := wire.AppendFrame(nil, wire.Scribe, &scribepb.Message{Body: &scribepb.Message_Batch{Batch: b.Batch}})
	class := env.Control
	if len(frame) > maxControl {
		class = env.Bulk
	}
	s.net.Send(to, class, frame)
}

// onBatch takes many words. Edges end before others begin.
func (s *Scribe) onBatch(from env.PeerID, m *scribepb.Batch) error {
	c, err := s.openFrom(from, m.Records[0])
	if err != nil {
		return err
	}
	each(m.Parts, func(i int, id overlay.ID) { s.onPart(s.links[from], id, m.Parts.Edges[i]) })
	each(m.Drops, func(_ int, id overlay.ID) { s.onDrop(from, s.links[from], id) })
	each(m.Joins, func(i int, id overlay.ID) {
		s.onJoin(c, id, wish{weight: m.Joins.Weights[i], edge: m.Joins.Edges[i]})
	})
	each(m.Ways, func(i int, id overlay.ID) {
		s.onWay(m.Records[m.Ways.Records[i]], id, wish{weight: m.Ways.Weights[i], edge: m.Ways.Edges[i]})
	})
	each(m.Accepts, func(i int, id overlay.ID) { s.onAccept(c, id, m.Accepts.Edges[i]) })
	each(m.Redirects, func(i int, id overlay.ID) {
		if e := s.onRedirect(from, id, m.Records[m.Redirects.Records[i]]); e != nil {
			err = e
		}
	})
	return err
}

func each(c *scribepb.Column, do func(i int, id overlay.ID)) {
	const size = len(overlay.ID{})
	for i := range len(c.GetGroups()) / size {
		do(i, overlay.ID(c.Groups[i*size:(i+1)*size]))
	}
}

// onWay takes a Join on its way to the root as the overlay would bring it: the first in the
// tree, or else the root, accepts the child; others pass it on. Each hop is nearer to the key
// than the one before, so that it does not go round. It ends where the next hop is not
// certain: its child will ask again, alone.
func (s *Scribe) onWay(record []byte, id overlay.ID, w wish) {
	if s.node.State() != overlay.Active {
		return
	}
	c, err := s.node.OpenRecord(record)
	if err != nil || !c.Member || c.ID == s.node.ID() {
		s.stats.Garbage++
		return
	}
	g := s.groups.Get(id)
	if g != nil && overlay.Nearer(id, s.node.ID(), c.ID) {
		s.accept(g, c, w, false)
		return
	}
	next, root := s.node.NextHop(id)
	switch {
	case root:
		g = s.group(id)
		s.becomeRoot(g)
		s.accept(g, c, w, false)
	case next != nil:
		s.tell(next.Peer, word{kind: aWay, group: id, edge: w.edge, weight: w.weight, who: c})
	}
}
