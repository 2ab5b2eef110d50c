package owner

import (
	"slices"

	"tidings/internal/env"
)

// RepairBodies fetches from a peer the bodies of entries of one log, oldest first, that this node's disk has lost.
// done is told which bodies are still missing; the others are stored. The log itself does not change.
func (u *puller) RepairBodies(from env.Peer, lost []*Entry, done func(missing []*Entry)) {
	s := u.replicas.byKey[lost[0].Key]
	if s == nil || s.pull != nil || from.ID == u.self {
		done(lost)
		return
	}
	u.stats.Pulls++
	p := &pull{from: from, have: lost[0].Prev, repairs: lost}
	p.then = []func(bool){func(bool) { done(p.repairs) }}
	u.begin(s, p)
}

// wantsBody reports whether a pull wants the body of an entry: all bodies, unless it is a repair.
func (p *pull) wantsBody(e *Entry) bool {
	return p.repairs == nil || slices.ContainsFunc(p.repairs, func(l *Entry) bool { return l.Hash == e.Hash })
}

// storeRepaired stores the bodies that a repair has fetched.
func (u *puller) storeRepaired(s *replica) {
	p := s.pull
	var ops []env.Op
	got := map[Hash]bool{}
	for i, e := range p.entries {
		if p.bodies[i] != nil && p.wantsBody(e) && s.log.find(e.Hash) >= 0 { // the entry may have left the log meanwhile
			ops = append(ops, env.Op{Key: bodyKey(e), Value: p.bodies[i], Body: true})
			got[e.Hash] = true
		}
	}
	if len(ops) == 0 {
		u.end(s, false)
		return
	}
	p.storing = true
	u.storage.store.Commit(ops, func(err error) {
		if s.pull != p {
			return
		}
		if err == nil {
			u.stats.Repaired += uint64(len(ops))
			p.repairs = slices.DeleteFunc(slices.Clone(p.repairs), func(e *Entry) bool { return got[e.Hash] })
		}
		u.end(s, err == nil)
	})
}
