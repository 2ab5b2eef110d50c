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
type layerSet uint8

const all layerSet = 1<<layers - 1

func only(l layer) layerSet { return 1 << l }

func (s layerSet) has(l layer) bool { return s&only(l) != 0 }

// concerns says for each layer who else may have something to do, and other plans, after a frame for it, or when
// what it has planned was due: all call the overlay, which calls them all when something of its own is due; owners and
// wedges tell Corona what is its to do. What Corona asks of others passes through ranks, shares and pollSide, or a door.
var affects = [layers]layerSet{
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
type wedgeRanks Member

func (r *wedgeRanks) Enlist(key overlay.ID, o wedge.Order) error {
	r.pending |= affects[ofWedges]
	return r.Wedges.Enlist(key, o)
}

func (r *wedgeRanks) Broadcast(key overlay.ID, message []byte) error {
	return r.Wedges.Broadcast(key, message)
}

func (r *wedgeRanks) AdjustLevels() {
	r.pending |= affects[ofWedges]
	r.Wedges.AdjustLevels()
}

func (r *wedgeRanks) Leads(key overlay.ID) bool { return r.Wedges.Leads(key) }

func (r *wedgeRanks) Served(key overlay.ID) (served, declined int) { return r.Wedges.Served(key) }

// shares are its sums.
type sumShares Member

func (s *sumShares) Set(value []byte) error {
	s.pending |= only(ofSums)
	return s.Sums.Set(value)
}

func (s *sumShares) Rest() (sum any, whole bool) { return s.Sums.Rest() }

func (s *sumShares) Disturbed() {
	s.pending |= only(ofSums)
	s.Sums.Disturbed()
}

// doors are those of a layer, which know what they pass to whom.
func (m *Member) layerEnv(e env.Env, l layer) env.Env {
	e.Fetcher, e.Network, e.Worker, e.Store = m, layerNetwork{e.Network, m, l}, layerWorker{e.Worker, m, l}, layerStore{e.Store, m, l}
	return e
}

// stirring is a layer's door to the network. What the overlay sends it may send for another layer.
type layerNetwork struct {
	env.Network
	m *Member
	l layer
}

func (s layerNetwork) Send(to env.Peer, class env.Class, frame []byte) {
	if s.m.pending |= only(s.l); s.l == ofCorona {
		s.m.pending |= affects[ofCorona]
	}
	s.Network.Send(to, class, frame)
}

// work is its door to the worker. What is to be computed is computed by others, while the world
// goes on; who wants to hear of it waits for that.
type layerWorker struct {
	env.Worker
	m *Member
	l layer
}

func (w layerWorker) Do(pure, done func()) {
	computed := make(chan struct{})
	go func() {
		defer close(computed)
		pure()
	}()
	w.Worker.Do(func() {}, func() {
		<-computed
		w.m.pending |= affects[w.l]
		done()
	})
}

// memory is its door to a store that keeps nothing: members do not start again. All that they
// could have to read is the body of an entry, and there are none.
type layerStore struct {
	env.Store
	m *Member
	l layer
}

func (s layerStore) Commit(_ []env.Op, done func(error)) {
	s.Store.Commit(nil, func(err error) {
		s.m.pending |= affects[s.l]
		done(err)
	})
}
