package sim

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"tidings/internal/env"
	"tidings/internal/node"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/overlaypb"
)

// Lies are what a liar says that is not so. The zero value is an honest member.
type Lies struct {
	// Rows: whoever asks for a row is told of liars, and that all other slots of it
	// are empty.
	Rows bool
	// Leaves: whoever compares leaves, or asks for the way to a key, is told of liars
	// only, and that the key lies in the leaf, whose depth is made to fit; digests are
	// nobody's.
	Leaves bool
	// Depths: the leaf is said to have another depth, by a decision that is dated
	// nearly a day ahead; every other liar wants one leaf for all, the others one for
	// each.
	Depths bool
	// Counts: half of those who ask are told that there are four billion members
	// below a prefix, the others that there are none.
	Counts bool
	// Deaths: every second each liar says of one living member of its leaf, chosen
	// anew, to all others of it that it is dead.
	Deaths bool
	// Routes: of the messages that are to be passed on, half are acknowledged and
	// dropped, half are acknowledged in the name of the root, as which the liar
	// names itself.
	Routes bool
}

// AllLies are all lies at once.
func AllLies() Lies {
	return Lies{Rows: true, Leaves: true, Depths: true, Counts: true, Deaths: true, Routes: true}
}

// Liars are members that lie, and know one another. A liar is a real node: what it
// says is changed on its way out, and what is routed through it does not come to it.
// It lies from the moment at which it is a member, to honest members and to liars
// alike.
type Liars struct {
	swarm *Swarm
	lies  Lies
	of    []*Peer
	place map[*Peer]int // in of
	dice  *rand.Rand
}

// deathPause is the time between two false notices of death of one liar.
const deathPause = time.Second

// GrowLying grows a swarm as Grow does; of the hosts it adds, every so manieth lies.
// The founder does not.
func (s *Swarm) GrowLying(n int, pause time.Duration, every int, lies Lies) *Liars {
	l := &Liars{swarm: s, lies: lies, place: map[*Peer]int{}, dice: rand.New(rand.NewPCG(s.Seed(), 0x11e))}
	first := len(s.members)
	for i := first; i < n; i++ {
		if i == 0 {
			p := s.Add(true)
			s.After(0, p.Start)
			continue
		}
		p := s.Add(true, s.members[0])
		start := p.Start
		if i%every == every-1 {
			l.place[p] = len(l.of)
			l.of = append(l.of, p)
			start = func() { l.start(p) }
		}
		s.After(time.Duration(i)*pause, start)
	}
	if lies.Deaths {
		s.every(deathPause, l.mourn)
	}
	return l
}

// Has says whether a peer is one of the liars.
func (l *Liars) Has(p *Peer) bool {
	_, ok := l.place[p]
	return ok
}

// start boots a liar: as any other, and then again behind false doors.
func (l *Liars) start(p *Peer) {
	p.Start()
	build := p.build
	p.Crash(false)
	p.Boot(func(e env.Env) env.Node {
		f := &liar{Liars: l, peer: p, out: e.Network, asked: map[uint64]overlay.ID{}}
		e.Network = f
		build(e)
		f.Node = p.node
		return f
	})
	for _, v := range p.via {
		p.Found(v.Host)
	}
}

// nearest are those liars that are members, the nearest to a key first.
func (l *Liars) nearest(key overlay.ID, n int) (of []*overlay.Contact) {
	for _, p := range l.of {
		if p.Active() {
			of = append(of, p.node.Overlay.Self())
		}
	}
	slices.SortFunc(of, func(a, b *overlay.Contact) int {
		if overlay.Nearer(key, a.ID, b.ID) {
			return -1
		}
		return 1
	})
	return of[:min(n, len(of))]
}

// mourn has each liar say of a living member that it is dead.
func (l *Liars) mourn() {
	for _, p := range l.of {
		if !p.Active() {
			continue
		}
		leaf := p.node.Overlay.Leaf().Members()
		dead := leaf[l.dice.IntN(len(leaf))]
		if q := l.swarm.byID[dead.ID]; q == nil || l.Has(q) {
			continue
		}
		notice := wire.AppendFrame(nil, wire.Overlay, &overlaypb.Message{Body: &overlaypb.Message_Dead{Dead: &overlaypb.Dead{
			Id: dead.ID[:], IssuedMs: dead.Issued,
		}}})
		for _, c := range leaf {
			if c.ID != p.id && c.ID != dead.ID {
				p.post(c.Peer, env.Control, notice)
			}
		}
	}
}

// A liar is the node of one of them, and its Network.
type liar struct {
	*node.Node
	*Liars
	peer  *Peer
	out   env.Network
	asked map[uint64]overlay.ID // what it was asked the way to, by nonce
}

