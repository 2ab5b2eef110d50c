package table2

import (
	"fmt"
	"slices"
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

// A Member consists of the layers that polling needs: overlay, trees, owners, wedges, sums, corona.
// It is not a node.Node, which would also keep logs, windows and heartbeats for readers; a Member
// has none. Reported changes count as committed at once.
type Member struct {
	Overlay *overlay.Node
	Scribe  *scribe.Scribe
	Owners  *owner.Owners
	Wedges  *wedge.Wedge
	Sums    *sums.Aggregator
	Corona  *corona.Corona

	next    [layers]int64 // when each layer wants to run next, in nanoseconds of Unix time
	pending layerSet      // layers that must run earlier than that
	runAll  bool          // see World.RunAll
	index   int
	polls   []pendingPoll
	lane    *lane
}

// A pendingPoll is a poll that must be answered.
type pendingPoll struct {
	handle env.Handle
	env.Request
}

func newMember(e env.Env, signer *wire.Signer, verify wire.Verifier, cfg node.Config, index int, plain, polite bool, l *lane) *Member {
	m := &Member{lane: l, index: index, runAll: plain, pending: all}
	m.Overlay = overlay.New(m.layerEnv(e, ofOverlay), signer, verify, cfg.Overlay)
	m.Scribe = scribe.New(m.layerEnv(e, ofScribe), m.Overlay, cfg.Scribe, func(scribe.Delivery) {})
	var err error
	if m.Owners, err = owner.New(m.layerEnv(e, ofOwners), m.Overlay, signer, verify, cfg.Owner, (*ownerSide)(m)); err != nil {
		panic(fmt.Sprintf("table2: a member with an empty disk: %v", err))
	}
	m.Wedges = wedge.New(m.layerEnv(e, ofWedges), m.Overlay, cfg.Wedges, (*wedgeSide)(m))
	m.Corona = corona.New(m.layerEnv(e, ofCorona), m.Overlay, signer, verify, (*wedgeRanks)(m), cfg.Corona, (*pollSide)(m))
	if polite {
		m.Corona.EnablePoliteness(m.Owners)
	}
	m.Sums = sums.New(m.layerEnv(e, ofSums), m.Overlay, cfg.Sums, m.Corona.Adder())
	m.Corona.Join((*sumShares)(m))
	m.Overlay.Handle(wire.Corona, (*findingSide)(m))
	return m
}

// Run runs the layers that are due until none is, and answers all polls. node.Node runs all its
// layers twice; here a poll without changes, as most are, runs only corona.
func (m *Member) Run(now time.Time) time.Time {
	at := now.UnixNano()
	for pass := 1; ; pass++ {
		if m.runAll && pass <= 2 {
			m.pending = all
		}
		for l := range layers {
			due := m.next[l] <= at
			if !due && !m.pending.has(l) {
				continue
			}
			m.next[l] = m.run(l, now)
			if m.pending &^= only(l); due && l != ofCorona { // what corona asks of other layers goes through its environment, or through layers.go
				m.pending |= affects[l] &^ only(l)
			}
		}
		if len(m.polls) > 0 {
			m.answer(now)
			m.pending |= only(ofCorona)
		}
		if m.pending == 0 && (pass > 1 || !m.runAll) {
			break
		}
	}
	if next := slices.Min(m.next[:]); next != never {
		return time.Unix(0, next).UTC()
	}
	return time.Time{}
}

// run runs a layer.
func (m *Member) run(l layer, now time.Time) int64 {
	var next time.Time
	switch l {
	case ofOverlay:
		next = m.Overlay.Run(now)
	case ofScribe:
		next = m.Scribe.Run(now)
	case ofOwners:
		next = m.Owners.Run(now)
	case ofWedges:
		next = m.Wedges.Run(now)
	case ofSums:
		next = m.Sums.Run(now)
	case ofCorona:
		next = m.Corona.Run(now)
	}
	if next.IsZero() {
		return never
	}
	return next.UnixNano()
}

// Do calls do in the member's turn.
func (m *Member) Do(do func()) {
	m.pending = all
	do()
}

// Fetch implements env.Fetcher. Origins answer as soon as the layers have run.
func (m *Member) Fetch(h env.Handle, r env.Request) { m.polls = append(m.polls, pendingPoll{h, r}) }

// answer answers the pending polls; no polls are added meanwhile.
func (m *Member) answer(now time.Time) {
	for _, q := range m.polls {
		m.Corona.Answered(q.handle, m.lane.answer(&q.Request, m.index, now.UnixNano()))
	}
	clear(m.polls)
	m.polls = m.polls[:0]
}

// Receive passes a frame to its layer.
func (m *Member) Receive(from env.PeerID, frame []byte) error {
	of, body, err := wire.ParseFrame(frame)
	if err != nil {
		return err
	}
	switch of {
	case wire.Overlay:
		m.pending |= affects[ofOverlay]
		return m.Overlay.Receive(from, body)
	case wire.Scribe:
		m.pending |= affects[ofScribe]
		return m.Scribe.Receive(from, frame, body)
	case wire.Owner:
		m.pending |= affects[ofOwners]
		return m.Owners.Receive(from, body)
	case wire.Sums:
		m.pending |= affects[ofSums]
		return m.Sums.Receive(from, body)
	case wire.Wedge:
		if was := m.pending; wedge.IsBroadcast(body) { // forwarding it concerns no other layer
			defer func() { m.pending = was }()
		}
		m.pending |= affects[ofWedges]
		return m.Wedges.Receive(from, body)
	case wire.Corona:
		m.pending = all
		return m.Corona.Receive(from, body)
	}
	return fmt.Errorf("%w: layer %d", wire.ErrFrame, of)
}

// Found, Reachable and PeerDown are handled by the overlay.

// Found reports a peer to join through.
func (m *Member) Found(peer env.Peer) {
	m.pending = all
	m.Overlay.Found(peer)
}

// Reachable reports where the member can be dialled.
func (m *Member) Reachable(addrs []string) {
	m.pending = all
	m.Overlay.Reachable(addrs)
}

// PeerDown hints that a link broke.
func (m *Member) PeerDown(peer env.PeerID) {
	m.pending = all
	m.Overlay.PeerDown(peer)
}

// ownerSide is the application of overlay/owner. No entries are ever appended.
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
	m.Corona.Lead(key, v.URL, uint64(v.Epoch.Time.UnixMilli()), new(difference.Known), m.Owners.Note(key))
}

