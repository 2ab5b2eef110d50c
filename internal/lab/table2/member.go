package table2

import (
	"fmt"
	"time"

	"tidings/corona"
	"tidings/difference"
	"tidings/internal/env"
	"tidings/internal/feed"
	"tidings/internal/node"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/owner"
	"tidings/overlay/scribe"
	"tidings/overlay/sums"
	"tidings/overlay/wedge"
)

// A Member joins the layers that polls need: overlay, trees, owners, wedges, sums, corona.
// It has no readers, so it is no node.Node: that one would keep logs, windows and heartbeats
// for them. What is found is held at once.
type Member struct {
	Overlay *overlay.Node
	Scribe  *scribe.Scribe
	Owners  *owner.Owners
	Wedges  *wedge.Wedge
	Sums    *sums.Sums
	Corona  *corona.Corona

	lane    *lane
	index   int
	plain   bool // see World.Plain
	asked   []question
	stirred bool      // something has happened since all layers ran that is no poll
	next    time.Time // when a layer other than Corona wants to be run
}

// A question is a poll that is to be answered.
type question struct {
	handle env.Handle
	env.Request
}

func newMember(e env.Env, signer *wire.Signer, verify wire.Verifier, cfg node.Config, index int, plain, polite bool, l *lane) *Member {
	m := &Member{lane: l, index: index, plain: plain}
	e.Fetcher, e.Network, e.Worker, e.Store = m, stirring{e.Network, m}, work{e.Worker, m}, memory{e.Store, m}
	m.Overlay = overlay.New(e, signer, verify, cfg.Overlay)
	m.Scribe = scribe.New(e, m.Overlay, cfg.Scribe, func(scribe.Delivery) {})
	var err error
	if m.Owners, err = owner.New(e, m.Overlay, signer, verify, cfg.Owner, (*ownerSide)(m)); err != nil {
		panic(fmt.Sprintf("table2: a member with an empty disk: %v", err))
	}
	m.Wedges = wedge.New(e, m.Overlay, cfg.Wedges, (*wedgeSide)(m))
	m.Corona = corona.New(e, m.Overlay, signer, verify, (*ranks)(m), cfg.Corona, (*pollSide)(m))
	if polite {
		m.Corona.BePolite(m.Owners)
	}
	m.Sums = sums.New(e, m.Overlay, cfg.Sums, m.Corona.Adder())
	m.Corona.Join((*shares)(m))
	m.Overlay.Handle(wire.Corona, (*findingSide)(m))
	return m
}

// Run runs the layers, twice as node.Node does if anything came of it, and until all polls are answered. A poll that
// brings nothing new concerns Corona alone; nearly all do.
func (m *Member) Run(now time.Time) time.Time {
	if !m.plain && !m.stirred && (m.next.IsZero() || m.next.After(now)) {
		own := m.Corona.Run(now)
		for len(m.asked) > 0 {
			m.answer(now)
			own = m.Corona.Run(now)
		}
		if !m.stirred {
			return env.Sooner(m.next, own)
		}
	}
	for pass := 1; ; pass++ {
		m.stirred = false
		m.next = m.Overlay.Run(now)
		m.next = env.Sooner(m.next, m.Scribe.Run(now))
		m.next = env.Sooner(m.next, m.Owners.Run(now))
		m.next = env.Sooner(m.next, m.Wedges.Run(now))
		m.next = env.Sooner(m.next, m.Sums.Run(now))
		own := m.Corona.Run(now)
		if len(m.asked) == 0 && (pass >= 2 || !m.stirred) {
			m.stirred = false
			return env.Sooner(m.next, own)
		}
		m.answer(now)
	}
}

// Do does something with the member's layers, within its turn.
func (m *Member) Do(do func()) {
	m.stirred = true
	do()
}

// Fetch implements env.Fetcher. Origins answer as soon as the layers have run.
func (m *Member) Fetch(h env.Handle, r env.Request) { m.asked = append(m.asked, question{h, r}) }

// answer answers what was asked; nothing more is asked meanwhile.
func (m *Member) answer(now time.Time) {
	for _, q := range m.asked {
		m.Corona.Answered(q.handle, m.lane.ask(&q.Request, m.index, now.UnixNano()))
	}
	clear(m.asked)
	m.asked = m.asked[:0]
}

// Receive brings a frame to its layer.
func (m *Member) Receive(from env.PeerID, frame []byte) error {
	layer, body, err := wire.ParseFrame(frame)
	if err != nil {
		return err
	}
	if layer == wire.Wedge && wedge.PassesOn(body) {
		defer func(was bool) { m.stirred = was }(m.stirred) // to send it on is no other layer's affair
	} else {
		m.stirred = true
	}
	switch layer {
	case wire.Overlay:
		return m.Overlay.Receive(from, body)
	case wire.Scribe:
		return m.Scribe.Receive(from, frame, body)
	case wire.Owner:
		return m.Owners.Receive(from, body)
	case wire.Sums:
		return m.Sums.Receive(from, body)
	case wire.Wedge:
		return m.Wedges.Receive(from, body)
	case wire.Corona:
		return m.Corona.Receive(from, body)
	}
	return fmt.Errorf("%w: layer %d", wire.ErrFrame, layer)
}

