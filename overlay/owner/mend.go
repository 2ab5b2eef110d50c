package owner

import (
	"slices"

	"tidings/internal/env"
)

// Mend gets from a peer the bodies of entries of one log, the oldest first, that this node's disk has
// lost. done says whether at least one came and is durable. The log itself stays as it is.
func (o *Owners) Mend(from env.Peer, lost []*Entry, done func(ok bool)) {
	s := o.seats[lost[0].Key]
	if s == nil || s.pull != nil || from.ID == o.self {
		done(false)
		return
	}
	o.stats.Pulls++
	s.pull = &pull{from: from, have: lost[0].Prev, mends: lost, hole: -1, since: o.clock.Now(), then: []func(bool){done}}
	o.nextPage(s)
}

// keepMended stores the bodies that a pull was to bring.
func (o *Owners) keepMended(s *seat) {
	p := s.pull
	var ops []env.Op
	for i, e := range p.got {
		if p.bodies[i] == nil || !slices.ContainsFunc(p.mends, func(l *Entry) bool { return l.Hash == e.Hash }) {
			continue
		}
		ops = append(ops, env.Op{Key: bodyKey(e), Value: p.bodies[i], Body: true})
	}
	if len(ops) == 0 {
		o.endPull(s, false)
		return
	}
	p.stores = true
	o.store.Commit(ops, func(err error) {
		if s.pull == p {
			o.stats.Mended += uint64(len(ops))
			o.endPull(s, err == nil)
		}
	})
}