func (m *ownerSide) VisibleChanged(overlay.ID)                  {}
func (m *ownerSide) Committed(overlay.ID, *owner.Entry, []byte) {}
func (m *ownerSide) Absorb(overlay.ID, []byte)                  {}
func (m *ownerSide) Absorbing(overlay.ID) bool                  { return false }
func (m *ownerSide) BranchMerged(overlay.ID)                    {}
func (m *ownerSide) Weight(key overlay.ID) (int, bool) {
	if m.Corona.StewardKeyInUse(key) {
		return 1, true // a node that asks a domain's stewards is not in its tree
	}
	return m.Scribe.Weight(key)
}

func (m *ownerSide) Siblings(key overlay.ID) []*overlay.Contact { return m.Scribe.Children(key) }

func (m *ownerSide) Wanted(overlay.ID) {} // only filters want owners

// pollSide is the application of corona. Reported changes count as committed at once, and are not
// passed on.
type pollSide Member

func (m *pollSide) Saw(overlay.ID, *feed.Head, bool) {}

func (m *pollSide) Found(_ overlay.ID, _ difference.Delta, _ *feed.Feed, done func(ok bool)) bool {
	done(true)
	return true
}

func (m *pollSide) StateChanged(overlay.ID, []byte, corona.Urgency) {}

func (m *pollSide) SetNote(key overlay.ID, note []byte) {
	m.pending |= only(ofOwners)
	_ = m.Owners.SetNote(key, note) // an error says that this node no longer leads
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

// wedgeSide is the application of overlay/wedge.
type wedgeSide Member

func (m *wedgeSide) Valid(key overlay.ID, _ wedge.Term, words []byte) bool {
	return m.Corona.Valid(key, words)
}
func (m *wedgeSide) Willing(overlay.ID, []byte) bool          { return true }
func (m *wedgeSide) Level(key overlay.ID) int                 { return m.Corona.Level(key) }
func (m *wedgeSide) Serve(key overlay.ID, d wedge.Assignment) { m.Corona.Serve(key, d) }
func (m *wedgeSide) Release(key overlay.ID)                   { m.Corona.Release(key) }
func (m *wedgeSide) CatchUp(key overlay.ID) []byte            { return m.Corona.Handoff(key) }
func (m *wedgeSide) Delivered(key overlay.ID, _ env.PeerID, message []byte) {
	m.Corona.Delivered(key, message)
}

// findingSide is the overlay's application for corona, whose reports are routed.
type findingSide Member

func (m *findingSide) Forward(*overlay.Message) bool { return false }
func (m *findingSide) Deliver(msg *overlay.Message)  { m.Corona.Deliver(msg.Key, msg.Payload) }

// PeerGone and LeafChanged concern all layers, whichever of them made the overlay find out.
func (m *findingSide) PeerGone(env.PeerID) { m.pending = all }
func (m *findingSide) LeafChanged()        { m.pending = all }