// Found, Reachable and PeerDown are the overlay's.

// Found reports a peer that one can join through.
func (m *Member) Found(peer env.Peer) {
	m.stirred = true
	m.Overlay.Found(peer)
}

// Reachable reports where the member can be dialled.
func (m *Member) Reachable(addrs []string) {
	m.stirred = true
	m.Overlay.Reachable(addrs)
}

// PeerDown hints that a link broke.
func (m *Member) PeerDown(peer env.PeerID) {
	m.stirred = true
	m.Overlay.PeerDown(peer)
}

// ownerSide is what overlay/owner sees of the layers beside it. Nothing is appended to
// any log.
type ownerSide Member

func (m *ownerSide) Lead(key overlay.ID, on bool) {
	if !on {
		m.Corona.Cease(key)
		return
	}
	v, _ := m.Owners.View(key)
	if _, ok := overlay.StewardDomain(v.URL); ok {
		return
	}
	m.Corona.Lead(key, v.URL, uint64(v.Epoch.Time.UnixMilli()), new(difference.Known), v.Note)
}

func (m *ownerSide) Grew(overlay.ID)                       {}
func (m *ownerSide) Held(overlay.ID, *owner.Entry, []byte) {}
func (m *ownerSide) Absorb(overlay.ID, []byte)             {}
func (m *ownerSide) Absorbing(overlay.ID) bool             { return false }
func (m *ownerSide) Merged(overlay.ID)                     {}
func (m *ownerSide) Weight(key overlay.ID) (int, bool) {
	if m.Corona.Stewards(key) {
		return 1, true // who asks its stewards is not in its tree
	}
	return m.Scribe.Weight(key)
}

func (m *ownerSide) Siblings(key overlay.ID) []*overlay.Contact { return m.Scribe.Below(key) }

// pollSide is what corona sees of the layers beside it. What is found is held at once, and
// nobody is told.
type pollSide Member

func (m *pollSide) Saw(overlay.ID, *feed.Head, bool) {}

func (m *pollSide) Found(_ overlay.ID, _ difference.Delta, _ *feed.Feed, done func(ok bool)) bool {
	done(true)
	return true
}

func (m *pollSide) Said(overlay.ID, []byte, corona.Haste) {}

func (m *pollSide) SetNote(key overlay.ID, note []byte) {
	m.stirred = true
	_ = m.Owners.SetNote(key, note) // who leads no longer has none
}

func (m *pollSide) Weight(key overlay.ID) int {
	if weight, ok := m.Scribe.Weight(key); ok {
		return weight // this node is the tree's root
	}
	v, _ := m.Owners.View(key)
	return v.Weight
}

func (m *pollSide) Owns(key overlay.ID) bool {
	v, ok := m.Owners.View(key)
	return ok && v.Owns
}

func (m *pollSide) Leader(key overlay.ID) (env.Peer, bool) {
	v, ok := m.Owners.View(key)
	if !ok || v.Epoch == nil {
		return env.Peer{}, false
	}
	if c := m.Overlay.Contact(v.Epoch.Sequencer); c != nil {
		return c.Peer, true
	}
	return env.Peer{ID: v.Epoch.Sequencer}, true
}

func (m *pollSide) Term(key overlay.ID) uint64 {
	v, ok := m.Owners.View(key)
	if !ok || v.Epoch == nil {
		return 0
	}
	return uint64(v.Epoch.Time.UnixMilli())
}

func (m *pollSide) Fading(overlay.ID, int) []feed.ID                           { return nil }
func (m *pollSide) Fetched(overlay.ID, *feed.Feed, corona.Offer, corona.State) {}

// wedgeSide is what the wedges see of them.
type wedgeSide Member

func (m *wedgeSide) Valid(key overlay.ID, _ wedge.Term, words []byte) bool {
	return m.Corona.Valid(key, words)
}
func (m *wedgeSide) Willing(overlay.ID, []byte) bool    { return true }
func (m *wedgeSide) Level(key overlay.ID) int           { return m.Corona.Level(key) }
func (m *wedgeSide) Serve(key overlay.ID, d wedge.Duty) { m.Corona.Serve(key, d) }
func (m *wedgeSide) Release(key overlay.ID)             { m.Corona.Release(key) }
func (m *wedgeSide) Handoff(key overlay.ID) []byte      { return m.Corona.Handoff(key) }
func (m *wedgeSide) Delivered(key overlay.ID, _ env.PeerID, message []byte) {
	m.Corona.Delivered(key, message)
}

// findingSide is what the overlay sees of corona: findings are routed.
type findingSide Member

func (m *findingSide) Forward(*overlay.Message) bool { return false }
func (m *findingSide) Deliver(msg *overlay.Message)  { m.Corona.Deliver(msg.Key, msg.Payload) }
func (m *findingSide) PeerGone(env.PeerID)           {}
func (m *findingSide) LeafChanged()                  {}
