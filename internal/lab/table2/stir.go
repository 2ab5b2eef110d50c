package table2

import (
	"tidings/internal/env"
	"tidings/overlay"
	"tidings/overlay/wedge"
)

// Whatever a layer does that others may have to do with passes a door, or comes back through
// one; and what Corona asks of others beside that is here. Then all of them run.

// ranks are a member's wedges, as Corona has them.
type ranks Member

func (r *ranks) Enlist(key overlay.ID, o wedge.Order) error {
	r.stirred = true
	return r.Wedges.Enlist(key, o)
}

func (r *ranks) Down(key overlay.ID, message []byte) error {
	r.stirred = true
	return r.Wedges.Down(key, message)
}

func (r *ranks) Relevel() {
	r.stirred = true
	r.Wedges.Relevel()
}

func (r *ranks) Serving(key overlay.ID) (served, declined int) { return r.Wedges.Serving(key) }

// shares are its sums.
type shares Member

func (s *shares) Set(value []byte) error {
	s.stirred = true
	return s.Sums.Set(value)
}

func (s *shares) Rest() (sum any, whole bool) { return s.Sums.Rest() }

func (s *shares) Disturbed() {
	s.stirred = true
	s.Sums.Disturbed()
}

// stirring is a member's door to the network.
type stirring struct {
	env.Network
	m *Member
}

func (s stirring) Send(to env.Peer, class env.Class, frame []byte) {
	s.m.stirred = true
	s.Network.Send(to, class, frame)
}

// work is its door to the worker. What is to be computed is computed by others, while the world
// goes on; who wants to hear of it waits for that.
type work struct {
	env.Worker
	m *Member
}

func (w work) Do(pure, done func()) {
	w.m.stirred = true
	computed := make(chan struct{})
	go func() {
		defer close(computed)
		pure()
	}()
	w.Worker.Do(func() {}, func() {
		<-computed
		w.m.Do(done)
	})
}

// memory is its door to a store that keeps nothing: members do not start again. All that they
// could have to read is the body of an entry, and there are none.
type memory struct {
	env.Store
	m *Member
}

func (s memory) Commit(_ []env.Op, done func(error)) {
	s.m.stirred = true
	s.Store.Commit(nil, func(err error) { s.m.Do(func() { done(err) }) })
}
