package sim

import (
	"tidings/honeycomb"
	"tidings/overlay"
	"tidings/overlay/wedge"
)

// Invariants of shared polling, after quiet.
const (
	// RankNotServedOnce (I9): a rank of a channel's wedge is not served by exactly one live member.
	RankNotServedOnce = "rank not served once"
	// ServedWithoutOrder (I9): a member serves ranks of a channel without an order of its sequencer
	// that is in force.
	ServedWithoutOrder = "served without order"
	// WrongSum (I9): a member that uses the sum does not know the true totals.
	WrongSum = "wrong sum"
)

// CheckRanks checks the wedges after a quiet period of one of their rounds and a minute (see
// overlay/wedge). It waits for orders in transit, and checks the channels whose order did not
// change meanwhile.
func (s *Swarm) CheckRanks() {
	before := map[string]wedge.Term{}
	for _, url := range s.feeds.urls {
		before[url], _, _ = s.orderInForce(s.Key(url))
	}
	s.World.Run(propagationTime)
	for _, url := range s.feeds.urls {
		if term, _, _ := s.orderInForce(s.Key(url)); term == before[url] {
			s.checkRanks(url, s.reportViolation)
		}
	}
}

// checkRanks compares the ranks of a channel that members serve with the order of its sequencer.
func (s *Swarm) checkRanks(url string, report reportFunc) {
	key := s.Key(url)
	term, n, ok := s.orderInForce(key)
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
			report(ServedWithoutOrder, "host %d serves %d ranks of %s, for which there is no order", p.Index(), d.Ranks.Len(), url)
			continue
		case d.Term != term || d.N != n:
			report(ServedWithoutOrder, "host %d serves %s by term %v, of %d ranks; the order is %v, of %d", p.Index(), url, d.Term, d.N, term, n)
			continue
		}
		for i := range d.Ranks.Len() {
			served[d.Ranks.At(i)]++
		}
	}
	for rank, times := range served {
		if times != 1 {
			report(RankNotServedOnce, "rank %d of %d of %s is served %d times", rank, n, url, times)
		}
	}
}

// orderInForce returns the term and the number of ranks that a channel's sequencer has ordered; ok
// is false if there is no order.
func (s *Swarm) orderInForce(key overlay.ID) (term wedge.Term, n int, ok bool) {
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

// CheckSums checks the sums after as many quiet maintenance intervals as they take to reach all
// members (see overlay/sums).
func (s *Swarm) CheckSums() { s.checkSums(s.reportViolation) }

// checkSums compares what members know about all others with the true totals.
func (s *Swarm) checkSums(report reportFunc) {
	own := map[*Peer]honeycomb.Totals{}
	var all honeycomb.Totals
	for _, url := range s.feeds.urls {
		key := s.Key(url)
		for _, p := range s.Live() {
			v, ok := p.node.Corona.View(key)
			readers := float64(s.liveSubscribers(url))
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
		if t.Channels == 0 || !p.Up() { // a member that leads no channel does not use the sum
			continue
		}
		sum, whole := p.node.Sums.Remote()
		rest := honeycomb.Totals{}.With(sum.(honeycomb.RemoteAggregate))
		if !whole || rest.Channels != all.Channels-t.Channels || rest.Subscribers != all.Subscribers-t.Subscribers {
			report(WrongSum, "host %d knows %d channels of others with %v subscribers (complete: %v), there are %d with %v",
				p.Index(), rest.Channels, rest.Subscribers, whole, all.Channels-t.Channels, all.Subscribers-t.Subscribers)
		}
	}
}

// liveSubscribers returns the number of a feed's readers whose nodes are up.
func (s *Swarm) liveSubscribers(url string) (n int) {
	for _, p := range s.members {
		if r := p.subscriptions[url]; r != nil && r.acknowledged && p.Up() {
			n++
		}
	}
	return n
}
