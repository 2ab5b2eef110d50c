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
	"tidings/overlay/wedge/wedgepb"
)

// Lies selects the false statements that liars make. The zero value is an honest member.
type Lies struct {
	// Rows: requests for a row are answered with liars only, and with the claim that all other
	// slots of the row are empty.
	Rows bool
	// Leaves: leaf exchanges and lookups are answered with liars only, and with the claim that the
	// key lies in the leaf, at a depth that fits. Digests are random.
	Leaves bool
	// Depths: the leaf is said to have another depth, by a decision dated nearly a day ahead. Every
	// second liar asks for one leaf for all members, the others for one leaf per member.
	Depths bool
	// Counts: half of the askers are told that there are four billion members below a prefix, the
	// others that there are none.
	Counts bool
	// Deaths: once a second, each liar tells all members of its leaf that a random live one of them
	// is dead.
	Deaths bool
	// Routes: half of the messages to be forwarded are acknowledged and dropped. For the others the liar
	// returns a receipt of a root: its own, or that of the liar nearest to the key, which signs it.
	Routes bool
	// Ranks: orders to poll are not passed on to other members of a wedge, while parents are told that
	// they were. It is no lie about the overlay, and not one of AllLies.
	Ranks bool
}

// AllLies selects all lies.
func AllLies() Lies {
	return Lies{Rows: true, Leaves: true, Depths: true, Counts: true, Deaths: true, Routes: true}
}

// Liars are colluding members that lie. A liar is a real node: its messages are changed on their
// way out, and messages routed through it do not reach it. It lies from the moment at which it is a
// member, to honest members and to other liars.
type Liars struct {
	swarm   *Swarm
	lies    Lies
	members []*Peer
	index   map[*Peer]int // position in members
	rng     *rand.Rand
}

// deathInterval is the time between two false death notices of one liar.
const deathInterval = time.Second

// GrowWithLiars grows a swarm as Grow does. A share of the hosts that it adds are liars, evenly among
// the others; the founder is not.
func (s *Swarm) GrowWithLiars(n int, pause time.Duration, share float64, lies Lies) *Liars {
	l := &Liars{swarm: s, lies: lies, index: map[*Peer]int{}, rng: rand.New(rand.NewPCG(s.Seed(), 0x11e))}
	first := len(s.members)
	for i := first; i < n; i++ {
		if i == 0 {
			p := s.Add(true)
			s.After(0, p.Start)
			continue
		}
		p := s.Add(true, s.members[0])
		start := p.Start
		if int(float64(i+1)*share) > int(float64(i)*share) {
			l.index[p] = len(l.members)
			l.members = append(l.members, p)
			start = func() { l.start(p) }
		}
		s.After(time.Duration(i)*pause, start)
	}
	if lies.Deaths {
		s.every(deathInterval, l.announceDeaths)
	}
	return l
}

// Has reports whether a peer is a liar.
func (l *Liars) Has(p *Peer) bool {
	_, ok := l.index[p]
	return ok
}

// start boots a liar: first like any other peer, and then again with a falsified environment.
func (l *Liars) start(p *Peer) {
	p.Start()
	build := p.build
	p.Crash(false)
	p.Boot(func(e env.Env) env.Node {
		f := &liarNode{Liars: l, peer: p, network: e.Network, lookupKeys: map[uint64]overlay.ID{}}
		e.Network = f
		build(e)
		f.Node = p.node
		return f
	})
	for _, v := range p.bootstrap {
		p.Found(v.Host)
	}
}