// Receive implements env.Node.
func (f *liar) Receive(from env.PeerID, frame []byte) error {
	if m := f.opened(frame); m != nil {
		switch b := m.Body.(type) {
		case *overlaypb.Message_Find:
			if len(b.Find.Key) == len(overlay.ID{}) {
				f.asked[b.Find.Nonce] = overlay.ID(b.Find.Key)
			}
		case *overlaypb.Message_Route:
			if f.lies.Routes {
				f.swallow(from, b.Route)
				return nil
			}
		}
	}
	return f.Node.Receive(from, frame)
}

// swallow keeps a message that is to be passed on.
func (f *liar) swallow(from env.PeerID, r *overlaypb.Route) {
	a := &overlaypb.Ack{Id: r.Id, Try: r.Try}
	if r.Id%2 == 0 {
		a.Receipt, a.Root, a.Hops = true, f.peer.id[:], r.Hops+1
	}
	f.out.Send(f.swarm.World.byID[from].Peer(), env.Control, wire.AppendFrame(nil, wire.Overlay, &overlaypb.Message{
		Record: f.Overlay.Self().Raw, Body: &overlaypb.Message_Ack{Ack: a},
	}))
}

// Send implements env.Network.
func (f *liar) Send(to env.Peer, class env.Class, frame []byte) {
	if m := f.opened(frame); m != nil {
		f.twist(to, m)
		frame = wire.AppendFrame(nil, wire.Overlay, m)
	}
	f.out.Send(to, class, frame)
}

// opened returns the message of the overlay's that a frame holds; nil if it is
// another's, or it is too early to lie.
func (f *liar) opened(frame []byte) *overlaypb.Message {
	layer, body, err := wire.ParseFrame(frame)
	if err != nil || layer != wire.Overlay || !f.peer.Active() {
		return nil
	}
	m := new(overlaypb.Message)
	if proto.Unmarshal(body, m) != nil {
		return nil
	}
	return m
}

// twist makes a lie of a message.
func (f *liar) twist(to env.Peer, m *overlaypb.Message) {
	switch b := m.Body.(type) {
	case *overlaypb.Message_Probe:
		if f.lies.Leaves {
			b.Probe.Digest = f.dice.Uint64()
		}
		f.decree(&b.Probe.Depth, &b.Probe.Decided)
	case *overlaypb.Message_Leaf:
		if f.lies.Leaves {
			b.Leaf.IdPrefixes, b.Leaf.Records = nil, nil
			for _, c := range f.nearest(f.peer.id, maxNamed) {
				if f.Overlay.Leaf().Covers(c.ID) {
					b.Leaf.IdPrefixes = append(b.Leaf.IdPrefixes, binary.BigEndian.Uint64(c.ID[:]))
					b.Leaf.Records = append(b.Leaf.Records, c.Raw)
				}
			}
		}
		f.decree(&b.Leaf.Depth, &b.Leaf.Decided)
	case *overlaypb.Message_Nearby:
		key, ok := f.asked[b.Nearby.Nonce]
		delete(f.asked, b.Nearby.Nonce)
		if ok && f.lies.Leaves {
			b.Nearby.Covers, b.Nearby.Records = true, nil
			b.Nearby.Depth = min(b.Nearby.Depth, uint32(f.peer.id.Common(key)))
			for _, c := range f.nearest(key, maxNamed) {
				b.Nearby.Records = append(b.Nearby.Records, c.Raw)
			}
		}
		f.decree(&b.Nearby.Depth, &b.Nearby.Decided)
	case *overlaypb.Message_RowReply:
		f.poison(b.RowReply)
		if f.lies.Counts {
			b.RowReply.Count = 0
			if to.ID[len(to.ID)-1]%2 == 0 {
				b.RowReply.Count = math.MaxUint32
			}
		}
	}
}

// maxNamed is how many liars are named at once.
const maxNamed = 16

// poison names liars in a row.
func (f *liar) poison(r *overlaypb.RowReply) {
	if !f.lies.Rows {
		return
	}
	r.Records, r.EmptyColumns = nil, 0
	row := int(r.Row)
	for col := range 16 {
		if col == f.peer.id.Digit(row) {
			continue
		}
		at := slices.IndexFunc(f.of, func(p *Peer) bool {
			return p.Active() && p.id.Common(f.peer.id) >= 4*row && p.id.Digit(row) == col
		})
		if at < 0 {
			r.EmptyColumns |= 1 << col
		} else {
			r.Records = append(r.Records, f.of[at].node.Overlay.Self().Raw)
		}
	}
}

// ahead is how far ahead a liar dates its decrees: just short of what is believed.
const ahead = 24*time.Hour - time.Minute

// decree gives the leaf another depth.
func (f *liar) decree(depth *uint32, decided *uint64) {
	if !f.lies.Depths {
		return
	}
	*depth, *decided = 0, uint64(f.swarm.Now().Add(ahead).UnixMilli())
	if f.place[f.peer]%2 == 1 {
		*depth = 24
	}
}
