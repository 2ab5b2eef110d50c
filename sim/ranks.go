package sim

import (
	"tidings/honeycomb"
	"tidings/overlay"
	"tidings/overlay/wedge"
)

// Invariants of members that poll for each other, after quiet.
const (
	// WrongRank (I9): every rank of a channel's wedge is served by one live member.
	WrongRank = "rank not served once"
	// Unordered (I9): who serves ranks of a channel does so by the order of its sequencer.
	Unordered = "served without order"
	// WrongSum (I9): every member that wants the sum knows the true totals.
	WrongSum = "wrong sum"
)

// CheckRanks checks what holds of wedges when nothing has happened for one of their rounds and a
// minute: see overlay/wedge. Orders are on their way for a moment: it lets that pass, and looks
// at the channels whose order has stood meanwhile.
func (s *Swarm) CheckRanks() {
	before := map[string]wedge.Term{}
	for _, url := range s.feeds.urls {
		before[url], _, _ = s.ordered(s.Key(url))
	}
	s.World.Run(passingPause)
	for _, url := range s.feeds.urls {
		if term, _, _ := s.ordered(s.Key(url)); term == before[url] {
			s.checkRanks(url, s.violated)
		}
	}
}

// checkRanks compares what members serve of a channel with what its sequencer orders.
func (s *Swarm) checkRanks(url string, found finder) {
	key := s.Key(url)
	term, n, ok := s.ordered(key)
	served := make([]int, n)
	for _, p := range s.members {
		if !p.Up() {
			continue
		}
		d, serves := p.node.Wedges.Assignment(key)
		switch {
		case !serves:
			continue
		case !ok:
			found(Unordered, "host %d serves %d ranks of %s, that nobody orders", p.Index(), d.Ranks.Len(), url)
			continue
		case d.Term != term || d.N != n:
			found(Unordered, "host %d serves %s by term %v, of %d ranks; the order is %v, of %d", p.Index(), url, d.Term, d.N, term, n)
			continue
		}
		for i := range d.Ranks.Len() {
			served[d.Ranks.At(i)]++
		}
	}
	for rank, times := range served {
		if times != 1 {
			found(WrongRank, "rank %d of %d of %s is served %d times", rank, n, url, times)
		}
	}
}

// ordered is the order of a channel's sequencer; ok is false if there is none.
func (s *Swarm) ordered(key overlay.ID) (term wedge.Term, n int, ok bool) {
	for _, p := range s.members {
		if !p.Up() {
			continue
		}
		if v, known := p.node.Owners.View(key); known && v.Leads {
			if of, ranks, orders := p.node.Wedges.OrderInForce(key); orders && (!ok || term.Compare(of) < 0) {
				term, n, ok = of, ranks, true
			}
		}
	}
	return term, n, ok
}

// CheckSums checks what holds of sums when nothing has happened for as many maintenance
// intervals as they take to reach everybody: see overlay/sums.
func (s *Swarm) CheckSums() { s.checkSums(s.violated) }

// checkSums compares what members know of all others with what these have.
func (s *Swarm) checkSums(found finder) {
	own := map[*Peer]honeycomb.Totals{}
	var all honeycomb.Totals
	for _, url := range s.feeds.urls {
		key := s.Key(url)
		for _, p := range s.Live() {
			v, ok := p.node.Corona.View(key)
			readers := float64(s.readers(url))
			if !ok || readers == 0 || v.State.Pollers == 0 {
				continue
			}
			t := own[p]
			t.Channels++
			t.Subscribers += readers
			own[p] = t
			all.Channels++
			all.Subscribers += readers
		}
	}
	for _, p := range s.members {
		t := own[p]
		if t.Channels == 0 || !p.Up() { // who leads nothing does not want the sum
			continue
		}
		sum, whole := p.node.Sums.Remote()
		rest := honeycomb.Totals{}.With(sum.(honeycomb.RemoteAggregate))
		if !whole || rest.Channels != all.Channels-t.Channels || rest.Subscribers != all.Subscribers-t.Subscribers {
			found(WrongSum, "host %d knows of %d channels of others with %v subscribers (whole: %v), there are %d with %v",
				p.Index(), rest.Channels, rest.Subscribers, whole, all.Channels-t.Channels, all.Subscribers-t.Subscribers)
		}
	}
}

// readers are those of a feed whose nodes are up.
func (s *Swarm) readers(url string) (n int) {
	for _, p := range s.members {
		if r := p.reads[url]; r != nil && r.acked && p.Up() {
			n++
		}
	}
	return n
}
