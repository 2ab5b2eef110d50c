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

// A layerSet is a set of layers.
type layerSet uint8

const all layerSet = 1<<layers - 1

func only(l layer) layerSet { return 1 << l }

func (s layerSet) has(l layer) bool { return s&only(l) != 0 }

// affects lists for each layer the others that may become due after a frame for it, or when it ran.
// All of them call the overlay, which calls them all when it becomes due itself; owners and wedges
// call corona. Calls by corona go through wedgeRanks, sumShares, pollSide or its environment.
var affects = [layers]layerSet{
	ofOverlay: all,
	ofScribe:  only(ofScribe) | only(ofOverlay),
	ofOwners:  only(ofOwners) | only(ofOverlay) | only(ofCorona),
	ofWedges:  only(ofWedges) | only(ofOverlay) | only(ofCorona),
	ofSums:    only(ofSums) | only(ofOverlay),
	ofCorona:  only(ofCorona) | only(ofOverlay) | only(ofOwners),
}

// never is the next run of a layer that waits for an event.
const never = math.MaxInt64

// wedgeRanks is a member's wedges as corona uses them.
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

// sumShares is a member's sums as corona uses them.
type sumShares Member

func (s *sumShares) Set(value []byte) error {
	s.pending |= only(ofSums)
	return s.Sums.Set(value)
}

func (s *sumShares) Remote() (sum any, complete bool) { return s.Sums.Remote() }

func (s *sumShares) RequestQuickRounds() {
	s.pending |= only(ofSums)
	s.Sums.RequestQuickRounds()
}

// layerEnv returns the environment of a layer, which marks the other layers that its calls make
// due.
func (m *Member) layerEnv(e env.Env, l layer) env.Env {
	e.Fetcher, e.Network, e.Worker, e.Store = m, layerNetwork{e.Network, m, l}, layerWorker{e.Worker, m, l}, layerStore{e.Store, m, l}
	return e
}

// A layerNetwork is a layer's env.Network. Sending through the overlay may concern another layer.
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

// A layerWorker is a layer's env.Worker. It computes on another goroutine while the world goes on, and
// waits for the result when the layer is to be called.
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

// A layerStore is a layer's env.Store that keeps nothing, because members do not restart. The only
// records that they would read are bodies of entries, and there are no entries.
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