// nearest returns up to n liars that are members, the nearest to a key first.
func (l *Liars) nearest(key overlay.ID, n int) (of []*overlay.Contact) {
	for _, p := range l.members {
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

// announceDeaths makes each liar claim that a live member is dead.
func (l *Liars) announceDeaths() {
	for _, p := range l.members {
		if !p.Active() {
			continue
		}
		leaf := p.node.Overlay.Leaf().Members()
		dead := leaf[l.rng.IntN(len(leaf))]
		if q := l.swarm.byID[dead.ID]; q == nil || l.Has(q) {
			continue
		}
		notice := wire.AppendFrame(nil, wire.Overlay, &overlaypb.Message{Body: &overlaypb.Message_Dead{Dead: &overlaypb.Dead{
			Id: dead.ID[:], IssuedMs: dead.Issued,
		}}})
		for _, c := range leaf {
			if c.ID != p.id && c.ID != dead.ID {
				p.queueFrame(c.Peer, env.Control, notice)
			}
		}
	}
}

// A liarNode is the node of one liar, and its Network.
type liarNode struct {
	*node.Node
	*Liars
	peer       *Peer
	network    env.Network
	lookupKeys map[uint64]overlay.ID // keys that it was asked to look up, by nonce
}

// Receive implements env.Node.
func (f *liarNode) Receive(from env.PeerID, frame []byte) error {
	if m := f.parseOverlay(frame); m != nil {
		switch b := m.Body.(type) {
		case *overlaypb.Message_Find:
			if len(b.Find.Key) == len(overlay.ID{}) {
				f.lookupKeys[b.Find.Nonce] = overlay.ID(b.Find.Key)
			}
		case *overlaypb.Message_Route:
			if f.lies.Routes {
				f.dropRoute(from, b.Route)
				return nil
			}
		}
	}
	return f.Node.Receive(from, frame)
}

// dropRoute takes a message that should be forwarded. For half of them it returns a receipt.
func (f *liarNode) dropRoute(from env.PeerID, r *overlaypb.Route) {
	a := &overlaypb.Ack{Id: r.Id, Try: r.Try}
	if r.Id%2 == 0 && len(r.Key) == len(overlay.ID{}) {
		root := f.Overlay.Self()
		if r.Id%4 == 0 {
			root = f.nearest(overlay.ID(r.Key), 1)[0]
		}
		signer := wire.NewSigner(f.swarm.byID[root.ID].Key(), f.swarm.hash)
		a.Receipt, a.Root, a.Hops = true, root.ID[:], r.Hops+1
		a.Record, a.Signature = root.Raw, signer.Signature(wire.DomainReceipt, append(binary.BigEndian.AppendUint64(nil, r.Id), r.Key...))
	}
	f.network.Send(f.swarm.World.byID[from].Peer(), env.Control, wire.AppendFrame(nil, wire.Overlay, &overlaypb.Message{
		Record: f.Overlay.Self().Raw, Body: &overlaypb.Message_Ack{Ack: a},
	}))
}

// Send implements env.Network.
func (f *liarNode) Send(to env.Peer, class env.Class, frame []byte) {
	if m := f.parseOverlay(frame); m != nil {
		f.falsify(to, m)
		frame = wire.AppendFrame(nil, wire.Overlay, m)
	} else if f.lies.Ranks {
		frame = dropRanks(frame)
	}
	f.network.Send(to, class, frame)
}

// dropRanks takes the entries out of a frame of a wedge.
func dropRanks(frame []byte) []byte {
	layer, body, err := wire.ParseFrame(frame)
	m := new(wedgepb.Message)
	if err != nil || layer != wire.Wedge || proto.Unmarshal(body, m) != nil || len(m.GetBatch().GetEntries()) == 0 {
		return frame
	}
	m.GetBatch().Entries = nil
	return wire.AppendFrame(nil, wire.Wedge, m)
}

// parseOverlay returns the overlay message in a frame. It returns nil for other layers, and while
// the liar is not a member.
func (f *liarNode) parseOverlay(frame []byte) *overlaypb.Message {
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

// falsify changes a message into a lie.
func (f *liarNode) falsify(to env.Peer, m *overlaypb.Message) {
	switch b := m.Body.(type) {
	case *overlaypb.Message_Probe:
		if f.lies.Leaves {
			b.Probe.Digest = f.rng.Uint64()
		}
		f.falsifyDepth(&b.Probe.Depth, &b.Probe.Decided)
	case *overlaypb.Message_Leaf:
		if f.lies.Leaves {
			b.Leaf.IdPrefixes, b.Leaf.Records = nil, nil
			for _, c := range f.nearest(f.peer.id, maxListed) {
				if f.Overlay.Leaf().Covers(c.ID) {
					b.Leaf.IdPrefixes = append(b.Leaf.IdPrefixes, binary.BigEndian.Uint64(c.ID[:]))
					b.Leaf.Records = append(b.Leaf.Records, c.Raw)
				}
			}
		}
		f.falsifyDepth(&b.Leaf.Depth, &b.Leaf.Decided)
	case *overlaypb.Message_Nearby:
		key, ok := f.lookupKeys[b.Nearby.Nonce]
		delete(f.lookupKeys, b.Nearby.Nonce)
		if ok && f.lies.Leaves {
			b.Nearby.Covers, b.Nearby.Records = true, nil
			b.Nearby.Depth = min(b.Nearby.Depth, uint32(f.peer.id.Common(key)))
			for _, c := range f.nearest(key, maxListed) {
				b.Nearby.Records = append(b.Nearby.Records, c.Raw)
			}
		}
		f.falsifyDepth(&b.Nearby.Depth, &b.Nearby.Decided)
	case *overlaypb.Message_RowReply:
		f.poisonRow(b.RowReply)
		if f.lies.Counts {
			b.RowReply.Count = 0
			if to.ID[len(to.ID)-1]%2 == 0 {
				b.RowReply.Count = math.MaxUint32
			}
		}
	}
}

// maxListed bounds the liars named in one message.
const maxListed = 16

// poisonRow puts liars into a row.
func (f *liarNode) poisonRow(r *overlaypb.RowReply) {
	if !f.lies.Rows {
		return
	}
	r.Records, r.EmptyColumns = nil, 0
	row := int(r.Row)
	for col := range 16 {
		if col == f.peer.id.Digit(row) {
			continue
		}
		at := slices.IndexFunc(f.members, func(p *Peer) bool {
			return p.Active() && p.id.Common(f.peer.id) >= 4*row && p.id.Digit(row) == col
		})
		if at < 0 {
			r.EmptyColumns |= 1 << col
		} else {
			r.Records = append(r.Records, f.members[at].node.Overlay.Self().Raw)
		}
	}
}

// decisionLead is how far ahead liars date their decisions: just within what members accept.
const decisionLead = 24*time.Hour - time.Minute

// falsifyDepth claims another depth of the leaf.
func (f *liarNode) falsifyDepth(depth *uint32, decided *uint64) {
	if !f.lies.Depths {
		return
	}
	*depth, *decided = 0, uint64(f.swarm.Now().Add(decisionLead).UnixMilli())
	if f.index[f.peer]%2 == 1 {
		*depth = 24
	}
}
