package table2

import (
	"math"

	"tidings/internal/env"
	"tidings/overlay"
	"tidings/overlay/wedge"
)

// A layer of a member. They run in this order.
type layer uint8

const (
	ofOverlay layer = iota
	ofScribe
	ofOwners
	ofWedges
	ofSums
	ofCorona
	layers
)

// A set of layers.
type set uint8

const all set = 1<<layers - 1

func only(l layer) set { return 1 << l }

func (s set) has(l layer) bool { return s&only(l) != 0 }

// concerns says for each layer who else may have something to do, and other plans, after a frame for it, or when
// what it has planned was due: all call the overlay, which calls them all when something of its own is due; owners and
// wedges tell Corona what is its to do. What Corona asks of others passes through ranks, shares and pollSide, or a door.
var concerns = [layers]set{
	ofOverlay: all,
	ofScribe:  only(ofScribe) | only(ofOverlay),
	ofOwners:  only(ofOwners) | only(ofOverlay) | only(ofCorona),
	ofWedges:  only(ofWedges) | only(ofOverlay) | only(ofCorona),
	ofSums:    only(ofSums) | only(ofOverlay),
	ofCorona:  only(ofCorona) | only(ofOverlay) | only(ofOwners),
}

// never is when a layer wants to be run that waits for something to happen.
const never = math.MaxInt64

// ranks are a member's wedges, as Corona has them.
type ranks Member

func (r *ranks) Enlist(key overlay.ID, o wedge.Order) error {
	r.stirred |= concerns[ofWedges]
	return r.Wedges.Enlist(key, o)
}

func (r *ranks) Broadcast(key overlay.ID, message []byte) error {
	return r.Wedges.Broadcast(key, message)
}

func (r *ranks) AdjustLevels() {
	r.stirred |= concerns[ofWedges]
	r.Wedges.AdjustLevels()
}

func (r *ranks) Leads(key overlay.ID) bool { return r.Wedges.Leads(key) }

func (r *ranks) Served(key overlay.ID) (served, declined int) { return r.Wedges.Served(key) }

// shares are its sums.
type shares Member

func (s *shares) Set(value []byte) error {
	s.stirred |= only(ofSums)
	return s.Sums.Set(value)
}

func (s *shares) Remote() (sum any, complete bool) { return s.Sums.Remote() }

func (s *shares) RequestQuickRounds() {
	s.stirred |= only(ofSums)
	s.Sums.RequestQuickRounds()
}

// doors are those of a layer, which know what they pass to whom.
func (m *Member) doors(e env.Env, l layer) env.Env {
	e.Fetcher, e.Network, e.Worker, e.Store = m, stirring{e.Network, m, l}, work{e.Worker, m, l}, memory{e.Store, m, l}
	return e
}

// stirring is a layer's door to the network. What the overlay sends it may send for another layer.
type stirring struct {
	env.Network
	m *Member
	l layer
}

func (s stirring) Send(to env.Peer, class env.Class, frame []byte) {
	if s.m.stirred |= only(s.l); s.l == ofCorona {
		s.m.stirred |= concerns[ofCorona]
	}
	s.Network.Send(to, class, frame)
}

// work is its door to the worker. What is to be computed is computed by others, while the world
// goes on; who wants to hear of it waits for that.
type work struct {
	env.Worker
	m *Member
	l layer
}

func (w work) Do(pure, done func()) {
	computed := make(chan struct{})
	go func() {
		defer close(computed)
		pure()
	}()
	w.Worker.Do(func() {}, func() {
		<-computed
		w.m.stirred |= concerns[w.l]
		done()
	})
}

// memory is its door to a store that keeps nothing: members do not start again. All that they
// could have to read is the body of an entry, and there are none.
type memory struct {
	env.Store
	m *Member
	l layer
}

func (s memory) Commit(_ []env.Op, done func(error)) {
	s.Store.Commit(nil, func(err error) {
		s.m.stirred |= concerns[s.l]
		done(err)
	})
}
