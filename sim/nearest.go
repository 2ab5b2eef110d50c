package sim

import "tidings/overlay"

// Nearest returns the n live members nearest to a key, the nearest first.
func (s *Swarm) Nearest(key overlay.ID, n int) (of []*Peer) {
	for p := range s.nearest(key) {
		if len(of) == n {
			break
		}
		if p.Active() {
			of = append(of, p)
		}
	}
	return of
}
